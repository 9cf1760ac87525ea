"""The states of jobs, task instances and nodes, and the transitions between them.

Nothing but these tables decides what may follow what."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from headnode.core.model.errors import Broken
from headnode.core.model.node import NodeState as N
from headnode.core.state.events import (
    NodeApproved,
    NodePaused,
    NodeReachable,
    NodeRegistered,
    NodeRemoved,
    NodeResumed,
    NodeUnreachable,
)
from headnode.core.state.job_events import (
    AllocationGrown,
    AllocationLost,
    AllocationShrunk,
    DispatchStopped,
    FilterAnswered,
    InstancesDispatched,
    InstancesEnded,
    InstancesStarted,
    InstancesStopping,
    JobConfigured,
    JobEnded,
    JobEnding,
    JobGiven,
    JobHeld,
    JobModified,
    JobReleased,
    JobRequeued,
    JobResumed,
    JobResuming,
    JobReturned,
    JobStarted,
    JobSubmitted,
    JobSuspended,
    JobSuspending,
    JobValidated,
    NodeReadied,
    NodesCleaning,
    ProcessesStopped,
    ProcessorsRecalled,
    ProgressSet,
    TaskCanceled,
    TaskRequeued,
)


class JobState(StrEnum):
    """The state of a job."""

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
    """The state of a task instance; also the summary of a whole task."""

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


class NodePhase(StrEnum):
    """The phase of a job on one of its nodes.

    Most jobs have no node preparation or release task: assigned, then cleaning.
    """

    ASSIGNED = "assigned"  # nothing was done there for it, and nothing of it has run there
    PREPARING = "preparing"  # its task that prepares nodes is there
    REFUSED = "refused"  # it could not be prepared: the job does not use it
    READY = "ready"  # prepared, or used where nothing prepares it
    LEAVING = "leaving"  # its task that releases nodes is there
    LEFT = "left"  # released, and not given back yet
    CLEANING = "cleaning"  # nothing of the job is there any more; the epilog of the site runs


ACTIVE = frozenset({JobState.RUNNING, JobState.SUSPENDING, JobState.SUSPENDED, JobState.RESUMING})
"""States of jobs that have started and are not yet ending."""

STATE_NAMES = {
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

SUSPENDED_STATES = frozenset({JobState.SUSPENDING, JobState.SUSPENDED, JobState.RESUMING})
"""States of jobs whose processes are where they were, and do not run."""


_SUSPENDED = (JobState.SUSPENDING, JobState.SUSPENDED, JobState.RESUMING)
_WHILE_SUSPENDED = (
    JobModified,
    AllocationLost,
    NodeReadied,
    InstancesStarted,
    InstancesStopping,
    InstancesEnded,
    TaskCanceled,
    TaskRequeued,
    DispatchStopped,
    ProgressSet,
)
"""What may happen to a job that is suspended, in any of its three states, and leaves it there."""

JOB_TRANSITIONS: Mapping[tuple[JobState, type], frozenset[JobState]] = MappingProxyType(
    {
        (JobState.CONFIGURING, JobModified): frozenset({JobState.CONFIGURING}),
        (JobState.CONFIGURING, JobGiven): frozenset({JobState.CONFIGURING}),
        (JobState.CONFIGURING, JobSubmitted): frozenset({JobState.QUEUED, JobState.VALIDATING}),
        (JobState.CONFIGURING, JobEnded): frozenset({JobState.CANCELED}),
        (JobState.CONFIGURING, TaskCanceled): frozenset({JobState.CONFIGURING}),
        (JobState.CONFIGURING, ProgressSet): frozenset({JobState.CONFIGURING}),
        (JobState.CONFIGURING, JobHeld): frozenset({JobState.CONFIGURING}),
        (JobState.CONFIGURING, JobReleased): frozenset({JobState.CONFIGURING}),
        (JobState.VALIDATING, JobValidated): frozenset({JobState.QUEUED}),
        (JobState.VALIDATING, JobEnded): frozenset({JobState.FAILED, JobState.CANCELED}),
        (JobState.VALIDATING, TaskCanceled): frozenset({JobState.VALIDATING}),
        (JobState.VALIDATING, ProgressSet): frozenset({JobState.VALIDATING}),
        (JobState.QUEUED, FilterAnswered): frozenset({JobState.QUEUED}),
        (JobState.RUNNING, FilterAnswered): frozenset({JobState.RUNNING}),
        (JobState.QUEUED, JobModified): frozenset({JobState.QUEUED}),
        (JobState.QUEUED, JobStarted): frozenset({JobState.RUNNING}),
        (JobState.QUEUED, JobHeld): frozenset({JobState.QUEUED}),
        (JobState.QUEUED, JobReleased): frozenset({JobState.QUEUED}),
        (JobState.QUEUED, JobEnded): frozenset({JobState.FINISHED, JobState.FAILED, JobState.CANCELED}),
        (JobState.QUEUED, TaskCanceled): frozenset({JobState.QUEUED}),
        (JobState.QUEUED, TaskRequeued): frozenset({JobState.QUEUED}),
        (JobState.QUEUED, ProgressSet): frozenset({JobState.QUEUED}),
        (JobState.RUNNING, JobModified): frozenset({JobState.RUNNING}),
        (JobState.RUNNING, AllocationGrown): frozenset({JobState.RUNNING}),
        (JobState.RUNNING, AllocationShrunk): frozenset({JobState.RUNNING}),
        (JobState.RUNNING, AllocationLost): frozenset({JobState.RUNNING}),
        (JobState.RUNNING, NodeReadied): frozenset({JobState.RUNNING}),
        (JobState.RUNNING, NodesCleaning): frozenset({JobState.RUNNING}),
        (JobState.RUNNING, ProcessorsRecalled): frozenset({JobState.RUNNING}),
        (JobState.RUNNING, InstancesDispatched): frozenset({JobState.RUNNING}),
        (JobState.RUNNING, InstancesStarted): frozenset({JobState.RUNNING}),
        (JobState.RUNNING, InstancesStopping): frozenset({JobState.RUNNING}),
        (JobState.RUNNING, InstancesEnded): frozenset({JobState.RUNNING}),
        (JobState.RUNNING, TaskCanceled): frozenset({JobState.RUNNING}),
        (JobState.RUNNING, TaskRequeued): frozenset({JobState.RUNNING}),
        (JobState.RUNNING, DispatchStopped): frozenset({JobState.RUNNING}),
        (JobState.RUNNING, ProgressSet): frozenset({JobState.RUNNING}),
        (JobState.RUNNING, JobSuspending): frozenset({JobState.SUSPENDING}),
        (JobState.RUNNING, JobEnding): frozenset({JobState.ENDING}),
        (JobState.RUNNING, JobReturned): frozenset({JobState.QUEUED}),
        (JobState.RUNNING, JobEnded): frozenset({JobState.FINISHED, JobState.FAILED, JobState.CANCELED}),
        (JobState.SUSPENDING, NodesCleaning): frozenset({JobState.SUSPENDING}),
        (JobState.SUSPENDING, ProcessesStopped): frozenset({JobState.SUSPENDING}),
        (JobState.SUSPENDING, JobSuspended): frozenset({JobState.SUSPENDED}),
        (JobState.SUSPENDING, JobResumed): frozenset({JobState.RUNNING}),
        (JobState.SUSPENDED, JobHeld): frozenset({JobState.SUSPENDED}),
        (JobState.SUSPENDED, JobReleased): frozenset({JobState.SUSPENDED}),
        (JobState.SUSPENDED, JobResuming): frozenset({JobState.RESUMING}),
        (JobState.RESUMING, JobHeld): frozenset({JobState.RESUMING}),
        (JobState.RESUMING, JobReleased): frozenset({JobState.RESUMING}),
        (JobState.RESUMING, JobSuspended): frozenset({JobState.SUSPENDED}),
        (JobState.RESUMING, JobResumed): frozenset({JobState.RUNNING}),
        **{(state, event): frozenset({state}) for state in _SUSPENDED for event in _WHILE_SUSPENDED},
        **{(state, JobEnding): frozenset({JobState.ENDING}) for state in _SUSPENDED},
        **{(state, JobReturned): frozenset({JobState.QUEUED}) for state in _SUSPENDED},
        **{
            (state, JobEnded): frozenset({JobState.FINISHED, JobState.FAILED, JobState.CANCELED})
            for state in _SUSPENDED
        },
        (JobState.ENDING, InstancesDispatched): frozenset({JobState.ENDING}),  # the releases of its nodes
        (JobState.ENDING, NodesCleaning): frozenset({JobState.ENDING}),
        (JobState.ENDING, AllocationShrunk): frozenset({JobState.ENDING}),  # by nodes that are clean
        (JobState.ENDING, InstancesStarted): frozenset({JobState.ENDING}),
        (JobState.ENDING, InstancesStopping): frozenset({JobState.ENDING}),
        (JobState.ENDING, InstancesEnded): frozenset({JobState.ENDING}),
        (JobState.ENDING, TaskCanceled): frozenset({JobState.ENDING}),
        (JobState.ENDING, ProgressSet): frozenset({JobState.ENDING}),
        (JobState.ENDING, JobEnding): frozenset({JobState.ENDING}),
        (JobState.ENDING, JobEnded): frozenset({JobState.FINISHED, JobState.FAILED, JobState.CANCELED}),
        (JobState.ENDING, JobRequeued): frozenset({JobState.QUEUED}),
        (JobState.ENDING, JobReturned): frozenset({JobState.QUEUED}),
        (JobState.FAILED, JobRequeued): frozenset({JobState.QUEUED}),
        (JobState.FAILED, JobConfigured): frozenset({JobState.CONFIGURING}),
        (JobState.CANCELED, JobRequeued): frozenset({JobState.QUEUED}),
        (JobState.CANCELED, JobConfigured): frozenset({JobState.CONFIGURING}),
    }
)
"""From a state, by an event, to one of these.  Ended jobs take an event only after `JobRevived`."""

INSTANCE_TRANSITIONS: Mapping[tuple[TaskState, type], frozenset[TaskState]] = MappingProxyType(
    {
        (TaskState.QUEUED, InstancesDispatched): frozenset({TaskState.DISPATCHED}),
        (TaskState.QUEUED, TaskCanceled): frozenset({TaskState.CANCELED, TaskState.FAILED}),
        (TaskState.DISPATCHED, InstancesStarted): frozenset({TaskState.RUNNING}),
        (TaskState.DISPATCHED, InstancesStopping): frozenset({TaskState.ENDING}),
        (TaskState.DISPATCHED, InstancesEnded): frozenset(
            {TaskState.FINISHED, TaskState.FAILED, TaskState.CANCELED, TaskState.QUEUED}
        ),
        (TaskState.RUNNING, InstancesStopping): frozenset({TaskState.ENDING}),
        (TaskState.RUNNING, InstancesEnded): frozenset(
            {TaskState.FINISHED, TaskState.FAILED, TaskState.QUEUED}
        ),
        (TaskState.ENDING, InstancesStopping): frozenset({TaskState.ENDING}),
        (TaskState.ENDING, InstancesStarted): frozenset({TaskState.ENDING}),
        (TaskState.ENDING, InstancesEnded): frozenset(
            {TaskState.FINISHED, TaskState.FAILED, TaskState.CANCELED, TaskState.QUEUED}
        ),
        (TaskState.FAILED, TaskRequeued): frozenset({TaskState.QUEUED}),
        (TaskState.CANCELED, TaskRequeued): frozenset({TaskState.QUEUED}),
        (TaskState.FINISHED, TaskRequeued): frozenset({TaskState.QUEUED}),
        (TaskState.FAILED, JobRequeued): frozenset({TaskState.QUEUED}),
        (TaskState.CANCELED, JobRequeued): frozenset({TaskState.QUEUED, TaskState.CANCELED}),
    }
)
"""The same for one instance of a task."""

NODE_TRANSITIONS: Mapping[tuple[N | None, type], frozenset[N]] = MappingProxyType(
    {
        (None, NodeRegistered): frozenset({N.PENDING, N.READY}),
        (N.PENDING, NodeRegistered): frozenset({N.PENDING}),
        (N.PENDING, NodeApproved): frozenset({N.READY}),
        (N.PENDING, NodeRemoved): frozenset({N.REMOVED}),
        (N.READY, NodeRegistered): frozenset({N.READY}),
        (N.READY, NodePaused): frozenset({N.PAUSED}),
        (N.READY, NodeUnreachable): frozenset({N.UNREACHABLE}),
        (N.READY, NodeRemoved): frozenset({N.REMOVED}),
        (N.PAUSED, NodeRegistered): frozenset({N.PAUSED}),
        (N.PAUSED, NodeResumed): frozenset({N.READY}),
        (N.PAUSED, NodeUnreachable): frozenset({N.LOST_PAUSED}),
        (N.PAUSED, NodeRemoved): frozenset({N.REMOVED}),
        (N.UNREACHABLE, NodeReachable): frozenset({N.READY}),
        (N.UNREACHABLE, NodeRegistered): frozenset({N.UNREACHABLE}),
        (N.UNREACHABLE, NodePaused): frozenset({N.LOST_PAUSED}),
        (N.UNREACHABLE, NodeRemoved): frozenset({N.REMOVED}),
        (N.LOST_PAUSED, NodeReachable): frozenset({N.PAUSED}),
        (N.LOST_PAUSED, NodeRegistered): frozenset({N.LOST_PAUSED}),
        (N.LOST_PAUSED, NodeResumed): frozenset({N.UNREACHABLE}),
        (N.LOST_PAUSED, NodeRemoved): frozenset({N.REMOVED}),
    }
)
"""The same for a node; None is an unknown node."""

PHASE_TRANSITIONS: Mapping[tuple[NodePhase, type], frozenset[NodePhase]] = MappingProxyType(
    {
        (NodePhase.ASSIGNED, InstancesDispatched): frozenset({NodePhase.PREPARING, NodePhase.READY}),
        (NodePhase.PREPARING, InstancesEnded): frozenset(
            {NodePhase.ASSIGNED, NodePhase.READY, NodePhase.REFUSED}
        ),
        (NodePhase.READY, InstancesDispatched): frozenset({NodePhase.LEAVING}),
        (NodePhase.READY, NodeRegistered): frozenset({NodePhase.ASSIGNED}),  # it booted
        (NodePhase.LEAVING, InstancesEnded): frozenset({NodePhase.LEFT}),
        (NodePhase.LEFT, InstancesDispatched): frozenset({NodePhase.PREPARING, NodePhase.READY}),
        **{
            (phase, NodesCleaning): frozenset({NodePhase.CLEANING})
            for phase in (NodePhase.ASSIGNED, NodePhase.READY, NodePhase.REFUSED, NodePhase.LEFT)
        },
    }
)
"""The same for the part of one node in a job; see `NodePhase`."""


def job_target(state: JobState, event: object, wanted: JobState | None = None) -> JobState:
    """Return the state a job goes to; `wanted` chooses where a row offers several.

    Raises:  Broken ``no-arrow`` when the table has no such row.
    """
    targets = JOB_TRANSITIONS.get((state, type(event)), frozenset())
    if wanted in targets:
        return wanted
    if wanted is None and len(targets) == 1:
        return next(iter(targets))
    raise _no_transition("job", state, event)


def instance_target(state: TaskState, event: object, wanted: TaskState) -> TaskState:
    """Return the state an instance goes to.

    Raises:  Broken ``no-arrow`` when the table has no such row.
    """
    if wanted in INSTANCE_TRANSITIONS.get((state, type(event)), ()):
        return wanted
    raise _no_transition("task instance", state, event)


def node_target(state: N | None, event: object, wanted: N | None = None) -> N:
    """Return the state a node goes to.

    Raises:  Broken ``no-arrow`` when the table has no such row.
    """
    targets = NODE_TRANSITIONS.get((state, type(event)), frozenset())
    if wanted in targets:
        return wanted
    if wanted is None and len(targets) == 1:
        return next(iter(targets))
    raise _no_transition("node", state, event)


def phase_target(phase: NodePhase, event: object, wanted: NodePhase) -> NodePhase:
    """Return the phase a job goes to on a node.

    Raises:  Broken ``no-arrow`` when the table has no such row.
    """
    if wanted in PHASE_TRANSITIONS.get((phase, type(event)), ()):
        return wanted
    raise _no_transition("job on a node", phase, event)


def _no_transition(what: str, state: object, event: object) -> Broken:
    return Broken(
        code="no-arrow",
        what=f"a {what} that is {state} cannot take {event!r}"[:2000],
        fix="this is a bug in headnode; please report it with the log",
    )
