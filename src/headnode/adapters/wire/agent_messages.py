"""What agents say to the head, and the messages of launched commands: msgpack, each behind its length."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from headnode.core.model import bounds
from headnode.core.model.node import NodeFacts
from headnode.core.model.outcome import AttemptOutcome, RemoteUsage
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.state.job_events import NodeCores

PROTOCOL = 4
OLDEST = 3  # that is still spoken
KNOWS_STANDBYS = 4  # from this one on nodes know what a `Welcome` says of standby heads, and may get several
KNOWS_SIGNALS = 4  # from this one on nodes know the signal of a job, and `SendSignal`
DEVELOPMENT = (1, 2)  # no release spoke these
MAX_MESSAGE = 64 * 1024 * 1024  # bytes, of the head: a description may be long
MAX_REPORT = bounds.REPORT.most  # bytes, of an agent
MAX_GREETING = bounds.GREETING.most  # bytes, of somebody who was not let in yet


class Message(
    msgspec.Struct,
    tag=True,
    frozen=True,
    array_like=False,
    omit_defaults=True,
    gc=False,
    forbid_unknown_fields=True,
):
    """The base of all messages."""


class ReportedAttempt(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """One attempt on the agent's node.  `since` is when it began to run, if it runs and that is known."""

    job: JobId
    task: int
    instance: int
    attempt: int
    running: bool
    since: Instant | None = None


Jobs = Annotated[tuple[JobId, ...], Meta(max_length=bounds.ATTEMPTS.most)]
Attempts = Annotated[tuple[ReportedAttempt, ...], Meta(max_length=bounds.ATTEMPTS.most)]


class GetAuthority(Message, frozen=True, tag="GetAuthority"):
    """A node that trusts no certificate yet asks for the head's, answered with `AuthorityCertificate`."""


class CertificateRejected(Message, frozen=True, tag="CertificateRejected"):
    """A node no longer trusts the head's certificate; for the head's log, answered with `Goodbye`."""

    node: str


class Join(Message, frozen=True, tag="Join"):
    """A machine with an invitation asks to join as a node with these facts, and to have its key certified."""

    protocol: int
    secret: str
    facts: NodeFacts
    certificate_request: bytes  # a certificate request, PEM


class JoinStandby(Message, frozen=True, tag="JoinStandby"):
    """A machine with an invitation asks to become a standby head, which listens at `address` (HOST:PORT)."""

    protocol: int  # of standby heads
    secret: str
    name: str
    address: str
    takeover_after: Seconds = Seconds(0.0)  # without the head, it takes over by itself; 0: never


class Holdings(Message, frozen=True, kw_only=True):
    """The jobs and attempts on a node.

    `open_jobs` are the jobs that have a shepherd here.  `ended` are the attempts that are over and whose
    results were not acknowledged yet: they follow.  What is in neither table is not here and never will be.
    `opened` are the jobs that may run here, each with the mark of its `OpenJob` (`tables.mark_of`).
    """

    open_jobs: Jobs = ()
    live: Attempts = ()
    ended: Attempts = ()
    suspended: Jobs = ()  # jobs of which nothing runs here, or soon nothing, until `Continue`
    launched: Attempts = ()  # attempts of other nodes that have launched commands here
    opened: Annotated[tuple[tuple[JobId, int], ...], Meta(max_length=bounds.ATTEMPTS.most)] = ()
    health_check: str = ""  # the health check that was ordered, as `tables.check_text` writes it


class Hello(Holdings, frozen=True, kw_only=True, tag="Hello"):
    """Agent: the identity of the node, and its jobs and attempts."""

    protocol: int
    facts: NodeFacts
    silent: Seconds = Seconds(0.0)  # since a head said something last; 0: not known


class Table(Holdings, frozen=True, kw_only=True, tag="Table"):
    """Agent: the jobs and attempts on the node; the answer to the `GetTable` with this number."""

    number: int


