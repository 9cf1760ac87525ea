"""The promises by name, those about whole histories and about the earliest slots, and which policy owes
which.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from enum import StrEnum
from functools import partial
from math import inf
from types import MappingProxyType
from typing import NamedTuple, Protocol

import msgspec

from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.quantities import Instant, JobId, QueuePosition, queue_position
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.view import View
from headnode.testing.held_shares import empty
from headnode.testing.histories import History, Moment, Policy
from headnode.testing.plan_promises import (
    check_no_backfill,
    equals_start_in_turn,
    everybody_is_decided,
    first_blocked_is_not_delayed,
    is_a_function,
    listing_does_not_matter,
    reservations_can_be_kept,
    what_can_backfill_does,
    what_ends_in_time_backfills,
    what_is_given_fits,
)
from headnode.testing.scenes import MINUTE, asks, scene
from headnode.testing.specification import World, broken_unless, takes_whole_nodes, ways


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
    return msgspec.structs.replace(request, others=()) == plain


def _options(request: JobRequest) -> tuple[JobRequest, ...]:
    return (request, *request.others)


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
    """In turn, everybody with a slot has the earliest that touches nobody's ahead, whatever was before.

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


class NeverLater:
    """A reservation once given never moves later, is not lost, and its start is not missed.

    `unless_ahead`: it may be, when a job with a better turn comes, or grows, after it was given.
    Not asked of histories in which jobs run longer than their limits.
    """

    def __init__(self, history: History, *, unless_ahead: bool = False) -> None:
        self._asked, self._unless_ahead = history.keeps_limits, unless_ahead
        self._promised: dict[JobId, tuple[Instant, QueuePosition]] = {}

    def see(self, moment: Moment) -> None:
        """Look at a pass.

        Raises:  PromiseBroken.
        """
        if not self._asked:
            return
        if self._unless_ahead:
            self._release(moment)
        now, slots = moment.view.now, {each.job: each for each in moment.plan.reservations}
        for start in moment.plan.starts:
            at, _ = self._promised.pop(start.job, (Instant(inf), ()))
            broken_unless(now <= at, f"job {start.job} was to start {_ago(at, now)} and starts only now")
        for job, (at, _) in self._promised.items():
            broken_unless(at > now or (at == now and job in slots), f"job {job} was to start {_ago(at, now)}")
            broken_unless(job in slots, f"job {job} has lost its reservation for {_ago(at, now)}")
            broken_unless(
                slots[job].at <= at, f"the reservation of job {job} for {_ago(at, now)} moves later"
            )
        self._promised |= {job: (slot.at, slot.turn) for job, slot in slots.items()}

    def _release(self, moment: Moment) -> None:
        """Forget what was promised to those behind whom comes or grows."""
        growing = {each.job for each in moment.plan.grows}
        ahead = [queue_position(each.priority, each.job, each.job) for each in moment.came]
        ahead += [job.turn for job in moment.view.running if job.job in growing]
        if ahead:
            best = min(ahead)
            self._promised = {job: told for job, told in self._promised.items() if told[1] < best}

    def end(self, waiting: Sequence[JobId]) -> None:
        """Look at who never started; nothing to say here."""


class EverybodyStarts:
    """Who could run on the empty cluster does run at last.

    Not asked where nodes are closed, nor where a job never ends.
    """

    def __init__(self, history: History) -> None:
        closed = any(each.closed for each in history.nodes)
        self._asked = not closed and all(each.lasts < inf for each in history.arrivals)
        self._history = history

    def see(self, moment: Moment) -> None:
        """Look at a pass; nothing to say here."""

    def end(self, waiting: Sequence[JobId]) -> None:
        """Look at who never started.

        Raises:  PromiseBroken.
        """
        licences = {name: (total, total) for name, total in self._history.licences.items()}
        alone = empty(scene(self._history.nodes, licences=licences))
        for each in self._history.arrivals if self._asked else ():
            stuck = each.job in waiting and _fits(each.request, alone)
            broken_unless(not stuck, f"job {each.job} could run, but never starts")


class StartsWithin:
    """A job starts within a bounded time, whoever comes behind it."""

    def __init__(self, job: int, minutes: float) -> None:
        self._job, self._minutes = job, minutes
        self._since: float | None = None
        self._started = False

    def see(self, moment: Moment) -> None:
        """Look at a pass.

        Raises:  PromiseBroken.
        """
        if any(each.job == self._job for each in moment.came):
            self._since = moment.view.now
        self._started = self._started or any(start.job == self._job for start in moment.plan.starts)
        if self._since is not None and not self._started:
            waited = (moment.view.now - self._since) / MINUTE
            broken_unless(
                waited <= self._minutes, f"job {self._job} has waited {waited:g} minutes: it starves"
            )

    def end(self, waiting: Sequence[JobId]) -> None:  # noqa: ARG002
        """Look at who never started.

        Raises:  PromiseBroken.
        """
        broken_unless(self._started or self._since is None, f"job {self._job} never starts")


def _fits(request: JobRequest, alone: World) -> bool:
    return any(ways(request.option(option), alone) for option in range(len(request.others) + 1))


