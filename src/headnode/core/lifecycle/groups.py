"""The state of a job group, which follows from the states of its jobs.

Source: SSS 3.1.0, JobGroup State: NotQueued, Unstarted, Active, Completed.
"""

from collections.abc import Collection, Iterable
from enum import StrEnum

from headnode.core.lifecycle.parents import fate_of
from headnode.core.lifecycle.records import JobRecord
from headnode.core.lifecycle.states import JobState
from headnode.core.model.quantities import Instant


class GroupState(StrEnum):
    """Where a job group is in its life."""

    NOT_QUEUED = "NotQueued"  # none of its jobs is submitted
    UNSTARTED = "Unstarted"  # none has started
    ACTIVE = "Active"
    COMPLETED = "Completed"  # all are over


def group_state(jobs: Iterable[JobRecord]) -> GroupState:
    """Return the state of the group that consists of these jobs.

    One that is over counts as started, whether it ever did or not: something has become of the group.
    """
    fates = [fate_of(job) for job in jobs]
    if fates and all(fate.state.is_final for fate in fates):
        return GroupState.COMPLETED
    if any(fate.started or fate.state.is_final for fate in fates):
        return GroupState.ACTIVE
    if all(fate.state is JobState.CONFIGURING for fate in fates):
        return GroupState.NOT_QUEUED
    return GroupState.UNSTARTED


def present(jobs: Collection[JobRecord]) -> list[JobRecord]:
    """Return the jobs that a group has now, of all that ever came under its name, in the order of their ids.

    Those that are not over, and what came with the first of them or later; when all are over, what came last.
    Jobs of one file come in the same instant.
    """
    alive = [job.created for job in jobs if not job.state.is_final]
    since = min(alive) if alive else max((job.created for job in jobs), default=Instant(0.0))
    return sorted((job for job in jobs if job.created >= since), key=lambda job: job.id)
