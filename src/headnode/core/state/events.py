"""Events of nodes, access and settings, and all events as the journal keeps them.

The number of an event in the journal is not part of the event."""

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Literal

import msgspec

from headnode.core.model.bank import BankStep
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.reservation import NodeReservation
from headnode.core.model.resource import BatchResource, InstanceHandOff, PlaceEstimate
from headnode.core.model.user import Receipt, TokenRole
from headnode.core.state import elastic_events, job_events, recurring_record, suspension_events
from headnode.core.state.job_events import JobEvent, StateEvent


class NodeRegistered(StateEvent, frozen=True, gc=False, tag="NodeRegistered"):
    """A node registers its properties: it is new, changed or back."""

    facts: NodeFacts
    approved: bool = False


class NodeEvent(StateEvent, frozen=True, gc=False):
    """The base of all other node events."""

    node: str


class NodeApproved(NodeEvent, frozen=True, gc=False, tag="NodeApproved"):
    """An administrator approves the node: it may run jobs."""

    by: str = ""


class NodePaused(NodeEvent, frozen=True, gc=False, tag="NodePaused"):
    """The node is paused: it takes no new jobs."""

    by: str = ""


class NodeResumed(NodeEvent, frozen=True, gc=False, tag="NodeResumed"):
    """The node is resumed: it takes new jobs again."""

    by: str = ""


DrainCause = Literal["request", "health", "hook", "bad-report", "fault", "failures"]
"""Why: an administrator, a health check, a prolog or epilog, an invalid report, a fault, or failed starts."""


class SuspectJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A prolog that failed on a node, perhaps because of its job."""

    job: JobId
    owner: str
    since: Instant


class NodeDrained(NodeEvent, frozen=True, gc=False, tag="NodeDrained"):
    """The node drains: it starts nothing that may still run at `closes`; it has one drain of each cause."""

    closes: Instant
    cause: DrainCause = "request"
    reason: str = ""
    by: str = ""
    force: bool = False  # jobs give up what they hold there
    suspect: SuspectJob | None = None  # the job whose prolog failed, if that may be the fault of the job


class NodeDrainLifted(NodeEvent, frozen=True, gc=False, tag="NodeDrainLifted"):
    """The drain of the node with this cause ends."""

    cause: DrainCause = "request"
    by: str = ""
    suspect: SuspectJob | None = None  # the job that was held instead


class NodeUnreachable(NodeEvent, frozen=True, gc=False, tag="NodeUnreachable"):
    """The head has lost its connection to the node."""


class NodeReachable(NodeEvent, frozen=True, gc=False, tag="NodeReachable"):
    """The head has a connection to the node again."""


class NodeRemoved(NodeEvent, frozen=True, gc=False, tag="NodeRemoved"):
    """The node is removed from the cluster."""

    by: str = ""


class NodeInvited(StateEvent, frozen=True, gc=False, tag="NodeInvited"):
    """An invitation is made: the secret with this digest admits one node, once, until `expires`.

    `names`: it admits each of these nodes once.
    """

    digest: str
    expires: Instant
    approve: bool = False
    name: str = ""  # who may; empty: any new node
    by: str = ""
    standby: bool = False  # it admits a standby head, and no node
    names: tuple[str, ...] = ()


class NodeKeyPinned(NodeEvent, frozen=True, gc=False, tag="NodeKeyPinned"):
    """The node is known by this key from now on; its invitation is used up, for its name."""

    key: str
    invitation: str = ""


class NodeModified(NodeEvent, frozen=True, gc=False, tag="NodeModified"):
    """An administrator sets the groups, features or comment of the node; None: unchanged."""

    groups: tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    comment: str | None = None
    by: str = ""


class LoginOffered(StateEvent, frozen=True, gc=False, tag="LoginOffered"):
    """A login is offered: its secret can be exchanged for a token of the user, once, until `expires`."""

    digest: str
    user: str
    expires: Instant
    lifetime: Seconds  # of the token
    by: str = ""
    name: str = ""  # of the token
    role: TokenRole = "all"  # of the token


class TokenCreated(StateEvent, frozen=True, gc=False, tag="TokenCreated"):
    """A login is exchanged for a token, from this address; the token authenticates the user."""

    number: int  # counts the tokens of the cluster
    digest: str
    user: str
    expires: Instant
    login: str = ""
    address: str = ""
    name: str = ""
    role: TokenRole = "all"


class TokenUsed(StateEvent, frozen=True, gc=False, tag="TokenUsed"):
    """A connection authenticates with the token; not every use is recorded."""

    digest: str
    address: str = ""


class TokenRevoked(StateEvent, frozen=True, gc=False, tag="TokenRevoked"):
    """The token is revoked."""

    digest: str
    by: str = ""


class TemplateSet(StateEvent, frozen=True, gc=False, tag="TemplateSet"):
    """A job template is created or replaced.  `template` is an encoded JobTemplate."""

    template: bytes
    by: str = ""


class TemplateRemoved(StateEvent, frozen=True, gc=False, tag="TemplateRemoved"):
    """A job template is removed."""

    name: str
    by: str = ""


class ResourceSet(StateEvent, frozen=True, gc=False, tag="ResourceSet"):
    """A resource with its own scheduler is added or changed."""

    resource: BatchResource
    by: str = ""


class ResourceRemoved(StateEvent, frozen=True, gc=False, tag="ResourceRemoved"):
    """A resource is removed; nothing of ours is there any more."""

    name: str
    by: str = ""


class InstancesHanded(JobEvent, frozen=True, gc=False, tag="InstancesHanded"):
    """The scheduler of a resource has accepted attempts that were dispatched to it."""

    handed: tuple[InstanceHandOff, ...]


class JobPlaced(JobEvent, frozen=True, gc=False, tag="JobPlaced"):
    """Of the places that a queued job names, `resource` is expected to start it first; it goes there."""

    resource: str
    estimates: tuple[PlaceEstimate, ...]


class BankNoted(JobEvent, frozen=True, gc=False, tag="BankNoted"):
    """The bank is to be asked about a run of the job, or has answered.  See `BankStep`."""

    run: int
    step: BankStep
    amount: int = 0  # millionths of the bank's unit
    owner: str = ""  # of the job, for a refund: the job may be over
    by: str = ""


class ClockSet(StateEvent, frozen=True, gc=False, tag="ClockSet"):
    """The head's clock is set forward by `seconds` (back if negative); run time limits move with it."""

    seconds: Seconds


