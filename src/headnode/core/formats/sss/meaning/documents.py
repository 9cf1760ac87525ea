"""A job of Headnode as an SSS document.

Source: SSS 3.1.0, "Job and JobDefaults"; its examples.
"""

import math
from collections.abc import Iterator

from headnode.core.formats.fidelity import Kind, Report
from headnode.core.formats.sss.conditions import Condition, Dependency, Designator
from headnode.core.formats.sss.job_object import Document, Job, TaskGroup
from headnode.core.formats.sss.meaning.asking_back import asked_back
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.formats.sss.meaning.keeping import kept_job
from headnode.core.formats.sss.meaning.losses import Texts, tell_losses
from headnode.core.formats.sss.meaning.simple import environment, ordered, own_words, span
from headnode.core.formats.sss.meaning.sizes_back import Fields, sized
from headnode.core.formats.sss.meaning.task_writing import run_of, task_group
from headnode.core.formats.sss.meaning.telling import HELD
from headnode.core.formats.sss.meaning.wishes import Wishes
from headnode.core.formats.sss.properties import Property
from headnode.core.formats.sss.rows import Place
from headnode.core.formats.sss.streams import Notifications
from headnode.core.formats.sss.value_types import MOST_SECONDS
from headnode.core.formats.sss.versions import Version
from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec, TaskType

NEW = "new"
"""The Id of a job that has none yet; a job object must have one."""

_WRITTEN = (TaskType.BASIC, TaskType.SWEEP)
_TEXTS = ("name", "project", "template", "run_as", "email")


def document_of(
    spec: JobSpec, version: Version = Version.V3_1, *, identifier: str = ""
) -> tuple[Document, Report]:
    """Return a job as an SSS document, and what SSS cannot say of it.

    `identifier` is the Id of the job; without one, it is that which the job was read with, or `NEW`.
    Each finding begins with the field it is about.  Control characters are the writer's to tell.
    """
    writer = _Writer(spec)
    return Document(version=version, entries=(writer.job(identifier),)), writer.findings.report()


class _Writer:
    """Writes one job."""

    def __init__(self, spec: JobSpec) -> None:
        self._spec = spec
        self.findings = Findings()

    def job(self, identifier: str) -> Job:
        """Return the job."""
        spec, findings = self._spec, self.findings
        tell_losses(spec, findings)
        tasks = tuple(self._runnable())
        kept = kept_job(spec.extensions, "job", findings)
        size = sized(spec, tasks, findings)
        asked = asked_back(self._wishes(size.job), kept, Place.JOB, "job", findings)
        derived = [*self._told(tasks), *(run_of(tasks[0], "task 1", findings) if size.alone else ())]
        properties = self._joined(derived, list(asked.properties), identifier)
        groups = () if size.alone else tuple(self._groups())
        return Job(
            properties=ordered(properties), requested=asked.requested, task_groups=groups, kept=kept.kept
        )

    def _runnable(self) -> Iterator[TaskSpec]:
        for number, task in enumerate(self._spec.tasks, 1):
            if task.kind in _WRITTEN:
                yield task
            else:
                what = f"tasks: SSS has no {task.kind.value} tasks: it is left out"
                self.findings.add(Kind.NOT_SUPPORTED, f"task {number}", what)

    def _groups(self) -> Iterator[TaskGroup]:
        for number, task in enumerate(self._spec.tasks, 1):
            if task.kind in _WRITTEN:
                yield task_group(self._spec, task, f"task {number}", self.findings)

    def _wishes(self, size: Fields) -> Wishes:
        spec = self._spec
        texts = Texts("job", self.findings)
        for field in ("requested_nodes", "excluded_nodes", "node_groups"):
            texts.names(field, getattr(spec, field))
        texts.tell("licences", [licence.feature for licence in spec.licences])
        if any(licence.amount is None for licence in spec.licences):
            what = "licences: one for each processor cannot be said: it is left out"
            self.findings.add(Kind.NOT_SUPPORTED, "job", what)
        return Wishes(
            **size,
            least_memory=spec.minimum_memory,
            most_memory=spec.maximum_memory,
            run_time=span("run_time", spec.run_time, "job", self.findings),
            names=tuple(dict.fromkeys(spec.requested_nodes)),
            excluded=tuple(dict.fromkeys(spec.excluded_nodes)),
            features=tuple(dict.fromkeys(spec.node_groups)),
            licences=tuple(licence for licence in spec.licences if licence.amount is not None),
            project=spec.project,
            user=spec.run_as,
            queue=spec.template,
        )

    def _told(self, tasks: tuple[TaskSpec, ...]) -> Iterator[Property]:
        """Yield the job's own simple properties."""
        spec = self._spec
        texts = Texts("job", self.findings)
        for field in _TEXTS:
            texts.tell(field, [getattr(spec, field)])
        if spec.name:
            yield Property(name="Name", value=spec.name)
        if spec.priority != JobSpec().priority:
            yield Property(name="Priority", value=int(spec.priority))
        yield from self._hold()
        if tasks and all(task.rerunnable for task in tasks):
            yield Property(name="Restartable", value=True)
        yield from environment(spec.environment)
        yield from self._notifications()
        for parent in spec.parents:
            yield Dependency(
                name="Dependency",
                value=str(parent),
                condition=Condition.ON_SUCCESS,
                designator=Designator.JOB_ID,
            )
        yield from own_words(spec.properties, "job", self.findings)

    def _hold(self) -> Iterator[Property]:
        until = self._spec.hold_until
        if until is None:
            return
        whole = math.ceil(until)
        if whole > MOST_SECONDS:
            what = "hold_until: it is after 2106-02-07, the last moment that can be said"
            self.findings.add(Kind.APPROXIMATED, "job", what)
        elif float(whole) != float(until):
            self.findings.add(Kind.APPROXIMATED, "job", "hold_until: whole seconds, rounded up")
        yield Property(name="EligibleTime", value=float(min(whole, MOST_SECONDS)))

    def _notifications(self) -> Iterator[Property]:
        spec = self._spec
        asked = (("JobStart", spec.notify_on_start), ("JobEnd", spec.notify_on_completion))
        words = [word for word, is_asked in asked if is_asked]
        address = spec.email
        if address.startswith("mailto:") or "://" in address:
            what = f"email: {address!r} is no address of mail: it is left out"
            self.findings.add(Kind.NOT_SUPPORTED, "job", what)
            address = ""
        if words or address:
            yield Notifications(name="NotificationList", value=",".join(words), uri=address)

    def _joined(self, derived: list[Property], kept: list[Property], identifier: str) -> list[Property]:
        """Put what follows from the job beside what was kept; where both say it, the job is right."""
        holds = [one for one in kept if one.name == "Hold"]
        if holds and self._spec.hold_until == HELD:
            derived = [one for one in derived if one.name != "EligibleTime"]
        elif holds:
            self.findings.add(Kind.NOTE, "job", "hold_until: the job is not held as it was")
            kept = [one for one in kept if one.name not in ("Hold", "EligibleTime")]
        names = {one.name for one in derived} - {"Extension", "Dependency", "NotificationList"}
        for one in kept:
            if one.name in names:
                what = f"extensions: <{one.name}> is left out: the job says something else"
                self.findings.add(Kind.APPROXIMATED, "job", what)
        kept = [one for one in kept if one.name not in names]
        ids = [one for one in kept if one.name == "Id"]
        if identifier or not ids:
            kept = [one for one in kept if one.name != "Id"]
            kept.append(Property(name="Id", value=identifier or NEW))
        return [*derived, *kept]
