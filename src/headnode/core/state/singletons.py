"""Singletons: jobs of one owner and name that run one after another, in the order of their submission.

Source: Slurm, "sbatch", --dependency=singleton.
"""

from collections.abc import Sequence

from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_record import decode_spec
from headnode.core.state.transitions import JobState


def of_same_name(cluster: ClusterState, spec: JobSpec, job: JobId, owner: str) -> tuple[int, ...]:
    """Return the jobs that a singleton waits for: those of its owner and name that have not ended.

    Jobs that wait for it are left out: it comes before them.
    Cost:  O(jobs that are not over); of most only bytes are compared.
    """
    name, behind = spec.name.encode(), _waiting_for(cluster, job)
    return tuple(
        one.id
        for one in cluster.jobs.values()
        if one.owner == owner
        and one.state is not JobState.CONFIGURING
        and one.id != job
        and one.id not in behind
        and name in one.spec
        and decode_spec(one.spec).name == spec.name
    )


def _waiting_for(cluster: ClusterState, job: JobId) -> set[int]:
    """Return the jobs that wait for a job, or for one that does."""
    behind: set[int] = set()
    ahead: list[int] = [job]
    while ahead:
        more = cluster.children.get(ahead.pop(), set()) - behind
        behind |= more
        ahead += more
    return behind


def singletons_among(
    ids: Sequence[int], specs: Sequence[JobSpec], owners: Sequence[str]
) -> dict[int, tuple[int, ...]]:
    """Return for each singleton the jobs before it that have its owner and name."""
    found: dict[int, tuple[int, ...]] = {}
    of_name: dict[tuple[str, str], list[int]] = {}
    for job, spec, owner in zip(ids, specs, owners, strict=True):
        before = of_name.setdefault((owner, spec.name), [])
        if spec.singleton and before:
            found[job] = tuple(before)
        before.append(job)
    return found
