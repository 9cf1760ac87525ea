"""What events do to the table of ended instances.  Both journals follow this, so that they agree."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, get_args

import msgspec

from headnode.core.model.quantities import JobId
from headnode.core.state.events import Event
from headnode.core.state.job_events import (
    AllocationGrown,
    AllocationLost,
    AllocationShrunk,
    InstanceEnd,
    InstancesDispatched,
    InstancesEnded,
    InstancesStarted,
    InstancesStopping,
    JobConfigured,
    JobEvent,
    JobRequeued,
    JobResumed,
    JobStarted,
    JobSuspended,
    TaskRequeued,
)

OF_CLUSTER: Final = 0
"""Kind of an event of a node or of the whole cluster."""
OF_JOB: Final = 1
"""Kind of an event that a job's history tells."""
OF_INSTANCES: Final = 2
"""Kind of an event of a job's instances: far too many to tell in its history."""

ALLOCATION_EVENTS: Final = (
    JobStarted,
    AllocationGrown,
    AllocationShrunk,
    AllocationLost,
    JobSuspended,
    JobResumed,
)
"""By which a job gets and gives back processors."""

_INSTANCE_EVENTS = (InstancesDispatched, InstancesStarted, InstancesEnded, InstancesStopping)
_CHANGING = frozenset({InstancesEnded, TaskRequeued, JobRequeued, JobConfigured})


def _kind(event: type) -> int:
    if event in _INSTANCE_EVENTS:
        return OF_INSTANCES
    return OF_JOB if issubclass(event, JobEvent) else OF_CLUSTER


_KINDS: Mapping[type, int] = {event: _kind(event) for event in get_args(Event)}


class Put(msgspec.Struct, frozen=True, gc=False):
    """An instance ended; what is known of an earlier attempt is replaced."""

    job: JobId
    ended: InstanceEnd


class Drop(msgspec.Struct, frozen=True, gc=False):
    """The instances `first` to `last` of a task will run again."""

    job: JobId
    task: int
    first: int
    last: int


class DropUnfinished(msgspec.Struct, frozen=True, gc=False):
    """Every instance of a job that did not finish will run again."""

    job: JobId


class DropAll(msgspec.Struct, frozen=True, gc=False):
    """Every instance of a job will run again."""

    job: JobId


Change = Put | Drop | DropUnfinished | DropAll


def kind_of(event: Event) -> int:
    """Return the kind of an event: of the cluster, of a job, or of a job's instances."""
    return _KINDS[type(event)]


def changes(events: Sequence[Event]) -> Iterator[Change]:
    """Yield what the events do to the ended instances, in order.  The last word on an instance holds."""
    for event in events:
        if type(event) not in _CHANGING:  # most are: a match asks for one class after the other
            continue
        match event:
            case InstancesEnded(job=job, ended=ended):
                for one in ended:
                    if one.state == "queued":
                        yield Drop(job, one.task, one.instance, one.instance)
                    else:
                        yield Put(job, one)
            case TaskRequeued(job=job, task=task, spans=spans):
                for first, last in spans:
                    yield Drop(job, task, first, last)
            case JobRequeued(job=job):
                yield DropUnfinished(job)
            case JobConfigured(job=job):
                yield DropAll(job)
