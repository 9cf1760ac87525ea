"""What jobs that were started hold of limits, where no scheduling pass counts it."""

from collections.abc import Mapping

from msgspec.structs import replace

from headnode.core.model.errors import WrongState
from headnode.core.model.job import JobRequest
from headnode.core.model.owner_limits import LimitedAmount, LimitScope, LimitShare, limit_owner
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_record import JobRecord


def check_room_in_project(cluster: ClusterState, record: JobRecord, project: str) -> None:
    """Refuse that a job which was started goes on in another project above a limit of it.

    Raises:  WrongState ``limit``.
    Cost:    O(started jobs), where the project has limits.
    """
    limits = cluster.limit_index
    if not limits.of(LimitScope.PROJECT, project):
        return
    request = limits.admit("", project, replace(_request_of(cluster, record), limits=()))
    wanted = _held(cluster, record, request)
    there = dict.fromkeys(wanted, 0)
    for job in (*cluster.running, *cluster.detached) if wanted else ():
        other = cluster.jobs[job]
        for share, amount in _held(cluster, other, _request_of(cluster, other)).items():
            if share in there:
                there[share] += amount
    for share, amount in wanted.items():
        if there[share] + amount > share.limit:
            most = limit_owner(share.key).amount.counted(share.limit)
            raise WrongState(
                code="limit",
                what=f"project {project!r} may have {most} at once and has {there[share]}; "
                f"job {record.id} has {amount}",
                fix="change the project when jobs of it have ended",
                path=("project",),
            )


def limits_in_use(cluster: ClusterState) -> dict[str, int]:
    """Return what the jobs that were started hold of each limit, by its key.

    Cost:  O(started jobs).
    """
    found: dict[str, int] = {}
    for job in (*cluster.running, *cluster.detached):
        record = cluster.jobs[job]
        for share, amount in _held(cluster, record, _request_of(cluster, record)).items():
            found[share.key] = found.get(share.key, 0) + amount
    return found


def _request_of(cluster: ClusterState, record: JobRecord) -> JobRequest:
    """Return what a started job was given; one that is to resume asks for less: it has its GPUs."""
    return cluster.request(record) if record.id in cluster.running else cluster.given(record)


def _held(cluster: ClusterState, record: JobRecord, request: JobRequest) -> Mapping[LimitShare, int]:
    """Return what a job that was started holds of limits: all, and while it is suspended its GPUs."""
    run, running = record.run, record.id in cluster.running
    if run is None or not (running or record.id in cluster.detached) or run.detached:
        return {}
    size = sum(map(len, (run.allocation if running else run.places).values()))
    return {
        share: share.held(size)
        for share in request.limits
        if running or limit_owner(share.key).amount is LimitedAmount.GPUS
    }