def _ago(at: float, now: float) -> str:
    minutes = (now - at) / MINUTE
    return (
        f"{minutes:g} minutes ago" if minutes > 0 else "now" if minutes == 0 else f"in {-minutes:g} minutes"
    )


class Promise(StrEnum):
    """What a policy may promise, in words."""

    EVERYBODY_IS_DECIDED = "every queued job starts, or waits with a reason"
    WHAT_IS_GIVEN_FITS = "an allocation has free resources only, and only what the job may hold"
    IS_A_FUNCTION = "the same view gives the same plan, and the policy does not change the view"
    LISTING_DOES_NOT_MATTER = "the order in which things are listed changes nothing"
    RESERVATIONS_CAN_BE_KEPT = "running and starting jobs leave room for every reservation"
    EVERYBODY_STARTS = "every job that can run starts at some time"
    NOBODY_STARVES = "a stream of small jobs does not delay another job for ever"
    EQUALS_START_IN_TURN = "of equal jobs the one with the better turn starts first"
    NOBODY_OVERTAKES = "no job starts behind the first job that must wait"
    FIRST_IS_NOT_DELAYED = "the first job that must wait has the earliest start, and no job delays it"
    WHO_IS_OVER_IN_TIME_OVERTAKES = "a job that fits and ends before the reservation of the first job starts"
    WHO_CAN_OVERTAKES = "a job that can start without delaying the first job starts"
    NEVER_LATER_BUT_FOR_BETTER_TURNS = "a reservation moves later only if a job ahead arrives or grows"
    NEVER_LATER = "a reservation never moves later, and its job starts in time"
    EARLIEST_SLOTS = "on equal nodes each job has the earliest free slot, kept reservations first"
    EARLIEST_SLOTS_ANEW = "on equal nodes each job has the earliest free slot, in turn"


P = Promise
Promises = frozenset[Promise]

SOUND: Promises = frozenset(
    {
        P.EVERYBODY_IS_DECIDED,
        P.WHAT_IS_GIVEN_FITS,
        P.IS_A_FUNCTION,
        P.LISTING_DOES_NOT_MATTER,
        P.RESERVATIONS_CAN_BE_KEPT,
    }
)
"""What is asked of every policy."""

FAIR: Promises = SOUND | {P.EVERYBODY_STARTS, P.NOBODY_STARVES}
"""What users expect of every policy."""

OURS: Mapping[str, Promises] = MappingProxyType(
    {
        "fcfs": FAIR | {P.EQUALS_START_IN_TURN, P.NOBODY_OVERTAKES, P.NEVER_LATER_BUT_FOR_BETTER_TURNS},
        "easy": FAIR
        | {
            P.EQUALS_START_IN_TURN,
            P.FIRST_IS_NOT_DELAYED,
            P.WHO_IS_OVER_IN_TIME_OVERTAKES,
            P.NEVER_LATER_BUT_FOR_BETTER_TURNS,
        },
        "conservative": FAIR | {P.EQUALS_START_IN_TURN, P.NEVER_LATER, P.EARLIEST_SLOTS},
        "conservative-replan": FAIR | {P.EQUALS_START_IN_TURN, P.EARLIEST_SLOTS_ANEW},
    }
)
"""What the policies of Headnode promise."""


class Watcher(Protocol):
    """Sees every pass of a history."""

    def see(self, moment: Moment) -> None:
        """Look at a pass; raise PromiseBroken."""

    def end(self, waiting: list[JobId]) -> None:
        """Look at who never started; raise PromiseBroken."""


OF_A_PLAN: Mapping[Promise, Callable[[View, Plan], None]] = MappingProxyType(
    {
        P.EVERYBODY_IS_DECIDED: everybody_is_decided,
        P.WHAT_IS_GIVEN_FITS: what_is_given_fits,
        P.RESERVATIONS_CAN_BE_KEPT: reservations_can_be_kept,
        P.EQUALS_START_IN_TURN: equals_start_in_turn,
        P.NOBODY_OVERTAKES: check_no_backfill,
        P.FIRST_IS_NOT_DELAYED: first_blocked_is_not_delayed,
        P.WHO_IS_OVER_IN_TIME_OVERTAKES: what_ends_in_time_backfills,
        P.WHO_CAN_OVERTAKES: what_can_backfill_does,
        P.EARLIEST_SLOTS: slots_are_earliest,
        P.EARLIEST_SLOTS_ANEW: slots_are_earliest_anew,
    }
)

OF_A_POLICY: Mapping[Promise, Callable[[Policy, View, Plan], None]] = MappingProxyType(
    {
        P.IS_A_FUNCTION: is_a_function,
        P.LISTING_DOES_NOT_MATTER: listing_does_not_matter,
    }
)

OF_A_HISTORY: Mapping[Promise, Callable[[History], Watcher]] = MappingProxyType(
    {
        P.EVERYBODY_STARTS: EverybodyStarts,
        P.NEVER_LATER: NeverLater,
        P.NEVER_LATER_BUT_FOR_BETTER_TURNS: partial(NeverLater, unless_ahead=True),
    }
)
