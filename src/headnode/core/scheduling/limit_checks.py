"""Whether the limits of its user, project and groups keep a job from starting, and the sentence that says so.

A job that its limits keep from starting holds up no other job and has no reservation: what it waits for are
jobs of its own user, project or groups.  Where a limit leaves enough for it, it is scheduled as any other
job, and what it will hold of the limit counts in its reservation.

Source:  Slurm, "Resource Limits": a job above a limit stays pending, and jobs behind it start.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from math import inf

from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.owner_limits import (
    ENDLESS,
    LimitedAmount,
    LimitOwner,
    LimitShare,
    is_limit,
    is_of_one_job,
    is_spent,
    limit_owner,
)
from headnode.core.scheduling.candidates import resolved_at_some_time
from headnode.core.scheduling.free_resources import FreeResources
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.placement import at_minimum, find_placement
from headnode.core.scheduling.plan import Reason, Why
from headnode.core.scheduling.request import ResolvedRequest
from headnode.core.scheduling.view import View

MAX_FOUND = 10_000  # needs of which the size on idle nodes is remembered


class LeastProcessors:
    """Cached sizes of jobs on idle nodes, where the size of a job depends on the nodes that it gets."""

    def __init__(self) -> None:
        self.cache: dict[tuple[object, ...], int] = {}
        self.idle: FreeResources | None = None


def is_limited(need: ResolvedRequest, resources: FreeResources) -> bool:
    """Return whether what is left of its limits is not enough for a job, even if all nodes were idle."""
    free, node_table = resources.licences, resources.node_table
    return any(least_of_limit(need, share, node_table) > free.get(share.key, inf) for share in need.limits)


def spent_classes(view: View) -> frozenset[int]:
    """Return the places of classes of the queue of which no job can start: nothing is left of a limit.

    Or of processor-minutes or GPU-minutes less than the job needs for sure.

    Not those of which a job had a reservation in the plan before, which it may keep.
    Cost:  O(classes).
    """
    left = {key: free for key, (_, free) in view.licences.items() if is_limit(key)}
    nothing_left = {key for key, free in left.items() if free < 1}
    timed = {key for key in left if is_spent(key)}
    if not nothing_left and not timed:
        return frozenset()

    def is_out(share: LimitShare, request: JobRequest) -> bool:
        least = fewest_processors(request)
        return share.key in nothing_left or (share.key in timed and share.held(least) > left[share.key])

    reserved = set() if view.before is None else {each.request for each in view.before.reservations}
    queue = enumerate(each.request for each in view.queue)
    return frozenset(
        place
        for place, request in queue
        if any(is_out(share, request) for share in request.limits)
        and not request.alternatives
        and request not in reserved
    )


def are_limited(needs: Sequence[ResolvedRequest], resources: FreeResources, idle: FreeResources) -> bool:
    """Return whether limits keep a job from starting under each of its options that fits on idle nodes.

    idle:  what is free when no job runs
    """
    told = [is_limited(need, resources) for need in needs]
    return any(told) and all(
        limited or _processors_on(need, idle) is None for need, limited in zip(needs, told, strict=True)
    )


def limit_reasons(need: ResolvedRequest, resources: FreeResources) -> Iterator[Reason]:
    """Yield for each limit that leaves too little for a job how much it allows, and what the job needs."""
    for share in need.limits:
        asked = least_of_limit(need, share, resources.node_table)
        free = resources.licences.get(share.key, inf)
        if asked > free:
            yield Reason(Why.LIMIT, _sentence(share, asked, share.limit - int(free)), share.key)


def times_within_limits(request: JobRequest, view: View) -> set[float]:
    """Return the run time limits with which the minimum of a job would be within limits of its owner."""
    least = fewest_processors(request)
    timed = [(view.licences[each.key][1], each.count(least)) for each in request.limits if each.seconds]
    return {free / max(1, count) for free, count in timed if free > 0}


def fewest_processors(request: JobRequest) -> int:
    """Return how many processors a job has at least; each other unit has one at least."""
    return max(1, request.minimum) * max(1, request.processors_per_gpu)


def _sentence(share: LimitShare, requested: int, used: int) -> str:
    owner = limit_owner(share.key)
    if share.seconds:
        return _minutes_sentence(share, owner, requested, used)
    has = f" and has {used}" if used else ""
    needs = "" if owner.amount is LimitedAmount.JOBS else f"; the job needs {requested}"
    return f"{owner.scope} {owner.name!r} may have {owner.amount.counted(share.limit)} at once{has}{needs}"


def _minutes_sentence(share: LimitShare, owner: LimitOwner, requested: int, used: int) -> str:
    """Say it of minutes: what is used, and what running jobs may use until they end."""
    amount = owner.amount
    most = amount.counted(amount.shown(share.limit))
    needs = f"the job may use {amount.shown(requested)}"
    if share.seconds == ENDLESS:
        needs = "the job has no run time limit (--runtime)"
    if is_of_one_job(share.key):
        return f"{owner.scope} {owner.name!r} may use {most} in one job; {needs}"
    if not amount.counts_usage:
        reserved = f" and has {amount.shown(used)} reserved" if used > 0 else ""
        return f"{owner.scope} {owner.name!r} may have {most} reserved for running jobs{reserved}; {needs}"
    used_up = f" and has {amount.shown(used)} used or reserved for running jobs" if used > 0 else ""
    return f"{owner.scope} {owner.name!r} may use {most}{used_up}; {needs}"


def least_of_limit(need: ResolvedRequest, share: LimitShare, node_table: NodeTable) -> int:
    """Return how much of a limit the minimum of a job takes at least."""
    return share.held(0 if share.amount is not None else _processors(need, node_table))


def _processors(need: ResolvedRequest, node_table: NodeTable) -> int:
    """Return how many processors the minimum of a job takes at least, if all nodes are idle.

    Cost:  O(log(processors)) placements where the size depends on the nodes; once for equal needs.
    """
    least = need.minimum * (need.processors_per_gpu or 1)
    if _has_known_size(need):
        return least
    cache = node_table.cache.of(LeastProcessors)
    equal = need._replace(alternatives=(), anywhere=(), fixed={}, each={}, timed={}, limits=())
    key = tuple(value for value in equal if value != {})
    known = cache.cache.get(key) if need.rules >= 0 else None
    if known is None:
        if len(cache.cache) >= MAX_FOUND:
            cache.cache.clear()
        idle = cache.idle = cache.idle or FreeResources.empty(node_table, {})
        known = cache.cache[key] = max(least, _fewest(need, idle))
    return known


def _fewest(need: ResolvedRequest, idle: FreeResources) -> int:
    """Return the fewest processors on which the minimum of a job fits; 0 if it fits on no open nodes."""
    size = _processors_on(need._replace(fixed={}, each={}, timed={}), idle)
    if size is None:
        return 0
    counting = need._replace(fixed={}, each={"": 1}, timed={})

    def suffices(processors: int) -> bool:
        amounts, there = idle.amounts, {"": processors}
        within = FreeResources(idle.node_table, idle.free, idle.jobs, idle.owned, amounts, there)
        return _processors_on(counting, within) is not None

    return bisect_left(range(size), True, key=suffices)


def _has_known_size(need: ResolvedRequest) -> bool:
    """Return whether its minimum says how many processors it has at the least, wherever it runs.

    Whole nodes, sockets, required nodes and the nodes of its tasks may be more.
    """
    if need.whole or need.share or need.required or need.unit not in (UnitType.PROCESSOR, UnitType.GPU):
        return False
    return not need.parts or (need.together and not any(part.whole for part in need.parts))


def _processors_on(need: ResolvedRequest, resources: FreeResources) -> int | None:
    """Return how many processors the minimum of a job takes there; None if it does not fit."""
    found = find_placement(at_minimum(resolved_at_some_time(need, resources.node_table)), resources)
    return None if found is None else sum(processors for _, processors in found)
