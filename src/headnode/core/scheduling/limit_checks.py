"""Whether the limits of its user and project keep a job from starting, and the sentence that says so.

A job that its limits keep from starting holds up no other job and has no reservation: what it waits for are
jobs of its own user or project.  Where a limit leaves enough for it, it is scheduled as any other job, and
what it will hold of the limit counts in its reservation.

Source:  Slurm, "Resource Limits": a job above a limit stays pending, and jobs behind it start.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from math import inf

from headnode.core.model.job import UnitType
from headnode.core.model.owner_limits import LimitedAmount, LimitShare, limit_owner
from headnode.core.scheduling.free_resources import FreeResources
from headnode.core.scheduling.placement import at_minimum, find_placement
from headnode.core.scheduling.plan import Reason, Why
from headnode.core.scheduling.request import ResolvedRequest, resolved_at_some_time

_UNITS = {  # one, several
    LimitedAmount.JOBS: ("running job", "running jobs"),
    LimitedAmount.PROCESSORS: ("processor", "processors"),
    LimitedAmount.GPUS: ("GPU", "GPUs"),
}


def is_limited(need: ResolvedRequest, resources: FreeResources, idle: FreeResources) -> bool:
    """Return whether what is left of its limits is not enough for a job, even if all nodes were idle.

    idle:  what is free when no job runs
    Cost:  O(limits of the job), and one placement where a job counts sockets or whole nodes.
    """
    if not need.limits:
        return False
    free = resources.licences
    if any(_least(need, share) > free.get(share.key, inf) for share in need.limits):
        return True
    if _has_known_size(need) or _processors_on(need, _with_limits(need, idle, free)) is not None:
        return False
    return _processors_on(need, idle) is not None  # else its nodes are closed, and no limit is in its way


def are_limited(needs: Sequence[ResolvedRequest], resources: FreeResources, idle: FreeResources) -> bool:
    """Return whether limits keep a job from starting under each of its options that fits on idle nodes."""
    told = [is_limited(need, resources, idle) for need in needs]
    return any(told) and all(
        limited or _processors_on(need, idle) is None for need, limited in zip(needs, told, strict=True)
    )


def limit_reasons(need: ResolvedRequest, resources: FreeResources) -> Iterator[Reason]:
    """Yield for each limit that leaves too little for a job how much it allows, and what the job needs."""
    idle = FreeResources.empty(resources.node_table, {})
    for share in need.limits:
        asked = _least(need, share) if _has_known_size(need) else _least_on(need, share, idle)
        free = resources.licences.get(share.key, inf)
        if asked > free:
            yield Reason(Why.LIMIT, _sentence(share, asked, share.limit - int(free)), share.key)


def _sentence(share: LimitShare, asked: int, used: int) -> str:
    owner = limit_owner(share.key)
    unit = _UNITS[owner.amount][share.limit != 1]
    has = f" and has {used}" if used else ""
    needs = "" if owner.amount is LimitedAmount.JOBS else f"; the job needs {asked}"
    return f"{owner.scope} {owner.name!r} may have {share.limit} {unit} at once{has}{needs}"


def _has_known_size(need: ResolvedRequest) -> bool:
    """Return whether its minimum says how many processors it has at the least, wherever it runs.

    Whole nodes, sockets, required nodes and the nodes of its tasks may be more; so it is for a job that
    counts nothing but itself, of which the size does not matter.
    """
    if all(share.amount is not None for share in need.limits):
        return True
    if need.whole or need.share or need.required or need.unit not in (UnitType.PROCESSOR, UnitType.GPU):
        return False
    return not need.parts or (need.together and not any(part.whole for part in need.parts))


def _least(need: ResolvedRequest, share: LimitShare) -> int:
    """Return how much of a limit the minimum of a job takes at least."""
    if share.amount is not None:
        return share.amount
    processors = need.minimum * (need.processors_per_gpu if need.unit is UnitType.GPU else 1)
    return processors // share.size


def _least_on(need: ResolvedRequest, share: LimitShare, idle: FreeResources) -> int:
    """Return the same of a job whose size depends on its nodes, on these without licences."""
    least, size = _least(need, share), _processors_on(need, idle)
    if share.amount is not None or size is None:
        return least

    def suffices(amount: int) -> bool:
        there = FreeResources(
            idle.node_table, idle.free, idle.jobs, idle.owned, idle.amounts, {share.key: amount}
        )
        return _processors_on(need, there) is not None

    amounts = range(least, size // share.size)
    return least + bisect_left(amounts, True, key=suffices)


def _processors_on(need: ResolvedRequest, resources: FreeResources) -> int | None:
    """Return how many processors the minimum of a job takes there; None if it does not fit."""
    found = find_placement(at_minimum(resolved_at_some_time(need, resources.node_table)), resources)
    return None if found is None else sum(processors for _, processors in found)


def _with_limits(need: ResolvedRequest, idle: FreeResources, free: Mapping[str, int]) -> FreeResources:
    """Return idle nodes with all licences, and with what is free now of the limits of a job."""
    left = {share.key: free[share.key] for share in need.limits if share.key in free}
    licences = {**idle.licences, **left}
    return FreeResources(idle.node_table, idle.free, idle.jobs, idle.owned, idle.amounts, licences)
