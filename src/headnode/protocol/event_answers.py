"""What the verbs about events are asked and answer, and events in the form for event streams and webhooks.

Source:  CloudEvents 1.0.2, sections "Context Attributes" and "JSON Event Format".
"""

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headnode.core.model import bounds as b
from headnode.protocol.answers import VerbAnswer
from headnode.protocol.requests import JobIdRequest, Name, VerbRequest


class EventsRequest(VerbRequest, frozen=True):
    """events and watch_events: those after a number.  Each filter that is given must fit."""

    after: int | None = None  # the number of the last known event; 0: from the first; null: from now on
    jobs: Annotated[tuple[int, ...], Meta(max_length=b.LIST.most)] = ()  # ids
    owner: Name = ""  # of the jobs that the events are about
    types: Annotated[
        tuple[Name, ...], Meta(max_length=b.LIST.most)
    ] = ()  # such as job.ended; `job` means all that begin with `job.`
    limit: int = 500  # at most 1,000 events in an answer


class TaskChange(VerbAnswer, frozen=True, gc=False):
    """An instance of a task that started or ended; `instance` is 1 of a task without a sweep."""

    task: int
    instance: int
    state: str  # staging in, running, staging out; finished, failed, canceled; queued: it runs again
    node: str = ""
    exit_code: int | UnsetType | None = UNSET  # of one that ended
    message: str | UnsetType = UNSET  # of one that ended, if there is one


class EventObject(VerbAnswer, frozen=True, gc=False):
    """Something that happened.  Fields that a type does not have are left out."""

    number: int  # counts the events of the cluster; the next is greater, not always by one
    type: str  # such as job.ended
    at: float
    text: str | UnsetType = UNSET  # what happened, in a sentence
    job: int | UnsetType = UNSET
    owner: str | UnsetType = UNSET  # of the job
    state: str | UnsetType = UNSET  # of the job from then on
    by: str | UnsetType = UNSET  # the user who asked for it, if not the owner or the head itself
    tasks: list[TaskChange] | UnsetType = UNSET
    nodes: dict[str, int] | UnsetType = UNSET  # {node: processors} that a job gets or gives back
    node: str | UnsetType = UNSET
    name: str | UnsetType = UNSET  # of a parameter, reservation, template, recurring job or standby head
    address: str | UnsetType = UNSET  # HOST:PORT of a standby head
    value: str | UnsetType | None = UNSET  # of a parameter; null: its default
    percent: int | UnsetType | None = UNSET  # the progress that the owner set
    resource: str | UnsetType = UNSET  # that has the job, which waits or runs there
    reason: str | UnsetType = (
        UNSET  # why an elastic pool is paused, or a time of a recurring job makes no job
    )
    jobs: list[int] | UnsetType = UNSET  # whose records were removed
    recurring: int | UnsetType = UNSET  # the number of a recurring job
    time: float | UnsetType = UNSET  # of the recurring job


class EventsAnswer(VerbAnswer, frozen=True):
    """events, watch_events."""

    events: list[EventObject]  # oldest first; there may be none though more follow
    after: int  # pass it as `after` for those that follow
    newest: int  # the number of the newest event; there are no more when `after` is the same


class JobStatesRequest(JobIdRequest, frozen=True):
    """job_states."""

    after: int = 0  # the number of the last known event
    task: int | None = None  # only the changes of this task
    limit: int = 1000  # at most 1,000 events are looked at for an answer


class StateChange(VerbAnswer, frozen=True):
    """A job, or instances `first` to `last` of a task, that came into a state.

    A job that goes back to queued or configuring takes its tasks along that have not finished.  Instances
    that ended soon after their start have no change to running: `started` of their end is its time.
    """

    number: int  # of the event
    at: float
    state: str
    why: str | UnsetType = UNSET
    task: int | UnsetType = UNSET  # not of a change of the job itself
    first: int | UnsetType = UNSET
    last: int | UnsetType = UNSET
    node: str | UnsetType = UNSET  # of an instance that ended
    exit_code: int | UnsetType | None = UNSET  # of an instance that ended
    started: float | UnsetType | None = UNSET  # of an instance that ended


class JobStatesAnswer(VerbAnswer, frozen=True):
    """job_states."""

    changes: list[StateChange]  # oldest first
    after: int  # pass it as `after` for those that follow
    more: bool  # others follow now


ENVELOPE = ("number", "type", "at")
"""Fields that the envelope has; the rest is its data."""
BATCH_TYPE = "application/cloudevents-batch+json"


def cloud_event(event: EventObject, cluster: str) -> dict[str, Any]:
    """Return an event of a cluster as a CloudEvent.

    Its id is its number, by which a receiver knows one that came twice.
    """
    data: dict[str, Any] = msgspec.to_builtins(event)
    for name in ENVELOPE:
        del data[name]
    subject = f"jobs/{event.job}" if event.job is not msgspec.UNSET else ""
    if event.node is not msgspec.UNSET:
        subject = f"nodes/{event.node}"
    return {
        "specversion": "1.0",
        "id": str(event.number),
        "source": f"/clusters/{cluster}",
        "type": f"headnode.{event.type}",
        "time": datetime.fromtimestamp(event.at, UTC).isoformat(timespec="milliseconds"),
        **({"subject": subject} if subject else {}),
        "datacontenttype": "application/json",
        "data": data,
    }
