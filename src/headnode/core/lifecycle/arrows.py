"""The arrows between states: rows of tables, and nothing else decides what may follow what.

Source: CCS, "Job status and life cycle", "Node status and life cycle"; HPC Pack job transitions.
"""

from collections.abc import Mapping
from types import MappingProxyType

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.states import JobState as J
from headnode.core.lifecycle.states import TaskState as T
from headnode.core.model.errors import Broken
from headnode.core.model.node import NodeState as N

_SUSPENDED = (J.SUSPENDING, J.SUSPENDED, J.RESUMING)
_WHILE_SUSPENDED = (
    e.JobModified,
    e.AllocationLost,
    e.NodeReadied,
    e.InstancesStarted,
    e.InstancesStopping,
    e.InstancesEnded,
    e.TaskCanceled,
    e.TaskRequeued,
    e.DispatchStopped,
    e.ProgressSet,
)
"""What may happen to a job that is suspended, in any of its three states, and leaves it there."""

JOB_ARROWS: Mapping[tuple[J, type], frozenset[J]] = MappingProxyType(
    {
        (J.CONFIGURING, e.JobModified): frozenset({J.CONFIGURING}),
        (J.CONFIGURING, e.JobGiven): frozenset({J.CONFIGURING}),
        (J.CONFIGURING, e.JobSubmitted): frozenset({J.QUEUED, J.VALIDATING}),
        (J.CONFIGURING, e.JobEnded): frozenset({J.CANCELED}),
        (J.CONFIGURING, e.TaskCanceled): frozenset({J.CONFIGURING}),
        (J.CONFIGURING, e.ProgressSet): frozenset({J.CONFIGURING}),
        (J.CONFIGURING, e.JobHeld): frozenset({J.CONFIGURING}),
        (J.CONFIGURING, e.JobReleased): frozenset({J.CONFIGURING}),
        (J.VALIDATING, e.JobValidated): frozenset({J.QUEUED}),
        (J.VALIDATING, e.JobEnded): frozenset({J.FAILED, J.CANCELED}),
        (J.VALIDATING, e.TaskCanceled): frozenset({J.VALIDATING}),
        (J.VALIDATING, e.ProgressSet): frozenset({J.VALIDATING}),
        (J.QUEUED, e.FilterAnswered): frozenset({J.QUEUED}),
        (J.RUNNING, e.FilterAnswered): frozenset({J.RUNNING}),
        (J.QUEUED, e.JobModified): frozenset({J.QUEUED}),
        (J.QUEUED, e.JobStarted): frozenset({J.RUNNING}),
        (J.QUEUED, e.JobHeld): frozenset({J.QUEUED}),
        (J.QUEUED, e.JobReleased): frozenset({J.QUEUED}),
        (J.QUEUED, e.JobEnded): frozenset({J.FINISHED, J.FAILED, J.CANCELED}),
        (J.QUEUED, e.TaskCanceled): frozenset({J.QUEUED}),
        (J.QUEUED, e.TaskRequeued): frozenset({J.QUEUED}),
        (J.QUEUED, e.ProgressSet): frozenset({J.QUEUED}),
        (J.RUNNING, e.JobModified): frozenset({J.RUNNING}),
        (J.RUNNING, e.AllocationGrown): frozenset({J.RUNNING}),
        (J.RUNNING, e.AllocationShrunk): frozenset({J.RUNNING}),
        (J.RUNNING, e.AllocationLost): frozenset({J.RUNNING}),
        (J.RUNNING, e.NodeReadied): frozenset({J.RUNNING}),
        (J.RUNNING, e.NodesCleaning): frozenset({J.RUNNING}),
        (J.RUNNING, e.ProcessorsRecalled): frozenset({J.RUNNING}),
        (J.RUNNING, e.InstancesDispatched): frozenset({J.RUNNING}),
        (J.RUNNING, e.InstancesStarted): frozenset({J.RUNNING}),
        (J.RUNNING, e.InstancesStopping): frozenset({J.RUNNING}),
        (J.RUNNING, e.InstancesEnded): frozenset({J.RUNNING}),
        (J.RUNNING, e.TaskCanceled): frozenset({J.RUNNING}),
        (J.RUNNING, e.TaskRequeued): frozenset({J.RUNNING}),
        (J.RUNNING, e.DispatchStopped): frozenset({J.RUNNING}),
        (J.RUNNING, e.ProgressSet): frozenset({J.RUNNING}),
        (J.RUNNING, e.JobSuspending): frozenset({J.SUSPENDING}),
        (J.RUNNING, e.JobEnding): frozenset({J.ENDING}),
        (J.RUNNING, e.JobReturned): frozenset({J.QUEUED}),
        (J.RUNNING, e.JobEnded): frozenset({J.FINISHED, J.FAILED, J.CANCELED}),
        (J.SUSPENDING, e.NodesCleaning): frozenset({J.SUSPENDING}),
        (J.SUSPENDING, e.ProcessesStopped): frozenset({J.SUSPENDING}),
        (J.SUSPENDING, e.JobSuspended): frozenset({J.SUSPENDED}),
        (J.SUSPENDING, e.JobResumed): frozenset({J.RUNNING}),
        (J.SUSPENDED, e.JobHeld): frozenset({J.SUSPENDED}),
        (J.SUSPENDED, e.JobReleased): frozenset({J.SUSPENDED}),
        (J.SUSPENDED, e.JobResuming): frozenset({J.RESUMING}),
        (J.RESUMING, e.JobHeld): frozenset({J.RESUMING}),
        (J.RESUMING, e.JobReleased): frozenset({J.RESUMING}),
        (J.RESUMING, e.JobSuspended): frozenset({J.SUSPENDED}),
        (J.RESUMING, e.JobResumed): frozenset({J.RUNNING}),
        **{(state, event): frozenset({state}) for state in _SUSPENDED for event in _WHILE_SUSPENDED},
        **{(state, e.JobEnding): frozenset({J.ENDING}) for state in _SUSPENDED},
        **{(state, e.JobReturned): frozenset({J.QUEUED}) for state in _SUSPENDED},
        **{(state, e.JobEnded): frozenset({J.FINISHED, J.FAILED, J.CANCELED}) for state in _SUSPENDED},
        (J.ENDING, e.InstancesDispatched): frozenset({J.ENDING}),  # the releases of its nodes
        (J.ENDING, e.NodesCleaning): frozenset({J.ENDING}),
        (J.ENDING, e.AllocationShrunk): frozenset({J.ENDING}),  # by nodes that are clean
        (J.ENDING, e.InstancesStarted): frozenset({J.ENDING}),
        (J.ENDING, e.InstancesStopping): frozenset({J.ENDING}),
        (J.ENDING, e.InstancesEnded): frozenset({J.ENDING}),
        (J.ENDING, e.TaskCanceled): frozenset({J.ENDING}),
        (J.ENDING, e.ProgressSet): frozenset({J.ENDING}),
        (J.ENDING, e.JobEnding): frozenset({J.ENDING}),
        (J.ENDING, e.JobEnded): frozenset({J.FINISHED, J.FAILED, J.CANCELED}),
        (J.ENDING, e.JobRequeued): frozenset({J.QUEUED}),
        (J.ENDING, e.JobReturned): frozenset({J.QUEUED}),
        (J.FAILED, e.JobRequeued): frozenset({J.QUEUED}),
        (J.FAILED, e.JobConfigured): frozenset({J.CONFIGURING}),
        (J.CANCELED, e.JobRequeued): frozenset({J.QUEUED}),
        (J.CANCELED, e.JobConfigured): frozenset({J.CONFIGURING}),
    }
)
"""From a state, by an event, to one of these.  Ended jobs take an event only after `JobRevived`."""

