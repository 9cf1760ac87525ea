"""Promises about one plan: what every policy owes, and which jobs may start before others.

A plan is gone through job by job in turn, and held against a search through everything.
"""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import msgspec

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.plan import Grow, Plan, Reason, Shares, Start
from headnode.core.scheduling.view import View, WaitingClass
from headnode.testing.held_shares import (
    NOTHING_GIVEN,
    HeldShares,
    ResourceDemand,
    demands,
    empty,
    given_by,
    held_by_running,
    kept_out_by_limits,
    reopened,
    spent_by,
    world,
)
from headnode.testing.histories import Policy
from headnode.testing.specification import World, allowed, broken_unless, divided, ways


def everybody_is_decided(view: View, plan: Plan) -> None:
    """Every queued job starts, or its request waits, with a reason; nobody else is spoken of.

    Raises:  PromiseBroken.
    """
    begun = [start.job for start in plan.starts]
    broken_unless(len(set(begun)) == len(begun), "a job is started twice")
    waiting = {turn.job: each for each in view.queue for turn in each.turns}
    broken_unless(set(begun) <= set(waiting), f"jobs {set(begun) - set(waiting)} start, but do not wait")
    for each in view.queue:
        left = [turn.job for turn in each.turns if turn.job not in begun]
        told = plan.waits.get(each.request)
        broken_unless(not left or told is not None, f"jobs {left} neither start nor wait")
        broken_unless(bool(left) or told is None, f"a request waits, but all its jobs start: {each}")
        broken_unless(told is None or bool(told.reasons), f"jobs {left} wait without a reason")
    for reservation in plan.reservations:
        owner = waiting.get(reservation.job)
        broken_unless(
            owner is not None and reservation.job not in begun and owner.request == reservation.request,
            f"job {reservation.job} has a reservation, but does not wait for what is in it",
        )


def equals_start_in_turn(view: View, plan: Plan) -> None:
    """Of the jobs of one request that had no reservation, those with the better turns start first.

    Raises:  PromiseBroken.
    """
    begun = {start.job for start in plan.starts}
    had = {each.job for each in view.before.reservations} if view.before is not None else set()
    for each in view.queue:
        jobs = [turn.job for turn in each.turns if turn.job not in had]
        first = [job for job in jobs if job in begun]
        broken_unless(first == jobs[: len(first)], f"of equal jobs {jobs}, {first} start")


def what_is_given_fits(view: View, plan: Plan) -> None:
    """Everything given is what its job may hold: nodes, processors, memory, sole ownership, licences.

    Raises:  PromiseBroken.
    """
    after_plan(view, plan)


def after_plan(view: View, plan: Plan) -> list[HeldShares]:
    """Return what is held when the plan is done.

    Raises:  PromiseBroken when something given does not fit.
    """
    held, requested = held_by_running(view), {(demand.job, demand.starts): demand for demand in demands(view)}
    there = world(view, held)
    given = [(each, False) for each in plan.grows] + [(each, True) for each in plan.starts]
    for each, starts in given:
        demand = requested.pop((each.job, starts), None)
        if demand is None:
            broken_unless(False, f"job {each.job} gets more processors, but does not want any")
            return held
        if isinstance(each, Start):
            demand = demand.under(each.option, view.now, each.lowered_limit)
        _check_fits(there, demand, each)
        held.append(demand.held(each.allocation))
        there = world(view, held)
    return held


def _check_fits(ground: World, demand: ResourceDemand, given: Start | Grow) -> None:
    shares = given.allocation
    broken_unless(allowed(demand.request, ground, shares), f"job {demand.job} may not have {shares}")
    parts = given.parts if isinstance(given, Start) else ()
    fits = divided(demand.request, ground, shares, parts) or isinstance(given, Grow)
    broken_unless(fits, f"the tasks of job {demand.job} cannot have {parts} of it")


