"""The filters of a cluster as its parameters state them, their calls, and the meaning of their answers."""

import shlex
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

import msgspec

from headnode.core.model.errors import BadRequest

FilterDialect = Literal["hpcpack", "hpcpack-2008", "ccs", "sss", "sss-3.0", "native-json"]
"""The dialects a filter may get its job in."""

FilterRules = Literal["hpcpack", "ccs", "bank"]
"""Whose table says what the exit codes of an activation filter mean; nobody registers a bank as a filter."""

PLUG_IN = "plugin:"
_OPTIONS = ("dialect", "template", "rules", "revert")
_DIALECTS: tuple[str, ...] = get_args(FilterDialect)


class Filter(msgspec.Struct, frozen=True):
    """A registered filter.

    `program` is an absolute path with its first arguments; `plug_in` a name of the entry points
    ``headnode.filters``; one of them is given.  `template`: only jobs of this job template pass it; empty:
    all.
    `reverts`: it is called again to undo.
    """

    program: tuple[str, ...] = ()
    plug_in: str = ""
    dialect: FilterDialect = "hpcpack"
    template: str = ""
    rules: FilterRules = "hpcpack"
    reverts: bool = True

    @property
    def name(self) -> str:
        """What people call it: the file name of the program, or the name of the plug-in."""
        return self.rules if self.rules == "bank" else self.plug_in or self.program[0].rpartition("/")[2]

    def concerns(self, template: str) -> bool:
        """Whether jobs of this job template pass it."""
        return not self.template or self.template.casefold() == template.casefold()


FilterChain = tuple[Filter, ...]
"""Filters in the order in which they are asked."""

BANK_FILTER = Filter(rules="bank", dialect="native-json")
"""The bank of the cluster: the last in each chain, if there is one."""


def chain_for(cluster_wide: str, template: str, of_template: FilterChain = ()) -> FilterChain:
    """Return what a job passes: the filters of its job template first, then those of the cluster.

    Source: HPC filters: "all the job template's filters run before the cluster-wide filter".
    """
    return (*of_template, *(each for each in read_filters(cluster_wide) if each.concerns(template)))


@lru_cache(64)
def read_filters(text: str) -> FilterChain:
    """Read ``[option=value ...] /path/to/program [argument ...]; ...`` or ``plugin:NAME`` in its place.

    Raises:  BadRequest ``filter`` with the part that is not understood.

    >>> [each.name for each in read_filters("/opt/names.sh; dialect=ccs /opt/pool --file '/var/a;b'")]
    ['names.sh', 'pool']
    """
    return tuple(_one(words, text) for words in _parts(text))


def _parts(text: str) -> list[list[str]]:
    """Return the words of each part; a semicolon in quotes or behind a backslash parts nothing."""
    reader = shlex.shlex(text, posix=True, punctuation_chars=";")
    reader.whitespace_split, reader.commenters = True, ""
    try:
        words = list(reader)
    except ValueError as error:
        raise _wrong(text, text, f"close the quotation ({error})") from None
    parts: list[list[str]] = [[]]
    for word in words:
        if word.strip(";"):
            parts[-1].append(word)
        else:
            parts.append([])
    return [part for part in parts if part]


def _one(words: list[str], text: str) -> Filter:
    options: dict[str, str] = {}
    left = list(words)
    while left and "=" in left[0] and not left[0].startswith(("/", PLUG_IN)):
        name, _, value = left.pop(0).partition("=")
        if name.lower() not in _OPTIONS or name.lower() in options:
            raise _wrong(
                f"{name}={value}", text, f"write one of the options {', '.join(_OPTIONS)}, each at most once"
            )
        options[name.lower()] = value
    dialect = _chosen(options.pop("dialect", ""), _DIALECTS, text)
    rules = _chosen(options.pop("rules", "hpcpack"), ("hpcpack", "ccs"), text)
    reverts = _chosen(options.pop("revert", "yes"), ("yes", "no"), text) == "yes"
    template = options.pop("template", "")
    if left and left[0].startswith(PLUG_IN) and len(left) == 1 and left[0] != PLUG_IN:
        form = msgspec.convert(dialect or "native-json", FilterDialect)
        own = msgspec.convert(rules, FilterRules)
        return Filter(
            plug_in=left[0][len(PLUG_IN) :], dialect=form, template=template, rules=own, reverts=reverts
        )
    if not left or not left[0].startswith("/"):
        raise _wrong(
            " ".join(words),
            text,
            "write the absolute path of a program with its arguments, or plugin:NAME; separate several by ;",
        )
    return Filter(
        program=tuple(left),
        dialect=msgspec.convert(dialect or "hpcpack", FilterDialect),
        template=template,
        rules=msgspec.convert(rules, FilterRules),
        reverts=reverts,
    )


def _chosen(value: str, among: tuple[str, ...], text: str) -> str:
    if value and value.lower() not in among:
        raise _wrong(value, text, f"choose one of {', '.join(among)}")
    return value.lower()


