"""The states of jobs, task instances and nodes, the transitions between them, and what a job has of one node.

Nothing but these tables decides what may follow what."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

from headnode.core.model.errors import Broken
from headnode.core.model.node import NodeState as N
from headnode.core.model.quantities import Instant
from headnode.core.state import events as e
from headnode.core.state import job_events as j
from headnode.core.state import suspension_events as sj


class JobState(StrEnum):
    """The state of a job."""

    CONFIGURING = "configuring"  # created, not yet submitted
    VALIDATING = "validating"  # submitted; submission filters have not let it into the queue yet
    QUEUED = "queued"  # waiting for resources
    HANDED = "handed"  # a resource has it, and nothing of it has started there
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
    RELEASING = "releasing"  # its task that releases nodes is there
    RELEASED = "released"  # released, and not given back yet
    CLEANING = "cleaning"  # nothing of the job is there any more; the epilog of the site runs


ACTIVE = frozenset(
    {JobState.HANDED, JobState.RUNNING, JobState.SUSPENDING, JobState.SUSPENDED, JobState.RESUMING}
)
"""States of jobs that have left the queue and are not yet ending."""

STATE_NAMES = {
    JobState.CONFIGURING: "Configuring",
    JobState.VALIDATING: "Queued",
    JobState.QUEUED: "Queued",
    JobState.HANDED: "Queued",
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
_ENDED = frozenset({JobState.FINISHED, JobState.FAILED, JobState.CANCELED})
_OF_HOLDS = (j.InstancesHeld, j.InstancesReleased)
_WHILE_SUSPENDED = (
    j.JobModified, j.AllocationLost, j.NodePrepared, j.InstancesStaging, j.InstancesStarted,
    j.InstancesStopping, j.InstancesEnded, j.InstancesCanceled, j.InstancesRequeued, j.DispatchStopped,
    *_OF_HOLDS,
    j.ProgressSet, j.TasksCanceled,
)  # fmt: skip
"""What may happen to a job that is suspended, in any of its three states, and leaves it there."""

_STAYING: Mapping[JobState, tuple[type, ...]] = {
    JobState.CONFIGURING: (
        j.JobModified, j.JobOwnerChanged, j.InstancesCanceled, j.ProgressSet, j.JobHeld, j.JobReleased,
        j.TasksCanceled),
    JobState.VALIDATING: (j.InstancesCanceled, j.TasksCanceled, j.ProgressSet),
    JobState.QUEUED: (
        j.FilterAnswered, j.JobModified, j.JobHeld, j.JobReleased, e.JobPlaced, j.InstancesCanceled,
        j.InstancesRequeued, *_OF_HOLDS, j.ProgressSet, j.TasksCanceled),
    JobState.HANDED: (
        j.JobModified, j.JobHeld, j.JobReleased, j.InstancesDispatched, j.InstancesStaging, e.InstancesHanded,
        j.InstancesStopping, j.InstancesEnded, j.InstancesCanceled, j.InstancesRequeued, j.DispatchStopped,
    *_OF_HOLDS,
        j.ProgressSet, j.TasksCanceled),
    JobState.RUNNING: (
        j.FilterAnswered, j.JobModified, j.AllocationGrown, j.AllocationShrunk, j.AllocationReleased,
        j.AllocationLost,
        j.NodePrepared, j.NodesCleaning, j.ProcessorsRecalled, j.InstancesDispatched, j.InstancesStaging,
        e.InstancesHanded, j.InstancesStarted,
        j.InstancesStopping, j.InstancesEnded, j.InstancesCanceled, j.InstancesRequeued, j.DispatchStopped,
    *_OF_HOLDS,
        j.ProgressSet, j.TasksCanceled),
    JobState.SUSPENDING: (*_WHILE_SUSPENDED, j.NodesCleaning, sj.ProcessesStopped),
    JobState.SUSPENDED: (*_WHILE_SUSPENDED, j.JobHeld, j.JobReleased),
    JobState.RESUMING: (*_WHILE_SUSPENDED, j.JobHeld, j.JobReleased),
    JobState.ENDING: (  # dispatched are the releases of its nodes; it shrinks by nodes that are clean;
        # held is a job that goes back to the queue
        j.InstancesDispatched, j.NodesCleaning, j.AllocationShrunk, j.InstancesStaging, e.InstancesHanded,
        j.InstancesStarted, j.InstancesStopping, j.InstancesEnded, j.InstancesCanceled, j.ProgressSet,
        j.JobEnding, j.JobHeld, j.JobReleased, j.TasksCanceled),
}  # fmt: skip
"""What may happen to a job in each state, and leaves it there."""

JOB_TRANSITIONS: Mapping[tuple[JobState, type], frozenset[JobState]] = MappingProxyType(
    {
        **{(state, event): frozenset({state}) for state, events in _STAYING.items() for event in events},
        (JobState.CONFIGURING, j.JobSubmitted): frozenset({JobState.QUEUED, JobState.VALIDATING}),
        (JobState.CONFIGURING, j.JobEnded): frozenset({JobState.CANCELED}),
        (JobState.VALIDATING, j.JobValidated): frozenset({JobState.QUEUED}),
        (JobState.VALIDATING, j.JobEnded): frozenset({JobState.FAILED, JobState.CANCELED}),
        (JobState.QUEUED, j.JobStarted): frozenset({JobState.HANDED, JobState.RUNNING}),
        (JobState.HANDED, j.InstancesStarted): frozenset({JobState.RUNNING}),
        (JobState.HANDED, j.JobEnding): frozenset({JobState.ENDING}),
        (JobState.HANDED, j.JobEnded): _ENDED,
        (JobState.QUEUED, j.JobEnded): _ENDED,
        (JobState.RUNNING, sj.JobSuspending): frozenset({JobState.SUSPENDING}),
        (JobState.RUNNING, j.JobEnding): frozenset({JobState.ENDING}),
        (JobState.RUNNING, j.JobAutoRequeued): frozenset({JobState.QUEUED}),
        (JobState.RUNNING, j.JobEnded): _ENDED,
        (JobState.SUSPENDING, sj.JobSuspended): frozenset({JobState.SUSPENDED}),
        (JobState.SUSPENDING, sj.JobResumed): frozenset({JobState.RUNNING}),
        (JobState.SUSPENDED, sj.JobResuming): frozenset({JobState.RESUMING}),
        (JobState.RESUMING, sj.JobSuspended): frozenset({JobState.SUSPENDED}),
        (JobState.RESUMING, sj.JobResumed): frozenset({JobState.RUNNING}),
        **{(state, j.JobEnding): frozenset({JobState.ENDING}) for state in _SUSPENDED},
        **{(state, j.JobAutoRequeued): frozenset({JobState.QUEUED}) for state in _SUSPENDED},
        **{(state, j.JobEnded): _ENDED for state in _SUSPENDED},
        (JobState.ENDING, j.JobEnded): _ENDED,
        (JobState.ENDING, j.JobRequeued): frozenset({JobState.QUEUED}),
        (JobState.ENDING, j.JobAutoRequeued): frozenset({JobState.QUEUED}),
        (JobState.FAILED, j.JobRequeued): frozenset({JobState.QUEUED}),
        (JobState.FAILED, j.JobConfiguring): frozenset({JobState.CONFIGURING}),
        (JobState.CANCELED, j.JobRequeued): frozenset({JobState.QUEUED}),
        (JobState.CANCELED, j.JobConfiguring): frozenset({JobState.CONFIGURING}),
    }
)
"""From a state, by an event, to one of these.  Ended jobs take an event only after `JobUnarchived`."""

INSTANCE_TRANSITIONS: Mapping[tuple[TaskState, type], frozenset[TaskState]] = MappingProxyType(
    {
        (TaskState.QUEUED, j.InstancesDispatched): frozenset({TaskState.DISPATCHED}),
        (TaskState.QUEUED, j.TasksCanceled): frozenset({TaskState.CANCELED}),
        (TaskState.QUEUED, j.InstancesCanceled): frozenset({TaskState.CANCELED, TaskState.FAILED}),
        **{
            (state, e.InstancesHanded): frozenset({state})
            for state in (TaskState.DISPATCHED, TaskState.RUNNING, TaskState.ENDING)
        },
        (TaskState.DISPATCHED, j.InstancesStaging): frozenset({TaskState.DISPATCHED}),
        (TaskState.RUNNING, j.InstancesStaging): frozenset({TaskState.RUNNING}),
        (TaskState.ENDING, j.InstancesStaging): frozenset({TaskState.ENDING}),
        (TaskState.DISPATCHED, j.InstancesStarted): frozenset({TaskState.RUNNING}),
        (TaskState.DISPATCHED, j.InstancesStopping): frozenset({TaskState.ENDING}),
        (TaskState.DISPATCHED, j.InstancesEnded): frozenset(
            {TaskState.FINISHED, TaskState.FAILED, TaskState.CANCELED, TaskState.QUEUED}
        ),
        (TaskState.RUNNING, j.InstancesStopping): frozenset({TaskState.ENDING}),
        (TaskState.RUNNING, j.InstancesEnded): frozenset(
            {TaskState.FINISHED, TaskState.FAILED, TaskState.QUEUED}
        ),
        (TaskState.ENDING, j.InstancesStopping): frozenset({TaskState.ENDING}),
        (TaskState.ENDING, j.InstancesStarted): frozenset({TaskState.ENDING}),
        (TaskState.ENDING, j.InstancesEnded): frozenset(
            {TaskState.FINISHED, TaskState.FAILED, TaskState.CANCELED, TaskState.QUEUED}
        ),
        **{(TaskState.QUEUED, event): frozenset({TaskState.QUEUED}) for event in _OF_HOLDS},
        (TaskState.FAILED, j.InstancesRequeued): frozenset({TaskState.QUEUED}),
        (TaskState.CANCELED, j.InstancesRequeued): frozenset({TaskState.QUEUED}),
        (TaskState.FINISHED, j.InstancesRequeued): frozenset({TaskState.QUEUED}),
        (TaskState.FAILED, j.JobRequeued): frozenset({TaskState.QUEUED}),
        (TaskState.CANCELED, j.JobRequeued): frozenset({TaskState.QUEUED, TaskState.CANCELED}),
    }
)
"""The same for one instance of a task."""

NODE_TRANSITIONS: Mapping[tuple[N | None, type], frozenset[N]] = MappingProxyType(
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
"""The same for a node; None is an unknown node."""

PHASE_TRANSITIONS: Mapping[tuple[NodePhase, type], frozenset[NodePhase]] = MappingProxyType(
    {
        (NodePhase.ASSIGNED, j.InstancesDispatched): frozenset({NodePhase.PREPARING, NodePhase.READY}),
        (NodePhase.PREPARING, j.InstancesEnded): frozenset(
            {NodePhase.ASSIGNED, NodePhase.READY, NodePhase.REFUSED}
        ),
        (NodePhase.READY, j.InstancesDispatched): frozenset({NodePhase.RELEASING}),
        (NodePhase.READY, e.NodeRegistered): frozenset({NodePhase.ASSIGNED}),  # it booted
        (NodePhase.RELEASING, j.InstancesEnded): frozenset({NodePhase.RELEASED}),
        (NodePhase.RELEASED, j.InstancesDispatched): frozenset({NodePhase.PREPARING, NodePhase.READY}),
        **{
            (phase, j.NodesCleaning): frozenset({NodePhase.CLEANING})
            for phase in (NodePhase.ASSIGNED, NodePhase.READY, NodePhase.REFUSED, NodePhase.RELEASED)
        },
    }
)
"""The same for the part of one node in a job; see `NodePhase`."""


_NOWHERE: frozenset[JobState] = frozenset()


def job_target(state: JobState, event: object, target: JobState | None = None) -> JobState:
    """Return the state a job goes to; `target` chooses where a row offers several.

    Raises:  Broken ``no-arrow`` when the table has no such row.
    """
    targets = JOB_TRANSITIONS.get((state, type(event)), _NOWHERE)
    if target is None:
        if len(targets) == 1:
            (only,) = targets
            return only
    elif target in targets:
        return target
    raise _no_transition("job", state, event)


def instance_target(state: TaskState, event: object, target: TaskState) -> TaskState:
    """Return the state an instance goes to.

    Raises:  Broken ``no-arrow`` when the table has no such row.
    """
    if target in INSTANCE_TRANSITIONS.get((state, type(event)), ()):
        return target
    raise _no_transition("task instance", state, event)


def node_target(state: N | None, event: object, target: N | None = None) -> N:
    """Return the state a node goes to.

    Raises:  Broken ``no-arrow`` when the table has no such row.
    """
    targets = NODE_TRANSITIONS.get((state, type(event)), frozenset())
    if target in targets:
        return target
    if target is None and len(targets) == 1:
        return next(iter(targets))
    raise _no_transition("node", state, event)


def phase_target(phase: NodePhase, event: object, target: NodePhase) -> NodePhase:
    """Return the phase a job goes to on a node.

    Raises:  Broken ``no-arrow`` when the table has no such row.
    """
    if target in PHASE_TRANSITIONS.get((phase, type(event)), ()):
        return target
    raise _no_transition("job on a node", phase, event)


def _no_transition(what: str, state: object, event: object) -> Broken:
    return Broken(
        code="no-arrow",
        what=f"a {what} that is {state} cannot take {event!r}"[:2000],
        fix="this is a bug in headnode; please report it with the log",
    )


class Holding(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The state of a running or suspended job on one of its nodes.

    `prolog_due` is no phase: a node may boot at any time, and then runs the prolog of the job again, however
    far the job was there.
    """

    phase: NodePhase = NodePhase.ASSIGNED
    prolog_due: bool = False  # nothing is dispatched there until the node says that it is ready
    clean_by: Instant | None = None  # while the epilog runs: when it counts as over
    recalled: int = 0  # processors that the job gives up there as they become idle


