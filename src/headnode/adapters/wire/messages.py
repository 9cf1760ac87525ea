"""What the head says to an agent, and the unions of all messages."""

import msgspec

from headnode.adapters.wire.agent_messages import (
    CertificateRejected,
    GetAuthority,
    Health,
    Heartbeat,
    Hello,
    HookFailed,
    JobClosed,
    JobMeasured,
    JobReady,
    Join,
    JoinStandby,
    Launch,
    LaunchAck,
    LaunchData,
    LaunchesEnded,
    Message,
    NotUnderstood,
    OutputListed,
    OutputRead,
    ProgramChecked,
    Results,
    SignalSent,
    Staging,
    Started,
    Suspended,
    Table,
)
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.state.job_events import NodeCores


class AuthorityCertificate(Message, frozen=True, tag="AuthorityCertificate"):
    """Head: this certificate (PEM) is its authority; compare it with the invitation."""

    certificate: bytes


class Joined(Message, frozen=True, tag="Joined"):
    """Head: the node may join; this is its certificate (PEM).  `approved`: no approval is needed."""

    certificate: bytes
    approved: bool


class StandbyJoined(Message, frozen=True, tag="StandbyJoined"):
    """Head: the machine is a standby head of this cluster; `authority` has the files of that directory."""

    cluster: str
    cluster_id: str
    authority: dict[str, bytes]


class KillLaunches(Message, frozen=True, tag="KillLaunches"):
    """Head: the attempt is over; kill the commands that it launched here."""

    job: JobId
    task: int
    instance: int
    attempt: int


class CheckHealth(Message, frozen=True, tag="CheckHealth"):
    """Head: run this program now and every `interval` seconds, and answer `Health` each time; empty: none."""

    program: str
    interval: Seconds


class HeartbeatAck(Message, frozen=True, tag="HeartbeatAck"):
    """Head: the `Heartbeat` with this number has arrived.

    For `lease` seconds after that heartbeat was sent, no other node gets the node's tasks; 0: no promise.
    """

    number: int
    lease: Seconds = Seconds(0.0)
    now: Instant = Instant(0.0)  # what time the head has; 0: it does not say


class GetTable(Message, frozen=True, tag="GetTable"):
    """Head: the tables of the node differ from the head's; answer `Table`."""

    number: int


class Welcome(Message, frozen=True, tag="Welcome"):
    """Head: the node is accepted.

    `heartbeat` is in seconds; `grace` is in seconds from the stop of a task until it is killed.
    Sent again when something in it has changed.
    """

    cluster: str
    heartbeat: Seconds
    grace: Seconds
    state_directory: str = ""  # of the head, when its tasks may reach it there
    remote: bool = False  # the head is on another machine: users are known by their names
    now: Instant = Instant(0.0)  # what time the head has; 0: it does not say
    host: str = ""  # name of the head's machine, for tasks
    heads: tuple[str, ...] = ()  # HOST:PORT of the standby heads, where the head may be if this one is away
    term: int = 0  # how often a standby became the head; a head with a lower one is an old head
    mark: int = 0  # of these addresses: heartbeats repeat it once they are on the disk of the node


