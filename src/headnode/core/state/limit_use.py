"""What jobs that were started hold of limits, where no scheduling pass counts it."""

from collections.abc import Iterable, Iterator
from math import ceil

from msgspec.structs import replace

from headnode.core.model.errors import WrongState
from headnode.core.model.job import JobRequest, JobSpec, with_option
from headnode.core.model.owner_limits import (
    ENDLESS,
    LimitedAmount,
    LimitScope,
    LimitShare,
    is_of_one_job,
    is_spent,
    limit_owner,
)
from headnode.core.model.quantities import Instant
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_record import JobRecord
from headnode.core.state.job_request import deadline_of, request_of

ROUNDING = 1e-3  # seconds: sums of times that are equal differ by less


def check_room_in_project(cluster: ClusterState, record: JobRecord, project: str, now: Instant) -> None:
    """Refuse that a job which was started goes on in another project above a limit of it.

    Raises:  WrongState ``limit``.
    Cost:    O(started jobs), where the project has limits.
    """
    limits = cluster.limit_index
    if not limits.of(LimitScope.PROJECT, project):
        return
    request = limits.admit("", project, replace(_request_of(cluster, record), limits=()))
    wanted = dict(_held(cluster, record, request, now))
    there = limits_in_use(cluster, [share.key for share in wanted], now) if wanted else {}
    for share, amount in wanted.items():
        owner = limit_owner(share.key)
        has = there.get(share.key, 0)
        if has + amount > share.limit:
            unit = owner.amount
            most = unit.counted(unit.shown(share.limit))
            raise WrongState(
                code="limit",
                what=f"project {project!r} may have {most} at once and has {unit.shown(has)}; "
                f"job {record.id} has {unit.shown(amount)}",
                fix="change the project when jobs of it have ended",
                path=("project",),
            )


def check_room_for_time(cluster: ClusterState, record: JobRecord, spec: JobSpec, now: Instant) -> None:
    """Refuse that a job which was started gets a longer run time limit above limits of minutes.

    While it is suspended, only above those for one job: it goes on when the others have room.
    spec:    as it will be
    Raises:  WrongState ``limit``.
    Cost:    O(started jobs), where there are such limits.
    """
    run, before = record.run, cluster.spec(record)
    if run is None:
        return
    spec = with_option(spec, run.alternative)
    if spec.run_time <= before.run_time:
        return
    size, runs = sum(map(len, run.places.values())), record.id in cluster.running
    request = cluster.limit_index.admit(record.owner, spec.project, request_of(spec))
    timed = [share for share in request.limits if share.seconds and (runs or is_of_one_job(share.key))]
    there = limits_in_use(cluster, [share.key for share in timed], now) if timed else {}
    more = _remaining(record, spec, now) - _remaining(record, before, now)
    for share in timed:
        own = is_of_one_job(share.key)
        if (share.held(size) if own else there[share.key] + share.count(size) * more) <= share.limit:
            continue
        owner = limit_owner(share.key)
        most = owner.amount.counted(owner.amount.shown(share.limit))
        where = " in one job" if own else "" if owner.amount.counts_usage else " for running jobs"
        raise WrongState(
            code="limit",
            what=f"{owner.scope} {owner.name!r} may use {most}{where}: too few for "
            f"the new run time limit of job {record.id}",
            fix="set a shorter run time limit; hn cluster limits shows what is left",
            path=("run_time",),
        )


def limits_in_use(cluster: ClusterState, keys: Iterable[str], now: Instant) -> dict[str, int]:
    """Return what the jobs that were started hold of limits, by their keys.

    Of minutes: what was used until now, less its decay, and what running jobs may use until they end, in
    seconds.
    keys:  of the limits of which that is asked; others may be in the result
    Cost:  O(started jobs).
    """
    found: dict[str, float] = {}
    for job in (*cluster.running, *cluster.detached):
        record = cluster.jobs[job]
        for share, amount in _held(cluster, record, _request_of(cluster, record), now):
            found[share.key] = found.get(share.key, 0) + amount
    for key in keys:
        if is_spent(key):
            found[key] = found.get(key, 0) + minutes_used(cluster, key, now)
    return {key: ceil(min(amount, ENDLESS) - ROUNDING) for key, amount in found.items()}


def minutes_used(cluster: ClusterState, key: str, now: Instant) -> float:
    """Return the processor-seconds or GPU-seconds that jobs have used of a limit until now, less their decay.

    Cost:  O(users in groups with limits) for a group.
    """
    scope, name, amount = limit_owner(key)
    if not amount.counts_usage:
        return 0.0
    usage, gpus = cluster.usage, amount.counts_gpus
    if scope is LimitScope.PROJECT:
        return usage.used_by_project(name, now, gpus=gpus)
    return sum(usage.used_by_owner(user, now, gpus=gpus) for user in _users(cluster, scope, name))


def minutes_held(cluster: ClusterState, key: str) -> int:
    """Return how many processors or GPUs jobs hold now that count for a limit."""
    scope, name, amount = limit_owner(key)
    gpus = amount.counts_gpus
    if scope is LimitScope.PROJECT:
        return cluster.usage.held_by_project(name, gpus=gpus)
    return sum(cluster.usage.held_by_owner(user, gpus=gpus) for user in _users(cluster, scope, name))


def decay_time(cluster: ClusterState, key: str) -> float:
    """Return the seconds in which what was used of a limit decays to 1/e; 0 if only running jobs count."""
    return cluster.usage.decay_time if limit_owner(key).amount.counts_usage else 0.0


def _users(cluster: ClusterState, scope: LimitScope, name: str) -> Iterable[str]:
    return [name] if scope is LimitScope.USER else cluster.limit_index.members(name)


def _request_of(cluster: ClusterState, record: JobRecord) -> JobRequest:
    """Return what a started job was given; one that is to resume asks for less: it has its GPUs."""
    return cluster.request(record) if record.id in cluster.running else cluster.started_request(record)


def _held(
    cluster: ClusterState, record: JobRecord, request: JobRequest, now: Instant
) -> Iterator[tuple[LimitShare, float]]:
    """Yield what a job that was started holds of limits: all, and while it is suspended its GPUs."""
    run, running = record.run, record.id in cluster.running
    if run is None or not (running or record.id in cluster.detached) or run.detached:
        return
    size = sum(map(len, (run.allocation if running else run.places).values()))
    for share in request.limits:
        if share.seconds:
            if running and is_spent(share.key):
                left = _remaining(record, cluster.spec(record), now)
                most = share.count(size) * min(left, ENDLESS)
                yield share, min(most, share.limit)  # without a run time limit, all there is
        elif running or limit_owner(share.key).amount is LimitedAmount.GPUS:
            yield share, share.held(size)


def _remaining(record: JobRecord, spec: JobSpec, now: Instant) -> float:
    """Return for how many seconds a job with this description may still run; infinite without a limit."""
    run = record.run
    if run is None or run.started is None or run.staged_since is not None:
        return spec.run_time
    end = deadline_of(spec, run)
    return spec.run_time if end is None else max(0.0, end - now)
