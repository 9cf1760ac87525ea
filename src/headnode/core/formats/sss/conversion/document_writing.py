"""The jobs of a document that is written: several jobs, or the tasks of one that wait for each other.

A document of a job that the scheduler has says its state, its times, and the delivered resources, too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from headnode.core.formats.fidelity import Fidelity, FidelityReport, ReportItem, lost_fields
from headnode.core.formats.sss.conversion.extensions import ConversionFindings, id_read_with
from headnode.core.formats.sss.conversion.job_reading import dependency
from headnode.core.formats.sss.conversion.job_writing import (
    WRITTEN,
    document_of,
    group_of_jobs,
    without_blank_group,
    written_job,
)
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
from headnode.core.formats.sss.value_types import SssVersion
from headnode.core.model.dependency import Condition, DependencyLink
from headnode.core.model.job import JobSpec, parents
from headnode.core.model.quantities import Seconds
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.transitions import JobState

GROUP_ID = "jobs"
"""The Id of a group whose jobs name none."""


def document_of_jobs(
    specs: Sequence[JobSpec], links: Iterable[DependencyLink] = (), version: SssVersion = SssVersion.V3_1
) -> tuple[SssDocument, FidelityReport]:
    """Return jobs as one SSS document, and what SSS cannot say of them, job by job.

    Jobs that wait for each other stand in one JobGroup; other jobs in the groups that they belong to, or
    alone in a Data element.
    """
    known = list(dict.fromkeys(links))
    if len(specs) == 1 and not known:
        return document_of(specs[0], version)
    of_jobs = [ConversionFindings() for _ in specs]
    specs = [without_blank_group(spec, found) for spec, found in zip(specs, of_jobs, strict=True)]
    findings = ConversionFindings()
    groups = _groups(specs, known, findings)
    alike = {name: len({spec.description for spec in own}) == 1 for name, own in _by(groups, specs)}
    described = alike | {"": False}
    report = list(findings.report())
    jobs = []
    for spec, name, group, found in zip(specs, _ids(specs), groups, of_jobs, strict=True):
        jobs.append(written_job(spec, name, found, described=described[group]))
        report += (_of_job(item, name) for item in found.report())
    for link in known:
        waited = dependency(jobs[link.parent].id, link.condition)
        child = jobs[link.child]
        jobs[link.child] = replace(child, properties=ordered([*child.properties, waited]))
    entries: list[Entry] = []
    for (name, own), (_, written) in zip(_by(groups, specs), _by(groups, jobs), strict=True):
        entries += [group_of_jobs(own, written, name, described=described[name])] if name else written
    return SssDocument(version=version, entries=tuple(entries)), tuple(report)


def _of_job(item: ReportItem, name: str) -> ReportItem:
    """Return a finding with the job that it is about."""
    where = f"job {name!r}" if item.where == "job" else f"job {name!r}, {item.where}"
    return ReportItem(item.kind, where, item.what)


def _by(groups: Sequence[str], each: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    """Return what belongs to each group, in the order of their first jobs; that of no group by itself."""
    return [
        (name, [one for group, one in zip(groups, each, strict=True) if group == name])
        for name in dict.fromkeys(groups)
    ]


def _ids(specs: Sequence[JobSpec]) -> Iterator[str]:
    """Yield an id for each job: the one it was read with, its name, or its place, whichever is free first."""
    taken = {
        str(other) for spec in specs for other in parents(spec, of_instances=True)
    }  # ids that mean other jobs
    for number, spec in enumerate(specs, 1):
        was = id_read_with(spec.extensions)
        candidates = (was, spec.name.strip(), f"job{number}")
        name = next((one for one in candidates if one and one not in taken), f"job{number}")
        while name in taken:
            name = f"{name}-{number}"
        taken.add(name)
        yield name


def _groups(
    specs: Sequence[JobSpec], links: Sequence[DependencyLink], findings: ConversionFindings
) -> list[str]:
    """Return the name of the group of each job: one for all, where jobs of several wait for each other."""
    names = [spec.job_group for spec in specs]
    if all(names[link.parent] == names[link.child] != "" for link in links):
        if len(set(names)) > 1:
            findings.note("jobs: written group by group")
        return names
    called = next(filter(None, names), GROUP_ID)
    findings.approximated(f"job_group: jobs that wait for each other are of one group, which is {called!r}")
    return [called] * len(specs)


GROUP = "steps"
"""The name of the group of a job that has no name."""

MAX_LINKS = 200_000  # dependencies between the steps of one job
_DEFAULTS = JobSpec()
_WHOLE = {
    "minimum": "each step requests what its task needs",
    "maximum": "each step requests what its task needs",
    "run_time": "it is the limit of each step, not of all together",
    "minimum_run_time": "it is the minimum of the limit of each step",
    "single_node": "each step is on one node, not all on the same one",
    "licences": "each step asks for them",
    "notify_on_start": "it is written for each step",
    "notify_on_completion": "it is written for each step",
    "fail_on_task_failure": "only the steps that wait for a failed one are canceled",
}
"""Fields of a job that mean something else in each of its steps, and what."""

_SIZES = {"minimum": None, "maximum": None, "fail_on_task_failure": False, "fail_dependent_tasks": False}


class JobSteps(NamedTuple):
    """The jobs that one job becomes, their dependencies, and the findings."""

    jobs: tuple[JobSpec, ...]
    links: tuple[DependencyLink, ...]
    report: FidelityReport


def steps_of(spec: JobSpec) -> JobSteps | None:
    """Return the job as one job for each task; None if no task waits, or jobs of a group cannot say it.

    Cost:  O(tasks + dependencies).
    """
    if not any(task.depends_on for task in spec.tasks) or not _is_divisible(spec):
        return None
    links = _links(spec)
    if links is None:
        return None
    name = (spec.job_group if spec.job_group.strip() else "") or spec.name.strip() or GROUP
    jobs = tuple(_step(spec, task, number, name) for number, task in enumerate(spec.tasks, 1))
    return JobSteps(jobs, links, tuple(_step_losses(spec, name)))


def _is_divisible(spec: JobSpec) -> bool:
    """Whether each task can be a job of its own."""
    if spec.alternatives or spec.together or spec.group_edges or spec.run_until_canceled:
        return False
    return all(task.kind in WRITTEN and task.group is None for task in spec.tasks)


def _step(spec: JobSpec, task: TaskSpec, number: int, group: str) -> JobSpec:
    name = task.name.strip() or f"step{number}"
    return replace(spec, name=name, job_group=group, tasks=(replace(task, depends_on=()),), **_SIZES)


def _links(spec: JobSpec) -> tuple[DependencyLink, ...] | None:
    """Return which step waits for which; None if there are more than `MAX_LINKS`."""
    by_name: dict[str, list[int]] = {}
    for number, task in enumerate(spec.tasks):
        by_name.setdefault(task.name, []).append(number)
    waits = [[by_name.get(name, []) for name in task.depends_on] for task in spec.tasks]
    if sum(len(parents) for some in waits for parents in some) > MAX_LINKS:
        return None
    strict = spec.fail_on_task_failure or spec.fail_dependent_tasks
    condition = Condition.ON_SUCCESS if strict else Condition.ON_EXIT
    return tuple(
        DependencyLink(child, parent, condition) for child, some in enumerate(waits) for parent in _flat(some)
    )


def _flat(some: Sequence[Sequence[int]]) -> dict[int, None]:
    return {parent: None for parents in some for parent in parents}


def _step_losses(spec: JobSpec, name: str) -> Iterator[ReportItem]:
    what = f"depends_on: each task is a job of the group {name!r} with its dependencies"
    yield ReportItem(Fidelity.TRANSLATED, "job", what)
    lost = lost_fields(spec, _DEFAULTS, set(spec.__struct_fields__) - _WHOLE.keys())
    for field in lost:
        yield ReportItem(Fidelity.APPROXIMATED, "job", f"{field}: {_WHOLE[field]}")


if TYPE_CHECKING:
    from headnode.core.formats.job_views import ExportedInstance, ExportedJob, ExportedTask

_WORDS = {
    JobState.CONFIGURING: "Hold",  # until it is submitted
    JobState.VALIDATING: "Idle",
    JobState.QUEUED: "Idle",
    JobState.HANDED: "Idle",
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
    properties = list(_live_properties(live))
    if live.machine and live.started is not None and not job.value("Machine"):
        properties.append(SssProperty(name="Machine", value=live.machine))
    if live.submit_host and not job.value("SubmitHost"):
        properties.append(SssProperty(name="SubmitHost", value=live.submit_host))
    names = {one.name for one in properties} | ({"Hold"} if live.holds is not None else set())
    kept = (one for one in job.properties if one.name not in names)
    tasks = [(number, task) for number, task in enumerate(spec.tasks, 1) if task.kind in WRITTEN]
    implicit = (TaskGroup(),) if len(tasks) == 1 else ()  # the job is its task
    groups = [
        _with_tasks(group, live.tasks.get(number), task.kind) if isinstance(group, TaskGroup) else group
        for group, (number, task) in zip(job.task_groups or implicit, tasks, strict=False)
    ]
    return replace(
        job,
        properties=ordered([*kept, *properties]),
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


def _live_properties(live: "ExportedJob") -> Iterator[SssProperty]:
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
    values = (*_account(live, spec), *_given(live)) if live.started is not None else ()
    return SssCategory(properties=values) if values else None


def _account(live: "ExportedJob", spec: JobSpec) -> Iterator[SssProperty]:
    """Yield the elements for the user, the node and the queue of a job.  A job template is a Queue."""
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
        span = Seconds(max(0.0, live.ended - live.started - live.suspended))  # clocks may be set back
    if span is not None:
        yield SssProperty(name="Duration", value=float(round(span)))