class Hooks(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """The prolog, epilog and filters of the node: programs with time-outs in seconds; empty: none.

    `filters` is the directory of its node filters.
    """

    prolog: str = ""
    prolog_timeout: Seconds = Seconds(0.0)
    epilog: str = ""
    epilog_timeout: Seconds = Seconds(0.0)
    filters: str = ""
    filter_timeout: Seconds = Seconds(0.0)


class TransferRules(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """What the administrator allows transfers of files on a node.

    `networks` are those that may be reached beside public addresses: ``10.0.0.0/8``, or ``any``.
    """

    networks: tuple[str, ...] = ()
    at_once: int = 8  # attempts of a job on a node that transfer files
    per_host: int = 4  # files of an attempt that are transferred at once
    timeout: Seconds = Seconds(60.0)  # without a byte, until an attempt is given up
    per_node: int = 32  # attempts of all jobs on a node that transfer files
    per_storage: int = 32  # those that do so with one storage host


class OpenJob(Message, frozen=True, tag="OpenJob"):
    """Head: run this job's tasks as this user.  Repeated when the allocation changes.

    `spec` is an encoded JobSpec; `deadline` is when the job's run time limit is over.
    """

    job: JobId
    owner: str
    uid: int
    gid: int
    spec: bytes
    allocation: NodeCores
    deadline: Instant
    previous_job: JobId | None = None
    suspendable: bool = False  # it may be told to stand still
    parts: tuple[NodeCores, ...] = ()  # of a gang: the processors of each task
    bound: bool = False  # its tasks run on their own processors only
    memory_limited: bool = True  # its tasks get no more memory than they ask for
    max_processes: int = 0  # of all its tasks on one node, with threads; 0: not limited
    same_uid: bool = False  # on another machine its user must have the number that he has on the head's
    now: Instant = Instant(0.0)  # what time the head has, by which the deadline is one; 0: it does not say
    transfers: TransferRules | None = None  # of a job that stages files
    hooks: Hooks | None = None  # with them the node says `JobReady` before anything of the job may run there
    temporary: str = ""  # where the temporary directories of its tasks are made, if they have some


class Run(Message, frozen=True, tag="Run"):
    """Head: run these instances of a task at the place, one after the other.

    `attempts` holds (instance, attempt).  An attempt that is here already is left alone.  `unstarted` holds
    (instance, how many of its earlier attempts never started), where there are some.  `after` are (task,
    instance, attempt) of the same job on the same node: these start when all of them have succeeded, and are
    given back when one of them did not, or is not known here.
    """

    job: JobId
    task: int
    placement: NodeCores
    attempts: tuple[tuple[int, int], ...]
    unstarted: tuple[tuple[int, int], ...] = ()
    after: tuple[tuple[int, int, int], ...] = ()


class Stop(Message, frozen=True, tag="Stop"):
    """Head: stop these (task, instance, attempt); attempts not yet started are given back.

    `force`: kill at once, without grace.
    """

    job: JobId
    attempts: tuple[tuple[int, int, int], ...]
    force: bool = False


class Suspend(Message, frozen=True, tag="Suspend"):
    """Head: stop all processes of this job, and start none; answer `Suspended`, each time.

    `number` counts the suspensions of the job.
    """

    job: JobId
    number: int


class Continue(Message, frozen=True, tag="Continue"):
    """Head: continue all processes of this job.  `deadline` and `now` as in `OpenJob`."""

    job: JobId
    deadline: Instant
    now: Instant = Instant(0.0)


class SendSignal(Message, frozen=True, tag="SendSignal"):
    """Head: send a signal to (task, instance, attempt) of a job, and what they launched here; None: to all.

    `target` as in `core.model.signals`.  Answered with `SignalSent`.
    """

    number: int
    job: JobId
    attempts: tuple[tuple[int, int, int], ...] | None
    signal: int
    target: str


class MeasureJob(Message, frozen=True, tag="MeasureJob"):
    """Head: say what the attempts of a job use now, and what they launched here; answered `JobMeasured`."""

    number: int
    job: JobId


class ReadOutput(Message, frozen=True, tag="ReadOutput"):
    """Head: read captured output of an instance; a negative offset counts from the end."""

    number: int
    job: JobId
    task: int
    instance: int
    offset: int
    limit: int  # bytes


class ReadFile(Message, frozen=True, tag="ReadFile"):
    """Head: read a file that a task of this user names, as that user; answered with `OutputRead`.

    `owner`, `uid`, `gid` and `same_uid` as in `OpenJob`, `offset` and `limit` as in `ReadOutput`.
    """

    number: int
    path: str
    owner: str
    uid: int
    gid: int
    same_uid: bool
    offset: int
    limit: int  # bytes


class ListOutput(Message, frozen=True, tag="ListOutput"):
    """Head: list the jobs with captured output here: the first `limit` with ids above `after`."""

    number: int
    after: JobId
    limit: int


class RemoveOutput(Message, frozen=True, tag="RemoveOutput"):
    """Head: remove the expired captured output of these jobs, except of jobs that are open here."""

    jobs: tuple[JobId, ...]


class CloseJob(Message, frozen=True, tag="CloseJob"):
    """Head: the job is over here: kill its processes and forget it; answer `JobClosed`."""

    job: JobId


class HookFailureAck(Message, frozen=True, tag="HookFailureAck"):
    """Head: the failure of this hook is durable; forget it."""

    job: JobId
    hook: str


class CheckProgram(Message, frozen=True, tag="CheckProgram"):
    """Head: check that this program, or the node filters of this directory, can run.  See `ProgramChecked`.

    program:  with its arguments as a shell would read them; empty for none
    filters:  a directory of node filters; empty for none
    """

    number: int
    program: str = ""
    filters: str = ""


class ResultsAck(Message, frozen=True, tag="ResultsAck"):
    """Head: the results with this number are durable; forget them."""

    number: int


class Goodbye(Message, frozen=True, tag="Goodbye"):
    """Head: the agent must end; with the reason ``cancel``, only after all jobs here were killed.

    If it is the first answer and its reason begins with `IS_STANDBY`, this is not the head: look elsewhere.
    """

    reason: str = ""


FromStranger = GetAuthority | Join | JoinStandby | CertificateRejected
ToStranger = AuthorityCertificate | Joined | StandbyJoined | Goodbye
Launching = Launch | LaunchData | LaunchAck | LaunchesEnded
FromAgent = (
    Hello
    | Table
    | Started
    | Staging
    | Results
    | Suspended
    | OutputRead
    | OutputListed
    | ProgramChecked
    | SignalSent
    | JobMeasured
    | Launching
    | JobReady
    | HookFailed
    | JobClosed
    | Heartbeat
    | Health
    | NotUnderstood
)
FromHead = (
    Welcome
    | HeartbeatAck
    | GetTable
    | CheckHealth
    | OpenJob
    | Run
    | Stop
    | Suspend
    | Continue
    | SendSignal
    | MeasureJob
    | ReadOutput
    | ReadFile
    | ListOutput
    | RemoveOutput
    | Launching
    | KillLaunches
    | CloseJob
    | HookFailureAck
    | CheckProgram
    | ResultsAck
    | Goodbye
    | NotUnderstood
)
