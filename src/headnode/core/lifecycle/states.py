"""Where jobs and task instances are in their lives.  The arrows between are in `arrows`.

Source: CCS, "Job status and life cycle"; HPC Pack job and task states.
"""

from enum import StrEnum


class JobState(StrEnum):
    """Where a job is in its life."""

    CONFIGURING = "configuring"  # created, not yet submitted
    VALIDATING = "validating"  # submitted; submission filters have not let it into the queue yet
    QUEUED = "queued"  # waiting for resources
    RUNNING = "running"  # holds its allocation
    SUSPENDING = "suspending"  # its processes are being stopped; it holds its allocation until they are
    SUSPENDED = "suspended"  # its processes stand still; it holds nothing
    RESUMING = "resuming"  # suspended, and waiting in the queue for what it held
    ENDING = "ending"  # its tasks are being stopped; how it ends is decided already
    FINISHED = "finished"  # every task succeeded, or somebody asked it to finish
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_final(self) -> bool:
        """Whether the job is over."""
        return self in (JobState.FINISHED, JobState.FAILED, JobState.CANCELED)

    @property
    def is_queued(self) -> bool:
        """Whether the job waits for processors."""
        return self in (JobState.QUEUED, JobState.RESUMING)

    @property
    def is_active(self) -> bool:
        """Whether the job was started and how it ends is open: it runs or is suspended."""
        return self in ACTIVE


class TaskState(StrEnum):
    """Where a task instance is in its life; also the summary of a whole task."""

    CONFIGURING = "configuring"
    QUEUED = "queued"
    DISPATCHED = "dispatched"  # handed to a node, not yet known to have started
    RUNNING = "running"
    ENDING = "ending"  # being stopped; how it ends is decided already
    FINISHED = "finished"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_final(self) -> bool:
        """Whether the instance is over."""
        return self in (TaskState.FINISHED, TaskState.FAILED, TaskState.CANCELED)


ACTIVE = frozenset({JobState.RUNNING, JobState.SUSPENDING, JobState.SUSPENDED, JobState.RESUMING})
"""States of jobs that were started and that nobody has ended yet."""

PEOPLE_SAY = {
    JobState.CONFIGURING: "Configuring",
    JobState.VALIDATING: "Queued",
    JobState.QUEUED: "Queued",
    JobState.RUNNING: "Running",
    JobState.SUSPENDING: "Running",
    JobState.SUSPENDED: "Suspended",
    JobState.RESUMING: "Suspended",
    JobState.ENDING: "Running",
    JobState.FINISHED: "Finished",
    JobState.FAILED: "Failed",
    JobState.CANCELED: "Canceled",
    TaskState.CONFIGURING: "Configuring",
    TaskState.QUEUED: "Queued",
    TaskState.DISPATCHED: "Queued",
    TaskState.RUNNING: "Running",
    TaskState.ENDING: "Running",
    TaskState.FINISHED: "Finished",
    TaskState.FAILED: "Failed",
    TaskState.CANCELED: "Canceled",
}
"""The words people see."""

STANDING_STILL = frozenset({JobState.SUSPENDING, JobState.SUSPENDED, JobState.RESUMING})
"""States of jobs whose processes are where they were, and do not run."""
