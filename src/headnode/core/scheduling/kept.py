"""Reservations of the plan before, put into the availability of this one."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import Instant, JobId
from headnode.core.scheduling.availability import Availability, Slot
from headnode.core.scheduling.board import Board, Divided, Fit
from headnode.core.scheduling.decision import Reservation, Shares
from headnode.core.scheduling.need import Need, need_of
from headnode.core.scheduling.terrain import Terrain
from headnode.core.scheduling.view import Turn, View


class Held(NamedTuple):
    """A slot that a job has, and which of its requests it is for."""

    slot: Slot
    option: int


class Kept(NamedTuple):
    """What is still there of the reservations of the plan before, and whether any of it became free."""

    slots: dict[JobId, Held]
    turns: dict[JobRequest, list[Turn]]  # of the jobs that have one, ascending
    freed: bool


def keep(view: View, terrain: Terrain, availability: Availability) -> Kept:
    """Take every reservation of the plan before out of the availability, at the same instant or now.

    In the order of their starts: then, whatever names were examples only, there is room for all of them.
    Those of jobs that are gone or were modified, or whose nodes are, are not kept.
    """
    slots: dict[JobId, Held] = {}
    turns: dict[JobRequest, list[Turn]] = {}
    reservations = view.before.reservations if view.before is not None else ()
    for reservation in sorted(_still_waiting(view, reservations), key=lambda each: (each.at, each.turn)):
        slot = _placed(reservation, view.now, terrain, availability)
        if slot is not None:
            slots[reservation.job] = Held(slot, reservation.option)
            turns.setdefault(reservation.request, []).append(reservation.turn)
    for each in turns.values():
        each.sort()
    return Kept(slots, turns, view.freed or len(slots) < len(reservations))


def _still_waiting(view: View, reservations: Sequence[Reservation]) -> Iterator[Reservation]:
    waiting = {each.request: each.turns for each in view.queue} if reservations else {}
    for reservation in reservations:
        turns = waiting.get(reservation.request, ())
        place = bisect_left(turns, reservation.turn)
        if place < len(turns) and turns[place] == reservation.turn:
            yield reservation


def _placed(
    reservation: Reservation, now: Instant, terrain: Terrain, availability: Availability
) -> Slot | None:
    """Take what was reserved, on the same nodes or others like them, and return it; None if it is lost."""
    request = reservation.request.option(reservation.option)
    need, at = need_of(request, terrain), Instant(max(reservation.at, now))
    end = at + request.run_time
    named = _numbered(reservation.allocation, terrain)
    if any(number < 0 or terrain.alike_of[number] < 0 for number, _ in named):
        return None
    access = need.access
    if access is not None and not all(terrain.takes(number, access, at - now) for number, _ in named):
        return None  # it was reserved since
    found: Fit | None = named
    if reservation.parts:
        found = Divided.of(named, [_numbered(part, terrain) for part in reservation.parts])
    if not availability.has_room(need.piece(named), at, end):
        found = _others_alike(need, named, terrain, availability.board(at, end))
    if found is None or not availability.has_room(need.piece(found), at, end):
        return None
    availability.take(need.piece(found), at, end)
    return Slot(at, found)


def _numbered(shares: Shares, terrain: Terrain) -> Fit:
    return tuple((terrain.numbers.get(name.casefold(), -1), count) for name, count in shares)


def _others_alike(need: Need, named: Sequence[tuple[int, int]], terrain: Terrain, board: Board) -> Fit | None:
    """Return as much of nodes like these, where only their number mattered."""
    if not need.counted:
        return None
    wanted: Counter[int] = Counter()
    for number, count in named:
        wanted[terrain.alike_of[number]] += count
    found: list[tuple[int, int]] = []
    for group, count in wanted.items():
        for number in terrain.alike[group]:
            size = terrain.processors[number]
            there = board.free[number] if not need.whole or board.free[number] == size else 0
            taken = min(there, count)
            found += [(number, taken)] if taken else []
            count -= taken
        if count:
            return None
    return tuple(found)
