"""The jobs of a document as jobs of the model."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from headnode.core.formats.fidelity import Awareness, FidelityReport
from headnode.core.formats.sss.conversion.extensions import ConversionFindings
from headnode.core.formats.sss.conversion.job_reading import (
    DIALECTS,
    DocumentFields,
    GroupFields,
    JobReader,
    JobsByName,
    jobs_by_name,
    parents_of,
)
from headnode.core.formats.sss.conversion.simple_fields import NOBODY, Asker
from headnode.core.formats.sss.job_object import (
    ENTRY_NAMES,
    EffectiveJob,
    Entry,
    JobGroup,
    JobRef,
    SssDocument,
    SssJob,
    SssReference,
    effective_job,
    effective_jobs,
)
from headnode.core.model.dependency import DependencyLink
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec

GROUP = "group."
"""Before the names of what a job group says of itself, in the extensions of its jobs."""


class ConvertedJobs(msgspec.Struct, frozen=True):
    """The jobs of a document, the links between them, and what became of every word."""

    jobs: tuple[JobSpec, ...]
    links: tuple[DependencyLink, ...]
    report: FidelityReport


def jobs_in(
    document: SssDocument,
    report: FidelityReport = (),
    *,
    awareness: Awareness = Awareness.WARN,
    asker: Asker = NOBODY,
) -> ConvertedJobs:
    """Return the jobs of `document`; `report` is that of its reader, which comes first in the new one.

    `awareness` is the policy of what names none itself.  A job that is for another cluster than that of
    `asker` is refused.
    Raises:  BadRequest, whose path leads through the document: ``not-understood`` under awareness policy
             Reject, ``request`` when what is requested contradicts itself, ``too-many-alternatives``,
             groups, ``machine``, ``interactive``, ``size``, ``too-many-instances``.
    """
    reader = _DocumentConverter(document, document.awareness or awareness, asker)
    reader.document(document.entries)
    return ConvertedJobs(tuple(reader.jobs), tuple(reader.links), (*report, *reader.findings.report()))


class _JobSet(NamedTuple):
    """Jobs of one document, their awareness policy, and the fidelity report of each."""

    jobs: list[EffectiveJob]
    policy: Awareness
    around: GroupFields


class _DocumentConverter:
    """Reads one document."""

    def __init__(self, document: SssDocument, policy: Awareness, asker: Asker) -> None:
        scripts = {file.id: file.body for file in document.files}
        self._policy, self._says = policy, DocumentFields(DIALECTS[document.version], scripts, asker)
        self._everybody: list[SssJob] = []
        self._all: JobsByName | None = None
        self.findings = ConversionFindings()
        self.jobs: list[JobSpec] = []
        self.links: list[DependencyLink] = []

    def document(self, entries: Iterable[Entry]) -> None:
        """Read the entries of a document."""
        parts = list(self._parts(entries))
        self._everybody = [one.job for part in parts for one in part.jobs]
        for part in parts:
            self._read(part)

    def _parts(self, entries: Iterable[Entry]) -> Iterator[_JobSet]:
        for entry in entries:
            if isinstance(entry, SssJob):
                yield _JobSet([effective_job(entry)], self._policy, GroupFields())
            elif isinstance(entry, JobGroup):
                yield self._group(entry)
            else:
                self._elsewhere(entry)

    def _group(self, group: JobGroup) -> _JobSet:
        """Return the jobs of a group."""
        policy = group.awareness or self._policy
        jobs = effective_jobs(group)
        for job in jobs:
            if isinstance(job, JobRef):
                self._elsewhere(job)
        effective = [job for job in jobs if isinstance(job, EffectiveJob)]
        return _JobSet(effective, policy, self._group_fields(group))

    def _elsewhere(self, entry: SssReference) -> None:
        """Tell of what is defined elsewhere."""
        what = f"{ENTRY_NAMES[type(entry)]} {entry.id!r} is defined elsewhere: it is not submitted"
        self.findings.at("document").unsupported(entry.awareness or self._policy, what)

    def _group_fields(self, group: JobGroup) -> GroupFields:
        """Return what a group says of each of its jobs."""
        findings = self.findings.at(f"job group {group.id!r}")
        for one in group.properties:
            if one.name in ("State", "CreationTime") and one.value is not None:
                findings.note(f"{one.name}: a result of the group on another system; not an input")
        called = group.name or group.id
        findings.translated(f"it is the group {called!r} of its jobs")
        more = {} if called == group.id else {f"{GROUP}Id": group.id}
        return GroupFields(more, called, str(group.value("Description") or ""))

    def _read(self, part: _JobSet) -> None:
        first = len(self.jobs)
        own: list[JobsByName] = []

        def among() -> tuple[JobsByName, JobsByName]:
            """Return the jobs of the part, and all: few documents have dependencies that ask for them."""
            if not own:
                own.append(jobs_by_name([one.job for one in part.jobs], first))
            self._all = self._all or jobs_by_name(self._everybody, 0)
            return own[0], self._all

        try:
            for number, job in enumerate(part.jobs, first):
                name = job.job.id
                where = f"job {name!r}" if name else "job"
                self.findings.path = ("jobs", number)
                waits = parents_of(job.job, number, among, where)
                reader = JobReader(job, part.policy, self.findings.at(where), self._says)
                self.jobs.append(reader.spec(waits, part.around))
                self.links += waits.links
        except BadRequest as wrong:
            wrong.inside(*self.findings.path)
            raise
