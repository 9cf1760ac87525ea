"""What limits leave, and when so much has decayed or was used that jobs start which wait for minutes."""

from collections.abc import Iterator
from math import inf, isinf
from typing import NamedTuple

from msgspec.structs import replace

from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.owner_limits import is_spent
from headnode.core.model.quantities import Instant
from headnode.core.scheduling.limit_checks import least_of_limit
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.plan import Plan, Shares
from headnode.core.scheduling.request import resolve
from headnode.core.scheduling.view import View
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.owner_usage import seconds_until

SOONEST = 1.0  # seconds until the next pass for decay; usage has a half-life of at least 60 s


def with_decay(plan: Plan, view: View, cluster: ClusterState) -> Plan:
    """Return a plan that is made again when decay lets the first job start, though nothing else happens.

    Cost:  O(classes), where there are limits of minutes.
    """
    left = {key: free for key, (_, free) in view.licences.items() if is_spent(key)}
    if not left:
        return plan
    held: dict[str, int] = {}  # processors or GPUs that the plan gives to jobs of the owner
    for key, taken, count in _given(plan, cluster):
        left[key] -= taken
        held[key] = held.get(key, 0) + count
    node_table = view.node_table()
    least: dict[str, int] = {}  # that a job which waits for the limit needs
    for each in view.queue:
        for request in (
            (each.request, *each.request.alternatives) if each.request.alternatives else (each.request,)
        ):
            for key, needed in _needed(request, node_table):
                if left.get(key, inf) < needed < least.get(key, inf) and needed <= view.licences[key][0]:
                    least[key] = needed
    wakes = [
        _wake(cluster, _KeyUse(key, view.licences[key][0], left[key], held.get(key, 0)), needed, view.now)
        for key, needed in least.items()
    ]
    return replace(plan, wake=min([plan.wake, *wakes])) if wakes else plan


class _KeyUse(NamedTuple):
    """A limit, and what is left of it when the plan is carried out; `more`: what it gives."""

    key: str
    most: int
    left: int
    more: int


def _given(plan: Plan, cluster: ClusterState) -> Iterator[tuple[str, int, int]]:
    """Yield what a plan takes of each limit, in seconds, and with how many processors or GPUs."""
    for start in plan.starts:
        yield from _taken(start.taken(cluster.queue.requests[start.job]), start.allocation)
    for grow in plan.grows:
        yield from _taken(cluster.request(cluster.jobs[grow.job]), grow.allocation)


def _taken(request: JobRequest, shares: Shares) -> Iterator[tuple[str, int, int]]:
    size = sum(count for _, count in shares)
    for each in request.limits:
        if is_spent(each.key):
            yield each.key, each.held(size), each.count(size)


def enough_at(cluster: ClusterState, request: JobRequest, key: str, view: View) -> Instant | None:
    """Return when there is enough of a limit for a job at the latest, if no other starts meanwhile.

    However long running jobs go on: what is reserved becomes used or free, so both together only decrease.
    None: not before running jobs end, or never.
    """
    from headnode.core.state.limit_use import ROUNDING, decay_time, limits_in_use, minutes_held, minutes_used

    now = view.now
    share = next((each for each in request.limits if each.key == key), None)
    needed = dict(_needed(request, view.node_table())).get(key)
    if share is None or needed is None or needed > share.limit:
        return None
    used = minutes_used(cluster, key, now)
    reserved = max(0.0, limits_in_use(cluster, [key], now)[key] - used)
    reserved = reserved if reserved >= 1 else 0.0  # less is rounding
    room = share.limit - needed + ROUNDING
    decay = decay_time(cluster, key)
    seconds = seconds_until(room, used, reserved, 0 if decay else minutes_held(cluster, key), decay)
    return None if isinf(seconds) else Instant(now + seconds)


def limits_left(cluster: ClusterState, request: JobRequest, now: Instant) -> dict[str, tuple[int, int]]:
    """Return the limits of a request, as a view has them: how much in all, and how much is free."""
    from headnode.core.state.limit_use import limits_in_use  # few clusters have limits

    shares = [share for one in (request, *request.alternatives) for share in one.limits]
    used = limits_in_use(cluster, {share.key for share in shares}, now)
    return {each.key: (each.limit, each.limit - used.get(each.key, 0)) for each in shares}


def _needed(request: JobRequest, node_table: NodeTable) -> list[tuple[str, int]]:
    """Return how many seconds of its limits a job needs at least."""
    spent = [share for share in request.limits if share.seconds and is_spent(share.key)]
    if not spent:
        return []
    if _depends_on_nodes(request):
        need = resolve(request, node_table)
        return [(each.key, least_of_limit(need, each, node_table)) for each in spent]
    return [(each.key, each.held(max(1, request.minimum))) for each in spent]


def _depends_on_nodes(request: JobRequest) -> bool:
    """Return whether it may hold more processors than its minimum; most do not, and are not resolved."""
    apart = request.exclusive or request.node_share or request.required_nodes or request.parts
    return bool(apart) or request.start_at_maximum or request.unit is not UnitType.PROCESSOR


def _wake(cluster: ClusterState, use: _KeyUse, needed: int, now: Instant) -> Instant:
    from headnode.core.state.limit_use import ROUNDING, decay_time, minutes_held, minutes_used

    used, held = minutes_used(cluster, use.key, now), minutes_held(cluster, use.key) + use.more
    reserved = max(0.0, use.most - use.left - used) if held else 0.0
    room = use.most - needed + ROUNDING
    seconds = seconds_until(room, used, reserved, held, decay_time(cluster, use.key))
    return Instant(now + max(seconds, SOONEST))