def _wrong(part: str, text: str, fix: str) -> BadRequest:
    where = f" at {part!r}" if part != text else ""
    return BadRequest(code="filter", what=f"filters {text!r} are not understood{where}", fix=fix)


class FilterCall(NamedTuple):
    """A filter that was called, and the job file that it got."""

    filter: Filter
    paper: bytes


class ChainRun:
    """The calls of a filter chain so far."""

    def __init__(self, chain: FilterChain) -> None:
        self._ahead = list(chain)
        self.calls: list[FilterCall] = []

    def next(self) -> Filter | None:
        """Return the filter that is to be called now; None when the job has passed them all."""
        return self._ahead[0] if self._ahead else None

    def ran(self, paper: bytes) -> None:
        """Note that it was called with this paper, whatever it answered."""
        self.calls.append(FilterCall(self._ahead.pop(0), paper))

    def to_undo(self) -> list[FilterCall]:
        """Return the calls that are to be undone, the last first, each with the paper that it saw."""
        return [call for call in reversed(self.calls) if call.filter.reverts]


BY_SIGNAL = 255
"""The exit code of a filter that a signal ended."""

MAX_WORDS = 320  # characters of its last words that are kept; Compute Cluster's width of a message


class CallOutcome(StrEnum):
    """The end of a filter call."""

    ANSWERED = "answered"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed-out"
    MISSING = "missing"  # there is no such program or plug-in, or it cannot be started
    BROKEN = "broken"  # a plug-in that raised, died or gave no answer


class FilterAnswer(msgspec.Struct, frozen=True):
    """The answer of one call: its exit code (None without one) and the last lines of its output."""

    how: CallOutcome = CallOutcome.ANSWERED
    exit_code: int | None = None
    words: str = ""

    @property
    def ran(self) -> bool:
        """Whether the filter was called at all, so that there may be something to undo."""
        return self.how is not CallOutcome.MISSING


def last_words(output: str) -> str:
    """Return the last line that says something, cut to a width that people read.

    >>> last_words("looking for licences\\nnone of solver is free\\n\\n")
    'none of solver is free'
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = "".join(letter if letter.isprintable() else " " for letter in lines[-1]) if lines else ""
    return last if len(last) <= MAX_WORDS else last[: MAX_WORDS - 3] + "..."


def describe_call(answer: FilterAnswer, seconds: float) -> str:
    """Return what happened in a call, for people; `seconds` is its time-out.

    >>> describe_call(FilterAnswer(exit_code=1, words="no licence"), 15)
    'exit code 1: no licence'
    """
    what = {
        CallOutcome.ANSWERED: f"exit code {answer.exit_code}",
        CallOutcome.SIGNALLED: "a signal ended it",
        CallOutcome.TIMED_OUT: f"no answer within {seconds:g} s",
        CallOutcome.MISSING: "it could not be run",
        CallOutcome.BROKEN: "it failed with an error",
    }[answer.how]
    return f"{what}: {answer.words}" if answer.words else what


class SubmissionVerdict(StrEnum):
    """The verdict of a submission filter on a job."""

    AS_IS = "continues as it is"
    CHANGED = "continues as the filter changed it"
    FAILED = "fails"


_BY_EXIT_CODE = {0: SubmissionVerdict.AS_IS, 1: SubmissionVerdict.CHANGED}


def submission_verdict(answer: FilterAnswer) -> SubmissionVerdict:
    """Return what an answer means: 0 as it is, 1 changed, anything else fails the job."""
    if answer.how is not CallOutcome.ANSWERED or answer.exit_code is None:
        return SubmissionVerdict.FAILED
    return _BY_EXIT_CODE.get(answer.exit_code, SubmissionVerdict.FAILED)


def submission_failure(of: Filter, answer: FilterAnswer, seconds: float) -> str:
    """Return the message of a job that a submission filter failed; each way to fail has its own."""
    if of == BANK_FILTER:
        return f"the bank does not pay for the job: {answer.words}"
    match answer.how:
        case CallOutcome.TIMED_OUT:
            return f"submission filter {of.name!r} timed out: no answer within {seconds:g} s"
        case CallOutcome.MISSING:
            why = f": {answer.words}" if answer.words else ""
            return f"submission filter {of.name!r} could not be run{why}"
        case _:
            return f"submission filter {of.name!r} failed the job: {describe_call(answer, seconds)}"


def wrong_change(of: Filter, why: str) -> str:
    """Return the message of a job that a filter changed into what is no job, or not the same tasks."""
    return f"submission filter {of.name!r} created an invalid job: {why}"


class ActivationVerdict(StrEnum):
    """The verdict of activation filters on an offer of resources."""

    START = "start"  # the job starts on them, or grows by them
    BLOCK_QUEUE = "block-queue"  # it stays queued; nobody of its priority or a lower one starts before it
    KEEP_RESOURCES = "keep-resources"  # it stays queued and they are kept for it; others go on elsewhere
    HOLD = "hold"  # it is held for a while; others may have them
    FAIL = "fail"  # the job fails
    WAIT = "wait"  # it does not start, or grow, on these; others may have them, and it is asked again


class ActivationPhase(StrEnum):
    """The state of the job for which an activation filter is called."""

    QUEUED = "queued"
    BACKFILLED = "backfilled"  # it would start before a job that goes first
    RUNNING = "running"  # it would grow


_QUEUED = MappingProxyType(
    {
        0: ActivationVerdict.START,
        1: ActivationVerdict.BLOCK_QUEUE,
        2: ActivationVerdict.KEEP_RESOURCES,
        3: ActivationVerdict.HOLD,
        4: ActivationVerdict.FAIL,
    }
)
_BACKFILLED = MappingProxyType(
    {0: ActivationVerdict.START, 3: ActivationVerdict.HOLD, 4: ActivationVerdict.FAIL}
)
_RUNNING = MappingProxyType({0: ActivationVerdict.START})

_BANK = MappingProxyType({0: ActivationVerdict.START, 3: ActivationVerdict.HOLD})

ACTIVATION_VERDICTS: Mapping[ActivationPhase, tuple[Mapping[int, ActivationVerdict], ActivationVerdict]] = (
    MappingProxyType(
        {
            ActivationPhase.QUEUED: (_QUEUED, ActivationVerdict.KEEP_RESOURCES),
            ActivationPhase.BACKFILLED: (_BACKFILLED, ActivationVerdict.WAIT),
            ActivationPhase.RUNNING: (_RUNNING, ActivationVerdict.WAIT),
        }
    )
)
"""For each phase what the exit codes mean, and what everything else does: no answer, too.