INSTANCE_ARROWS: Mapping[tuple[T, type], frozenset[T]] = MappingProxyType(
    {
        (T.QUEUED, e.InstancesDispatched): frozenset({T.DISPATCHED}),
        (T.QUEUED, e.TaskCanceled): frozenset({T.CANCELED, T.FAILED}),
        (T.DISPATCHED, e.InstancesStarted): frozenset({T.RUNNING}),
        (T.DISPATCHED, e.InstancesStopping): frozenset({T.ENDING}),
        (T.DISPATCHED, e.InstancesEnded): frozenset({T.FINISHED, T.FAILED, T.CANCELED, T.QUEUED}),
        (T.RUNNING, e.InstancesStopping): frozenset({T.ENDING}),
        (T.RUNNING, e.InstancesEnded): frozenset({T.FINISHED, T.FAILED, T.QUEUED}),
        (T.ENDING, e.InstancesStopping): frozenset({T.ENDING}),
        (T.ENDING, e.InstancesStarted): frozenset({T.ENDING}),
        (T.ENDING, e.InstancesEnded): frozenset({T.FINISHED, T.FAILED, T.CANCELED, T.QUEUED}),
        (T.FAILED, e.TaskRequeued): frozenset({T.QUEUED}),
        (T.CANCELED, e.TaskRequeued): frozenset({T.QUEUED}),
        (T.FINISHED, e.TaskRequeued): frozenset({T.QUEUED}),
        (T.FAILED, e.JobRequeued): frozenset({T.QUEUED}),
        (T.CANCELED, e.JobRequeued): frozenset({T.QUEUED, T.CANCELED}),
    }
)
"""The same for one instance of a task."""

