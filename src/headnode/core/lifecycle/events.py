"""Facts: what has happened, in the past tense.  Recorded for ever, never refused.

A field may be added with a default; nothing may be removed or change its meaning.
`seq`, the number of an event in the journal, is not part of it.
"""

from typing import Literal

import msgspec

from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.receipt import Receipt
from headnode.core.model.reservation import NodeReservation

Outcome = Literal["finished", "failed", "canceled"]
EndState = Literal["finished", "failed", "canceled", "queued"]
Cause = Literal["program", "system", "asked", "preempted"]
Place = tuple[tuple[str, tuple[int, ...]], ...]
"""Where something runs: node names, each with the numbers of the processors taken there."""


class Fact(
    msgspec.Struct,
    frozen=True,
    tag=True,
    omit_defaults=True,
    array_like=False,
    gc=False,
    forbid_unknown_fields=True,
):
    """What every event has.  A reader refuses events and fields that it does not know."""

    at: Instant


class JobFact(Fact, frozen=True, gc=False):
    """What every event of a job has."""

    job: JobId


class JobCreated(JobFact, frozen=True, gc=False):
    """A job exists, in state configuring.  `spec` is an encoded JobSpec."""

    owner: str
    uid: int
    gid: int
    spec: bytes
    by: str = ""  # the administrator who made it for its owner; empty: the owner did


class JobGiven(JobFact, frozen=True, gc=False):
    """An administrator gave it to another user, whose it is from now on; it was not submitted yet."""

    owner: str
    uid: int
    gid: int
    by: str = ""


class JobModified(JobFact, frozen=True, gc=False):
    """Its description was replaced: a job option changed, or tasks were added at the end."""

    spec: bytes
    by: str = ""
    what: str = ""  # the names of what changed, for the history


class JobSubmitted(JobFact, frozen=True, gc=False):
    """It took its place in the queue: `order` counts submissions.

    `validating`: it has the place, but submission filters must let it in first.
    """

    order: int
    by: str = ""
    waits_for: tuple[int, ...] = ()  # jobs of which something must come true first
    validating: bool = False
    privileged: bool = False  # an administrator submitted it
    host: str = ""  # from which it was submitted: its name, or its address


class JobValidated(JobFact, frozen=True, gc=False):
    """The submission filters let it into the queue; `spec` is what they made of it, empty for nothing new."""

    spec: bytes = b""
    what: str = ""  # the names of what changed, for the history
    filters: tuple[str, ...] = ()  # those that it passed
    waits_for: tuple[int, ...] = ()


class FilterAnswered(JobFact, frozen=True, gc=False):
    """An activation filter did not let it have what it was offered; `verdict` is what that means for it.

    `kept` is what is kept for it, in numbers of processors; `option` and `parts` as in `JobStarted`.
    """

    verdict: str
    filter: str
    words: str = ""  # what the filter did and said
    until: Instant | None = None  # of a hold
    kept: tuple[tuple[str, int], ...] = ()
    option: int = 0
    parts: tuple[tuple[tuple[str, int], ...], ...] = ()


class JobConfigured(JobFact, frozen=True, gc=False):
    """It went back to configuring; all its tasks will run again."""

    by: str = ""


class JobStarted(JobFact, frozen=True, gc=False):
    """It holds its allocation.  `backfilled` when it ran ahead of the first job of the queue.

    `option` is the request it was given: 0 its own, n its n-th alternative.  `parts` says, for a gang, which
    processors are for which task.
    """

    allocation: Place
    backfilled: bool = False
    option: int = 0
    parts: tuple[Place, ...] = ()
    readied: bool = (
        False  # its nodes must say that they are ready before anything of it is dispatched to them
    )


class AllocationGrown(JobFact, frozen=True, gc=False):
    """It was given more processors."""

    added: Place
    readied: bool = False  # as in `JobStarted`, of nodes that are new to it


class AllocationShrunk(JobFact, frozen=True, gc=False):
    """It gave processors back; `message` says why where it is not that it did not need them."""

    removed: Place
    message: str = ""


class AllocationLost(JobFact, frozen=True, gc=False):
    """Processors of a node that was given up are gone.

    `too_small`: what is left is not enough: it starts nothing new, and when what runs has ended it goes back
    to the queue.
    """

    removed: Place
    too_small: bool = False
    message: str = ""
    forgiven: bool = False  # its return to the queue is not counted


