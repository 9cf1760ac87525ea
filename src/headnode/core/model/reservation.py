"""Nodes reserved in advance: for some users or projects, or for nobody, for a time.

Source: SSS 3.1.0, "Reservation": identifier for a reservation used by the job; Maui, advance reservations.
"""

import re
from typing import Literal

import msgspec

from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Instant, instant_text

AtEnd = Literal["limit", "run-on", "cancel"]
"""What becomes of jobs inside: they are over by its end, or go on after it, or are canceled."""

MAX_REASON = 500  # characters
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z", re.ASCII)
_LATEST = 253402300800  # the year 10000


class NodeReservation(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True
):
    """Whole nodes, reserved from `start` until `end` for those named here; for no job if none is named."""

    name: str
    start: Instant
    end: Instant
    nodes: tuple[str, ...] = ()  # by name, ascending
    count: int = 0  # so many of any were asked for, and if one leaves another takes its place; 0: these
    node_groups: tuple[str, ...] = ()  # those of any are in all of these groups
    features: tuple[str, ...] = ()  # and have all of these features
    users: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()  # of the operating system
    members: tuple[str, ...] = ()  # who was in these groups when somebody said so
    at_end: AtEnd = "limit"
    automatic: bool = False  # jobs of those who may use it go there without naming it
    reason: str = ""
    by: str = ""

    @property
    def key(self) -> str:
        """The name as it is compared: in lower case."""
        return self.name.lower()

    @property
    def is_maintenance(self) -> bool:
        """Whether nobody may run there."""
        return not (self.users or self.projects or self.groups)

    def lets_in(self, user: str, project: str) -> bool:
        """Return whether a job of this user and project may run there."""
        return user in self.users or user in self.members or (bool(project) and project in self.projects)

    def meets(self, begins: float, ends: float) -> bool:
        """Return whether any of this time is its own."""
        return self.start < ends and begins < self.end

    def says(self) -> str:
        """Return for whom it is and when, such as ``for maintenance (upgrade) from … to … UTC``."""
        if self.is_maintenance:
            whom = "maintenance"
        else:
            several = [f"group {name}" for name in self.groups] + [
                f"project {name}" for name in self.projects
            ]
            whom = ", ".join((*self.users, *several))
        return f"for {whom} ({self.name}) from {instant_text(self.start)} to {instant_text(self.end)}"


def check_reservation(reservation: NodeReservation, now: Instant) -> None:
    """Refuse what is no reservation.

    Raises:  BadRequest ``reservation-name``, ``reservation-time``, ``reservation-nodes`` or
             ``reservation-reason``.
    """
    if not _NAME.match(reservation.name):
        raise BadRequest(
            code="reservation-name",
            what=f"a reservation cannot be called {reservation.name!r}",
            fix="use up to 64 letters, digits, dots, dashes and underscores, first a letter or digit",
        )
    if not 0 <= reservation.start < reservation.end < _LATEST or reservation.end <= now:
        raise BadRequest(
            code="reservation-time",
            what=f"reservation {reservation.name!r} ends before it begins, or has ended already",
            fix="choose an end in the future and after the beginning",
        )
    if bool(reservation.nodes) == bool(reservation.count) or reservation.count < 0:
        raise BadRequest(
            code="reservation-nodes",
            what=f"reservation {reservation.name!r} has no nodes, "
            "or has both names of nodes and a number of nodes",
            fix="write either names of nodes or a number of nodes",
        )
    if len(reservation.reason) > MAX_REASON:
        raise BadRequest(
            code="reservation-reason",
            what=f"the reason has {len(reservation.reason)} characters",
            fix=f"use up to {MAX_REASON}",
        )
