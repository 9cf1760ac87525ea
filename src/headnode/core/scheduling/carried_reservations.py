"""The reservations of the plan before that still hold, taken out of what is free."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from headnode.core.model.job import JobRequest
from headnode.core.model.priority_factors import QueuePosition
from headnode.core.model.quantities import Instant, JobId
from headnode.core.scheduling.availability import Availability, Slot
from headnode.core.scheduling.candidates import resolve_now
from headnode.core.scheduling.free_resources import FreeResources, GangPlacement, Placement
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.plan import Reservation, Shares
from headnode.core.scheduling.release_profile import NodeKinds
from headnode.core.scheduling.request import ResolvedRequest, resolve
from headnode.core.scheduling.view import View


class CarriedSlot(NamedTuple):
    """The slot of a job, the alternative request (`option`) that it is for, and its reservation before."""

    slot: Slot
    option: int
    reservation: Reservation | None = None


class CarriedReservations(NamedTuple):
    """The reservations of the last plan that still hold; `freed` if resources of any became free."""

    slots: dict[JobId, CarriedSlot]
    turns: dict[JobRequest, list[QueuePosition]]  # of the jobs that have one, ascending
    freed: bool


NOTHING_CARRIED = CarriedReservations({}, {}, freed=True)


class PlanBefore(NamedTuple):
    """What is free over time after a pass, and the reservations that are taken out of it."""

    future: Availability
    reservations: tuple[Reservation, ...]
    slots: Sequence[Slot]


class PlanMemory:
    """The end of the last pass on the nodes of a table, until the next one goes on from it."""

    def __init__(self) -> None:
        self.ended: PlanBefore | None = None


def remember(
    node_table: NodeTable, future: Availability, reservations: tuple[Reservation, ...], slots: Sequence[Slot]
) -> None:
    """Keep what is free over time for the next pass."""
    node_table.cache.of(PlanMemory).ended = PlanBefore(future, reservations, slots)


def recalled(view: View, node_table: NodeTable, kinds: NodeKinds, shortest: float) -> PlanBefore | None:
    """Return how the last pass ended, if it was the one before this; nothing is remembered after that."""
    memory = node_table.cache.of(PlanMemory)
    ended, memory.ended = memory.ended, None
    if ended is None or view.before is None or not ended.future.is_for(kinds, shortest):
        return None
    return ended if view.before.reservations == ended.reservations else None


def carry_over_reservations(
    view: View, node_table: NodeTable, availability: Availability
) -> CarriedReservations:
    """Take every reservation of the plan before out of the availability, at the same instant or now.

    In the order of their starts: then, whatever names were examples only, there is room for all of them.
    Those of jobs that are gone or were modified, or whose nodes are, are not kept.
    """
    kept: list[tuple[Reservation, CarriedSlot]] = []
    for reservation in _in_order(view):
        slot = _placed(reservation, view.now, node_table, availability)
        if slot is not None:
            kept.append((reservation, CarriedSlot(slot, reservation.option)))
    return _carried(view, kept)


def carry_on(view: View, node_table: NodeTable, before: PlanBefore) -> CarriedReservations | None:
    """Return the same from what was free after the pass before.

    There the reservations are taken already.  Those that are gone are given back, those that are due begin
    now.  None: there is no room for all of them where they were.
    """
    future, now = before.future, view.now
    slots = {each.job: slot for each, slot in zip(before.reservations, before.slots, strict=True)}
    kept, due = [], []
    for reservation in _in_order(view):
        slot = slots[reservation.job]
        if slot.at < now:
            due.append(reservation)
            kept.append((reservation, CarriedSlot(Slot(now, slot.fit), reservation.option)))
        else:
            del slots[reservation.job]
            kept.append((reservation, CarriedSlot(slot, reservation.option, reservation)))
    for reservation in before.reservations:
        if reservation.job in slots:
            at, fit = slots[reservation.job]
            asked, need = _asked(reservation, node_table)
            future.give(need.piece(fit), at, at + asked.run_time)
    for reservation in due:
        asked, need = _asked(reservation, node_table)
        future.take(need.piece(slots[reservation.job].fit), now, now + asked.run_time)
    return _carried(view, kept) if future.has_room_for_all() else None


def give_all_back(node_table: NodeTable, before: PlanBefore) -> CarriedReservations:
    """Give back all that was reserved at the end of the pass before."""
    for reservation, (at, fit) in zip(before.reservations, before.slots, strict=True):
        asked, need = _asked(reservation, node_table)
        before.future.give(need.piece(fit), at, at + asked.run_time)
    before.future.forget_past()
    return NOTHING_CARRIED


def slots_before(view: View) -> dict[JobId, Instant]:
    """Return when the reservations of the plan before begin."""
    return {} if view.before is None else {each.job: each.at for each in view.before.reservations}


def _asked(reservation: Reservation, node_table: NodeTable) -> tuple[JobRequest, ResolvedRequest]:
    request = reservation.request.option(reservation.option)
    return request, resolve(request, node_table)


def _in_order(view: View) -> list[Reservation]:
    """Return the reservations of the plan before whose jobs still wait, in the order of their starts."""
    before = view.before.reservations if view.before is not None else ()
    return sorted(_still_waiting(view, before), key=lambda each: (each.at, each.turn))


def _carried(view: View, reservations: Sequence[tuple[Reservation, CarriedSlot]]) -> CarriedReservations:
    slots: dict[JobId, CarriedSlot] = {}
    turns: dict[JobRequest, list[QueuePosition]] = {}
    for reservation, slot in reservations:
        slots[reservation.job] = slot
        turns.setdefault(reservation.request, []).append(reservation.turn)
    for each in turns.values():
        each.sort()
    before = view.before.reservations if view.before is not None else ()
    return CarriedReservations(slots, turns, view.freed or len(slots) < len(before))


def _still_waiting(view: View, reservations: Sequence[Reservation]) -> Iterator[Reservation]:
    """Yield the reservations of jobs that were not modified, with their places in the queue of this view."""
    waiting: dict[JobRequest, list[Sequence[QueuePosition]]] = {}
    for each in view.queue if reservations else ():
        waiting.setdefault(each.request, []).append(each.turns)
    for reservation in reservations:
        turn = view.position(reservation.turn)
        if msgspec.structs.replace(turn, key=reservation.turn.key) == reservation.turn and any(
            _has(turns, turn) for turns in waiting.get(reservation.request, ())
        ):
            yield reservation if turn == reservation.turn else msgspec.structs.replace(reservation, turn=turn)


def _has(turns: Sequence[QueuePosition], turn: QueuePosition) -> bool:
    place = bisect_left(turns, turn)
    return place < len(turns) and turns[place] == turn


def _placed(
    reservation: Reservation, now: Instant, node_table: NodeTable, availability: Availability
) -> Slot | None:
    """Take what was reserved, on the same nodes or others like them, and return it; None if it is lost."""
    request = reservation.request.option(reservation.option)
    at = Instant(max(reservation.at, now))
    need = resolve_now(request, node_table, at)
    end = at + request.run_time
    named = _numbered(reservation.allocation, node_table)
    if any(number < 0 or node_table.alike_of[number] < 0 for number, _ in named):
        return None
    access = need.access
    numbers = tuple(number for number, _ in named)
    if access is not None and node_table.taking(numbers, access, at - now) != numbers:
        return None  # it was reserved since
    placement: Placement | None = named
    if reservation.parts:
        placement = GangPlacement.of(named, [_numbered(part, node_table) for part in reservation.parts])
    if not availability.has_room(need.piece(named), at, end):
        placement = _others_alike(need, named, node_table, availability.resources(need, at, end))
    if placement is None or not availability.has_room(need.piece(placement), at, end):
        return None
    availability.take(need.piece(placement), at, end)
    return Slot(at, placement)


def _numbered(shares: Shares, node_table: NodeTable) -> Placement:
    return tuple((node_table.numbers.get(name.casefold(), -1), count) for name, count in shares)


def _others_alike(
    need: ResolvedRequest, named: Sequence[tuple[int, int]], node_table: NodeTable, resources: FreeResources
) -> Placement | None:
    """Return as much of nodes like these, where only their number mattered."""
    if not need.counted:
        return None
    wanted: Counter[int] = Counter()
    for number, count in named:
        wanted[node_table.alike_of[number]] += count
    found: list[tuple[int, int]] = []
    for group, count in wanted.items():
        for number in node_table.alike[group]:
            size = node_table.processors[number]
            there = resources.free[number] if not need.whole or resources.free[number] == size else 0
            taken = min(there, count)
            found += [(number, taken)] if taken else []
            count -= taken
        if count:
            return None
    return tuple(found)