def is_a_function(policy: Policy, view: View, plan: Plan) -> None:
    """The same view gives the same plan, and is left as it was.

    Raises:  PromiseBroken.
    """
    said = msgspec.structs.replace(view, ground=None)  # what is worked out of its nodes is no part of it
    before = msgspec.msgpack.encode(said)
    broken_unless(policy(view) == plan, "the same view gives another plan")
    broken_unless(msgspec.msgpack.encode(said) == before, "the policy has changed the view")


def listing_does_not_matter(policy: Policy, view: View, plan: Plan) -> None:
    """The order in which nodes, running jobs and requests are listed changes nothing.

    Raises:  PromiseBroken.
    """
    other = policy(turned_round(view))
    broken_unless(plan.starts == other.starts, f"listed in another order, it starts {other.starts}")
    broken_unless(plan.grows == other.grows, f"listed in another order, it grows {other.grows}")
    mine = [(each.job, each.at) for each in plan.reservations]
    others = [(each.job, each.at) for each in other.reservations]
    broken_unless(mine == others, f"listed in another order, it reserves {others}")
    broken_unless(_waits_of(plan) == _waits_of(other), "listed in another order, it gives other reasons")


def _waits_of(plan: Plan) -> dict[JobRequest, tuple[Instant, frozenset[Reason]]]:
    return {request: (wait.not_before, frozenset(wait.reasons)) for request, wait in plan.waits.items()}


def turned_round(view: View) -> View:
    """Return the view with everything listed the other way round."""
    return msgspec.structs.replace(
        view,
        nodes=dict(reversed(list(view.nodes.items()))),
        queue=[WaitingClass(each.request, each.turns) for each in reversed(view.queue)],
        running=list(reversed(view.running)),
        licences=dict(reversed(list(view.licences.items()))),
    )


def reservations_can_be_kept(view: View, plan: Plan) -> None:
    """What runs and what starts leave every reservation its place at its time, if they keep their limits.

    Names in a reservation may be examples: some binding, in the order of the starts, must exist.
    Raises:  PromiseBroken.
    """
    at_work = after_plan(view, plan)
    due = sorted((each for each in plan.reservations if each.at < float("inf")), key=lambda r: (r.at, r.turn))
    for each in due:
        broken_unless(each.at >= view.now, f"the reservation of job {each.job} is in the past")
    booked = [
        ResourceDemand(each.turn, True, each.request, each.at).under(each.option, each.at) for each in due
    ]
    examples = [(demand, each.at, each.allocation) for demand, each in zip(booked, due, strict=True)]
    if not _binds(view, at_work, examples):
        jobs = [each.job for each in due]
        broken_unless(False, f"the reservations of jobs {jobs} cannot all be kept")


def _binds(view: View, held: list[HeldShares], due: Sequence[tuple[ResourceDemand, Instant, Shares]]) -> bool:
    """Return whether all these can start at their instants; tries the names given first."""
    if not due:
        return True
    (demand, at, example), *others = due
    there = [each for each in held if each.end > at]
    there += spent_by([each for each in held if each.end <= at])
    ground = world(view, there)
    if allowed(demand.request, ground, example) and _binds(view, [*there, demand.held(example)], others):
        return True
    return any(
        _binds(view, [*there, demand.held(shares)], others)
        for shares in ways(demand.request, ground)
        if shares != example and _no_more_than_needed(shares, demand)
    )


def _no_more_than_needed(shares: Shares, demand: ResourceDemand) -> bool:
    """Return whether nothing of it could be left out; more of shared nodes only harms the others."""
    if demand.request.node_share or demand.request.exclusive or demand.request.parts:
        return True
    least = demand.request.maximum if demand.request.start_at_maximum else demand.request.minimum
    units = len(shares) if demand.request.unit == "node" else sum(count for _, count in shares)
    return units <= max(least, len(demand.request.required_nodes))


