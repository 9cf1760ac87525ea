"""A job of an SSS document becomes a job of Headnode.

Source: SSS 3.1.0, "Job and JobDefaults".
"""

from collections.abc import Mapping, Sequence
from typing import Any

from headnode.core.formats.fidelity import Awareness, Kind
from headnode.core.formats.sss.inheritance import EffectiveJob, EffectiveTaskGroup
from headnode.core.formats.sss.job_object import Job, Scope, TaskGroup
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.formats.sss.meaning.groups import grouped
from headnode.core.formats.sss.meaning.keeping import extensions_of, named
from headnode.core.formats.sss.meaning.links import Waits
from headnode.core.formats.sss.meaning.requesting import Asking, take
from headnode.core.formats.sss.meaning.sizes import sizes_of
from headnode.core.formats.sss.meaning.task_reading import (
    Read,
    TaskReader,
    environment_of,
    refuse_interactive,
)
from headnode.core.formats.sss.meaning.telling import events_of, hold_of, priority_of
from headnode.core.formats.sss.meaning.walking import Walk
from headnode.core.formats.sss.meaning.wishes import Bounds, Wishes
from headnode.core.formats.sss.properties import Property
from headnode.core.formats.sss.rows import Place
from headnode.core.formats.sss.selections import Selection
from headnode.core.formats.sss.versions import Version
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec, Licence
from headnode.core.model.task import TaskSpec

Fields = dict[str, Any]
DIALECTS = {Version.V3_1: "sss", Version.V3_0: "sss-3.0"}
"""The names of the dialects by their versions."""


