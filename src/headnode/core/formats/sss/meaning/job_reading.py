"""A job of an SSS document becomes a job of Headnode.

Source: SSS 3.1.0, "Job and JobDefaults".
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headnode.core.formats.fidelity import Awareness, Kind
from headnode.core.formats.sss.conditions import Extension, Limit
from headnode.core.formats.sss.inheritance import EffectiveJob, EffectiveTaskGroup
from headnode.core.formats.sss.job_object import Job
from headnode.core.formats.sss.meaning.choosing import Asker
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.formats.sss.meaning.groups import grouped
from headnode.core.formats.sss.meaning.keeping import extensions_of, named
from headnode.core.formats.sss.meaning.limits import limits_of
from headnode.core.formats.sss.meaning.links import Waits
from headnode.core.formats.sss.meaning.options import Meaning, combined, difference
from headnode.core.formats.sss.meaning.requesting import Asking, Taken, take
from headnode.core.formats.sss.meaning.sizes import Tell, sizes_of, total
from headnode.core.formats.sss.meaning.task_reading import (
    Read,
    TaskReader,
    Ways,
    environment_of,
)
from headnode.core.formats.sss.meaning.telling import events_of, moments_of, priority_of
from headnode.core.formats.sss.meaning.walking import Walk
from headnode.core.formats.sss.properties import Property
from headnode.core.formats.sss.rows import Place
from headnode.core.formats.sss.streams import Environment, Notifications
from headnode.core.formats.sss.versions import Version
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import Alternative, JobSpec, Licence
from headnode.core.model.task import TaskSpec

Fields = dict[str, Any]
DIALECTS = {Version.V3_1: "sss", Version.V3_0: "sss-3.0"}
"""The names of the dialects by their versions."""


class GroupSays(NamedTuple):
    """What a job group says of each of its jobs."""

    extensions: Mapping[str, str] = {}
    job_group: str = ""
    description: str = ""


class DocumentSays(NamedTuple):
    """What all jobs of a document have: its dialect, the bodies of its Files, and who submits it where."""

    dialect: str
    scripts: Mapping[str, str]
    asker: Asker


class JobReader:
    """Reads one job.  `where` is how the report calls it."""

    def __init__(self, found: EffectiveJob, where: str, policy: Awareness, findings: Findings) -> None:
        self._found, self._job, self._where = found, found.job, where
        self._policy = found.job.awareness or policy
        self._findings = findings
        self._walk = Walk(Place.JOB, where, self._policy, findings)
        self._said, self._structured = found.job.values(), found.job.structured()
        self._ways: Ways = []

    def spec(self, waits: Waits, document: DocumentSays, around: GroupSays) -> JobSpec:
        """Return the job; `around` is what its group gives it.

        Raises:  BadRequest ``machine``, ``request``, and as the parts that read it.
        """
        job = self._job
        self._walk.over(job, job.properties)
        for named_parent in waits.named:
            what = f"Dependency: the cluster looks up the job with {named_parent}, or refuses this one"
            self._findings.add(Kind.TRANSLATED, self._where, what)
        asker = document.asker
        taken = take(Asking(job, Place.JOB, self._where, self._policy, self._findings, asker))
        _check_machine(taken.wishes.machine, asker.machine, self._where)
        self._ways.append(taken.options)
        tasks = list(self._tasks(document.scripts))
        fields = self._asked(tasks) | self._told() | waits.fields
        owned = self._owned(taken)
        kept = (*self._walk.kept, *taken.outside, *owned)
        ours = named(self._structured.get(Extension, ()))
        rest = Job(properties=kept, requested=taken.requested, kept=job.kept)
        return JobSpec(
            **fields,
            extensions={**extensions_of(rest), **around.extensions, **ours.extensions},
            properties=ours.properties,
            job_group=around.job_group,
            description=ours.description or around.description,
            dialect=document.dialect,
        )

    def _tasks(self, scripts: Mapping[str, str]) -> list[Read]:
        reader = TaskReader(self._said, self._ways, scripts, self._policy, self._findings)
        found: list[Read] = []
        for number, group in enumerate(self._found.task_groups, 1):
            where = f"{self._where}, task group {number}"
            if isinstance(group, EffectiveTaskGroup):
                read = list(reader.group(group, where if group.written else self._where))
                found += read if group.written or self._said.get("Executable") else []
            else:
                what = f"task group {group.id!r} is defined elsewhere: it is not run"
                self._findings.unsupported(group.awareness or self._policy, where, what)
        return found

    def _asked(self, tasks: Sequence[Read]) -> Fields:
        """Return the fields that follow from what is requested, with the tasks and the alternatives."""
        choices, cut = combined([[one.weight for one in ways] for ways in self._ways])
        if cut:
            more = "1 more alternative is" if cut == 1 else f"{cut} more alternatives are"
            what = f"{more} left out, since it prefers all others but the last"
            self._findings.add(Kind.APPROXIMATED, self._where, what)
        first = self._meaning(tasks, choices[0], 0, explicit=False)
        meanings, sized = [first], first.job["minimum"] is not None
        for number, choice in enumerate(choices[1:], 1):
            meanings.append(self._meaning(tasks, choice, number, explicit=sized))
        best = self._ways[0][choices[0][0]].wishes
        together = self._together(tasks, first)
        return {
            **first.job,
            "together": together,
            "project": best.project,
            "reservation": best.reservation,
            "run_as": best.user,
            "template": best.queue or best.quality,
            "tasks": tuple(
                [TaskSpec(**read.fields, **sized) for read, sized in zip(tasks, first.tasks, strict=True)]
            ),
            "alternatives": self._alternatives(meanings) if len(meanings) > 1 else (),
        }

    def _alternatives(self, meanings: Sequence[Meaning]) -> tuple[Alternative, ...]:
        found = [difference(meanings[0], other) for other in meanings[1:]]
        different = tuple(dict.fromkeys(one for one in found if one is not None))
        if different:
            number = "1 alternative" if len(different) == 1 else f"{len(different)} alternatives"
            what = f"Requested: {number} to what it asks for at best"
            self._findings.add(Kind.TRANSLATED, self._where, what)
        return different

    def _together(self, tasks: Sequence[Read], meaning: Meaning) -> bool:
        """Whether there are several tasks, which start together."""
        several = sum([one.instances for one in tasks]) > 1
        if several and any(task["minimum"] < task["maximum"] for task in meaning.tasks):
            what = "Processors from so many to so many: tasks that start together get the least"
            self._findings.add(Kind.APPROXIMATED, self._where, what)
        return several

    def _meaning(
        self, tasks: Sequence[Read], choice: Sequence[int], number: int, *, explicit: bool
    ) -> Meaning:
        """Return what one alternative says of the job and of its tasks."""
        said = self._ways[0][choice[0]].said
        wishes = said.wishes
        parts = [one.part(self._ways, choice) for one in tasks]
        tell = self._tell(f", alternative {number}" if number else "")
        sizes, nodes = sizes_of(wishes, parts, tell), grouped(said, parts, tell)
        job = {
            **sizes.job,
            **nodes.job,
            "run_time": wishes.run_time,
            "licences": self._licences(tasks, choice),
        }
        if explicit and job["minimum"] is None:
            job["minimum"], job["maximum"] = total(parts, sizes.tasks) if parts else (1, 1)
        each = zip(parts, sizes.tasks, nodes.tasks, strict=True)
        fields = [
            {**size, "needs": needs, "run_time": part.own.wishes.run_time} for part, size, needs in each
        ]
        return Meaning(job, tuple(fields))

    def _licences(self, tasks: Sequence[Read], choice: Sequence[int]) -> tuple[Licence, ...]:
        """Return the licences of the job and of its task groups, which all run together."""
        scopes = dict.fromkeys([0, *[scope for one in tasks for scope in (one.group, one.task)]])
        found = [one for scope in scopes for one in self._ways[scope][choice[scope]].said.wishes.licences]
        amounts: dict[str, int] = {}
        for licence in found:
            amounts[licence.feature] = amounts.get(licence.feature, 0) + (licence.amount or 0)
        return tuple([Licence(feature, amount) for feature, amount in amounts.items()])

    def _tell(self, which: str) -> Tell:
        """Return what says what became of something; ``job`` is this one."""

        def tell(kind: Kind, where: str, what: str) -> None:
            self._findings.add(kind, f"{self._where if where == 'job' else where}{which}", what)

        return tell

    def _told(self) -> Fields:
        """Return the fields that follow from the job's own simple properties."""
        job, where, findings = self._job, self._where, self._findings
        fields = {
            "name": job.name,
            "environment": environment_of(self._structured.get(Environment, ())),
            "suspendable": bool(self._said.get("Suspendable")),
            "interactive": bool(self._said.get("Interactive")),
            "resource_limits": limits_of(self._structured.get(Limit, ()), where, self._walk.unsaid, findings),
        }
        fields |= priority_of(self._said, job, where, self._walk, findings)
        fields |= moments_of(self._said, job, where, findings)
        return fields | events_of(self._structured.get(Notifications, ()), self._walk)

    def _owned(self, taken: Taken) -> list[Property]:
        """Return the properties that have no field, and are written back: Machine, and one of two queues."""
        wishes = taken.wishes
        for name, field, becomes in _ONE_NAME:
            if getattr(wishes, field):
                self._findings.add(Kind.TRANSLATED, self._where, f"{name}: {becomes}")
        if wishes.queue and wishes.quality:
            what = f"QualityOfService {wishes.quality}: the Queue is the template of the job"
            self._findings.unsupported(self._policy, self._where, what)
        elif wishes.quality:
            what = "QualityOfService: it is the template of the job"
            self._findings.add(Kind.TRANSLATED, self._where, what)
        texts = {"Machine": wishes.machine, "QualityOfService": wishes.quality if wishes.queue else ""}
        return self._still_to_keep({name: text for name, text in texts.items() if text}, taken)

    def _still_to_keep(self, texts: Mapping[str, str], taken: Taken) -> list[Property]:
        """Return properties of these names and values, as far as the job has them and they are not kept."""
        if not texts:
            return []
        asked = self._job.requested.properties if self._job.requested else ()
        inside = taken.requested.properties if taken.requested else ()
        already = {one.name for one in (*taken.outside, *inside)}
        found = [one for one in (*self._job.properties, *asked) if one.name not in already]
        said = {one.name: one.value for one in found if one.value and one.value == texts.get(one.name)}
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
            what=f"{where}: Machine {asked!r}: the job is for that one, and this is {machine!r}",
            fix="submit it there, or take Machine out",
        )