Holdings = dict[str, Holding]
"""By node.  A node of the job that is not here is as a `Holding` without anything."""

_NEW = Holding()


def phase_on(holdings: Holdings, node: str) -> NodePhase:
    """Return how far a job is on one of its nodes."""
    return holdings.get(node, _NEW).phase


def keep_holding(holdings: Holdings, node: str, holding: Holding) -> None:
    """Keep what is known of a node, if it is anything."""
    if holding == _NEW:
        holdings.pop(node, None)
    else:
        holdings[node] = holding


def set_prolog_due(holdings: Holdings, node: str, due: bool) -> None:
    """The node must say that it is ready for the job, or has said so."""
    before = holdings.get(node, _NEW)
    keep_holding(holdings, node, msgspec.structs.replace(before, prolog_due=due))


def set_recalled(holdings: Holdings, node: str, count: int) -> None:
    """Set how many processors of the node the job must release."""
    before = holdings.get(node, _NEW)
    keep_holding(holdings, node, msgspec.structs.replace(before, recalled=count))


def set_phase(
    holdings: Holdings, node: str, event: object, phase: NodePhase, clean_by: Instant | None = None
) -> None:
    """Set the phase of a job on a node.

    Raises:  Broken ``no-arrow`` when the table of transitions has no such row.
    """
    before = holdings.get(node, _NEW)
    phase = phase_target(before.phase, event, phase)
    keep_holding(holdings, node, msgspec.structs.replace(before, phase=phase, clean_by=clean_by))
