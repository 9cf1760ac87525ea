"""The promises by name, those about whole histories, and which policy owes which."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from math import inf
from types import MappingProxyType
from typing import Protocol

from headnode.core.model.job import JobRequest
from headnode.core.model.priority_factors import QueuePosition, queue_position
from headnode.core.model.quantities import Instant, JobId
from headnode.core.scheduling.plan import Plan, Why
from headnode.core.scheduling.view import View
from headnode.testing.earliest_slots import slots_are_earliest, slots_are_earliest_anew
from headnode.testing.held_shares import empty, first_that_fits_starts, limited_jobs_delay_nobody
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
from headnode.testing.scenes import MINUTE, scene
from headnode.testing.specification import World, broken_unless, ways


class NeverLater:
    """A reservation once given never moves later, is not lost, and its start is not missed.

    `unless_ahead`: it may be, when a job with a better turn comes, grows, or is within its limits again,
    after it was given.
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
        """Forget what was promised to those behind whom comes, grows, or is within its limits again."""
        growing = {each.job for each in moment.plan.grows}
        ahead = [queue_position(each.priority, each.job, each.job) for each in moment.came]
        ahead += [job.turn for job in moment.view.running if job.job in growing]
        for each in moment.view.queue:
            waits = moment.plan.waits.get(each.request)
            if each.request.limits and not (waits and any(why.why is Why.LIMIT for why in waits.reasons)):
                ahead += [turn for turn in each.turns if turn.job not in self._promised]
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
        queue = [(each.job, each.request) for each in self._history.arrivals]
        alone = empty(scene(self._history.nodes, (), queue, licences))
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
    return any(ways(request.option(option), alone) for option in range(len(request.alternatives) + 1))


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
    NEVER_LATER_BUT_FOR_BETTER_TURNS = (
        "a reservation moves later only for a job ahead: a new, growing or limited one"
    )
    NEVER_LATER = "a reservation never moves later, and its job starts in time"
    LIMITED_DELAY_NOBODY = "a job that its limits keep from starting delays no other job"
    FIRST_THAT_FITS_STARTS = "a job that fits starts, if jobs ahead of it wait for nothing but their limits"
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

_KEPT: Promises = FAIR | {P.EQUALS_START_IN_TURN, P.LIMITED_DELAY_NOBODY, P.FIRST_THAT_FITS_STARTS}

OURS: Mapping[str, Promises] = MappingProxyType(
    {
        "fcfs": _KEPT | {P.NOBODY_OVERTAKES, P.NEVER_LATER_BUT_FOR_BETTER_TURNS},
        "easy": _KEPT
        | {
            P.FIRST_IS_NOT_DELAYED,
            P.WHO_IS_OVER_IN_TIME_OVERTAKES,
            P.NEVER_LATER_BUT_FOR_BETTER_TURNS,
        },
        "conservative": _KEPT | {P.NEVER_LATER, P.EARLIEST_SLOTS},
        "conservative-replan": _KEPT | {P.EARLIEST_SLOTS_ANEW},
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
        P.FIRST_THAT_FITS_STARTS: first_that_fits_starts,
        P.EARLIEST_SLOTS: slots_are_earliest,
        P.EARLIEST_SLOTS_ANEW: slots_are_earliest_anew,
    }
)

OF_A_POLICY: Mapping[Promise, Callable[[Policy, View, Plan], None]] = MappingProxyType(
    {
        P.IS_A_FUNCTION: is_a_function,
        P.LISTING_DOES_NOT_MATTER: listing_does_not_matter,
        P.LIMITED_DELAY_NOBODY: limited_jobs_delay_nobody,
    }
)

OF_A_HISTORY: Mapping[Promise, Callable[[History], Watcher]] = MappingProxyType(
    {
        P.EVERYBODY_STARTS: EverybodyStarts,
        P.NEVER_LATER: NeverLater,
        P.NEVER_LATER_BUT_FOR_BETTER_TURNS: partial(NeverLater, unless_ahead=True),
    }
)
