"""A job as a document."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product

from msgspec.structs import replace

from headnode.core.formats.fidelity import FidelityReport
from headnode.core.formats.sss.conversion.document_reading import GROUP, jobs_in
from headnode.core.formats.sss.conversion.extensions import (
    DESCRIPTION,
    FIELD,
    ConversionFindings,
    TextLosses,
    kept_group,
    kept_job,
    report_losses,
)
from headnode.core.formats.sss.conversion.job_reading import dependency
from headnode.core.formats.sss.conversion.programs import SWEPT, limits_back, run_of
from headnode.core.formats.sss.conversion.resource_reading import NO_MEMORY
from headnode.core.formats.sss.conversion.resource_table import Request, distinct
from headnode.core.formats.sss.conversion.resource_writing import (
    is_plain,
    requested_of_job,
    sized_by_task,
    written_layout,
)
from headnode.core.formats.sss.conversion.simple_fields import (
    distribution_back,
    environment,
    holds_back,
    ordered,
    own_words,
)
from headnode.core.formats.sss.conversion.write_request import written_request
from headnode.core.formats.sss.job_object import JobGroup, SssDocument, SssJob, Task, TaskGroup
from headnode.core.formats.sss.properties import (
    Designator,
    Extension,
    Notifications,
    SssProperty,
)
from headnode.core.formats.sss.property_rows import FLAG_FIELDS, TEXT_FIELDS, ElementPlace
from headnode.core.formats.sss.value_types import MAX_SECONDS, SssVersion
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import DEPENDENCY_FIELDS, Alternative, JobSpec, TaskAlternative, with_option
from headnode.core.model.quantities import Instant
from headnode.core.model.task import TaskSpec, TaskType, substitute

MAX_WRITTEN_OUT = 1_000  # instances of a sweep whose texts differ

_ESCAPED = re.compile(r"[*^]")


def task_group(
    spec: JobSpec, task: TaskSpec, options: Sequence[Request], findings: ConversionFindings
) -> TaskGroup:
    """Return the task group of a task, which asks for one of options.

    A sweep whose texts differ has a Task for each instance.
    """
    kept = kept_group(task.extensions, findings)
    asked = written_request(options, kept, ElementPlace.TASK_GROUP, findings)
    written_out = _is_written_out(task, findings)
    found = written_layout(spec, task, findings)
    counted = task.kind is TaskType.SWEEP or (found and found.geometry)
    TextLosses(findings).report("name", [task.name])
    own = [
        *([SssProperty(name="Name", value=task.name)] if task.name else []),
        *([SssProperty(name="TaskCount", value=task.instances)] if counted else []),
        *([] if written_out else run_of(_first(task, findings), findings)),
        *environment(task.environment),
        *limits_back(task.resource_limits, findings),
        *distribution_back(found, findings),
        *_restartable(spec, task),
        *own_words(task.properties, findings),
    ]
    names = {one.name for one in own if one.name in ("ResourceLimit", "TaskDistribution")}
    rest = [one for one in asked.properties if one.name not in names]
    group = TaskGroup(properties=ordered([*own, *rest]), requested=asked.requested, kept=kept.kept)
    return replace(group, tasks=tuple(_each(task, findings))) if written_out else group


def _restartable(spec: JobSpec, task: TaskSpec) -> list[SssProperty]:
    """Say of a task what the job does not say of all of them."""
    if len({each.rerunnable for each in spec.tasks}) == 1:
        return []
    return [SssProperty(name="Restartable", value=task.rerunnable)]


def _texts(task: TaskSpec, value: int) -> TaskSpec:
    """Return a task with the swept value in its texts."""
    return replace(task, **{field: substitute(getattr(task, field), value) for field in SWEPT})


def _is_written_out(task: TaskSpec, findings: ConversionFindings) -> bool:
    """Whether each instance of a sweep has texts of its own, which are written."""
    if task.kind is not TaskType.SWEEP:
        return False
    same = _texts(task, 1) == _texts(task, 2)
    if (task.start, task.increment) != (1, 1) or task.instances == 1:
        what = "start, increment: instances are numbered from 1; only the number is passed to each"
        for field in ("start", "end", "increment", "kind"):
            findings.approximated(f"{field}: {what}")
    if same:
        return False
    if task.instances > MAX_WRITTEN_OUT:
        what = f"kind: more than {MAX_WRITTEN_OUT} instances with different texts are not written"
        findings.lost(what)
        return False
    what = f"kind: the sweep is written out, with a Task for each of its {task.instances} instances"
    findings.translated(what)
    return True


def _first(task: TaskSpec, findings: ConversionFindings) -> TaskSpec:
    """Return the texts that all instances share, without carets that take the meaning of signs away."""
    if task.kind is not TaskType.SWEEP or _texts(task, 1) != _texts(task, 2):
        return task
    found = _texts(task, 1)
    for field in SWEPT:
        if _ESCAPED.sub(r"^\g<0>", getattr(found, field)) != getattr(task, field):
            findings.translated(f"{field}: each caret stands for itself")
    return found


def _each(task: TaskSpec, findings: ConversionFindings) -> Iterator[Task]:
    for instance in range(1, task.instances + 1):
        found = _texts(task, task.value(instance))
        number = SssProperty(name="Id", value=str(instance))
        yield Task(properties=ordered([number, *run_of(found, findings)]))


NEW = "new"
"""The Id of a job that has none yet; a job object must have one."""

WRITTEN = (TaskType.BASIC, TaskType.SWEEP)
"""The kinds of tasks that have a task group."""

_TEXTS = (
    *TEXT_FIELDS.values(),
    *("description", "job_group", "project", "reservation", "template", "run_as", "email"),
)
_IN_ALTERNATIVES = [field for field in Alternative.__struct_fields__ if field != "tasks"]
_MANY = {"Extension", "Dependency", "NotificationList"}


def document_of(
    spec: JobSpec, version: SssVersion = SssVersion.V3_1, *, identifier: str = ""
) -> tuple[SssDocument, FidelityReport]:
    """Return a job as an SSS document, and what SSS cannot say of it; one of a group stands in its group.

    `identifier` is the Id of the job; without one, it is that which the job was read with, or `NEW`.
    Each finding begins with the field it is about.  Control characters are the writer's to tell.
    """
    findings = ConversionFindings()
    spec = without_blank_group(spec, findings)
    job = written_job(spec, identifier, findings, described=bool(spec.job_group))
    entry = group_of_jobs([spec], [job], spec.job_group, described=True) if spec.job_group else job
    return SssDocument(version=version, entries=(entry,)), findings.report()


def without_blank_group(spec: JobSpec, findings: ConversionFindings) -> JobSpec:
    """Return a job whose group is not of blanks alone: a JobGroup with such an Id has none for a reader."""
    if not spec.job_group or spec.job_group.strip():
        return spec
    findings.lost("job_group: its name is blank")
    return replace(spec, job_group="")


def written_job(spec: JobSpec, identifier: str, findings: ConversionFindings, *, described: bool) -> SssJob:
    """Return a job as it stands in a document; losses are added to the findings.

    `described` is whether its group says its description.
    """
    writer = _JobObjectWriter(spec, findings)
    job = writer.job(identifier)
    if spec.alternatives and not writer.alternatives_reported:
        _report_alternatives(spec, job, findings)
    if described or not spec.description:
        return job
    description = Extension(name="Extension", type=FIELD, called=DESCRIPTION, value=spec.description)
    return replace(job, properties=ordered([*job.properties, description]))


def group_of_jobs(
    specs: Sequence[JobSpec], jobs: Sequence[SssJob], name: str, *, described: bool
) -> JobGroup:
    """Return the group called `name` of jobs; `described` is whether it says their description."""
    number = specs[0].extensions.get(f"{GROUP}Id", name)
    own = {
        "Id": number,
        "Name": name if number != name else "",
        "Description": specs[0].description if described else "",
    }
    properties = (SssProperty(name=word, value=text) for word, text in own.items() if text)
    return JobGroup(properties=ordered(properties), jobs=tuple(jobs))


def _report_alternatives(spec: JobSpec, job: SssJob, findings: ConversionFindings) -> None:
    """Tell when the alternatives of a job do not come back from its document as they are."""
    back = _back(job)
    number = len(back.alternatives)
    if back.alternatives == spec.alternatives:
        return
    if number != len(spec.alternatives):
        what = f"alternatives: {number} of {len(spec.alternatives)} can be written"
        findings.approximated(what)
    elif all(
        _same_sizes(with_option(spec, option), with_option(back, option)) for option in range(number + 1)
    ):
        findings.translated("alternatives: the calculated sizes are written in them")
    else:
        findings.approximated("alternatives: SSS cannot express all of their differences")


def _same_sizes(one: JobSpec, back: JobSpec) -> bool:
    """Whether a job came back as it was, but for sizes that were calculated."""
    asked = sized_by_task(one, _written(one))
    if len(asked.tasks) != len(back.tasks):
        return False
    return _says_same(asked, back, _IN_ALTERNATIVES) and all(
        _says_same(task, other, TaskAlternative.__struct_fields__)
        for task, other in zip(asked.tasks, back.tasks, strict=True)
    )


def _says_same(one: JobSpec | TaskSpec, other: JobSpec | TaskSpec, fields: Iterable[str]) -> bool:
    return all(getattr(one, field) == getattr(other, field) for field in fields)


def _back(job: SssJob) -> JobSpec:
    """Return the job that was written; nothing when what it asks for contradicts itself."""
    try:
        (again,) = jobs_in(SssDocument(entries=(job,))).jobs
    except BadRequest:
        return JobSpec()
    return again


class _JobObjectWriter:
    """Writes one job."""

    def __init__(self, spec: JobSpec, findings: ConversionFindings) -> None:
        self._spec = spec
        self.findings = findings
        self.alternatives_reported = False  # whether it was told what became of alternatives

    def job(self, identifier: str) -> SssJob:
        """Return the job."""
        spec, findings = self._spec, self.findings
        report_losses(spec, findings)
        tasks = tuple(self._runnable())
        kept = kept_job(_own_extensions(spec), findings)
        variants = [spec, *(_variant(spec, option) for option in range(1, len(spec.alternatives) + 1))]
        alone = all(is_plain(one, _written(one)) for one in variants)
        sized = [sized_by_task(one, _written(one)) for one in variants] if spec.alternatives else []
        if sized and not alone and all(is_plain(one, _written(one)) for one in sized):
            variants, alone = sized, True
            for field in ("minimum", "maximum"):
                findings.translated(f"{field}: it is written, because alternatives have other values")
        self._report_together(tasks, alone=alone)
        scopes = self._scopes(variants, alone=alone)
        asked = written_request(scopes[0], kept, ElementPlace.JOB, findings)
        derived = [*self._simple_properties(tasks), *(self._run(tasks[0]) if alone else ())]
        properties = self._joined(derived, list(asked.properties), identifier)
        groups = () if alone else tuple(self._groups(scopes[1:]))
        return SssJob(
            properties=ordered(properties), requested=asked.requested, task_groups=groups, kept=kept.kept
        )

    def _scopes(self, variants: Sequence[JobSpec], *, alone: bool) -> list[list[Request]]:
        """Return the ways of the job, and of each task, that together are its alternatives."""
        first = requested_of_job(variants[0], _written(variants[0]), self.findings, alone=alone)
        others = [
            requested_of_job(one, _written(one), ConversionFindings(), alone=alone) for one in variants[1:]
        ]
        whole = distinct((first, *others))
        ways = [distinct(each) for each in zip(*whole, strict=True)]
        if math.prod(map(len, ways)) == len(whole) and list(product(*ways)) == whole:
            return ways
        self.findings.lost("alternatives: SSS cannot express a change of the job together with its tasks")
        self.alternatives_reported = True
        return [[each] for each in first]

    def _report_together(self, tasks: tuple[TaskSpec, ...], *, alone: bool) -> None:
        several = not alone and sum(task.instances for task in tasks) > 1
        if several and not self._spec.together:
            self.findings.approximated("together: all tasks start together")
        elif self._spec.together and not several:
            self.findings.translated("together: no effect, the job has one task")

    def _run(self, task: TaskSpec) -> Iterator[SssProperty]:
        yield from run_of(task, self.findings.at("task 1"))
        found = written_layout(self._spec, task, self.findings.at("task 1"))
        yield from distribution_back(found, self.findings.at("task 1"))

    def _runnable(self) -> Iterator[TaskSpec]:
        for number, task in enumerate(self._spec.tasks, 1):
            if task.kind in WRITTEN:
                yield task
            else:
                what = f"tasks: SSS has no {task.kind.value} tasks: it is left out"
                self.findings.at(f"task {number}").lost(what)

    def _groups(self, scopes: Sequence[Sequence[Request]]) -> Iterator[TaskGroup]:
        found = [(number, task) for number, task in enumerate(self._spec.tasks, 1) if task.kind in WRITTEN]
        for (number, task), options in zip(found, scopes, strict=True):
            yield task_group(self._spec, task, options, self.findings.at(f"task {number}"))

    def _simple_properties(self, tasks: tuple[TaskSpec, ...]) -> Iterator[SssProperty]:
        """Yield the job's own simple properties."""
        spec = self._spec
        texts = TextLosses(self.findings)
        for field in _TEXTS:
            texts.report(field, [getattr(spec, field)])
        for name, field in {**TEXT_FIELDS, **FLAG_FIELDS}.items():
            value = getattr(spec, field)
            if value:
                yield SssProperty(name=name, value=value)
        if spec.priority != JobSpec().priority:
            yield SssProperty(name="Priority", value=int(spec.priority))
        yield from holds_back(spec.holds, self.findings)
        yield from self._moment("hold_until", "EligibleTime", spec.hold_until, math.ceil)
        yield from self._moment("end_by", "DeadlineTime", spec.end_by, math.floor)
        yield from limits_back(spec.resource_limits, self.findings)
        if tasks and all(task.rerunnable for task in tasks):
            yield SssProperty(name="Restartable", value=True)
        yield from environment(spec.environment)
        yield from self._notifications()
        for condition, field in DEPENDENCY_FIELDS.items():
            yield from (dependency(str(other), condition) for other in getattr(spec, field))
        for parent in spec.named_parents:
            designator = Designator.JOB_ID if parent.by_id else Designator.JOB_NAME
            texts.report("named_parents", [parent.name])
            yield dependency(parent.name, parent.condition, designator)
        yield from own_words(spec.properties, self.findings)

    def _moment(
        self, field: str, name: str, at: Instant | None, whole: Callable[[float], int]
    ) -> Iterator[SssProperty]:
        if at is None:
            return
        second = whole(at)
        if not 0 <= second <= MAX_SECONDS:
            what = f"{field}: it is not between 1970 and 2106-02-07, which is all that can be written"
            self.findings.approximated(what)
        elif float(second) != float(at):
            self.findings.approximated(f"{field}: it is written in whole seconds")
        yield SssProperty(name=name, value=float(min(max(second, 0), MAX_SECONDS)))

    def _notifications(self) -> Iterator[SssProperty]:
        spec = self._spec
        asked = (("JobStart", spec.notify_on_start), ("JobEnd", spec.notify_on_completion))
        events = [word for word, is_asked in asked if is_asked]
        address = spec.email
        if address.startswith("mailto:") or "://" in address:
            self.findings.lost(f"email: {address!r} is not an e-mail address: left out")
            address = ""
        if events or address:
            yield Notifications(name="NotificationList", value=",".join(events), uri=address)

    def _joined(
        self, derived: list[SssProperty], kept: list[SssProperty], identifier: str
    ) -> list[SssProperty]:
        """Put what follows from the job beside what was kept; where both say it, the job is right."""
        names = {one.name for one in derived} - _MANY
        for one in kept:
            if one.name in names:
                what = f"extensions: <{one.name}> is left out: the job now has another value"
                self.findings.approximated(what)
        kept = [one for one in kept if one.name not in names]
        ids = [one for one in kept if one.name == "Id"]
        if identifier or not ids:
            kept = [one for one in kept if one.name != "Id"]
            kept.append(SssProperty(name="Id", value=identifier or NEW))
        return [*derived, *kept]


def _variant(spec: JobSpec, option: int) -> JobSpec:
    """Return the job with an alternative that does not ask for 1 MB of memory, which every node has."""
    found = with_option(spec, option)
    if spec.alternatives[option - 1].minimum_memory != NO_MEMORY:
        return found
    return replace(found, minimum_memory=None)


def _own_extensions(spec: JobSpec) -> dict[str, str]:
    """Return the extensions of a job that its group does not say."""
    group = f"{GROUP}Id" if spec.job_group else ""
    return {name: text for name, text in spec.extensions.items() if name != group}


def _written(spec: JobSpec) -> tuple[TaskSpec, ...]:
    return tuple(task for task in spec.tasks if task.kind in WRITTEN)
