"""A job of a document as a job of the model, and the jobs it depends on."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from headnode.core.formats.fidelity import Awareness
from headnode.core.formats.sss.conversion.extensions import ConversionFindings, extensions_of, own_extensions
from headnode.core.formats.sss.conversion.place_reading import resource_of
from headnode.core.formats.sss.conversion.programs import limits_of
from headnode.core.formats.sss.conversion.request_reading import AcceptedRequest, accept_request
from headnode.core.formats.sss.conversion.resource_reading import (
    AlternativeFields,
    combined_alternatives,
    difference,
    node_fields,
    sizes_of,
    total,
)
from headnode.core.formats.sss.conversion.simple_fields import (
    Asker,
    SortedScope,
    events_of,
    moments_of,
    priority_of,
)
from headnode.core.formats.sss.conversion.task_reading import SssTaskReader, TaskDraft, Ways, environment_of
from headnode.core.formats.sss.job_object import EffectiveJob, EffectiveTaskGroup, SssJob
from headnode.core.formats.sss.properties import (
    Dependency,
    Designator,
    Environment,
    Extension,
    SssProperty,
)
from headnode.core.formats.sss.property_rows import FLAG_FIELDS, TEXT_FIELDS, ElementPlace
from headnode.core.formats.sss.value_types import SssVersion
from headnode.core.model.dependency import Condition, DependencyLink, NamedParent
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import DEPENDENCY_FIELDS, Alternative, JobSpec, Licence
from headnode.core.model.quantities import FOREVER, Seconds
from headnode.core.model.task import TaskSpec

_MAX_ID = 2**31 - 1
_OF_DEPENDENCY = ("condition", "designator")


class JobsByName(NamedTuple):
    """Jobs by their ids and their names."""

    by_id: Mapping[str, list[int]]
    by_name: Mapping[str, list[int]]


def jobs_by_name(jobs: Sequence[SssJob], first: int) -> JobsByName:
    """Return the jobs of one group or document, which are numbered from `first`."""
    by_id: dict[str, list[int]] = {}
    by_name: dict[str, list[int]] = {}
    for number, job in enumerate(jobs, first):
        by_id.setdefault(job.id, []).append(number)
        by_name.setdefault(job.name, []).append(number)
    return JobsByName(by_id, by_name)


class JobParents(NamedTuple):
    """What a job waits for: jobs of its document, ids of other jobs, and jobs that the head must look up."""

    links: tuple[DependencyLink, ...]
    others: Mapping[str, tuple[int, ...]]  # by the field of a job that holds them
    named: tuple[NamedParent, ...]

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the job."""
        return {**self.others, "named_parents": self.named}


def parents_of(job: SssJob, number: int, among: Callable[[], Sequence[JobsByName]], where: str) -> JobParents:
    """Return what job `number` of its document waits for.

    `among` returns the jobs of its group, then those of the document: the first in which the job is found
    counts.  A job in none of them is one of the cluster: by its number, its name, or the Id that it was
    submitted with.
    Raises:  BadRequest ``dependency`` when it is not understood; no policy lets a job start too early.
    """
    waited = _dependencies(job, where)
    if not waited:
        return _NOTHING
    links: dict[DependencyLink, None] = {}
    ids: dict[str, dict[int, None]] = {}
    named: dict[NamedParent, None] = {}
    for one in waited:
        called = str(one.value)
        found = _found(one, number, among())
        if found:
            links |= {DependencyLink(number, parent, one.wanted): None for parent in found}
        elif not one.by_name and _is_id(called):
            ids.setdefault(DEPENDENCY_FIELDS[one.wanted], {})[int(called)] = None
        else:
            named[NamedParent(called, by_id=not one.by_name, condition=one.wanted)] = None
    return JobParents(tuple(links), {field: tuple(jobs) for field, jobs in ids.items()}, tuple(named))


_NOTHING = JobParents((), {}, ())


def _found(one: Dependency, number: int, among: Sequence[JobsByName]) -> list[int]:
    """Return the other jobs that a dependency means, in the nearest place that has one."""
    for known in among:
        called = (known.by_name if one.by_name else known.by_id).get(str(one.value), ())
        found = [other for other in called if other != number]
        if found:
            return found
    return []


def _dependencies(job: SssJob, where: str) -> list[Dependency]:
    """Return the dependencies of a job; an empty element is not set."""
    dependencies = [one for one in job.properties if isinstance(one, Dependency)]
    for one in dependencies:
        for name, text in one.kept:
            if name in _OF_DEPENDENCY:
                _refuse(where, f"its {name} {text!r} is not known")
    return [one for one in dependencies if one.value]


def _refuse(where: str, what: str) -> NoReturn:
    raise BadRequest(
        code="dependency",
        what=f"{where}: Dependency: {what}, so it is not known when the job may start",
        fix="write condition OnSuccess, OnFailure, OnExit or OnStart, and designator JobId or JobName",
        path=("Dependency",),
    )


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 11 and 1 <= int(text) <= _MAX_ID