NODE_ARROWS: Mapping[tuple[N | None, type], frozenset[N]] = MappingProxyType(
    {
        (None, e.NodeRegistered): frozenset({N.PENDING, N.READY}),
        (N.PENDING, e.NodeRegistered): frozenset({N.PENDING}),
        (N.PENDING, e.NodeApproved): frozenset({N.READY}),
        (N.PENDING, e.NodeRemoved): frozenset({N.REMOVED}),
        (N.READY, e.NodeRegistered): frozenset({N.READY}),
        (N.READY, e.NodePaused): frozenset({N.PAUSED}),
        (N.READY, e.NodeUnreachable): frozenset({N.UNREACHABLE}),
        (N.READY, e.NodeRemoved): frozenset({N.REMOVED}),
        (N.PAUSED, e.NodeRegistered): frozenset({N.PAUSED}),
        (N.PAUSED, e.NodeResumed): frozenset({N.READY}),
        (N.PAUSED, e.NodeUnreachable): frozenset({N.LOST_PAUSED}),
        (N.PAUSED, e.NodeRemoved): frozenset({N.REMOVED}),
        (N.UNREACHABLE, e.NodeReachable): frozenset({N.READY}),
        (N.UNREACHABLE, e.NodeRegistered): frozenset({N.UNREACHABLE}),
        (N.UNREACHABLE, e.NodePaused): frozenset({N.LOST_PAUSED}),
        (N.UNREACHABLE, e.NodeRemoved): frozenset({N.REMOVED}),
        (N.LOST_PAUSED, e.NodeReachable): frozenset({N.PAUSED}),
        (N.LOST_PAUSED, e.NodeRegistered): frozenset({N.LOST_PAUSED}),
        (N.LOST_PAUSED, e.NodeResumed): frozenset({N.UNREACHABLE}),
        (N.LOST_PAUSED, e.NodeRemoved): frozenset({N.REMOVED}),
    }
)
"""The same for a node; None is a node nobody has heard of."""


def job_target(state: J, event: object, wanted: J | None = None) -> J:
    """Return the state a job goes to; `wanted` chooses where a row offers several.

    Raises:  Broken ``no-arrow`` when the table has no such row.
    """
    targets = JOB_ARROWS.get((state, type(event)), frozenset())
    if wanted in targets:
        return wanted
    if wanted is None and len(targets) == 1:
        return next(iter(targets))
    raise _no_arrow("job", state, event)


def instance_target(state: T, event: object, wanted: T) -> T:
    """Return the state an instance goes to.

    Raises:  Broken ``no-arrow`` when the table has no such row.
    """
    if wanted in INSTANCE_ARROWS.get((state, type(event)), ()):
        return wanted
    raise _no_arrow("task instance", state, event)


def node_target(state: N | None, event: object, wanted: N | None = None) -> N:
    """Return the state a node goes to.

    Raises:  Broken ``no-arrow`` when the table has no such row.
    """
    targets = NODE_ARROWS.get((state, type(event)), frozenset())
    if wanted in targets:
        return wanted
    if wanted is None and len(targets) == 1:
        return next(iter(targets))
    raise _no_arrow("node", state, event)


def _no_arrow(what: str, state: object, event: object) -> Broken:
    return Broken(
        code="no-arrow",
        what=f"a {what} that is {state} cannot take {event!r}"[:2000],
        fix="this is a bug in headnode; please report it with the log",
    )