In the backfill window only 0 lets a job run: it is not its turn, so it neither blocks the queue nor keeps
resources that the job before it is promised.  A running job that may not grow continues as it is.
"""


def activation_verdict(
    answer: FilterAnswer, phase: ActivationPhase, rules: FilterRules = "hpcpack"
) -> ActivationVerdict:
    """Return what an answer means.

    `rules` ``bank``: 0 starts the job, 3 holds it; else others have the processors, and it is asked again.
    `rules` ``ccs`` are those of Compute Cluster Server 2003: any exit code but 0 keeps the job waiting in its
    turn, and a filter that does not answer in time lets it start.
    """
    codes, other = ACTIVATION_VERDICTS[phase]
    if rules == "bank":
        return _BANK.get(answer.exit_code or 0, ActivationVerdict.WAIT)
    if rules == "ccs":
        if answer.how is CallOutcome.TIMED_OUT or answer.exit_code == 0:
            return ActivationVerdict.START
        return ActivationVerdict.BLOCK_QUEUE if phase is ActivationPhase.QUEUED else ActivationVerdict.WAIT
    if answer.how is not CallOutcome.ANSWERED or answer.exit_code is None:
        return other
    return codes.get(answer.exit_code, other)


_OUTCOMES = {
    ActivationVerdict.START: "accepted it",
    ActivationVerdict.BLOCK_QUEUE: "blocks it and the jobs of its priority or lower behind it",
    ActivationVerdict.KEEP_RESOURCES: "delays it and keeps the offered processors for it",
    ActivationVerdict.HOLD: "put it on hold",
    ActivationVerdict.FAIL: "failed it",
    ActivationVerdict.WAIT: "declined the processors offered to it",
}


def activation_outcome(of: Filter, verdict: ActivationVerdict, answer: FilterAnswer, seconds: float) -> str:
    """Return what a filter did to a job, in words that name it and end with its own."""
    if of == BANK_FILTER:
        return f"the bank {_OUTCOMES[verdict]}: {answer.words}"
    return f"activation filter {of.name!r} {_OUTCOMES[verdict]} ({describe_call(answer, seconds)})"


FilterKind = Literal["submission", "revert-submission", "activation", "revert-activation"]


class FilterOffer(msgspec.Struct, frozen=True):
    """The arguments of an activation filter about an offer, in their order.

    `offer` is its number; a call that undoes has the same.
    """

    scheduler_pass: int
    job_index: int
    backfill: bool
    resource_count: int
    offer: int = 0

    def arguments(self) -> list[str]:
        """Return them as a program gets them behind the path of the job."""
        backfill = "true" if self.backfill else "false"
        return [str(self.scheduler_pass), str(self.job_index), backfill, str(self.resource_count)]


class FilterRequest(msgspec.Struct, frozen=True):
    """One call: `paper` is the job file, in the dialect of the filter's registration.

    `change`: it is about a change to a job that was submitted before.
    """

    filter: Filter
    kind: FilterKind
    job: int
    paper: bytes
    seconds: float
    offered: FilterOffer | None = None
    change: bool = False


class FilterReturn(msgspec.Struct, frozen=True):
    """The result of a call; `paper` is the job file as the filter left it, None if it was deleted."""

    answer: FilterAnswer
    paper: bytes | None = None