class RequestCarriedOut(StateEvent, frozen=True, gc=False, tag="RequestCarriedOut"):
    """A request with an idempotency key is carried out; until `expires`, repeating it creates nothing."""

    receipt: Receipt


class JobIdsSkipped(StateEvent, frozen=True, gc=False, tag="JobIdsSkipped"):
    """The cluster is restored from a backup: the next job gets this number, not used since the backup."""

    next_job: int
    by: str = ""


class JobsPurged(StateEvent, frozen=True, gc=False, tag="JobsPurged"):
    """The records of these ended jobs are removed."""

    jobs: tuple[JobId, ...]


class StandbyAdmitted(StateEvent, frozen=True, gc=False, tag="StandbyAdmitted"):
    """A machine becomes a standby head, which can be reached at `address` (HOST:PORT)."""

    name: str
    address: str
    invitation: str = ""  # digest of its secret, which is used up
    takeover_after: Seconds = Seconds(0.0)  # without the head, it takes over by itself; 0: never


class StandbyRemoved(StateEvent, frozen=True, gc=False, tag="StandbyRemoved"):
    """A standby head gets no events any more."""

    name: str
    by: str = ""


class HeadTakenOver(StateEvent, frozen=True, gc=False, tag="HeadTakenOver"):
    """A standby becomes the head; the head before it may not act any more."""

    name: str
    address: str
    term: int  # how often a standby became the head; of two heads, the one with the higher term counts
    by: str = ""
    forced: bool = False  # the head before it did not hand over


class ParameterSet(StateEvent, frozen=True, gc=False, tag="ParameterSet"):
    """A cluster parameter is set; None restores its default."""

    name: str
    value: str | None
    by: str = ""
    origin: str = ""  # from where, as the audit log says it; empty: the head itself, or an old journal


class UserGroupsSet(StateEvent, frozen=True, gc=False, tag="UserGroupsSet"):
    """In which of the groups that have limits users are, as the head's machine says it."""

    groups: dict[str, tuple[str, ...]]  # by user


class ReservationCreated(StateEvent, frozen=True, gc=False, tag="ReservationCreated"):
    """A reservation is made."""

    reservation: NodeReservation
    by: str = ""


class ReservationModified(StateEvent, frozen=True, gc=False, tag="ReservationModified"):
    """A reservation is changed; `changed` names the changed fields."""

    reservation: NodeReservation
    by: str = ""  # empty: nodes that left were replaced
    changed: str = ""


class ReservationCanceled(StateEvent, frozen=True, gc=False, tag="ReservationCanceled"):
    """A reservation is canceled."""

    name: str
    by: str = ""


class ReservationEnded(StateEvent, frozen=True, gc=False, tag="ReservationEnded"):
    """A reservation ends because its time is over."""

    name: str


Event = StateEvent
"""Any event."""


def _kinds_of(base: type[Event]) -> Iterator[type[Event]]:
    """Yield the events below a base, which are those that nothing is derived from."""
    for kind in base.__subclasses__():
        yield from _kinds_of(kind) if kind.__subclasses__() else (kind,)


EVENTS_OF_TOPICS = (elastic_events, job_events, recurring_record, suspension_events)
"""The other files of events.  They are imported here, since the journal keeps what there is now."""
EVENTS = tuple(_kinds_of(StateEvent))
"""Every kind of event that the journal keeps."""
_ANY_KIND = reduce(or_, EVENTS)
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(_ANY_KIND)


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
