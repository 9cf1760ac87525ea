"""What every dialect of another scheduler says and reads: commands as words, answers as text.

A dialect has no state and touches nothing.  To add LSF or HTCondor, write one more (`docs/hand-off.md`).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol

from headnode.core.model.bounds import MEMORY_USED
from headnode.core.model.outcome import NOT_MEASURED, ResourceUsage
from headnode.core.model.quantities import Instant
from headnode.core.model.resource_system import ResourceSystem
from headnode.core.model.signals import LimitSignal, SignalTarget


class ForeignState(StrEnum):
    """Where a job is in another scheduler."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    UNKNOWN = "unknown"  # a word of a later version: the job is there, and nothing else is learnt


class ForeignEnding(StrEnum):
    """How a job ended in another scheduler, as that says."""

    BY_ITSELF = "by itself"  # its script did
    LATE = "late"  # by its time limit
    LOST = "lost"  # its node failed, or it was preempted
    STOPPED = "stopped"  # for any other reason, such as a cancellation there
    UNKNOWN = "unknown"  # the exit file knows more


class ForeignJob(NamedTuple):
    """One row of what another scheduler says of its jobs.

    `word` is its own word for the state, for messages.  `exit_code`, `signal` and `ending` are set after the
    end; the first two if they are known.
    """

    id: str
    marker: str
    state: ForeignState
    word: str
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    ending: ForeignEnding = ForeignEnding.UNKNOWN
    started: Instant | None = None
    usage: ResourceUsage = NOT_MEASURED  # after the end, if its accounting has it
    is_held: bool = False  # by its user
    limit: int | None = None  # its time limit in seconds, if that is listed
    owner: str = ""


class ForeignAction(StrEnum):
    """What a resource may be asked to do with jobs that it has."""

    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    LIMIT = "change the time limit of"


class CommandResult(NamedTuple):
    """What a command answered; `status` is None if it did not end in time or was killed by a signal."""

    status: int | None
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """What it says is wrong, in one line."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        if lines:
            return printable(lines[-1])
        return "it gave no answer in time" if self.status is None else f"it ended with status {self.status}"

    @property
    def lines(self) -> list[str]:
        r"""The lines of its output that have an end: what was cut on its way is no id.

        >>> CommandResult(0, "You pay\n12\n34", "").lines
        ['You pay', '12']
        """
        return [line.strip() for line in self.out.split("\n")[:-1]]

    @property
    def is_cut(self) -> bool:
        """Whether the last line of its output has no end."""
        return bool(self.out) and not self.out.endswith("\n")


MAX_COMPLAINT = 400  # characters


def printable(text: str, most: int = MAX_COMPLAINT) -> str:
    r"""Return text of others in one short line without control characters.

    >>> printable("a\x1b[31mb\nc")
    'a?[31mb?c'
    """
    short = text[:most]
    return short if short.isprintable() else "".join(one if one.isprintable() else "?" for one in short)


class SubmissionResult(NamedTuple):
    """What became of a submission.

    ``queued``   `id` is the job there
    ``refused``  it is not there, and never will be as it is; `message` says why
    ``doubtful`` it may be there: search before another try
    """

    kind: Literal["queued", "refused", "doubtful"]
    id: str = ""
    message: str = ""


class Submission(NamedTuple):
    """What another scheduler is asked for, in words of none.  Memory is in MB, `limit` in seconds."""

    marker: str
    queue: str = ""
    parallel: str = ""  # the parallel environment of Grid Engine
    processors: int = 1
    nodes: int = 0  # 0: any number
    per_node: int = 0
    one_node: bool = False
    exclusive: bool = False
    limit: int | None = None
    memory: int = 0  # of each node
    memory_each: int = 0  # of each processor
    project: str = ""
    features: tuple[tuple[str, ...], ...] = ()  # each is one of several
    gpus: int = 0  # each with the same number of the processors
    processes: int = 0  # that use the GPUs
    signal: LimitSignal | None = None  # before its limit is over
    shape: tuple[int, int, int] = (0, 0, 0)  # least sockets of a node, cores of each, threads of each

    @property
    def processors_per_gpu(self) -> int:
        """How many of its processors come with each GPU."""
        return self.processors // max(1, self.gpus)


Rows = Mapping[tuple[str, str], ForeignJob]
"""The jobs that carry a marker of ours, by marker and owner: every user can give a job any name.