def dependency(other: str, condition: Condition, designator: Designator = Designator.JOB_ID) -> Dependency:
    """Return a dependency on the job that is called `other`."""
    return Dependency(name="Dependency", value=other, condition=condition, designator=designator)


Fields = dict[str, Any]
DIALECTS = {SssVersion.V3_1: "sss", SssVersion.V3_0: "sss-3.0"}
"""The names of the dialects by their versions."""


class GroupFields(NamedTuple):
    """What a job group says of each of its jobs."""

    extensions: Mapping[str, str] = {}
    job_group: str = ""
    description: str = ""


class DocumentFields(NamedTuple):
    """What all jobs of a document have: its dialect, the bodies of its Files, and who submits it where."""

    dialect: str
    scripts: Mapping[str, str]
    asker: Asker


class JobReader:
    """Reads one job."""

    def __init__(
        self,
        found: EffectiveJob,
        policy: Awareness,
        findings: ConversionFindings,
        document: DocumentFields,
    ) -> None:
        self._found, self._job = found, found.job
        self._findings, self._where = findings, findings.where
        self._scope = SortedScope(found.job, ElementPlace.JOB, policy, findings, document.asker)
        self._document = document
        self._ways: Ways = []

    def spec(self, waits: JobParents, around: GroupFields) -> JobSpec:
        """Return the job; `around` is what its group gives it.

        Raises:  BadRequest ``machine``, ``request``, and as the parts that read it.
        """
        job, scope = self._job, self._scope
        for named_parent in waits.named:
            what = f"Dependency: the cluster looks up the job with {named_parent}, or refuses this one"
            self._findings.translated(what)
        taken = accept_request(scope)
        resource = resource_of(taken, scope.asker, self._where)
        self._ways.append(taken.options)
        tasks = list(self._tasks(self._document.scripts))
        fields = self._asked(tasks) | self._simple_fields() | waits.fields
        owned = self._owned(taken)
        kept = (*scope.kept, *taken.outside, *owned)
        ours = own_extensions(scope.structured.get(Extension, ()))
        rest = SssJob(properties=kept, requested=taken.requested, kept=job.kept)
        return JobSpec(
            **fields,
            extensions={**extensions_of(rest), **around.extensions, **ours.extensions},
            properties=ours.properties,
            job_group=around.job_group,
            description=ours.description or around.description,
            resource=resource,
            dialect=self._document.dialect,
        )

    def _tasks(self, scripts: Mapping[str, str]) -> list[TaskDraft]:
        reader = SssTaskReader(self._scope.values, self._ways, scripts, self._scope.policy)
        drafts: list[TaskDraft] = []
        job = self._findings.path
        for number, group in enumerate(self._found.task_groups, 1):
            findings = self._findings.at(f"{self._where}, task group {number}")
            findings.path = (*job, "task_groups", number - 1)
            if isinstance(group, EffectiveTaskGroup):
                read = list(reader.group(group, findings if group.written else self._findings))
                drafts += read if group.written or self._scope.values.get("Executable") else []
            else:
                what = f"task group {group.id!r} is defined elsewhere: it is not run"
                findings.unsupported(group.awareness or self._scope.policy, what)
        self._findings.path = job
        return drafts

    def _asked(self, tasks: Sequence[TaskDraft]) -> Fields:
        """Return the fields that follow from what is requested, with the tasks and the alternatives."""
        choices, cut = combined_alternatives([[one.weight for one in ways] for ways in self._ways])
        if cut:
            more = "1 alternative is" if cut == 1 else f"{cut} alternatives are"
            self._findings.approximated(f"{more} left out: those with the lowest preference but the last")
        first = self._meaning(tasks, choices[0], 0, explicit=False)
        meanings, sized = [first], first.job["minimum"] is not None
        for number, choice in enumerate(choices[1:], 1):
            meanings.append(self._meaning(tasks, choice, number, explicit=sized))
        best = self._ways[0][choices[0][0]].request
        together = self._together(tasks, first)
        return {
            **first.job,
            "minimum_run_time": self._least_run_time(len(choices)),
            "together": together,
            **{field: best[field] for field in _TEXTS if field in best},
            "template": best.get("template") or best.get("quality", ""),
            "tasks": tuple(
                [TaskSpec(**read.fields, **sized) for read, sized in zip(tasks, first.tasks, strict=True)]
            ),
            "alternatives": self._alternatives(meanings) if len(meanings) > 1 else (),
        }

    def _least_run_time(self, requests: int) -> Seconds | None:
        """Return to which run time limit the job may be lowered; an alternative has no such time."""
        least: Seconds | None = self._ways[0][0].request.get("minimum_run_time")
        ranges = sum("minimum_run_time" in one.request for ways in self._ways for one in ways)
        is_used = least is not None and requests == 1
        if ranges > is_used:
            what = "Duration as a range: the limit is the upper bound; the lower bound has an effect only"
            self._findings.approximated(f"{what} for a job without alternatives")
        return least if is_used else None

    def _alternatives(self, meanings: Sequence[AlternativeFields]) -> tuple[Alternative, ...]:
        differences = [difference(meanings[0], other) for other in meanings[1:]]
        different = tuple(dict.fromkeys(one for one in differences if one is not None))
        if different:
            number = "1 alternative" if len(different) == 1 else f"{len(different)} alternatives"
            self._findings.translated(f"Requested: {number} beside the preferred request")
        return different

    def _together(self, tasks: Sequence[TaskDraft], meaning: AlternativeFields) -> bool:
        """Whether there are several tasks, which start together."""
        several = sum([one.instances for one in tasks]) > 1
        if several and any(task["minimum"] < task["maximum"] for task in meaning.tasks):
            what = "Processors as a range: tasks that start together get the lower bound"
            self._findings.approximated(what)
        return several

    def _meaning(
        self, tasks: Sequence[TaskDraft], choice: Sequence[int], number: int, *, explicit: bool
    ) -> AlternativeFields:
        """Return what one alternative says of the job and of its tasks."""
        request = self._ways[0][choice[0]].request
        which = f", alternative {number}" if number else ""
        findings = self._findings.at(f"{self._where}{which}") if which else self._findings
        parts = [one.part(self._ways, choice, which) for one in tasks]
        sizes, nodes = sizes_of(request, parts, findings), node_fields(request, parts, findings)
        job = {
            **sizes.job,
            **nodes.job,
            "run_time": request.get("run_time", FOREVER),
            "licences": self._licences(tasks, choice),
        }
        if explicit and job["minimum"] is None:
            job["minimum"], job["maximum"] = total(parts, sizes.tasks) if parts else (1, 1)
        each = zip(parts, sizes.tasks, nodes.tasks, strict=True)
        fields = [
            {**size, "needs": needs, "run_time": part.own.get("run_time", FOREVER)}
            for part, size, needs in each
        ]
        return AlternativeFields(job, tuple(fields))

    def _licences(self, tasks: Sequence[TaskDraft], choice: Sequence[int]) -> tuple[Licence, ...]:
        """Return the licences of the job and of its task groups, which all run together."""
        scopes = dict.fromkeys([0, *[scope for one in tasks for scope in (one.group, one.task)]])
        amounts: dict[str, int] = {}
        for scope in scopes:
            for licence in self._ways[scope][choice[scope]].request.get("licences", ()):
                amounts[licence.feature] = amounts.get(licence.feature, 0) + (licence.amount or 0)
        return tuple([Licence(feature, amount) for feature, amount in amounts.items()])

    def _simple_fields(self) -> Fields:
        """Return the fields that follow from the job's own simple properties."""
        scope = self._scope
        return {
            **{field: str(scope.values.get(name) or "") for name, field in TEXT_FIELDS.items()},
            **{field: bool(scope.values.get(name)) for name, field in FLAG_FIELDS.items()},
            "environment": environment_of(scope.structured.get(Environment, ())),
            "resource_limits": limits_of(scope),
            **priority_of(scope),
            **moments_of(scope),
            **events_of(scope),
        }

    def _owned(self, taken: AcceptedRequest) -> list[SssProperty]:
        """Return the properties that have no field, and are written back: Machine, and one of two queues."""
        request = taken.options[0].request
        queue, quality = request.get("template"), request.get("quality")
        for name, field, becomes in _ONE_NAME:
            if field in request:
                self._findings.translated(f"{name}: {becomes}")
        if queue and quality:
            what = f"QualityOfService {quality}: the Queue is the template of the job"
            self._findings.unsupported(self._scope.policy, what, "QualityOfService")
        elif quality:
            self._findings.translated("QualityOfService: it is the template of the job")
        texts = {
            "Machine": request.get("machine"),
            "ResourceManagerType": request.get("manager"),
            "QualityOfService": quality if queue else "",
        }
        return self._still_to_keep({name: text for name, text in texts.items() if text}, taken)

    def _still_to_keep(self, texts: Mapping[str, str], taken: AcceptedRequest) -> list[SssProperty]:
        """Return properties of these names and values, as far as the job has them and they are not kept."""
        if not texts:
            return []
        asked = self._job.requested.properties if self._job.requested else ()
        inside = taken.requested.properties if taken.requested else ()
        already = {one.name for one in (*taken.outside, *inside)}
        found = [one for one in (*self._job.properties, *asked) if one.name not in already]
        values = {one.name: one.value for one in found if one.value and one.value == texts.get(one.name)}
        return [SssProperty(name=name, value=value) for name, value in values.items()]


_TEXTS = ("project", "reservation", "run_as")
_ONE_NAME = (
    ("Queue", "template", "it is the template of the job"),
    ("User", "run_as", "the job runs as that user, if its submitter may"),
    (
        "Machine",
        "machine",
        "it is compared with the name of the cluster where the job is submitted, and kept",
    ),
    ("ResourceManagerType", "manager", "the job goes to a resource with that scheduler, and it is kept"),
)
