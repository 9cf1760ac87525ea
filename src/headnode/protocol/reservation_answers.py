"""What the verbs about reservations of nodes answer.  The page of the protocol is printed from it.

Times are seconds since 1970.  The comment of a field is what the page says of it.
"""

from msgspec import UNSET, UnsetType

from headnode.protocol.answers import VerbAnswer


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