class AttemptStart(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """The start of one attempt."""

    task: int
    instance: int
    attempt: int
    at: Instant


class Started(Message, frozen=True, tag="Started"):
    """Agent: these attempts began to run.  Sent once; a result repeats the start."""

    job: JobId
    started: Annotated[tuple[AttemptStart, ...], Meta(max_length=bounds.ATTEMPTS.most)]


class AttemptTransfers(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """How far the transfers of one attempt are; they began at `at`.

    `waits_for` is the host whose turn the next file waits for, or that it is tried from again; or "".
    """

    task: int
    instance: int
    attempt: int
    direction: Literal["in", "out", "ready"]  # ready: they are there, and wait for processors
    at: Instant
    files: int = 0
    of_files: int = 0
    size: int = 0  # bytes
    of_size: int = 0  # bytes, as far as it is known
    waits_for: str = ""


class Staging(Message, frozen=True, tag="Staging"):
    """Agent: files of these attempts are transferred.  Sent when it begins, and from time to time."""

    job: JobId
    transfers: Annotated[tuple[AttemptTransfers, ...], Meta(max_length=bounds.ATTEMPTS.most)]


class AttemptResult(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """The outcome of one attempt."""

    task: int
    instance: int
    attempt: int
    outcome: AttemptOutcome


class Results(Message, frozen=True, tag="Results"):
    """Agent: these attempts are over.  Repeated on each connection until `ResultsAck` names the number."""

    number: int
    job: JobId
    results: Annotated[tuple[AttemptResult, ...], Meta(max_length=bounds.RESULTS.most)]


class Suspended(Message, frozen=True, tag="Suspended"):
    """Agent: all processes of the job here are stopped, for the suspension with this number."""

    job: JobId
    number: int


class OutputRead(Message, frozen=True, tag="OutputRead"):
    """Agent: the data for the `ReadOutput` or `ReadFile` with this number; `size` is the whole file's."""

    number: int
    data: bytes
    size: int
    problem: str = ""  # why nothing was read
    missing: bool = False  # nothing of the job is kept here, not even the place for it; or no such file


class OutputListed(Message, frozen=True, tag="OutputListed"):
    """Agent: the jobs for the `ListOutput` with this number, in the order of their ids."""

    number: int
    jobs: Jobs


class ProgramChecked(Message, frozen=True, tag="ProgramChecked"):
    """Agent: why the program of the `CheckProgram` with this number cannot run; empty if it can."""

    number: int
    problem: str = ""


class SignalSent(Message, frozen=True, tag="SignalSent"):
    """Agent: the signal of the `SendSignal` with this number went to so many processes."""

    number: int
    processes: int


_Measured = Annotated[float, Meta(ge=0, le=bounds.INTEGER.most)]  # no infinity, no NaN
_Counted = Annotated[int, Meta(ge=0, le=bounds.INTEGER.most)]


class AttemptUsage(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """What an attempt uses now on the node.  Times in seconds since its start, memory in kB."""

    task: int
    instance: int
    attempt: int
    user_time: _Measured
    system_time: _Measured
    memory: _Counted
    peak_memory: _Counted
    processes: _Counted


class JobMeasured(Message, frozen=True, tag="JobMeasured"):
    """Agent: what attempts of the job of the `MeasureJob` with this number use now on the node."""

    number: int
    usage: Annotated[tuple[AttemptUsage, ...], Meta(max_length=bounds.ATTEMPTS.most)] = ()


class Route(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """The nodes between which messages of a launched command pass, and its attempt; `number` is unique.

    `first` is the first node of the attempt's place, where the launcher is; the command is on `target`.
    """

    job: JobId
    task: int
    instance: int
    attempt: int
    number: str
    first: str
    target: str


class TerminalSize(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """The size of a terminal in characters, and its type in the words of TERM."""

    rows: int
    columns: int
    kind: str = ""


class Launch(Message, frozen=True, tag="Launch"):
    """First node: launch this command; repeated until `LaunchAck`.  The head adds the place.

    The head itself sends it with a route from no node: with task 0 for a command beside the tasks of a job,
    with the place of a task for a command of that task on its first node, else to open a terminal for a
    task that waits for it.  Without a command it launches the login shell.

    `temporary` is the name of the temporary directory of the attempt, if it has one: it has the same name on
    all of its nodes.
    """

    route: Route
    command: str
    directory: str
    environment: dict[str, str]
    placement: NodeCores = ()
    terminal: TerminalSize | None = None
    temporary: str = ""


class LaunchData(Message, frozen=True, tag="LaunchData"):
    """Either node: data or an event of a launched command, in order; repeated until it is taken.

    back:      it is the target that speaks
    sequence:  counts the pieces of each direction from 1
    kind:      ``in``, ``out``, ``err`` with data; ``in-end``, no more input; ``exit``, how it ended;
               ``window``, the terminal has another size: rows and columns as text; ``gone``, the launcher
               has gone; ``failed``, at once and out of order: no more will come.
               With ``exit`` and ``failed`` the data are a sentence about a problem, or nothing.
    """

    route: Route
    from_target: bool
    sequence: int
    kind: Literal["in", "in-end", "out", "err", "window", "exit", "gone", "failed"]
    data: bytes = b""
    code: int = 0


class LaunchAck(Message, frozen=True, tag="LaunchAck"):
    """Either node: all pieces up to this one are processed; also sent as a sign of life."""

    route: Route
    from_target: bool
    sequence: int


class LaunchesEnded(Message, frozen=True, tag="LaunchesEnded"):
    """First node: the attempt is over; end its launched commands on the target.  Repeated until answered.

    Target (`from_target`): no such command runs any more, and `usage` is what they used.
    """

    route: Route
    from_target: bool = False
    usage: RemoteUsage | None = None


class JobClosed(Message, frozen=True, tag="JobClosed"):
    """Agent: no process of the job is left here."""

    job: JobId


class JobReady(Message, frozen=True, tag="JobReady"):
    """Agent: the prolog of the job has ended; repeated with every heartbeat until something of it runs."""

    job: JobId


class HookFailed(Message, frozen=True, tag="HookFailed"):
    """Agent: the prolog or the epilog of the job failed; repeated until `HookFailureAck`."""

    job: JobId
    hook: str  # prolog or epilog
    message: str
    node_at_fault: bool = False  # it was not even started: the job is not to blame


class Heartbeat(Message, frozen=True, tag="Heartbeat"):
    """Agent: the node is alive; answered with `HeartbeatAck`.  `digest` is that of its tables (`digest_of`).

    `launched` as in `Holdings`; `lease` in seconds is the one it goes by, 0 for none.  `load` is that of its
    machine, the mean of one minute.
    """

    number: int = 0
    digest: bytes = b""
    lease: Seconds = Seconds(0.0)
    launched: Attempts = ()
    load: float | None = None
    mark: int = 0  # of the newest `Welcome` whose addresses are on the disk of the node


class Health(Message, frozen=True, tag="Health"):
    """Agent: the result of the health check; if it is not `healthy`, `message` is the reason."""

    healthy: bool
    message: str = ""


class NotUnderstood(Message, frozen=True, tag="NotUnderstood"):
    """Either side: a message was refused and not carried out; the connection is closed next."""

    message: str
