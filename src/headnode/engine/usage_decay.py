"""What limits leave, and when usage has decayed so far that jobs start which wait for processor-minutes."""

from math import inf, isinf

from msgspec.structs import replace

from headnode.core.model.job import JobRequest
from headnode.core.model.owner_limits import is_spent
from headnode.core.model.quantities import Instant
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.view import View
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.owner_usage import seconds_until

SOONEST = 1.0  # seconds until the next pass for decay; 1 s of a half-life of at least 60 s is little
WHILE_USED = 5.0  # seconds until it while jobs run: of some, such as those whose files come, less is known


def with_decay(plan: Plan, view: View, cluster: ClusterState) -> Plan:
    """Return a plan that is made again when decay lets the first job start, though nothing else happens.

    Cost:  O(classes), where there are limits of processor-minutes.
    """
    left = {key: free for key, (_, free) in view.licences.items() if is_spent(key)}
    if not left:
        return plan
    least: dict[str, int] = {}  # that a job which waits for the limit needs
    for each in view.queue:
        for request in (each.request, *each.request.others) if each.request.others else (each.request,):
            for key, needed in _needed(request):
                if left.get(key, inf) < needed < least.get(key, inf) and needed <= view.licences[key][0]:
                    least[key] = needed
    wakes = [_wake(cluster, key, needed, view) for key, needed in least.items()]
    return replace(plan, wake=min([plan.wake, *wakes])) if wakes else plan


def enough_at(cluster: ClusterState, request: JobRequest, key: str, now: Instant) -> Instant | None:
    """Return when decay leaves enough of a limit for a job at the latest, if no other starts meanwhile.

    However long running jobs go on: what is reserved becomes used or free, so both together only decrease.
    None: not before running jobs end, or never.
    """
    from headnode.core.state.limit_use import ROUNDING, limits_in_use, minutes_used  # few have limits

    share = next((each for each in request.limits if each.key == key), None)
    needed = dict(_needed(request)).get(key)
    if share is None or needed is None or needed > share.limit:
        return None
    used = minutes_used(cluster, key, now)
    reserved = max(0.0, limits_in_use(cluster, [key], now)[key] - used)
    reserved = reserved if reserved >= 1 else 0.0  # less is rounding
    room = share.limit - needed + ROUNDING
    seconds = seconds_until(room, used, reserved, 0, cluster.usage.decay_time)
    return None if isinf(seconds) else Instant(now + seconds)


def limits_left(cluster: ClusterState, request: JobRequest, now: Instant) -> dict[str, tuple[int, int]]:
    """Return the limits of a request, as a view has them: how much in all, and how much is free."""
    from headnode.core.state.limit_use import limits_in_use  # few clusters have limits

    shares = [share for one in (request, *request.others) for share in one.limits]
    used = limits_in_use(cluster, {share.key for share in shares}, now)
    return {each.key: (each.limit, each.limit - used.get(each.key, 0)) for each in shares}


def _needed(request: JobRequest) -> list[tuple[str, int]]:
    """Return how many processor-seconds of its limits a job needs at least: a unit has one processor."""
    least = max(1, request.minimum)
    return [(each.key, each.held(least)) for each in request.limits if each.seconds and is_spent(each.key)]


def _wake(cluster: ClusterState, key: str, needed: int, view: View) -> Instant:
    from headnode.core.state.limit_use import ROUNDING, minutes_held, minutes_used  # few have limits

    most, free = view.licences[key]
    used, held = minutes_used(cluster, key, view.now), minutes_held(cluster, key)
    reserved = max(0.0, most - free - used) if held else 0.0
    room = most - needed + ROUNDING
    seconds = seconds_until(room, used, reserved, held, cluster.usage.decay_time)
    return Instant(view.now + max(seconds, WHILE_USED if held else SOONEST))