class FirstBlocked(NamedTuple):
    """The first blocked job, and who still holds something when its promise falls due."""

    job: JobId
    request: JobRequest
    at: Instant | None  # None: nothing is promised to it
    still_there: tuple[HeldShares, ...]

    def with_another(self, new: HeldShares) -> "FirstBlocked":
        """Return the head with one more beside it, unless that is over in time."""
        if self.at is not None and new.end <= self.at < NEVER:
            return self._replace(still_there=(*self.still_there, *spent_by([new])))
        return self._replace(still_there=(*self.still_there, new))

    def is_kept(self, view: View) -> bool:
        """Return whether the promise can be kept."""
        return self.at is None or bool(ways(self.request, world(view, self.still_there)))


def check_no_backfill(view: View, plan: Plan) -> None:
    """Behind the first job that must wait, no job starts and no job grows; it has the earliest reservation.

    A job whose nodes are closed counts as one that must wait, but nothing is promised to it.
    Raises:  PromiseBroken.
    """
    _BackfillCheck(view, plan, overtaking=False).check()


def first_blocked_is_not_delayed(view: View, plan: Plan) -> None:
    """The first job that must wait has the earliest reservation, and no job that starts or grows delays it.

    A job whose nodes are closed is passed over.
    Raises:  PromiseBroken.
    """
    _BackfillCheck(view, plan, overtaking=True).check()


def what_ends_in_time_backfills(view: View, plan: Plan) -> None:
    """No job waits that fits now and ends before the reservation of the first blocked job.

    Raises:  PromiseBroken.
    """
    _BackfillCheck(view, plan, overtaking=True, thorough=False).check()


def what_can_backfill_does(view: View, plan: Plan) -> None:
    """No job waits that could start now, on any nodes, without delaying the first blocked job.

    Nor does anybody start with a request that could start with one that it prefers.

    A policy need not look at every layout; ours do where there are few.
    Raises:  PromiseBroken.
    """
    _BackfillCheck(view, plan, overtaking=True, thorough=True).check()


