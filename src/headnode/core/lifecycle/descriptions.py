"""How much the descriptions of one user's jobs may take: they are in memory until the jobs are over."""

from collections.abc import Iterable

from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.events import JobCreated
from headnode.core.model.bounds import DESCRIPTIONS, SMALL_DESCRIPTION
from headnode.core.model.errors import WrongState


def check_room_of(cluster: Cluster, made: Iterable[object]) -> None:
    """Refuse jobs for which their owners have no room.

    Raises:  WrongState ``descriptions``.
    """
    wanted: dict[str, int] = {}
    for event in made:
        if isinstance(event, JobCreated) and len(event.spec) > SMALL_DESCRIPTION.most:
            wanted[event.owner] = wanted.get(event.owner, 0) + len(event.spec)
    for owner, size in wanted.items():
        check_room(cluster, owner, size)


def check_room(cluster: Cluster, owner: str, more: int) -> None:
    """Refuse so many more bytes of descriptions of a user's jobs.

    Raises:  WrongState ``descriptions``.
    Cost:    O(jobs that are not over), and nothing for small descriptions.
    """
    if more <= SMALL_DESCRIPTION.most:
        return
    sizes = (len(job.spec) for job in cluster.jobs.values() if job.owner == owner)
    there = sum(size for size in sizes if size > SMALL_DESCRIPTION.most)
    if there + more > DESCRIPTIONS.most:
        raise WrongState(
            code="descriptions",
            what=f"the jobs of {owner!r} that have not ended have {there:,} bytes of descriptions, "
            f"and {more:,} more are above the {DESCRIPTIONS.most:,} that a user may have",
            fix="wait until some jobs have ended, or write repetitions as a sweep",
        )
