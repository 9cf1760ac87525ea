"""Events of nodes, access and settings, and the union of all events as the journal keeps them.

The number of an event in the journal is not part of the event."""

from typing import Literal

import msgspec

from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.reservation import NodeReservation
from headnode.core.model.user import Receipt
from headnode.core.state.job_events import (
    AllocationGrown,
    AllocationLost,
    AllocationShrunk,
    DispatchStopped,
    FilterAnswered,
    InstancesDispatched,
    InstancesEnded,
    InstancesStarted,
    InstancesStopping,
    JobConfigured,
    JobCreated,
    JobEnded,
    JobEnding,
    JobGiven,
    JobHeld,
    JobModified,
    JobReleased,
    JobRequeued,
    JobResumed,
    JobResuming,
    JobReturned,
    JobRevived,
    JobStarted,
    JobSubmitted,
    JobSuspended,
    JobSuspending,
    JobValidated,
    NodeReadied,
    NodesCleaning,
    ProcessesStopped,
    ProcessorsRecalled,
    ProgressSet,
    StateEvent,
    TaskCanceled,
    TaskRequeued,
)


class NodeRegistered(StateEvent, frozen=True, gc=False):
    """A node said what it is: new, or changed, or back."""

    facts: NodeFacts
    approved: bool = False


class NodeEvent(StateEvent, frozen=True, gc=False):
    """What every other event of a node has."""

    node: str


class NodeApproved(NodeEvent, frozen=True, gc=False):
    """An administrator let it take jobs."""

    by: str = ""


class NodePaused(NodeEvent, frozen=True, gc=False):
    """It takes no new jobs."""

    by: str = ""


class NodeResumed(NodeEvent, frozen=True, gc=False):
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


class NodeDrained(NodeEvent, frozen=True, gc=False):
    """It starts nothing that may not be over when it closes; in place of what the same cause said before."""

    closes: Instant
    cause: DrainCause = "asked"
    reason: str = ""
    by: str = ""
    force: bool = False  # jobs give up what they hold there
    doubt: Doubt | None = None  # the job whose prolog failed, if that may be the fault of the job


class NodeDrainLifted(NodeEvent, frozen=True, gc=False):
    """What this cause said of closing it no longer counts."""

    cause: DrainCause = "asked"
    by: str = ""
    doubt: Doubt | None = None  # the job that was held instead


class NodeUnreachable(NodeEvent, frozen=True, gc=False):
    """The head lost its connection to it."""


class NodeReachable(NodeEvent, frozen=True, gc=False):
    """The head talks to it again."""


class NodeRemoved(NodeEvent, frozen=True, gc=False):
    """It is no longer part of the cluster."""

    by: str = ""


class NodeInvited(StateEvent, frozen=True, gc=False):
    """Whoever shows the secret with this digest may join once, until it expires."""

    digest: str
    expires: Instant
    approve: bool = False
    name: str = ""  # who may; empty: any new node
    by: str = ""


class NodeKeyPinned(NodeEvent, frozen=True, gc=False):
    """From now on it is known by this key; the invitation that it showed is used up."""

    key: str
    invitation: str = ""


class NodeSet(NodeEvent, frozen=True, gc=False):
    """An administrator said what is known of it beside what its machine says; None: nothing new."""

    groups: tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    comment: str | None = None
    by: str = ""


class LoginOffered(StateEvent, frozen=True, gc=False):
    """Whoever shows the secret with this digest gets a token of the user, once, until it expires.

    `lifetime` is that of the token, in seconds.
    """

    digest: str
    user: str
    expires: Instant
    lifetime: Seconds
    by: str = ""


class TokenMade(StateEvent, frozen=True, gc=False):
    """A login was taken from this address: whoever shows the token with this digest is its user."""

    token: int  # counts the tokens of the cluster
    digest: str
    user: str
    expires: Instant
    login: str = ""
    address: str = ""


class TokenUsed(StateEvent, frozen=True, gc=False):
    """Somebody came in with it; not every time is written down."""

    digest: str
    address: str = ""


class TokenRevoked(StateEvent, frozen=True, gc=False):
    """It is worth nothing any more."""

    digest: str
    by: str = ""


class TemplateSet(StateEvent, frozen=True, gc=False):
    """A job template was made, or replaced the one of its name.  `template` is an encoded JobTemplate."""

    template: bytes
    by: str = ""


class TemplateRemoved(StateEvent, frozen=True, gc=False):
    """A job template is gone."""

    name: str
    by: str = ""


class ClockSet(StateEvent, frozen=True, gc=False):
    """The clock of the head was set by so many seconds, below 0 back: run time limits end that much later."""

    by: Seconds


class RequestCarriedOut(StateEvent, frozen=True, gc=False):
    """What a request with an idempotency key made; the same request makes nothing until that expires."""

    receipt: Receipt


class NumbersSkipped(StateEvent, frozen=True, gc=False):
    """The cluster was restored from a backup: the next job gets this number, which none had since then."""

    next_job: int
    by: str = ""


class ParameterSet(StateEvent, frozen=True, gc=False):
    """A cluster parameter has a new value; None takes it back to its default."""

    name: str
    value: str | None
    by: str = ""
    origin: str = ""  # from where, as the audit log says it; empty: the head itself, or an old journal


class ReservationMade(StateEvent, frozen=True, gc=False):
    """Nodes are kept for some, or for nobody, at a time."""

    reservation: NodeReservation
    by: str = ""


class ReservationChanged(StateEvent, frozen=True, gc=False):
    """A reservation is another than before; `what` names what changed."""

    reservation: NodeReservation
    by: str = ""  # empty: nodes that left were replaced
    what: str = ""


class ReservationCanceled(StateEvent, frozen=True, gc=False):
    """Somebody took a reservation back."""

    name: str
    by: str = ""


class ReservationEnded(StateEvent, frozen=True, gc=False):
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
    return event.node if isinstance(event, NodeEvent) else ""


def encode(event: Event) -> bytes:
    """Return the event as the journal keeps it."""
    return _encoder.encode(event)


def decode(data: bytes) -> Event:
    """Return the event that `data` holds.

    Raises:  msgspec.DecodeError when it holds none.
    """
    return _decoder.decode(data)
