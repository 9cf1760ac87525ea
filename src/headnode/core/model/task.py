"""What a task asks for: a program, its files and limits, and how many instances of it.

Source: SSS 3.1.0, "ResourceLimit"; setrlimit(2).
Source: CCS, "Standard job and task options" and task.xsd; HPC Pack task properties and types.
Source: HPC Pack parametric sweeps: a run of k asterisks is the value, padded with zeros to width k;
a caret before an asterisk or a caret takes its meaning away.
Source: CCS, "Standard job and task options", row *command*."""

import re
import shlex
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.quantities import FOREVER, Seconds

UNLIMITED = -1
"""How setrlimit writes that there is no limit."""

LIMITS = {
    "as": "bytes of address space",
    "core": "bytes of a core file",
    "cpu": "seconds of processor time",
    "data": "bytes of data segment",
    "fsize": "bytes of a file written",
    "memlock": "bytes locked in memory",
    "msgqueue": "bytes in message queues",
    "nofile": "open files",
    "nproc": "processes of the user",
    "rss": "bytes resident in memory",
    "rtprio": "realtime priority",
    "sigpending": "pending signals",
    "stack": "bytes of stack",
}
"""The limits there are, and what each counts."""


class ResourceLimit(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A limit by its setrlimit name in lower case: cpu, core, data, fsize, nofile ...

    Bytes or seconds or numbers, as setrlimit counts them; -1: no limit; None leaves that side as it was.
    """

    name: str
    soft: int | None = None
    hard: int | None = None


def reaches(limit: int | None, other: int | None) -> bool:
    """Tell whether a limit is at least another; both as they are written, None when nothing is said.

    >>> reaches(-1, 5), reaches(5, -1), reaches(4, 5), reaches(None, 5), reaches(5, None)
    (True, False, False, True, True)
    """
    if limit is None or other is None or limit == UNLIMITED:
        return True
    return other != UNLIMITED and limit >= other


MOST_INSTANCES = 1_000_000  # of one task


class TaskType(StrEnum):
    """The type of a task."""

    BASIC = "basic"
    SWEEP = "sweep"
    NODE_PREP = "node-prep"
    NODE_RELEASE = "node-release"
    SERVICE = "service"


PREPARING = frozenset({TaskType.NODE_PREP, TaskType.NODE_RELEASE})
"""Types that run once on each node of the job: before its first task there, and after its last."""

SPECIAL = PREPARING | {TaskType.SERVICE}
"""Types of which a job has at most one task, whose instances are made as the job goes on."""


class Distribution(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False, forbid_unknown_fields=True
):
    """The distribution of processes over nodes: instances of a sweep, or processors of another task.

    At most one of `per_node`, `nodes` and `geometry` is given.  Source: SSS 3.1.0, "TaskDistribution".
    """

    per_node: int = 0  # so many on each node (the last may have fewer); 0: any number
    nodes: int = 0  # evenly over exactly so many nodes; 0: any number
    round_robin: bool = False  # one on each node before the second on any
    geometry: tuple[tuple[int, ...], ...] = ()  # numbers of processes (from 1) that share a node

    def draws(self, processes: int) -> bool:
        """Whether the geometry names each of so many processes once, and nobody else."""
        count = sum(map(len, self.geometry))  # looked at first: a job may ask for two billion processes
        named = {number for group in self.geometry for number in group}
        return count == len(named) == processes and named == set(range(1, processes + 1))


class TaskSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """A task description: all options of a task, as its owner set them.

    A task is known by its number in the job, from 1, which is its place in the task list.
    Its instances are numbered from 1; a sweep's instance i stands for ``start + (i - 1) * increment``;
    a basic task has the one instance 1; those of a special task are made as its job goes on.
    `minimum` and `maximum` count the job's unit.
    """

    name: str = ""
    command: str = ""
    kind: TaskType = TaskType.BASIC
    minimum: int = 1
    maximum: int = 1
    run_time: Seconds = FOREVER
    exclusive: bool = False
    rerunnable: bool = False
    standard_input: str = ""
    standard_output: str = ""
    standard_error: str = ""
    append_output: bool = False  # keep what the file of standard output holds, and write behind it
    append_error: bool = False
    work_directory: str = ""
    private_directory: bool = False  # each instance starts in a new one of its own, removed when it is over
    required_nodes: tuple[str, ...] = ()
    node_group: str = ""
    needs: NodeNeeds = ANY_NODE  # of every node that it runs on
    distribution: Distribution | None = None
    depends_on: tuple[str, ...] = ()  # names: every task of such a name must be done first
    group: int | None = None
    start: int = 0
    end: int = 0
    increment: int = 1
    valid_exit_codes: tuple[tuple[int, int], ...] | None = None  # None: the job's
    fail_job_on_failure: bool = False
    fail_job_count: int = 1
    resource_limits: tuple[ResourceLimit, ...] = ()  # in place of the job's of the same name
    environment: dict[str, str] = {}
    properties: dict[str, str] = {}
    extensions: dict[str, str] = {}

    def process_limits(self, job: Iterable[ResourceLimit]) -> tuple[ResourceLimit, ...]:
        """Return the limits of every process: the job's, with its own in place of those of the same name."""
        return tuple({limit.name: limit for limit in (*job, *self.resource_limits)}.values())

    @property
    def instances(self) -> int:
        """How many instances the task has; 0 for a sweep whose range is empty, and for a special task."""
        if self.kind is not TaskType.SWEEP:
            return 0 if self.kind in SPECIAL else 1
        if self.increment <= 0 or self.end < self.start:
            return 0
        return (self.end - self.start) // self.increment + 1

    def value(self, instance: int) -> int:
        """Return the swept value that stands for `instance` (from 1)."""
        return self.start + (instance - 1) * self.increment


_PIECE = re.compile(r"\^([*^])|(\*+)")


def substitute(text: str, value: int) -> str:
    """Put the swept `value` into `text`.

    >>> substitute("in.***.dat ^* ^^ ^x *", 7)
    'in.007.dat * ^ ^x 7'
    """
    if "*" not in text and "^" not in text:
        return text
    return _PIECE.sub(lambda found: found[1] or str(value).zfill(len(found[2])), text)


SHELL = "/bin/sh"

_SHELL_CHARACTERS = re.compile(r"[|&;<>()$`\\*?\[#~{}!\n]")
_PLAIN = re.compile(r"[!#-&(-\[\]-~ \t\r\n]*")  # no quote, no backslash, no white space beyond a shell's
_ASSIGNMENT = re.compile(r"\s*[A-Za-z_][A-Za-z0-9_]*=")
_SHELL_WORDS = frozenset(
    """. : alias bg break case cd command continue eval exec exit export fg for getopts hash if jobs read
    readonly return set shift times trap type ulimit umask unalias unset until wait while""".split()  # noqa: SIM905
)


def words_of(text: str) -> list[str]:
    """Return the words of a command line as a shell splits it.  Raises ValueError for an open quote.

    Same as `shlex.split`, which takes 60 microseconds a line: text without quotes needs no parser.
    """
    return text.split() if _PLAIN.fullmatch(text) else shlex.split(text)


def argv_of(command: str) -> tuple[str, ...]:
    """Split a command line; one that needs a shell is handed to ``/bin/sh -c`` whole.

    >>> argv_of("prog 'one two' 3"), argv_of("a | b"), argv_of("exit 3")
    (('prog', 'one two', '3'), ('/bin/sh', '-c', 'a | b'), ('/bin/sh', '-c', 'exit 3'))
    """
    through_shell = (SHELL, "-c", command)
    if _SHELL_CHARACTERS.search(command) or _ASSIGNMENT.match(command):
        return through_shell
    try:
        words = words_of(command)
    except ValueError:  # a quote without its partner: the shell says so in the output of the task
        return through_shell
    return through_shell if not words or words[0] in _SHELL_WORDS else tuple(words)
