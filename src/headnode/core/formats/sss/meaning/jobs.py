"""The jobs of an SSS document as jobs of Headnode.

Source: SSS 3.1.0; "JobGroup", "Job and JobDefaults", "Dependency".
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from headnode.core.formats.fidelity import Awareness, Kind, Report
from headnode.core.formats.links import Link
from headnode.core.formats.sss.inheritance import EffectiveJob, effective_job, effective_jobs
from headnode.core.formats.sss.job_object import Document, Entry, Job, JobGroup, JobRef, Reference
from headnode.core.formats.sss.meaning.choosing import NOBODY, Asker
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.formats.sss.meaning.job_reading import DIALECTS, DocumentSays, GroupSays, JobReader
from headnode.core.formats.sss.meaning.links import Siblings, siblings, waits_of
from headnode.core.model.job import JobSpec

GROUP = "group."
"""Before the names of what a job group says of itself, in the extensions of its jobs."""


class Meant(msgspec.Struct, frozen=True):
    """The jobs of a document, the links between them, and what became of every word."""

    jobs: tuple[JobSpec, ...]
    links: tuple[Link, ...]
    report: Report


def jobs_in(
    document: Document, report: Report = (), *, awareness: Awareness = Awareness.WARN, asker: Asker = NOBODY
) -> Meant:
    """Return the jobs of `document`; `report` is that of its reader, which comes first in the new one.

    `awareness` is the policy of what names none itself.  A job that is for another cluster than that of
    `asker` is refused.
    Raises:  BadRequest ``not-understood`` under awareness policy Reject, ``request`` when what is requested
             contradicts itself, ``too-many-alternatives``, ``groups``, ``machine``, ``interactive``,
             ``size``, ``too-many-instances``.
    """
    reader = _Reader(document, document.awareness or awareness, asker)
    reader.document(document.entries)
    return Meant(tuple(reader.jobs), tuple(reader.links), (*report, *reader.findings.report()))


class _Part(NamedTuple):
    """Jobs that stand together, their awareness policy, and what is said of each of them."""

    jobs: list[EffectiveJob]
    policy: Awareness
    around: GroupSays


class _Reader:
    """Reads one document."""

    def __init__(self, document: Document, policy: Awareness, asker: Asker) -> None:
        scripts = {file.id: file.body for file in document.files}
        self._policy, self._says = policy, DocumentSays(DIALECTS[document.version], scripts, asker)
        self._everybody: list[Job] = []
        self._all: Siblings | None = None
        self.findings = Findings()
        self.jobs: list[JobSpec] = []
        self.links: list[Link] = []

    def document(self, entries: Iterable[Entry]) -> None:
        """Read the entries of a document."""
        parts = list(self._parts(entries))
        self._everybody = [one.job for part in parts for one in part.jobs]
        for part in parts:
            self._read(part)

    def _parts(self, entries: Iterable[Entry]) -> Iterator[_Part]:
        for entry in entries:
            if isinstance(entry, Job):
                yield _Part([effective_job(entry)], self._policy, GroupSays())
            elif isinstance(entry, JobGroup):
                yield self._group(entry)
            else:
                self._elsewhere(entry)

    def _group(self, group: JobGroup) -> _Part:
        """Return the jobs of a group."""
        policy = group.awareness or self._policy
        jobs = effective_jobs(group)
        for job in jobs:
            if isinstance(job, JobRef):
                self._elsewhere(job)
        found = [job for job in jobs if isinstance(job, EffectiveJob)]
        return _Part(found, policy, self._told(group))

    def _elsewhere(self, entry: Reference) -> None:
        """Tell of what is defined elsewhere."""
        name = type(entry).__name__.removesuffix("Ref")
        what = f"{name} {entry.id!r} is defined elsewhere: it is not submitted"
        self.findings.unsupported(entry.awareness or self._policy, "document", what)

    def _told(self, group: JobGroup) -> GroupSays:
        """Return what a group says of each of its jobs."""
        where = f"job group {group.id!r}"
        for one in group.properties:
            if one.name in ("State", "CreationTime") and one.value is not None:
                what = f"{one.name}: it says what became of the group elsewhere, and is not input"
                self.findings.add(Kind.NOTE, where, what)
        called = group.name or group.id
        self.findings.add(Kind.TRANSLATED, where, f"it is the group {called!r} of its jobs")
        more = {} if called == group.id else {f"{GROUP}Id": group.id}
        return GroupSays(more, called, str(group.value("Description") or ""))

    def _read(self, part: _Part) -> None:
        first = len(self.jobs)
        own: list[Siblings] = []

        def among() -> tuple[Siblings, Siblings]:
            """Return the jobs of the part, and all: few documents have dependencies that ask for them."""
            if not own:
                own.append(siblings([one.job for one in part.jobs], first))
            self._all = self._all or siblings(self._everybody, 0)
            return own[0], self._all

        for number, job in enumerate(part.jobs, first):
            name = job.job.id
            where = f"job {name!r}" if name else "job"
            waits = waits_of(job.job, number, among, where)
            reader = JobReader(job, where, part.policy, self.findings)
            self.jobs.append(reader.spec(waits, self._says, part.around))
            self.links += waits.links
