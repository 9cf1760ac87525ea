"""What the verbs about nodes and reservations of nodes answer.  The page of the protocol is printed from it.

Times are seconds since 1970.  The comment of a field is what the page says of it.
"""

from typing import Final

from msgspec import UNSET, UnsetType

from headnode.protocol.answers import VerbAnswer
from headnode.protocol.requests import Duration, Name, VerbRequest


class NodeReservedTime(VerbAnswer, frozen=True):
    """A time in which a reservation has a node."""

    name: str
    start: float
    end: float
    text: str  # the reservation in a sentence


class Oversubscription(VerbAnswer, frozen=True):
    """Processors that a job holds and the node no longer has."""

    job: int
    processors: int


class NodeDrain(VerbAnswer, frozen=True):
    """Why, and from when on, no new jobs start on a node."""

    closes: float
    since: float
    cause: str  # request, health, hook, agent, report, fault or failures
    reason: str
    by: str
    force: bool


class NodeObject(VerbAnswer, frozen=True):
    """A node, as lists show it."""

    name: str
    state: str  # Pending, Ready, Paused, Draining, Drained, Unreachable
    since: float
    processors: int
    sockets: int
    cores_per_socket: int  # of the socket with the fewest that jobs can use; 0: not known
    threads_per_core: int  # the same of the cores; 0: not known
    memory: int  # MB
    speed: int  # MHz
    disk: int  # MB
    swap: int  # MB
    gpus: int
    gpus_held: int  # by jobs
    only_user: str  # the only user whose jobs it runs, or ""
    used: int
    free: int
    jobs: int | list[int]  # their number; in detail their ids
    groups: list[str]
    features: list[str]
    architecture: str
    system: str
    control_groups: str
    enforced: list[str]  # the limits that the kernel enforces
    machine_processors: list[int]  # the processors of its machine that it has
    exclusive: int | None  # the job that has it for itself
    comment: str
    remote: bool  # it is another machine than the head's
    version: str  # of its agent
    address: str  # of its agent; empty: the head's own machine
    reservations: list[NodeReservedTime]
    oversubscribed: list[Oversubscription]
    drains: list[NodeDrain]  # the first to close first


class CoreUse(VerbAnswer, frozen=True):
    """What runs on a processor of a node."""

    processor: int
    job: int | None
    task: int | None
    command: str


class DetailedNode(NodeObject, frozen=True):
    """A node with its jobs and processors."""

    cores: list[CoreUse]
    last_heartbeat: float | None  # its last heartbeat; null: none since the head started
    load: float | None  # of its machine at that time
    tasks_lost_at: float | None  # when its tasks are given up; null: it is connected, or has no tasks


class NodesAnswer(VerbAnswer, frozen=True):
    """nodes."""

    nodes: list[NodeObject]


class NodeAnswer(VerbAnswer, frozen=True):
    """node, approve_node, pause_node, resume_node, drain_node, modify_node."""

    node: DetailedNode


class InvitationAnswer(VerbAnswer, frozen=True):
    """invite_node."""

    invitation: str
    expires: float
    approve: bool
    node: str
    nodes: list[str]


class InviteStandbyRequest(VerbRequest, frozen=True):
    """invite_standby.  `lifetime` in seconds."""

    lifetime: Duration = 3600.0  # seconds
    name: Name = ""  # the name that the standby must have


class StandbyNameRequest(VerbRequest, frozen=True):
    """remove_standby."""

    name: Name


IN_STEP: Final = "in step"
"""How `cluster` says that a standby head has all that was acknowledged."""


class StandbyObject(VerbAnswer, frozen=True):
    """A standby head."""

    name: str
    address: str
    state: (
        str  # InStep: acknowledgements wait for it; CatchingUp; Following: none waits (StandbyWait 0); Away
    )
    since: float  # when its connection began, or its problem
    event: int  # the last one that it has on its disk
    behind: int  # events that it does not have yet
    problem: str  # why it gets no events, or what else is not as it should be; ""
    takeover_after: float  # seconds without the head, after which it takes over by itself; 0: never
    wait_p50: float | None = None  # seconds that half of the writes of the last minute waited for it, at most
    wait_p99: float | None = None  # seconds that 99 % of them waited, at most; null: none waited


class StandbysAnswer(VerbAnswer, frozen=True):
    """standbys."""

    address: str  # of this head, for other machines; "" if it has none
    term: int  # how often a standby became the head
    event: int  # the last one of this head
    wait: float  # seconds that an acknowledgement waits for the standby heads (StandbyWait)
    standbys: list[StandbyObject]


class StandbyInvitationAnswer(VerbAnswer, frozen=True):
    """invite_standby."""

    invitation: str
    expires: float
    name: str


class ReservationObject(VerbAnswer, frozen=True):
    """A reservation of nodes."""

    name: str
    state: str  # Planned, Active
    start: float
    end: float
    nodes: list[str]
    node_set: str  # the same, abbreviated
    count: int  # 0: nodes by name
    node_groups: list[str]
    features: list[str]
    users: list[str]
    groups: list[str]
    projects: list[str]
    maintenance: bool  # no users
    at_end: str
    automatic: bool
    reason: str
    by: str
    running: list[int]  # ids of jobs that name it
    waiting: list[int]  # ids of jobs that name it


class ReservationsAnswer(VerbAnswer, frozen=True):
    """reservations."""

    reservations: list[ReservationObject]  # by begin


class ReservationAnswer(VerbAnswer, frozen=True):
    """reservation."""

    reservation: ReservationObject


class DelayedStart(VerbAnswer, frozen=True):
    """A job whose promised start a reservation moves."""

    job: int
    before: float
    now: float | None  # null: no longer known


class ChangedReservation(VerbAnswer, frozen=True):
    """create_reservation, modify_reservation."""

    reservation: ReservationObject
    delayed: list[DelayedStart]  # jobs whose promised start it moves
    repeated: bool | UnsetType = UNSET  # true: an earlier request with this key made it


class CanceledReservation(VerbAnswer, frozen=True):
    """cancel_reservation."""

    canceled: str
    waiting: list[int]  # ids of jobs that named it
