"""What only the scheduler knows of a job, in a document: its state, its times, the delivered resources."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headnode.core.formats.fidelity import Fidelity, FidelityReport, ReportItem
from headnode.core.formats.sss.conversion.extensions import ConversionFindings
from headnode.core.formats.sss.conversion.job_writing import WRITTEN
from headnode.core.formats.sss.conversion.simple_fields import holds_back, ordered
from headnode.core.formats.sss.job_object import (
    Entry,
    JobGroup,
    SssDocument,
    SssJob,
    Task,
    TaskGroup,
    TaskRef,
)
from headnode.core.formats.sss.properties import Consumable, Selection, SssCategory, SssProperty, Unit
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Seconds
from headnode.core.model.task import TaskType
from headnode.core.state.transitions import JobState

if TYPE_CHECKING:
    from headnode.core.formats.job_views import ExportedInstance, ExportedJob, ExportedTask

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


def with_scheduler_properties(document: SssDocument, live: "ExportedJob", spec: JobSpec) -> SssDocument:
    """Return a document of the job `spec` with what the scheduler knows of it; none of it is input again."""
    return replace(document, entries=tuple(_entry(entry, live, spec) for entry in document.entries))


def unlisted_instances(live: "ExportedJob") -> FidelityReport:
    """Return a finding for each task of which not all instances that have started have a Task element."""
    return tuple(
        ReportItem(
            Fidelity.NOTE,
            f"task {number}",
            f"only the first {len(task.instances)} instances that have started have a Task element",
        )
        for number, task in sorted(live.tasks.items())
        if not task.all_listed
    )


def _entry(entry: Entry, live: "ExportedJob", spec: JobSpec) -> Entry:
    if isinstance(entry, JobGroup):
        jobs = (_job(one, live, spec) if isinstance(one, SssJob) else one for one in entry.jobs)
        return replace(entry, jobs=tuple(jobs), properties=ordered([*entry.properties, *_of_group(live)]))
    return _job(entry, live, spec) if isinstance(entry, SssJob) else entry


def _of_group(live: "ExportedJob") -> Iterator[SssProperty]:
    if live.group_created is not None:
        yield SssProperty(name="CreationTime", value=float(round(live.group_created)))
    if live.group_state:
        yield SssProperty(name="State", value=live.group_state)


def _job(job: SssJob, live: "ExportedJob", spec: JobSpec) -> SssJob:
    told = list(_told(live))
    if live.machine and live.started is not None and not job.value("Machine"):
        told.append(SssProperty(name="Machine", value=live.machine))
    if live.submit_host and not job.value("SubmitHost"):
        told.append(SssProperty(name="SubmitHost", value=live.submit_host))
    names = {one.name for one in told} | ({"Hold"} if live.holds is not None else set())
    kept = (one for one in job.properties if one.name not in names)
    tasks = [(number, task) for number, task in enumerate(spec.tasks, 1) if task.kind in WRITTEN]
    implicit = (TaskGroup(),) if len(tasks) == 1 else ()  # the job is its task
    groups = [
        _with_tasks(group, live.tasks.get(number), task.kind) if isinstance(group, TaskGroup) else group
        for group, (number, task) in zip(job.task_groups or implicit, tasks, strict=False)
    ]
    return replace(
        job,
        properties=ordered([*kept, *told]),
        task_groups=tuple(group for group in groups if group != TaskGroup()),
        delivered=_delivered(live, spec),
    )


def _with_tasks(group: TaskGroup, task: "ExportedTask | None", kind: TaskType) -> TaskGroup:
    """Return a task group with where each of its tasks ran, when, and how it ended."""
    if task is None:
        return group
    if kind is TaskType.SWEEP:
        return _with_instances(group, task)
    if group.tasks or task.started is None:
        return group
    return replace(group, tasks=(Task(properties=ordered(_ran(task))),))


def _with_instances(group: TaskGroup, task: "ExportedTask") -> TaskGroup:
    """Return the task group of a sweep with a Task for each instance that has started.

    A group that has a Task for each instance already keeps them all; those that have started tell more.
    """
    if group.tasks:
        ran = {str(number): one for number, one in task.instances.items()}
        return replace(group, tasks=tuple(_with_run(one, ran) for one in group.tasks))
    tasks = (
        Task(properties=ordered([SssProperty(name="Id", value=str(number)), *_ran(one)]))
        for number, one in sorted(task.instances.items())
    )
    return replace(group, tasks=tuple(tasks))


def _with_run(task: Task | TaskRef, ran: Mapping[str, "ExportedInstance"]) -> Task | TaskRef:
    found = ran.get(str(task.value("Id"))) if isinstance(task, Task) else None
    if found is None or not isinstance(task, Task):
        return task
    return replace(task, properties=ordered([*task.properties, *_ran(found)]))


def _ran(one: "ExportedTask | ExportedInstance") -> Iterator[SssProperty]:
    """Yield the times, the exit code and the nodes of what has started."""
    for name, at in (("StartTime", one.started), ("EndTime", one.ended)):
        if at is not None:
            yield SssProperty(name=name, value=float(round(at)))
    if one.exit_code is not None:
        yield SssProperty(name="ExitCode", value=one.exit_code)
    for node in one.nodes:
        yield Selection(name="Node", value=node)


def _told(live: "ExportedJob") -> Iterator[SssProperty]:
    held = bool(live.holds) and live.state in _WAITING
    yield SssProperty(name="State", value="Hold" if held else _WORDS[live.state])
    yield from holds_back(live.holds or (), ConversionFindings())
    times = {"SubmitTime": live.submitted, "StartTime": live.started, "EndTime": live.ended}
    for name, at in times.items():
        if at is not None:
            yield SssProperty(name=name, value=float(round(at)))
    code = _exit_code(live)
    if code is not None:
        yield SssProperty(name="ExitCode", value=code)
    if live.starts:
        yield SssProperty(name="StartCount", value=live.starts)
    if live.suspended:
        yield SssProperty(name="SuspendDuration", value=round(live.suspended))
    message = live.message or (live.pending_reason if live.state in _WAITING else "")
    if not message and live.state is JobState.CANCELED:
        message = "the job was canceled"
    if message:
        yield SssProperty(name="StatusMessage", value=" ".join(message.split()))
    if live.delivered and live.delivered.processor_seconds is not None:
        yield SssProperty(name="CpuDuration", value=Seconds(float(round(live.delivered.processor_seconds))))


def _exit_code(live: "ExportedJob") -> int | None:
    """Return the exit code of a job that is over: the one that it ended with, or that all its tasks have."""
    if live.ended is None:
        return None
    if live.delivered and live.delivered.exit_code is not None:
        return live.delivered.exit_code
    codes = {task.exit_code for task in live.tasks.values()}
    return codes.pop() if len(codes) == 1 else None


def _delivered(live: "ExportedJob", spec: JobSpec) -> SssCategory | None:
    given = (*_account(live, spec), *_given(live)) if live.started is not None else ()
    return SssCategory(properties=given) if given else None


def _account(live: "ExportedJob", spec: JobSpec) -> Iterator[SssProperty]:
    """Yield for whom and where the job ran.  A job template is a Queue."""
    texts = {
        "Machine": live.machine,
        "Queue": spec.template,
        "Project": spec.project,
        "Group": live.owner_group,
        "User": live.owner,
    }
    for name, text in texts.items():
        if text:
            yield SssProperty(name=name, value=text)


def _given(live: "ExportedJob") -> Iterator[SssProperty]:
    used = live.delivered
    if used and used.processors:
        yield Consumable(name="Processors", value=used.processors)
    nodes = (used.nodes if used else 0) or len(live.nodes)
    if nodes:
        yield SssProperty(name="NodeCount", value=nodes)
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
        yield SssProperty(name="Duration", value=float(round(span)))
