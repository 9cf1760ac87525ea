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
from headnode.core.model.quantities import FOREVER, Instant, Seconds

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


MAX_INSTANCES = 1_000_000  # of one task


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


class StagedFile(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """A file that is brought to a task or taken from it; with a slash at the end, a directory with all in it.

    `path` is that on the node: absolute, or below the scratch directory of the task.  `url` says where it
    comes from or goes to: a URL, or a path below the storage base.  `checksum` is ``sha256:`` (md5, sha1,
    sha512) and hexadecimal digits.  `credential` is the name of a file of the owner on the node.
    """

    path: str
    url: str
    mode: int | None = None  # permission bits of what is brought; None: as usual for its user
    size: int | None = None  # bytes that it must have
    checksum: str = ""
    credential: str = ""  # in place of the task's


class TaskSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """A task description: all options of a task, as its owner set them.

    A task is known by its number in the job, from 1, which is its place in the task list.
    Its instances are numbered from 1; a sweep's instance i stands for ``start + (i - 1) * increment``;
    a basic task has the one instance 1; those of a special task are made as its job goes on.
    `minimum` and `maximum` count the job's unit.
    """

    name: str = ""
    command: str = ""
    script: str = ""  # text of the program; the words of the command are its name and arguments
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
    temporary_directory: bool | None = None  # TMPDIR is a new one on each node; None: as the dialect has it
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
    stage_in: tuple[StagedFile, ...] = ()  # brought before the program starts
    stage_out: tuple[StagedFile, ...] = ()  # taken away after it has ended, also if it failed
    storage_base: str = ""  # URL; paths of staged files are below it; "": the job's
    transfer_attempts: int | None = None  # how often the transfer of a file is tried; None: as the job says
    credential: str = ""  # name of the owner's file with what storage wants to know of him; "": the job's

    def process_limits(self, job: Iterable[ResourceLimit]) -> tuple[ResourceLimit, ...]:
        """Return the limits of every process: the job's, with its own in place of those of the same name."""
        return tuple({limit.name: limit for limit in (*job, *self.resource_limits)}.values())

    @property
    def stages(self) -> bool:
        """Whether files are transferred for it.  Then it runs in a scratch directory of its own."""
        streams = self.standard_input, self.standard_output, self.standard_error
        if not self.stage_in and not self.stage_out and "://" not in "\n".join((self.command, *streams)):
            return False  # as most tasks
        if self.stage_in or self.stage_out or program_url(self.command):
            return True
        return any(map(is_far, streams))

    def has_temporary_directory(self, dialect: str) -> bool:
        """Tell whether each attempt has a temporary directory on its nodes.

        Without a word of its owner it has one if its scheduler makes one for each job.  A process of HTCondor
        that runs in a directory of its own has its temporary files there.
        """
        if self.temporary_directory is not None:
            return self.temporary_directory
        private = self.private_directory or self.stages
        return dialect in TEMPORARY_VARIABLES and not (dialect == "htcondor" and private)

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

    def instance_of(self, number: int) -> int | None:
        """Return the instance of a sweep that stands for a number; None if it has none.

        >>> TaskSpec(kind=TaskType.SWEEP, start=2, end=9, increment=3).instance_of(8)
        3
        """
        at, rest = divmod(number - self.start, self.increment)
        return at + 1 if not rest and 0 <= at < self.instances else None


_MPI = ["mpiexec", "-n"]  # and a number, before the program
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_far(name: str) -> bool:
    """Whether the name of a file is a URL.

    >>> is_far("https://example.org/x"), is_far("/data/x"), is_far("A=ftp://x")
    (True, False, False)
    """
    return "://" in name and _URL.match(name) is not None


def program_url(command: str) -> str:
    """Return the URL of the program that a command line runs; "" when its program is on the node.

    >>> program_url("https://example.org/solve -n 3"), program_url("curl https://example.org/x")
    ('https://example.org/solve', '')
    >>> program_url("mpiexec -n 4 https://example.org/solve")
    'https://example.org/solve'
    """
    if "://" not in command:
        return ""
    try:
        argv = words_of(command)
    except ValueError:  # an open quote
        return ""
    behind = len(_MPI) + 1
    first = argv[behind] if argv[: len(_MPI)] == _MPI and len(argv) > behind else argv[0]
    return first if is_far(first) else ""


def public_command(command: str) -> str:
    """Return a command line without the query of its program's URL, in which keys and signatures are.

    >>> public_command("https://example.org/solve?key=1 -n 3"), public_command("echo ?")
    ('https://example.org/solve -n 3', 'echo ?')
    """
    url = program_url(command)
    if "?" not in url:
        return command
    bare = url.partition("?")[0]
    if url in command:
        return command.replace(url, bare, 1)
    return shlex.join(bare if word == url else word for word in words_of(command))


ARRAY_INDEX = {
    "slurm": "SLURM_ARRAY_TASK_ID",
    "pbs": "PBS_ARRAY_INDEX",
    "gridengine": "SGE_TASK_ID",
    "lsf": "LSB_JOBINDEX",
}
"""The variable with the number of a task of an array, in each dialect of batch scripts."""

TEMPORARY_VARIABLES = {
    "pbs": ("TMPDIR",),
    "gridengine": ("TMPDIR", "TMP"),
    "htcondor": ("TMPDIR", "TEMP", "TMP", "_CONDOR_SCRATCH_DIR"),
}
"""The variables with the temporary directory of a job, in the dialects in which each job has one.

Source: PBS, qsub(1B), "TMPDIR"; Grid Engine, queue_conf(5), "tmpdir"; HTCondor, "Environment Variables for
HTCondor Jobs"."""

PROCESS_COUNT = {
    "slurm": "SLURM_NTASKS",
    "pbs": "PBS_NP",
    "gridengine": "NSLOTS",
    "lsf": "LSB_DJOB_NUMPROC",
}
"""The variable with the number of processes of a task, in each dialect of batch scripts.

A script that counts GPUs says how many processes use them: its task has this variable.
"""


def asked_processes(task: TaskSpec, dialect: str) -> int | None:
    """Return how many processes the script of a task asks for; None if it does not say."""
    text = task.environment.get(PROCESS_COUNT.get(dialect, ""), "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 11 and int(text) else None


class ScriptOrigin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The origin of a batch script: its name and arguments, and the directory and variables of the shell.

    `options` are those of the command that submits it; they count more than those of the script.  `system` is
    the dialect; empty: that of the first option in the script.
    """

    words: tuple[str, ...] = ()
    directory: str = ""
    environment: dict[str, str] = {}
    options: tuple[str, ...] = ()
    system: str = ""


class RecurringOrigin(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The recurring job that made a job, and the time that the job stands for."""

    number: int
    name: str
    time: Instant


_PIECE = re.compile(r"\^([*^])|(\*+)")


def substitute(text: str, value: int) -> str:
    """Put the swept `value` into `text`.

    >>> substitute("in.***.dat ^* ^^ ^x *", 7)
    'in.007.dat * ^ ^x 7'
    """
    if "*" not in text and "^" not in text:
        return text
    return _PIECE.sub(lambda match: match[1] or str(value).zfill(len(match[2])), text)


SHELL = "/bin/sh"

_SHELL_CHARACTERS = re.compile(r"[|&;<>()$`\\*?\[#~{}!\n]")
_PLAIN = re.compile(r"[!#-&(-\[\]-~ \t\r\n]*")  # no quote, no backslash, no white space beyond a shell's
_QUOTED = re.compile(r"'[^']*'|\"[^\"$`\\]*\"")  # a shell changes nothing between these
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


def script_argv(script: str, path: str, command: str) -> tuple[str, ...]:
    """Return the words that run a script that is in the file `path`: its first line names the program.

    >>> script_argv("#!/usr/bin/env python3\\n", "/run/x.py", "x.py 'a b'")
    ('/usr/bin/env', 'python3', '/run/x.py', 'a b')
    """
    first = script.partition("\n")[0].rstrip("\r")
    named = first[2:] if first.startswith("#!") else ""
    program, _, argument = named.strip().partition(" ")
    runs = [program or SHELL, *([argument.strip()] if argument.strip() else [])]
    return (*runs, path, *words_of(command)[1:])


def argv_of(command: str) -> tuple[str, ...]:
    """Split a command line; one that needs a shell is handed to ``/bin/sh -c`` whole.

    A shell would hide the signal that ended the program: it turns signal 9 into exit code 137.

    >>> argv_of("prog 'one two' 3"), argv_of("a | b"), argv_of("exit 3"), argv_of("prog '$x; *'")
    (('prog', 'one two', '3'), ('/bin/sh', '-c', 'a | b'), ('/bin/sh', '-c', 'exit 3'), ('prog', '$x; *'))
    """
    through_shell = (SHELL, "-c", command)
    if _ASSIGNMENT.match(command):
        return through_shell
    if _SHELL_CHARACTERS.search(command):
        outside = _QUOTED.sub("", command)
        if '"' in outside or "'" in outside or _SHELL_CHARACTERS.search(outside):
            return through_shell
    try:
        argv = words_of(command)
    except ValueError:  # a quote without its partner: the shell says so in the output of the task
        return through_shell
    return through_shell if not argv or argv[0] in _SHELL_WORDS else tuple(argv)