class JobReader:
    """Reads one job.  `where` is how the report calls it; `machine` is the name of the cluster, if known."""

    def __init__(self, found: EffectiveJob, where: str, policy: Awareness, findings: Findings) -> None:
        self._found, self._job, self._where = found, found.job, where
        self._policy = found.job.awareness or policy
        self._findings = findings
        self._walk = Walk(Place.JOB, where, self._policy, findings)

    def spec(
        self, waits: Waits, scripts: Mapping[str, str], machine: str, more: Mapping[str, str]
    ) -> JobSpec:
        """Return the job; `more` are extensions that its group gives it.

        Raises:  BadRequest ``machine``, ``interactive``, ``request``, and as the parts that read it.
        """
        job = self._job
        refuse_interactive(job, self._where)
        self._walk.over(job, job.properties)
        for one in waits.unsaid:
            self._walk.unsaid(one, f"{one.wanted}: the job does not wait for it")
        taken = take(Asking(job, Place.JOB, self._where, self._policy, self._findings))
        _check_machine(taken.wishes.machine, machine, self._where)
        tasks = list(self._tasks(taken.wishes, scripts))
        fields = self._asked(taken.wishes, tasks) | self._told() | {"parents": waits.parents}
        owned = self._owned(taken.wishes, taken.kept)
        kept: list[Property] = [*self._walk.kept, *taken.kept.properties, *owned]
        ours = named(job.properties)
        rest = Job(properties=tuple(kept), requested=taken.kept.requested, kept=job.kept)
        extensions = {**extensions_of(rest), **more, **ours.extensions}
        return JobSpec(**fields, extensions=extensions, properties=ours.properties)

    def _tasks(self, wishes: Wishes, scripts: Mapping[str, str]) -> list[Read]:
        reader = TaskReader(self._job, wishes, scripts, self._policy, self._findings)
        found: list[Read] = []
        for number, group in enumerate(self._found.task_groups, 1):
            where = f"{self._where}, task group {number}"
            if isinstance(group, EffectiveTaskGroup):
                read = list(reader.group(group, where if group.written else self._where))
                found += read if group.written or self._job.value("Executable") else []
            else:
                what = f"task group {group.id!r} is defined elsewhere: it is not run"
                self._findings.unsupported(group.awareness or self._policy, where, what)
        return found

    def _asked(self, wishes: Wishes, tasks: Sequence[Read]) -> Fields:
        """Return the fields that follow from what is requested, with the tasks."""
        sizes = sizes_of(wishes, [one.part for one in tasks], self._tell)
        nodes = grouped(wishes, tasks, self._tell)
        specs = tuple(
            self._task(one, size, where)
            for one, size, where in zip(tasks, sizes.tasks, nodes.tasks, strict=True)
        )
        return {
            **sizes.job,
            **nodes.job,
            **self._memory(wishes, tasks),
            "run_time": wishes.run_time,
            "licences": _licences(wishes, tasks),
            "project": wishes.project,
            "run_as": wishes.user,
            "template": wishes.queue or wishes.quality,
            "tasks": specs,
        }

    def _tell(self, kind: Kind, where: str, what: str) -> None:
        """Say what became of something; ``job`` is this one."""
        self._findings.add(kind, self._where if where == "job" else where, what)

    def _task(self, read: Read, size: Bounds, where: Fields) -> TaskSpec:
        unasked: tuple[str, ...] = where.pop("unasked", ())
        fields = read.fields
        if unasked:
            what = f"Feature: a task can ask for one; {', '.join(unasked)} is not asked for"
            self._findings.unsupported(self._policy, read.part.where, what)
            kept = TaskGroup(properties=tuple(Selection(name="Feature", value=name) for name in unasked))
            fields = fields | {"extensions": extensions_of(kept) | fields["extensions"]}
        return TaskSpec(**fields, minimum=size[0], maximum=size[1], run_time=read.own.run_time, **where)

    def _memory(self, wishes: Wishes, tasks: Sequence[Read]) -> Fields:
        """Ask of every node of the job what the most demanding of its tasks asks for."""
        asked = [one.part.asked for one in tasks] or [wishes]
        least = [one.least_memory or 0 for one in asked]
        most = [one.most_memory for one in asked if one.most_memory is not None]
        if len(set(least)) > 1:
            what = f"Memory: every node of the job has the most that a task group asks for, {max(least)} MB"
            self._findings.add(Kind.APPROXIMATED, self._where, what)
        elif any(least):
            what = "Memory: every node of the job has so much"
            self._findings.add(Kind.TRANSLATED, self._where, what)
        if most and min(most) < max(least):
            what = "Memory: no node suits all task groups, so the upper bound is left out"
            self._findings.add(Kind.APPROXIMATED, self._where, what)
            most = []
        return {"minimum_memory": max(least) or None, "maximum_memory": min(most, default=None)}

    def _told(self) -> Fields:
        """Return the fields that follow from the job's own simple properties."""
        job, where, findings = self._job, self._where, self._findings
        fields = {"name": job.name, "environment": environment_of(job)}
        fields |= priority_of(job, where, self._walk, findings)
        fields |= hold_of(job, where, self._walk, findings)
        return fields | events_of(job, self._walk)

    def _owned(self, wishes: Wishes, kept: Scope) -> list[Property]:
        """Return the properties that have no field, and are written back: Machine, and one of two queues."""
        names = ["Machine", *(["QualityOfService"] if wishes.queue and wishes.quality else [])]
        for name, text, becomes in _ONE_NAME:
            if getattr(wishes, text):
                self._findings.add(Kind.TRANSLATED, self._where, f"{name}: {becomes}")
        if wishes.queue and wishes.quality:
            what = f"QualityOfService {wishes.quality}: it is kept; the Queue is the template"
            self._findings.add(Kind.KEPT, self._where, what)
        elif wishes.quality:
            what = "QualityOfService: it is the template of the job"
            self._findings.add(Kind.TRANSLATED, self._where, what)
        asked = self._job.requested.properties if self._job.requested else ()
        texts = {"Machine": wishes.machine, "QualityOfService": wishes.quality}
        inside = kept.requested.properties if kept.requested else ()
        already = {one.name for one in (*kept.properties, *inside)}
        found = [one for one in (*self._job.properties, *asked) if one.name in set(names) - already]
        said = {one.name: one.value for one in found if one.value and one.value == texts[one.name]}
        return [Property(name=name, value=value) for name, value in said.items()]


_ONE_NAME = (
    ("Queue", "queue", "it is the template of the job"),
    ("User", "user", "the job runs as that user, if its submitter may"),
    (
        "Machine",
        "machine",
        "it is compared with the name of the cluster where the job is submitted, and kept",
    ),
)


def _check_machine(asked: str, machine: str, where: str) -> None:
    if asked and machine and asked.lower() != machine.lower():
        raise BadRequest(
            code="machine",
            what=f"{where}: it is for the machine {asked!r}, and this is {machine!r}",
            fix="submit it there, or take Machine out",
        )


def _licences(wishes: Wishes, tasks: Sequence[Read]) -> tuple[Licence, ...]:
    """Return the licences of the job and of its task groups, which all run together."""
    amounts: dict[str, int] = {}
    for one in (wishes, *(task.own for task in tasks)):
        for licence in one.licences:
            amounts[licence.feature] = amounts.get(licence.feature, 0) + (licence.amount or 0)
    return tuple(Licence(feature, amount) for feature, amount in amounts.items())