class _BackfillCheck:
    """Goes through the wishes in turn, with what was given so far."""

    def __init__(self, view: View, plan: Plan, *, overtaking: bool, thorough: bool | None = None) -> None:
        self._view, self._plan = view, plan
        self._overtaking, self._thorough = overtaking, thorough
        self._held = held_by_running(view)
        self._there = world(view, self._held)
        self._head: FirstBlocked | None = None

    def check(self) -> None:
        given, now = given_by(self._plan), self._view.now
        for demand in demands(self._view):
            shares, option, limit = given.get((demand.job, demand.starts), NOTHING_GIVEN)
            if shares is not None:
                self._preferred(demand, option if limit is None else len(demand.options(now)))
                if limit is not None:
                    self._lowered(demand.under(option, now, limit), shares)
                self._given(demand, demand.under(option, now, limit).held(shares))
            elif self._head is None:
                self._blocked(demand)
            elif self._thorough is not None:
                for each in (*demand.options(now), *demand.lowest(now)):
                    self._refused(self._head, each)
        promised = self._head is not None and self._head.at is not None
        broken_unless(
            promised == bool(self._plan.reservations),
            "a reservation although no job waits, or none for the first job",
        )

    def _preferred(self, demand: ResourceDemand, option: int) -> None:
        """Check that no request could be given that the job prefers."""
        for better in demand.options(self._view.now)[:option]:
            if self._head is not None and self._thorough is not None:
                self._refused(self._head, better)
            elif self._head is None:
                fits = ways(better.request, self._there)
                broken_unless(not fits, f"job {demand.job} does not get its preferred request, which fits")

    def _lowered(self, demand: ResourceDemand, shares: Shares) -> None:
        """Check that a second more would delay the first blocked job."""
        broken_unless(self._head is not None, f"the limit of job {demand.job} is lowered, and no job waits")
        if self._head is not None:
            longer = demand._replace(end=Instant(demand.end + 1)).held(shares)
            kept = self._head.with_another(longer).is_kept(self._view)
            broken_unless(not kept, f"the limit of job {demand.job} is lowered more than it needs")

    def _given(self, demand: ResourceDemand, new: HeldShares) -> None:
        if self._head is not None:
            broken_unless(self._overtaking, f"job {demand.job} overtakes job {self._head.job}")
            self._head = self._head.with_another(new)
            broken_unless(self._head.is_kept(self._view), f"job {demand.job} delays job {self._head.job}")
        self._held.append(new)
        self._there = world(self._view, self._held)

    def _blocked(self, demand: ResourceDemand) -> None:
        under = demand.options(self._view.now)
        fits = any(ways(option.request, self._there) for option in under)
        broken_unless(not fits, f"job {demand.job} fits and no job waits ahead of it, but it gets nothing")
        could = empty(self._view if self._overtaking else reopened(self._view))
        runs = demand.starts and any(ways(option.request, could) for option in under)
        if runs and not (kept_out_by_limits(self._view, self._held, demand) and not self._keeps(demand)):
            self._head = self._promised(demand)

    def _keeps(self, demand: ResourceDemand) -> bool:
        """Return whether a job that its limits keep out had a reservation that it can still have."""
        before = () if self._view.before is None else self._view.before.reservations
        last = next((each.at for each in before if each.job == demand.job), NEVER)
        futures = _futures(self._view, self._held)
        there = [
            at
            for at, left in futures
            for each in demand.options(self._view.now)
            if at < NEVER and ways(each.request, world(self._view, left))
        ]
        return last < NEVER and min(there, default=NEVER) <= max(last, self._view.now)

    def _promised(self, demand: ResourceDemand) -> FirstBlocked:
        """Find the earliest instant by trying every one, and hold the plan to it.

        Of several requests that fit then, the job has a place for the one that it prefers.
        """
        futures, under = _futures(self._view, self._held), enumerate(demand.options(self._view.now))
        for (option, one), (at, left) in sorted(product(under, futures), key=lambda each: each[1][0]):
            ground = world(self._view, left)
            if ways(one.request, ground):
                first = self._plan.reservation
                told = None if first is None else (first.job, first.at, first.option)
                could = f"job {demand.job} can start at {at} with request {option}; reserved is {told}"
                broken_unless(told == (demand.job, at, option), could)
                fits = first is not None and allowed(one.request, ground, first.allocation)
                broken_unless(fits, f"what is reserved for job {demand.job} is not free at {at}")
                said = self._plan.waits[demand.request].not_before
                broken_unless(said == at, f"job {demand.job} has the reservation {said} instead of {at}")
                return FirstBlocked(demand.job, one.request, at, tuple(left))
        return FirstBlocked(demand.job, demand.request, None, ())

    def _refused(self, head: FirstBlocked, demand: ResourceDemand) -> None:
        over_in_time = head.at is not None and demand.end <= head.at < NEVER
        if head.at is None or not (over_in_time or self._thorough):
            return
        for shares in ways(demand.request, self._there):
            kept = head.with_another(demand.held(shares)).is_kept(self._view)
            broken_unless(not kept, f"job {demand.job} may overtake with {shares}, but is given nothing")


def _futures(view: View, held: Sequence[HeldShares]) -> list[tuple[Instant, list[HeldShares]]]:
    """Return each instant something ends, and what is held after it; without limit: one after the other."""
    futures = []
    ordered = sorted((each for each in held if each.shares), key=lambda each: each[:3])
    for gone, each in enumerate(ordered, start=1):
        if each.end == NEVER or gone == len(ordered) or ordered[gone].end > each.end:
            left = [*ordered[gone:], *spent_by(ordered[:gone])]
            futures.append((Instant(max(each.end, view.now)), left))
    return [*futures, (NEVER, [])]
