"""Promises about limits: a job that its limits keep out is in nobody's way."""

from collections.abc import Iterator, Sequence

import msgspec

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.view import View
from headnode.testing.held_shares import (
    HeldShares,
    ResourceDemand,
    demands,
    empty,
    held_by_running,
    reopened,
    world,
)
from headnode.testing.histories import Policy
from headnode.testing.specification import World, broken_unless, ways


def kept_out_by_limits(view: View, held: Sequence[HeldShares], demand: ResourceDemand) -> bool:
    """Return whether a job would not fit on idle nodes with what its limits leave, though it would with all.

    `held` is what jobs hold of the limits.
    """
    alone, left = empty(reopened(view)), dict(world(view, held)[1])
    could = [each.request for each in demand.options(view.now) if ways(each.request, alone)]
    return bool(could) and not any(ways(request, _within_limits(request, alone, left)) for request in could)


def _within_limits(request: JobRequest, alone: World, left: dict[str, int]) -> World:
    own = {share.key for share in request.limits}
    nodes, totals = alone
    return nodes, tuple((name, left[name] if name in own else total) for name, total in totals)


def _waiting(view: View, plan: Plan) -> Iterator[tuple[ResourceDemand, list[HeldShares]]]:
    """Yield the demands that get nothing, in turn, with what is held when it is their turn."""
    given = {(each.job, False): (each.allocation, 0) for each in plan.grows}
    given |= {(each.job, True): (each.allocation, each.option) for each in plan.starts}
    held = held_by_running(view)
    for demand in demands(view):
        shares, option = given.get((demand.job, demand.starts), (None, 0))
        if shares is not None:
            held.append(demand.under(option, view.now).held(shares))
        elif demand.starts:
            yield demand, held


def _with_reservations(view: View) -> set[JobId]:
    return set() if view.before is None else {each.job for each in view.before.reservations}


def limited_jobs_delay_nobody(policy: Policy, view: View, plan: Plan) -> None:
    """Without the jobs that their limits keep out, the plan for the others is the same.

    Those that had a reservation keep it, so they are not left out.
    Raises:  PromiseBroken.
    """
    had = _with_reservations(view)
    out = {
        demand.job
        for demand, held in _waiting(view, plan)
        if demand.job not in had and kept_out_by_limits(view, held, demand)
    }
    if not out:
        return
    queue = [
        msgspec.structs.replace(each, turns=[turn for turn in each.turns if turn.job not in out])
        for each in view.queue
    ]
    other = policy(msgspec.structs.replace(view, queue=[each for each in queue if each.turns]))
    same = plan.starts == other.starts and plan.grows == other.grows
    mine = [(each.job, each.at, each.option) for each in plan.reservations]  # their nodes may be examples
    same = same and mine == [(each.job, each.at, each.option) for each in other.reservations]
    broken_unless(same, f"without the limited jobs {sorted(out)} the plan for the others is not the same")


def first_that_fits_starts(view: View, plan: Plan) -> None:
    """The first job that must wait for anything but its limits does not fit.

    Not asked where jobs have reservations already.
    Raises:  PromiseBroken.
    """
    if _with_reservations(view):
        return
    for demand, held in _waiting(view, plan):
        if kept_out_by_limits(view, held, demand):
            continue
        could = empty(reopened(view))
        options = [option.request for option in demand.options(view.now)]
        if any(ways(request, could) for request in options):
            fits = any(ways(request, world(view, held)) for request in options)
            broken_unless(
                not fits, f"job {demand.job} fits, and no job is ahead of it, but it does not start"
            )
            return
