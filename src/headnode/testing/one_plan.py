"""Promises about one plan: what every policy owes, whatever it prefers."""

from collections.abc import Sequence

import msgspec

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import Instant
from headnode.core.scheduling.decision import Grow, Plan, Reason, Shares, Start
from headnode.core.scheduling.view import View, WaitingClass
from headnode.testing.broken import broken_unless
from headnode.testing.histories import Policy
from headnode.testing.holding import Held, Wish, held_by_running, wishes, world
from headnode.testing.specification import allowed, divided, ways


def everybody_is_decided(view: View, plan: Plan) -> None:
    """Every queued job starts, or its request waits, with a reason; nobody else is spoken of.

    Raises:  PromiseBroken.
    """
    begun = [start.job for start in plan.starts]
    broken_unless(len(set(begun)) == len(begun), "a job is started twice")
    waiting = {turn[2]: each for each in view.queue for turn in each.turns}
    broken_unless(set(begun) <= set(waiting), f"jobs {set(begun) - set(waiting)} start, but do not wait")
    for each in view.queue:
        left = [turn[2] for turn in each.turns if turn[2] not in begun]
        told = plan.waits.get(each.request)
        broken_unless(not left or told is not None, f"jobs {left} neither start nor wait")
        broken_unless(
            bool(left) or told is None, f"a request is told to wait though all its jobs start: {each}"
        )
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
        jobs = [turn[2] for turn in each.turns if turn[2] not in had]
        first = [job for job in jobs if job in begun]
        broken_unless(first == jobs[: len(first)], f"of equal jobs {jobs}, {first} start")


def what_is_given_fits(view: View, plan: Plan) -> None:
    """Everything given is what its job may hold: nodes, processors, memory, sole ownership, licences.

    Raises:  PromiseBroken.
    """
    after_plan(view, plan)


def after_plan(view: View, plan: Plan) -> list[Held]:
    """Return what is held when the plan is done.

    Raises:  PromiseBroken when something given does not fit.
    """
    held, wished = held_by_running(view), {(wish.job, wish.starts): wish for wish in wishes(view)}
    given = [(each, False) for each in plan.grows] + [(each, True) for each in plan.starts]
    for each, starts in given:
        wish = wished.pop((each.job, starts), None)
        if wish is None:
            broken_unless(False, f"job {each.job} is given something, but wishes for nothing more")
            return held
        if isinstance(each, Start):
            wish = wish.under(each.option, view.now)
        _check_fits(view, held, wish, each)
        held.append(wish.held(each.allocation))
    world(view, held)
    return held


def _check_fits(view: View, held: Sequence[Held], wish: Wish, given: Start | Grow) -> None:
    ground, shares = world(view, held), given.allocation
    broken_unless(allowed(wish.request, ground, shares), f"job {wish.job} may not have {shares}")
    parts = given.parts if isinstance(given, Start) else ()
    fits = divided(wish.request, ground, shares, parts) or isinstance(given, Grow)
    broken_unless(fits, f"the tasks of job {wish.job} cannot have {parts} of it")


def is_a_function(policy: Policy, view: View, plan: Plan) -> None:
    """The same view gives the same plan, and is left as it was.

    Raises:  PromiseBroken.
    """
    before = msgspec.msgpack.encode(view)
    broken_unless(policy(view) == plan, "the same view gives another plan")
    broken_unless(msgspec.msgpack.encode(view) == before, "the policy has changed its view")


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
    broken_unless(_told(plan) == _told(other), "listed in another order, it gives other reasons")


def _told(plan: Plan) -> dict[JobRequest, tuple[Instant, frozenset[Reason]]]:
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
    booked = [Wish(each.turn, True, each.request, each.at).under(each.option, each.at) for each in due]
    examples = [(wish, each.at, each.allocation) for wish, each in zip(booked, due, strict=True)]
    if not _binds(view, at_work, examples):
        jobs = [each.job for each in due]
        broken_unless(False, f"the reservations of jobs {jobs} cannot all be kept")


def _binds(view: View, held: list[Held], due: Sequence[tuple[Wish, Instant, Shares]]) -> bool:
    """Return whether all these can start at their instants; tries the names given first."""
    if not due:
        return True
    (wish, at, example), *others = due
    there = [each for each in held if each.end > at]
    ground = world(view, there)
    if allowed(wish.request, ground, example) and _binds(view, [*there, wish.held(example)], others):
        return True
    return any(
        _binds(view, [*there, wish.held(shares)], others)
        for shares in ways(wish.request, ground)
        if shares != example and _no_more_than_needed(shares, wish)
    )


def _no_more_than_needed(shares: Shares, wish: Wish) -> bool:
    """Return whether nothing of it could be left out; more of shared nodes only harms the others."""
    if wish.request.node_share or wish.request.exclusive or wish.request.parts:
        return True
    least = wish.request.maximum if wish.request.start_at_maximum else wish.request.minimum
    units = len(shares) if wish.request.unit == "node" else sum(count for _, count in shares)
    return units <= max(least, len(wish.request.required_nodes))
