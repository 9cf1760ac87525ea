"""Write one job or several in any dialect, and convert files from one dialect to another."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headnode.core.formats.dialects.reading import (
    DIALECTS,
    JobDialect,
    JobLanguage,
    ReadJobs,
    ReadOptions,
    dialect_named,
    language_of,
    read,
    sss_dialect,
)
from headnode.core.formats.fidelity import Fidelity, FidelityReport, ReportItem, apply_awareness
from headnode.core.model.dependency import DependencyLink
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import DEPENDENCY_FIELDS, JobSpec

if TYPE_CHECKING:
    from headnode.core.formats import sss
    from headnode.core.formats.job_views import ExportedJob

Written = tuple[bytes, FidelityReport]


def write(spec: JobSpec, dialect: str, live: "ExportedJob | None" = None) -> Written:
    """Write a job in `dialect`; say what the dialect cannot.  `live` adds what only the scheduler knows.

    Raises:  BadRequest ``dialect``, and what the writer of the dialect refuses: ``too-large``,
             ``no-tasks``, ``one-task``, ``not-unicode``.
    """
    chosen = dialect_named(dialect)
    writer = _WRITERS.get(chosen.language)
    if writer is None:
        raise BadRequest(
            code="dialect",
            what=f"Headnode reads {chosen.title}, but does not write it",
            fix=f"choose from: {', '.join(WRITTEN)}",
        )
    return writer(spec, chosen, live)


def version_of(dialect: JobDialect) -> "sss.SssVersion":
    """Return the version of SSS that a dialect of it is."""
    from headnode.core.formats import sss

    return sss.SssVersion.V3_1 if dialect.name == "sss" else sss.SssVersion.V3_0


def _document(spec: JobSpec, dialect: JobDialect, live: "ExportedJob | None") -> Written:
    from headnode.core.formats import sss
    from headnode.core.formats.sss import conversion

    version = version_of(dialect)
    identifier = str(live.id) if live is not None else ""
    document, report = conversion.document_of(spec, version, identifier=identifier)
    if live is not None:
        from headnode.core.formats.sss.conversion.document_writing import (
            unlisted_instances,
            with_scheduler_properties,
        )

        document = with_scheduler_properties(document, live, spec)
        report += unlisted_instances(live)
    text, more = sss.write_document(document, version)
    return text, report + more


def _compute_cluster(spec: JobSpec, dialect: JobDialect, live: "ExportedJob | None") -> Written:
    from headnode.core.formats import hpc_xml

    return hpc_xml.write_job(spec, dialect.name, live=live)


def _grid(spec: JobSpec, dialect: JobDialect, live: "ExportedJob | None") -> Written:
    from headnode.core.formats import grid

    text, report = grid.write_job(spec, dialect.name)
    return text, report + _unwritten_state(dialect, live)


def _native(spec: JobSpec, dialect: JobDialect, live: "ExportedJob | None") -> Written:
    from headnode.core.formats import native

    text, report = native.write_job(spec, dialect.name)
    return text, report + _unwritten_state(dialect, live)


def _batch(spec: JobSpec, dialect: JobDialect, live: "ExportedJob | None") -> Written:
    from headnode.core.formats import batch

    text, report = batch.write_script(spec, batch.BatchSystem(dialect.name))
    return text, report + _unwritten_state(dialect, live)


def _condor(spec: JobSpec, dialect: JobDialect, live: "ExportedJob | None") -> Written:
    from headnode.core.formats.condor.writing import write_submit

    text, report = write_submit(spec)
    return text, report + _unwritten_state(dialect, live)


_WRITERS = {
    JobLanguage.CONDOR: _condor,
    JobLanguage.BATCH: _batch,
    JobLanguage.COMPUTE_CLUSTER: _compute_cluster,
    JobLanguage.SSS: _document,
    JobLanguage.GRID: _grid,
    JobLanguage.NATIVE: _native,
}
"""How a job is written in each language; one that is not here is only read."""
WRITTEN = tuple(name for name, dialect in DIALECTS.items() if dialect.language in _WRITERS)
"""The dialects that are not only read."""


def _unwritten_state(dialect: JobDialect, live: "ExportedJob | None") -> FidelityReport:
    if live is None:
        return ()
    what = f"its state, times and nodes are not written: {dialect.title} describes requests only"
    return (ReportItem(Fidelity.NOTE, "Job", what),)


_NO_FILE_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_FILE_NAME = 60  # characters of a job's name in the name of its file


def write_together(reading: ReadJobs, dialect: str) -> Written:
    """Write all jobs of a file as one file of `dialect`, with what they wait for.

    Raises:  BadRequest ``several-jobs`` when a file of the dialect holds one job, ``no-jobs`` when there is
             none; else as `write`.
    """
    wanted = dialect_named(dialect)
    _refuse_none(reading)
    if len(reading.jobs) == 1 and not reading.links:
        return _one(reading.jobs[0], wanted)
    if wanted.language is JobLanguage.NATIVE:
        from headnode.core.formats import native

        return native.write_jobs(reading.jobs, reading.links, wanted.name)
    if wanted.language is JobLanguage.SSS:
        return _sss_document(reading.jobs, reading.links, wanted)
    raise BadRequest(
        code="several-jobs",
        what=f"the file holds {len(reading.jobs)} jobs, and a file in {wanted.name} holds one",
        fix="write each into a file of its own with --directory DIR, or all of them as native or sss",
    )


def _one(spec: JobSpec, dialect: JobDialect) -> Written:
    """Write the only job of a file; in SSS its tasks that wait for each other become jobs of a group."""
    if dialect.language is JobLanguage.SSS:
        from headnode.core.formats.sss.conversion.document_writing import steps_of

        steps = steps_of(spec)
        if steps is not None:
            text, report = _sss_document(steps.jobs, steps.links, dialect)
            return text, steps.report + report
    return write(spec, dialect.name)


def _sss_document(jobs: Sequence[JobSpec], links: Sequence[DependencyLink], dialect: JobDialect) -> Written:
    from headnode.core.formats import sss
    from headnode.core.formats.sss import conversion

    version = version_of(dialect)
    document, report = conversion.document_of_jobs(jobs, links, version)
    text, more = sss.write_document(document, version)
    return text, report + more


def write_each(reading: ReadJobs, dialect: str) -> tuple[list[tuple[str, bytes]], FidelityReport]:
    """Write every job as a file of its own; return names for the files with their texts, and the report.

    That a job waits for another of them cannot be said in files of one job, and is reported.
    Raises:  BadRequest ``no-jobs``; else as `write`.
    """
    wanted = dialect_named(dialect)
    _refuse_none(reading)
    files: list[tuple[str, bytes]] = []
    report: list[ReportItem] = list(_lost_links(reading))
    width = len(str(len(reading.jobs)))
    for number, spec in enumerate(reading.jobs, 1):
        text, found = write(spec, wanted.name)
        stem = _NO_FILE_NAME.sub("-", spec.name)[:_MAX_FILE_NAME].strip("-.") or "job"
        files.append((f"{number:0{width}}-{stem}{wanted.suffix}", text))
        report += (_of_job(item, number, spec) for item in found)
    return files, tuple(report)


def _refuse_none(reading: ReadJobs) -> None:
    if not reading.jobs:
        what = "the file contains no job: all of its jobs are defined elsewhere"
        raise BadRequest(code="no-jobs", what=what, fix="write a job into it")


def _lost_links(reading: ReadJobs) -> Iterator[ReportItem]:
    for link in reading.links:
        child, parent = (_name_of(number, reading.jobs) for number in (link.child, link.parent))
        what = (
            f"{DEPENDENCY_FIELDS[link.condition]}: that it waits for {parent} has no equivalent across files"
        )
        yield ReportItem(Fidelity.NOT_SUPPORTED, child, what)


def _name_of(number: int, jobs: Sequence[JobSpec]) -> str:
    name = jobs[number].name
    return f"job {number + 1} ({name!r})" if name else f"job {number + 1}"


def _of_job(item: ReportItem, number: int, spec: JobSpec) -> ReportItem:
    """Return a finding with the job that it is about."""
    job = f"job {number} ({spec.name!r})" if spec.name else f"job {number}"
    where = job if item.where.lower() == "job" else f"{job}: {item.where}"
    return ReportItem(item.kind, where, item.what, item.line, item.column)


def convert(data: bytes | str, how: ReadOptions, to: str) -> tuple[str, FidelityReport, Written]:
    """Return what a job file was read as, the report of that, and all its jobs in dialect `to` with theirs.

    Within SSS the document itself is written.
    Raises:  as `read` and `write_together`; BadRequest ``several-jobs``; and ``not-understood`` under
             awareness policy Reject when something is lost.
    """
    wanted = dialect_named(to)
    if wanted.language is JobLanguage.SSS and (how.language or language_of(data)) is JobLanguage.SSS:
        was, report, written = _respelled(data, how, wanted)
    else:
        reading = read(data, how)
        was, report, written = reading.dialect, reading.report, write_together(reading, wanted.name)
    return was, report, (written[0], apply_awareness(how.awareness, written[1]))


def convert_each(
    data: bytes | str, how: ReadOptions, to: str
) -> "tuple[str, FidelityReport, tuple[Sequence[tuple[str, bytes]], FidelityReport]]":
    """Return what a job file was read as, the report of that, and each job as a file, with their report.

    Raises:  as `read` and `write_each`, and BadRequest ``not-understood`` as `convert`.
    """
    reading = read(data, how)
    files, report = write_each(reading, to)
    return reading.dialect, reading.report, (files, apply_awareness(how.awareness, report))


def _respelled(
    data: bytes | str, how: ReadOptions, dialect: JobDialect
) -> tuple[str, FidelityReport, Written]:
    from headnode.core.formats import sss

    document, report = sss.read_document(data, awareness=how.awareness, lenient=how.lenient)
    return sss_dialect(document), report, sss.write_document(document, version_of(dialect))
