"""The filters of a cluster as its parameters state them, and the way of a job through them.

Source: HPC filters, "Cluster-wide and job template filters"; HPC Pack parameters SubmissionFilterProgram and
ActivationFilterProgram, which hold the absolute path of one program.  Several, and their options, are ours.
Source: HPC filters, notes on chains: the first that does not let the job pass ends the chain, and all that
had run are called again in reverse order.
"""

import shlex
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

import msgspec

from headnode.core.model.errors import BadRequest

FilterDialect = Literal["hpcpack", "hpcpack-2008", "ccs", "sss", "sss-3.0", "native-json"]
"""The dialects a filter may get its job in."""

FilterRules = Literal["hpcpack", "ccs"]
"""Whose table says what the exit codes of an activation filter mean."""

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
        return self.plug_in or self.program[0].rpartition("/")[2]

    def concerns(self, template: str) -> bool:
        """Whether jobs of this job template pass it."""
        return not self.template or self.template.casefold() == template.casefold()


FilterChain = tuple[Filter, ...]
"""Filters in the order in which they are asked."""


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
            raise _wrong(f"{name}={value}", text, f"the options are {', '.join(_OPTIONS)}, each once")
        options[name.lower()] = value
    dialect = _chosen(options.pop("dialect", ""), _DIALECTS, text)
    rules = _chosen(options.pop("rules", "hpcpack"), get_args(FilterRules), text)
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
        self.called: list[FilterCall] = []

    def next(self) -> Filter | None:
        """Return the filter that is to be called now; None when the job has passed them all."""
        return self._ahead[0] if self._ahead else None

    def ran(self, paper: bytes) -> None:
        """Note that it was called with this paper, whatever it answered."""
        self.called.append(FilterCall(self._ahead.pop(0), paper))

    def to_undo(self) -> list[FilterCall]:
        """Return the calls that are to be undone, the last first, each with the paper that it saw."""
        return [call for call in reversed(self.called) if call.filter.reverts]
