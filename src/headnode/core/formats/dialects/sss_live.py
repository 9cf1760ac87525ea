"""What only the scheduler knows of a job, in an SSS document: its state, its times, what was delivered.

Source: SSS 3.1.0, Table 25-2 and "Delivered"; the states are those that its peers compare.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headnode.core.formats.sss.consumables import Consumable, Unit
from headnode.core.formats.sss.job_object import Document, Entry, Job, JobGroup, Task, TaskGroup
from headnode.core.formats.sss.meaning.documents import WRITTEN
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.formats.sss.meaning.simple import ordered
from headnode.core.formats.sss.meaning.telling import holds_back
from headnode.core.formats.sss.properties import Envelope, Property
from headnode.core.formats.sss.selections import Selection
from headnode.core.lifecycle.states import JobState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Seconds
from headnode.core.model.task import TaskType

if TYPE_CHECKING:
    from headnode.core.formats.live_jobs import Live, LiveTask

_WORDS = {
    JobState.CONFIGURING: "Hold",  # until it is submitted
    JobState.VALIDATING: "Idle",
    JobState.QUEUED: "Idle",
    JobState.RUNNING: "Running",
    JobState.SUSPENDING: "Running",
    JobState.SUSPENDED: "Suspended",
    JobState.RESUMING: "Suspended",
    JobState.ENDING: "Running",
    JobState.FINISHED: "Completed",
    JobState.FAILED: "Completed",
    JobState.CANCELED: "Completed",  # its StatusMessage says that it was canceled
}
"""The five states of the document."""

_WAITING = (JobState.CONFIGURING, JobState.VALIDATING, JobState.QUEUED)


def with_live(document: Document, live: "Live", spec: JobSpec) -> Document:
    """Return a document of the job `spec` with what the scheduler knows of it; none of it is input again."""
    return replace(document, entries=tuple(_entry(entry, live, spec) for entry in document.entries))


def _entry(entry: Entry, live: "Live", spec: JobSpec) -> Entry:
    if isinstance(entry, JobGroup):
        jobs = (_job(one, live, spec) if isinstance(one, Job) else one for one in entry.jobs)
        return replace(entry, jobs=tuple(jobs), properties=ordered([*entry.properties, *_of_group(live)]))
    return _job(entry, live, spec) if isinstance(entry, Job) else entry


def _of_group(live: "Live") -> Iterator[Property]:
    if live.group_created is not None:
        yield Property(name="CreationTime", value=float(round(live.group_created)))
    if live.group_state:
        yield Property(name="State", value=live.group_state)


def _job(job: Job, live: "Live", spec: JobSpec) -> Job:
    told = list(_told(live))
    names = {one.name for one in told} | ({"Hold"} if live.holds is not None else set())
    kept = (one for one in job.properties if one.name not in names)
    tasks = [(number, task) for number, task in enumerate(spec.tasks, 1) if task.kind in WRITTEN]
    groups = (
        _with_task(group, live.tasks.get(number))
        if isinstance(group, TaskGroup) and task.kind is TaskType.BASIC
        else group
        for group, (number, task) in zip(job.task_groups, tasks, strict=False)  # none: the job is its task
    )
    return replace(
        job,
        properties=ordered([*kept, *told]),
        task_groups=tuple(groups),
        delivered=_delivered(live),
    )


def _with_task(group: TaskGroup, task: "LiveTask | None") -> TaskGroup:
    """Return a task group of one task with where it ran, when, and how it ended."""
    if task is None or group.tasks or task.started is None:
        return group
    times = {"StartTime": task.started, "EndTime": task.ended}
    told = [Property(name=name, value=float(round(at))) for name, at in times.items() if at is not None]
    if task.exit_code is not None:
        told.append(Property(name="ExitCode", value=task.exit_code))
    told += (Selection(name="Node", value=node) for node in task.nodes)
    return replace(group, tasks=(Task(properties=ordered(told)),))


def _told(live: "Live") -> Iterator[Property]:
    held = bool(live.holds) and live.state in _WAITING
    yield Property(name="State", value="Hold" if held else _WORDS[live.state])
    yield from holds_back(live.holds or (), Findings())
    times = {
        "SubmitTime": live.submitted,
        "StartTime": live.started,
        "EndTime": live.ended,
    }
    for name, at in times.items():
        if at is not None:
            yield Property(name=name, value=float(round(at)))
    code = _exit_code(live)
    if code is not None:
        yield Property(name="ExitCode", value=code)
    if live.starts:
        yield Property(name="StartCount", value=live.starts)
    if live.suspended:
        yield Property(name="SuspendDuration", value=round(live.suspended))
    message = live.message or (live.pending_reason if live.state in _WAITING else "")
    if not message and live.state is JobState.CANCELED:
        message = "the job was canceled"
    if message:
        yield Property(name="StatusMessage", value=" ".join(message.split()))
    if live.delivered and live.delivered.processor_seconds is not None:
        yield Property(name="CpuDuration", value=Seconds(float(round(live.delivered.processor_seconds))))


def _exit_code(live: "Live") -> int | None:
    """Return the exit code of a job that is over: the one that it ended with, or that all its tasks have."""
    if live.ended is None:
        return None
    if live.delivered and live.delivered.exit_code is not None:
        return live.delivered.exit_code
    codes = {task.exit_code for task in live.tasks.values()}
    return codes.pop() if len(codes) == 1 else None


def _delivered(live: "Live") -> Envelope | None:
    given = tuple(_given(live)) if live.started is not None else ()
    return Envelope(properties=given) if given else None


def _given(live: "Live") -> Iterator[Property]:
    if live.owner:
        yield Property(name="User", value=live.owner)
    used = live.delivered
    if used and used.processors:
        yield Consumable(name="Processors", value=used.processors)
    nodes = (used.nodes if used else 0) or len(live.nodes)
    if nodes:
        yield Property(name="NodeCount", value=nodes)
    for node in live.nodes:
        yield Selection(name="Node", value=node)
    if used:
        for metric, amount in (("Average", used.memory_average), ("Max", used.memory_maximum)):
            if amount is not None:
                yield Consumable(name="Memory", value=float(amount), units=Unit.MB.value, metric=metric)
    span = used.wall_seconds if used else None
    if span is None and live.started is not None and live.ended is not None:
        span = Seconds(live.ended - live.started - live.suspended)
    if span is not None:
        yield Property(name="Duration", value=float(round(span)))