class NodeReadied(JobFact, frozen=True, gc=False):
    """One of its nodes is ready for it: the prolog has ended there."""

    node: str


class NodesCleaning(JobFact, frozen=True, gc=False):
    """Nothing of it runs on these nodes any more: they are cleaned, and given back afterwards.

    `until`: when they are given back though they have not said that they are clean.
    """

    nodes: tuple[str, ...]
    until: Instant
    message: str = ""


class ProcessorsRecalled(JobFact, frozen=True, gc=False):
    """It is to give up so many processors of these nodes as they become idle, and starts nothing there.

    In place of what was recalled before; nothing: it may keep what it has.  `for_jobs` are those that are to
    have them.
    """

    processors: tuple[tuple[str, int], ...]
    for_jobs: tuple[int, ...] = ()
    message: str = ""


class InstancesDispatched(JobFact, frozen=True, gc=False):
    """Instances of one task were handed to a place, to run there one after the other.

    `attempts` holds (instance, attempt); an attempt number is never used twice for an instance.
    """

    task: int
    place: Place
    attempts: tuple[tuple[int, int], ...]


class Begun(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """One instance began to run."""

    task: int
    instance: int
    attempt: int
    at: Instant


class InstancesStarted(JobFact, frozen=True, gc=False):
    """Some dispatched instances are running."""

    begun: tuple[Begun, ...]


class Ended(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """How one attempt of an instance ended.

    Exactly one of `exit_code` and `signal` is set when the program ran; both are None when it never did
    or when it was lost.  Times in seconds, memory in kB.
    """

    task: int
    instance: int
    attempt: int
    state: EndState  # queued: it will run again
    exit_code: int | None = None
    signal: int | None = None
    started: Instant | None = None
    ended: Instant | None = None
    user_time: Seconds = Seconds(0.0)
    system_time: Seconds = Seconds(0.0)
    peak_memory: int = 0
    message: str = ""
    node: str = ""
    cause: Cause = "program"  # of a failure or a rerun
    average_memory: int = 0
    nodes: tuple[str, ...] = ()  # all that it ran on, where there were several
    bytes_read: int = 0
    bytes_written: int = 0
    trouble: str = ""  # why it could not be started, in a word of `core.model.faults`


class InstancesEnded(JobFact, frozen=True, gc=False):
    """Some instances are over, or are queued to run again."""

    ended: tuple[Ended, ...]


class InstancesStopping(JobFact, frozen=True, gc=False):
    """Live instances of one task are being stopped; `outcome` is how they will end.

    With the cause ``system`` they will run again if they may run twice; with ``preempted`` they will, and
    that is not counted.
    """

    task: int
    instances: tuple[int, ...]
    outcome: Outcome
    message: str = ""
    force: bool = False
    cause: Cause = "asked"


class TaskCanceled(JobFact, frozen=True, gc=False):
    """Queued instances of one task will not run; spans are inclusive."""

    task: int
    spans: tuple[tuple[int, int], ...]
    outcome: Outcome = "canceled"
    message: str = ""
    withdrawn: bool = False  # somebody asked for just these: requeueing the job leaves them out


class TaskRequeued(JobFact, frozen=True, gc=False):
    """Ended instances of one task will run again; spans are inclusive."""

    task: int
    spans: tuple[tuple[int, int], ...]
    by: str = ""


class JobEnding(JobFact, frozen=True, gc=False):
    """It is being stopped.  How it ends is decided; it is over when nothing of it runs any more."""

    outcome: Outcome
    message: str = ""
    by: str = ""
    force: bool = False
    requeue: bool = False  # when over it goes back to the queue instead
    preempted_by: int = 0  # the job that is to have what it holds


class DispatchStopped(JobFact, frozen=True, gc=False):
    """No new tasks of it start; it ends with `outcome` when the running ones have ended (graceful)."""

    outcome: Outcome
    message: str = ""
    by: str = ""


class JobEnded(JobFact, frozen=True, gc=False):
    """It is over and holds nothing.

    `skipped`: it never started, because the end of a job that it waited for, `because`, was not the one.
    """

    outcome: Outcome
    message: str = ""
    skipped: bool = False
    because: JobId = JobId(0)


class JobRequeued(JobFact, frozen=True, gc=False):
    """It is back in the queue with its old place in order; finished tasks stay finished."""

    by: str = ""
    message: str = ""
    waits_for: tuple[int, ...] = ()  # jobs of which something must come true first


class JobReturned(JobFact, frozen=True, gc=False):
    """It is back in the queue because it lost too many of its nodes; what has failed stays failed.

    Or because it was preempted, which is not counted.
    """

    message: str = ""
    preempted_by: int = 0
    forgiven: bool = False  # this return is not counted


class JobRevived(JobFact, frozen=True, gc=False):
    """An ended job came back from the archive, as it was when it ended.  `record` is an encoded JobRecord."""

    record: bytes
    by: str = ""


class JobHeld(JobFact, frozen=True, gc=False):
    """A hold was put on it: it waits until every one is released."""

    name: str
    by: str = ""
    message: str = ""


class JobReleased(JobFact, frozen=True, gc=False):
    """Holds were taken off it."""

    names: tuple[str, ...]
    by: str = ""


class JobSuspending(JobFact, frozen=True, gc=False):
    """Its nodes stop its processes.  `number` counts the suspensions of the job."""

    number: int
    by: str = ""


class ProcessesStopped(JobFact, frozen=True, gc=False):
    """All its processes on one of its nodes stand still; those on others do not yet."""

    node: str


class JobSuspended(JobFact, frozen=True, gc=False):
    """All its processes stand still, and it gave back what it held; its run time limit stands still too.

    A job that waited to go on waits no more.
    """

    by: str = ""


class JobResuming(JobFact, frozen=True, gc=False):
    """It waits in its old place of the queue for the processors it held."""

    by: str = ""


class JobResumed(JobFact, frozen=True, gc=False):
    """It holds as many processors of the same nodes as before, and its processes go on."""

    allocation: Place
    by: str = ""


class ProgressSet(JobFact, frozen=True, gc=False):
    """Its owner said how far it is."""

    percent: int | None = None
    message: str | None = None


class NodeRegistered(Fact, frozen=True, gc=False):
    """A node said what it is: new, or changed, or back."""

    facts: NodeFacts
    approved: bool = False


class NodeFact(Fact, frozen=True, gc=False):
    """What every other event of a node has."""

    node: str


class NodeApproved(NodeFact, frozen=True, gc=False):
    """An administrator let it take jobs."""

    by: str = ""


class NodePaused(NodeFact, frozen=True, gc=False):
    """It takes no new jobs."""

    by: str = ""


class NodeResumed(NodeFact, frozen=True, gc=False):
    """It takes jobs again."""

    by: str = ""


DrainCause = Literal["asked", "health", "hook", "agent", "report", "fault", "failures"]
"""Who lets a node drain: an administrator, its health check, a prolog or an epilog that failed, the age of
its agent, an impossible report, a fault of its own, or attempts that fail to start there again and again."""


class Doubt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A prolog failed on a node, and its job may be to blame."""

    job: JobId
    owner: str
    since: Instant


class NodeDrained(NodeFact, frozen=True, gc=False):
    """It starts nothing that may not be over when it closes; in place of what the same cause said before."""

    closes: Instant
    cause: DrainCause = "asked"
    reason: str = ""
    by: str = ""
    force: bool = False  # jobs give up what they hold there
    doubt: Doubt | None = None  # the job whose prolog failed, if that may be the fault of the job


class NodeDrainLifted(NodeFact, frozen=True, gc=False):
    """What this cause said of closing it no longer counts."""

    cause: DrainCause = "asked"
    by: str = ""
    doubt: Doubt | None = None  # the job that was held instead


class NodeUnreachable(NodeFact, frozen=True, gc=False):
    """The head lost its connection to it."""


class NodeReachable(NodeFact, frozen=True, gc=False):
    """The head talks to it again."""


class NodeRemoved(NodeFact, frozen=True, gc=False):
    """It is no longer part of the cluster."""

    by: str = ""


class NodeInvited(Fact, frozen=True, gc=False):
    """Whoever shows the secret with this digest may join once, until it expires."""

    digest: str
    expires: Instant
    approve: bool = False
    name: str = ""  # who may; empty: any new node
    by: str = ""


class NodeKeyPinned(NodeFact, frozen=True, gc=False):
    """From now on it is known by this key; the invitation that it showed is used up."""

    key: str
    invitation: str = ""


class NodeSet(NodeFact, frozen=True, gc=False):
    """An administrator said what is known of it beside what its machine says; None: nothing new."""

    groups: tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    comment: str | None = None
    by: str = ""


class LoginOffered(Fact, frozen=True, gc=False):
    """Whoever shows the secret with this digest gets a token of the user, once, until it expires.

    `lifetime` is that of the token, in seconds.
    """

    digest: str
    user: str
    expires: Instant
    lifetime: Seconds
    by: str = ""


class TokenMade(Fact, frozen=True, gc=False):
    """A login was taken from this address: whoever shows the token with this digest is its user."""

    token: int  # counts the tokens of the cluster
    digest: str
    user: str
    expires: Instant
    login: str = ""
    address: str = ""


class TokenUsed(Fact, frozen=True, gc=False):
    """Somebody came in with it; not every time is written down."""

    digest: str
    address: str = ""


class TokenRevoked(Fact, frozen=True, gc=False):
    """It is worth nothing any more."""

    digest: str
    by: str = ""


class TemplateSet(Fact, frozen=True, gc=False):
    """A job template was made, or replaced the one of its name.  `template` is an encoded JobTemplate."""

    template: bytes
    by: str = ""


class TemplateRemoved(Fact, frozen=True, gc=False):
    """A job template is gone."""

    name: str
    by: str = ""


class ClockSet(Fact, frozen=True, gc=False):
    """The clock of the head was set by so many seconds, below 0 back: run time limits end that much later."""

    by: Seconds


class RequestCarriedOut(Fact, frozen=True, gc=False):
    """What a request with an idempotency key made; the same request makes nothing until that expires."""

    receipt: Receipt


class NumbersSkipped(Fact, frozen=True, gc=False):
    """The cluster was restored from a backup: the next job gets this number, which none had since then."""

    next_job: int
    by: str = ""


class ParameterSet(Fact, frozen=True, gc=False):
    """A cluster parameter has a new value; None takes it back to its default."""

    name: str
    value: str | None
    by: str = ""
    origin: str = ""  # from where, as the audit log says it; empty: the head itself, or an old journal


class ReservationMade(Fact, frozen=True, gc=False):
    """Nodes are kept for some, or for nobody, at a time."""

    reservation: NodeReservation
    by: str = ""


class ReservationChanged(Fact, frozen=True, gc=False):
    """A reservation is another than before; `what` names what changed."""

    reservation: NodeReservation
    by: str = ""  # empty: nodes that left were replaced
    what: str = ""


class ReservationCanceled(Fact, frozen=True, gc=False):
    """Somebody took a reservation back."""

    name: str
    by: str = ""


class ReservationEnded(Fact, frozen=True, gc=False):
    """Its time is over."""

    name: str


Event = (
    JobCreated
    | JobGiven
    | JobModified
    | JobSubmitted
    | JobValidated
    | FilterAnswered
    | JobConfigured
    | JobStarted
    | AllocationGrown
    | AllocationShrunk
    | AllocationLost
    | NodeReadied
    | NodesCleaning
    | ProcessorsRecalled
    | InstancesDispatched
    | InstancesStarted
    | InstancesEnded
    | InstancesStopping
    | TaskCanceled
    | TaskRequeued
    | JobEnding
    | DispatchStopped
    | JobEnded
    | JobRequeued
    | JobReturned
    | JobRevived
    | JobHeld
    | JobReleased
    | JobSuspending
    | ProcessesStopped
    | JobSuspended
    | JobResuming
    | JobResumed
    | ProgressSet
    | NodeRegistered
    | NodeApproved
    | NodePaused
    | NodeResumed
    | NodeDrained
    | NodeDrainLifted
    | NodeUnreachable
    | NodeReachable
    | NodeRemoved
    | NodeInvited
    | NodeKeyPinned
    | NodeSet
    | LoginOffered
    | TokenMade
    | TokenUsed
    | TokenRevoked
    | ParameterSet
    | ClockSet
    | NumbersSkipped
    | RequestCarriedOut
    | ReservationMade
    | ReservationChanged
    | ReservationCanceled
    | ReservationEnded
    | TemplateSet
    | TemplateRemoved
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(Event)


def node_of(event: Event) -> str:
    """Return the node that an event is about; empty for one of something else."""
    if isinstance(event, NodeRegistered):
        return event.facts.name
    return event.node if isinstance(event, NodeFact) else ""


def encode(event: Event) -> bytes:
    """Return the event as the journal keeps it."""
    return _encoder.encode(event)


def decode(data: bytes) -> Event:
    """Return the event that `data` holds.

    Raises:  msgspec.DecodeError when it holds none.
    """
    return _decoder.decode(data)
