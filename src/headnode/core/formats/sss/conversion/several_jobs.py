"""Several jobs, or the tasks of one that wait for each other, as the jobs of one document."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from headnode.core.formats.fidelity import Fidelity, FidelityReport, ReportItem, lost_fields
from headnode.core.formats.sss.conversion.extensions import ConversionFindings, id_read_with
from headnode.core.formats.sss.conversion.job_reading import dependency
from headnode.core.formats.sss.conversion.job_writing import WRITTEN, document_of, group_of_jobs, written_job
from headnode.core.formats.sss.conversion.simple_fields import ordered
from headnode.core.formats.sss.job_object import Entry, SssDocument
from headnode.core.formats.sss.value_types import SssVersion
from headnode.core.model.job import Condition, DependencyLink, JobSpec, parents
from headnode.core.model.task import TaskSpec

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
    findings = ConversionFindings()
    groups = _groups(specs, known, findings)
    alike = {name: len({spec.description for spec in own}) == 1 for name, own in _by(groups, specs)}
    described = alike | {"": False}
    report = list(findings.report())
    jobs = []
    for spec, name, group in zip(specs, _ids(specs), groups, strict=True):
        found = ConversionFindings()
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
    taken = {str(other) for spec in specs for other in parents(spec)}  # ids that mean other jobs
    for number, spec in enumerate(specs, 1):
        was = id_read_with(spec.extensions)
        wishes = (was, spec.name.strip(), f"job{number}")
        name = next((one for one in wishes if one and one not in taken), f"job{number}")
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

MOST_LINKS = 200_000  # dependencies between the steps of one job
_DEFAULTS = JobSpec()
_WHOLE = {
    "minimum": "each step requests what its task needs",
    "maximum": "each step requests what its task needs",
    "run_time": "it is the limit of each step, not of all together",
    "single_node": "each step is on one node, not all on the same one",
    "licences": "each step asks for them",
    "notify_on_start": "it is said of each step",
    "notify_on_completion": "it is said of each step",
    "fail_on_task_failure": "only the steps that wait for a failed one are canceled",
}
"""Fields of a job that mean something else in each of its steps, and what."""

_SIZES = {"minimum": None, "maximum": None, "fail_on_task_failure": False, "fail_dependent_tasks": False}


class JobSteps(NamedTuple):
    """The jobs that a job becomes, what they wait for, and what is told of it."""

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
    name = spec.job_group or spec.name.strip() or GROUP
    jobs = tuple(_step(spec, task, number, name) for number, task in enumerate(spec.tasks, 1))
    return JobSteps(jobs, links, tuple(_told(spec, name)))


def _is_divisible(spec: JobSpec) -> bool:
    """Whether each task can be a job of its own."""
    if spec.alternatives or spec.together or spec.group_edges or spec.run_until_canceled:
        return False
    return all(task.kind in WRITTEN and task.group is None for task in spec.tasks)


def _step(spec: JobSpec, task: TaskSpec, number: int, group: str) -> JobSpec:
    name = task.name.strip() or f"step{number}"
    return replace(spec, name=name, job_group=group, tasks=(replace(task, depends_on=()),), **_SIZES)


def _links(spec: JobSpec) -> tuple[DependencyLink, ...] | None:
    """Return which step waits for which; None if there are more than `MOST_LINKS`."""
    by_name: dict[str, list[int]] = {}
    for number, task in enumerate(spec.tasks):
        by_name.setdefault(task.name, []).append(number)
    waits = [[by_name.get(name, []) for name in task.depends_on] for task in spec.tasks]
    if sum(len(parents) for some in waits for parents in some) > MOST_LINKS:
        return None
    strict = spec.fail_on_task_failure or spec.fail_dependent_tasks
    condition = Condition.ON_SUCCESS if strict else Condition.ON_EXIT
    return tuple(
        DependencyLink(child, parent, condition) for child, some in enumerate(waits) for parent in _flat(some)
    )


def _flat(some: Sequence[Sequence[int]]) -> dict[int, None]:
    return {parent: None for parents in some for parent in parents}


def _told(spec: JobSpec, name: str) -> Iterator[ReportItem]:
    what = f"depends_on: each task is a job of the group {name!r} with its dependencies"
    yield ReportItem(Fidelity.TRANSLATED, "job", what)
    lost = lost_fields(spec, _DEFAULTS, set(spec.__struct_fields__) - _WHOLE.keys())
    for field in lost:
        yield ReportItem(Fidelity.APPROXIMATED, "job", f"{field}: {_WHOLE[field]}")
