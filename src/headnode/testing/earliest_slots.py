"""The promises about the earliest slots, where counting is exact: numbers of processors or of whole nodes."""

from collections.abc import Container, Sequence
from math import inf
from typing import NamedTuple

import msgspec

from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.view import View
from headnode.testing.scenes import asks
from headnode.testing.specification import broken_unless, takes_whole_nodes


class _Taken(NamedTuple):
    """So much is taken from one instant until another."""

    start: float
    end: float
    amount: int


def counting_is_exact(view: View) -> bool:
    """Return whether nothing matters but how much is free: numbers tell all, names nothing."""
    asked = _asked(view)
    wholes = {takes_whole_nodes(request) for request in asked}
    return (
        len({(each.facts.processors, each.facts.memory, each.closed) for each in view.nodes.values()}) == 1
        and not any(each.closed for each in view.nodes.values())
        and not view.licences
        and not any(job.wants or job.end <= view.now for job in view.running)
        and len(wholes) == 1
        and all(map(_is_plain, asked))
        and all(request.run_time < inf for each in view.queue for request in _options(each.request))
    )


def _is_plain(request: JobRequest) -> bool:
    plain = asks(request.minimum, unit=request.unit, exclusive=request.exclusive, run_time=request.run_time)
    return msgspec.structs.replace(request, alternatives=()) == plain


def _options(request: JobRequest) -> tuple[JobRequest, ...]:
    return (request, *request.alternatives)


def slots_are_earliest(view: View, plan: Plan) -> None:
    """In turn, everybody with a slot has the earliest that touches no other; kept ones move only earlier.

    Of several requests of a job the one it prefers has the slot, where they begin at one time.

    Those without one do not fit now.  Not asked where counting is not exact.
    Raises:  PromiseBroken.
    """
    if counting_is_exact(view):
        kept = () if view.before is None else view.before.reservations
        _compare(view, plan, {each.job: _Slot(each.at, each.option) for each in kept})


def slots_are_earliest_anew(view: View, plan: Plan) -> None:
    """In order, each job with a slot has the earliest one that moves no slot of a job ahead of it.

    Those without one do not fit now.  Not asked where counting is not exact.
    Raises:  PromiseBroken.
    """
    if counting_is_exact(view):
        _compare(view, plan, {})


class _Slot(NamedTuple):
    """When a job can start, and under which of its options; earlier and preferred ones are smaller."""

    at: float
    option: int


_NONE = _Slot(inf, 0)


def _compare(view: View, plan: Plan, kept: dict[JobId, _Slot]) -> None:
    """Go through the queue in turn, and hold each slot of the plan against all that are taken."""
    capacity, taken = _capacity(view), _by_running(view)
    told = {each.job: _Slot(each.at, each.option) for each in plan.reservations}
    told |= {each.job: _Slot(view.now, each.option) for each in plan.starts}
    waiting = _waiting(view)
    slots = {job: _Slot(max(at, view.now), n) for job, (at, n) in kept.items() if job in waiting}
    freed = view.freed or len(slots) < len(kept)
    refused = False
    for job, request in waiting.items():
        others = [*taken]
        others += [_piece(view, waiting[one].option(n), at) for one, (at, n) in slots.items() if one != job]
        earliest = slots.get(job, _NONE)
        if freed or earliest.at in (view.now, inf):
            there = [_earliest(view, one, others, capacity) for one in _options(request)]
            earliest = min(earliest, *(_Slot(at, n) for n, at in enumerate(there) if at < inf), _NONE)
        given = told.pop(job, _NONE)
        if given == earliest:
            broken_unless(
                not refused or given.at in (view.now, inf) or job in slots,
                f"job {job} is given a reservation, and one with a better turn is not",
            )
        else:
            may = job not in slots and given == _NONE and earliest.at > view.now and view.depth < inf
            broken_unless(may, f"the slot of job {job} is at {given}; the earliest is at {earliest}")
            refused = True
        if given.at < inf:
            slots[job] = given
    broken_unless(not told, f"jobs {sorted(told)} are not in the queue, but have a slot")
    _check_depth(view, plan, kept, refused=refused)


def _check_depth(view: View, plan: Plan, kept: Container[JobId], *, refused: bool) -> None:
    """Check that there are as many reservations as the depth allows, and more only if they are kept."""
    new = [each for each in plan.reservations if each.job not in kept]
    broken_unless(not new or len(plan.reservations) <= view.depth, "more reservations than the depth allows")
    there = len(plan.reservations) + len(plan.starts)
    broken_unless(not refused or there >= view.depth, "fewer reservations than the depth allows")


def _waiting(view: View) -> dict[JobId, JobRequest]:
    """Return who waits, in turn."""
    queue = sorted((turn, number) for number, each in enumerate(view.queue) for turn in each.turns)
    return {turn.job: view.queue[number].request for turn, number in queue}


def _earliest(view: View, request: JobRequest, taken: Sequence[_Taken], capacity: int) -> float:
    """Return the first instant with room all the time, or infinity."""
    instants = sorted({view.now, *(each.end for each in taken)})
    for at in instants:
        if view.now <= at < inf and _has_room(_piece(view, request, at), taken, capacity):
            return at
    return inf


def _has_room(piece: _Taken, taken: Sequence[_Taken], capacity: int) -> bool:
    instants = [piece.start, *(each.start for each in taken if piece.start < each.start < piece.end)]
    return all(
        sum(each.amount for each in taken if each.start <= at < each.end) + piece.amount <= capacity
        for at in instants
    )


def _capacity(view: View) -> int:
    """Return how much there is: whole nodes, or processors."""
    whole = any(takes_whole_nodes(request) for request in _asked(view))
    return len(view.nodes) if whole else sum(each.facts.processors for each in view.nodes.values())


def _asked(view: View) -> list[JobRequest]:
    asked = [request for each in view.queue for request in _options(each.request)]
    return asked + [job.request for job in view.running]


def _by_running(view: View) -> list[_Taken]:
    return [
        _Taken(
            view.now,
            job.end,
            len(job.allocation) if takes_whole_nodes(job.request) else sum(n for _, n in job.allocation),
        )
        for job in view.running
    ]


def _piece(view: View, request: JobRequest, at: float) -> _Taken:
    """Return what a job takes that starts then."""
    size = next(iter(view.nodes.values())).facts.processors
    amount = request.minimum
    if takes_whole_nodes(request) and request.unit is UnitType.PROCESSOR:
        amount = -(-amount // size)
    return _Taken(at, at + request.run_time, amount)