None in its place: nothing is learnt.
"""


def rows_of(jobs: Iterable[ForeignJob]) -> Rows:
    """Return rows by marker and owner."""
    return {(job.marker, job.owner): job for job in jobs}


class Dialect(Protocol):
    """The commands of one system, and what their answers mean."""

    system: ResourceSystem

    def submit(self, submission: Submission) -> Sequence[str]:
        """Return the command that submits its input, to run in the current directory."""

    def submitted(self, result: CommandResult) -> SubmissionResult:
        """Say what became of a submission."""

    def poll(self, users: Sequence[str]) -> Sequence[str]:
        """Return the one command that lists the jobs of these users."""

    def polled(self, result: CommandResult) -> Rows | None:
        """Return the jobs that are there; None if the answer cannot be relied on."""

    def history(self, markers: Sequence[str], jobs: Sequence[str]) -> Sequence[str]:
        """Return the command that lists what its accounting has of jobs that have ended.

        `jobs` are the ids that are known of them.
        """

    def remembered(self, result: CommandResult) -> Rows | None:
        """Return what it remembers; None if it remembers nothing for anybody, or did not answer."""

    def act(self, action: ForeignAction, jobs: Sequence[str], submission: Submission) -> Sequence[str]:
        """Return the command for jobs of one user; a new time limit, for one job, is that of `submission`."""

    def signal(self, jobs: Sequence[str], number: int, target: SignalTarget) -> Sequence[str]:
        """Return the command that sends a signal to jobs of one user; nothing: it has no such command."""


MARKER = re.compile(r"hn-[0-9a-f]{8}-\d+\.\d+\.\d+-\d+")


class AttemptPlace(NamedTuple):
    """Which attempt it is: job, task, instance, attempt."""

    job: int
    task: int
    instance: int
    attempt: int


def marker_of(cluster: str, key: AttemptPlace) -> str:
    """Return the name of an attempt in another scheduler; `cluster` are the eight digits of ours.

    >>> marker_of("0a1b2c3d", AttemptPlace(7, 1, 3, 2))
    'hn-0a1b2c3d-7.1.3-2'
    """
    return f"hn-{cluster}-{key.job}.{key.task}.{key.instance}-{key.attempt}"


def cpu_seconds(text: str) -> float:
    """Return the seconds of a processor time, ``[D-][[H:]M:]S[.FFF]``, also with ``s`` at its end; else 0.

    >>> cpu_seconds("1-02:00:03.5"), cpu_seconds("00:00.004"), cpu_seconds("0.011s"), cpu_seconds("0m1.5s")
    (93603.5, 0.004, 0.011, 1.5)
    """
    match = _CPU_TIME.fullmatch(text)
    if match is None:
        return 0.0
    days, hours, minutes, seconds = (float((part or "0").replace(",", ".")) for part in match.groups())
    return days * 86_400 + hours * 3600 + minutes * 60 + seconds


_CPU_TIME = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,6}):)??(?:(\d{1,9})[:m])?(\d{1,9}(?:[.,]\d{1,9})?)s?")


def size_in_kb(text: str) -> int:
    """Return a size such as ``4504K`` or ``3.5MB`` in kB, at most what a task can use; else 0.

    Without a unit it is in bytes.

    >>> size_in_kb("4504K"), size_in_kb("1.5M"), size_in_kb("2048"), size_in_kb("")
    (4504, 1536, 2, 0)
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        return 0
    power = "KMGT".find(match[2]) if match[2] else -1
    size = round(float(match[1]) * 1024.0**power)
    return min(size, MEMORY_USED.most)  # more is no number that the head can be told


_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([KMGT]?)B?")


def seconds_since_1970(text: str) -> Instant | None:
    """Return a time, or None for ``N/A``, ``None`` and ``Unknown``."""
    return Instant(float(text)) if _INSTANT.fullmatch(text) else None


_INSTANT = re.compile(r"[0-9]{1,11}")
