"""Several jobs of one file in another dialect: in one file again, or each in a file of its own."""

import re
from collections.abc import Iterator, Sequence

from headnode.core.formats.dialects.reading import Reading
from headnode.core.formats.dialects.table import Dialect, Language, dialect_named
from headnode.core.formats.dialects.writing import Written, version_of, write
from headnode.core.formats.fidelity import Item, Kind, Report
from headnode.core.formats.links import Link
from headnode.core.model.dependencies import FIELDS
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec

_SUFFIXES = {Language.COMPUTE_CLUSTER: ".xml", Language.SSS: ".xml", Language.GRID: ".json"}
_NO_FILE_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST = 60  # characters of a job's name in the name of its file


def write_together(reading: Reading, dialect: str) -> Written:
    """Write all jobs of a file as one file of `dialect`, with what they wait for.

    Raises:  BadRequest ``several-jobs`` when a file of the dialect holds one job, ``no-jobs`` when there is
             none; else as `write`.
    """
    wanted = dialect_named(dialect)
    _refuse_none(reading)
    if len(reading.jobs) == 1 and not reading.links:
        return _one(reading.jobs[0], wanted)
    if wanted.language is Language.NATIVE:
        from headnode.core.formats import native_form

        return native_form.write_jobs(reading.jobs, reading.links, wanted.name)
    if wanted.language is Language.SSS:
        return _sss_document(reading.jobs, reading.links, wanted)
    raise BadRequest(
        code="several-jobs",
        what=f"the file holds {len(reading.jobs)} jobs, and a file in {wanted.name} holds one",
        fix="write each into a file of its own with --directory DIR, or all of them as native or sss",
    )


def _one(spec: JobSpec, wanted: Dialect) -> Written:
    """Write the only job of a file; in SSS its tasks that wait for each other become jobs of a group."""
    if wanted.language is Language.SSS:
        from headnode.core.formats.sss.meaning.steps import steps_of

        steps = steps_of(spec)
        if steps is not None:
            text, report = _sss_document(steps.jobs, steps.links, wanted)
            return text, steps.report + report
    return write(spec, wanted.name)


def _sss_document(jobs: Sequence[JobSpec], links: Sequence[Link], wanted: Dialect) -> Written:
    from headnode.core.formats import sss
    from headnode.core.formats.sss import meaning

    version = version_of(wanted)
    document, report = meaning.document_of_jobs(jobs, links, version)
    text, more = sss.write_document(document, version)
    return text, report + more


def write_each(reading: Reading, dialect: str) -> tuple[list[tuple[str, bytes]], Report]:
    """Write every job as a file of its own; return names for the files with their texts, and the report.

    That a job waits for another of them cannot be said in files of one job, and is reported.
    Raises:  BadRequest ``no-jobs``; else as `write`.
    """
    wanted = dialect_named(dialect)
    _refuse_none(reading)
    files: list[tuple[str, bytes]] = []
    report: list[Item] = list(_lost_links(reading))
    width = len(str(len(reading.jobs)))
    for number, spec in enumerate(reading.jobs, 1):
        text, found = write(spec, wanted.name)
        stem = _NO_FILE_NAME.sub("-", spec.name)[:_LONGEST].strip("-.") or "job"
        files.append((f"{number:0{width}}-{stem}{suffix_of(wanted)}", text))
        report += (_of_job(item, number, spec) for item in found)
    return files, tuple(report)


def _refuse_none(reading: Reading) -> None:
    if not reading.jobs:
        what = "the file contains no job: all of its jobs are defined elsewhere"
        raise BadRequest(code="no-jobs", what=what, fix="write a job into it")


def suffix_of(dialect: Dialect) -> str:
    """Return what the name of a file in the dialect ends with.

    >>> suffix_of(dialect_named("native")), suffix_of(dialect_named("grid"))
    ('.toml', '.json')
    """
    if dialect.language is Language.NATIVE:
        return ".toml" if dialect.name == "native" else ".json"
    return _SUFFIXES[dialect.language]


def _lost_links(reading: Reading) -> Iterator[Item]:
    for link in reading.links:
        child, parent = (_called(number, reading.jobs) for number in (link.child, link.parent))
        what = f"{FIELDS[link.condition]}: that it waits for {parent} has no equivalent across files"
        yield Item(Kind.NOT_SUPPORTED, child, what)


def _called(number: int, jobs: Sequence[JobSpec]) -> str:
    name = jobs[number].name
    return f"job {number + 1} ({name!r})" if name else f"job {number + 1}"


def _of_job(item: Item, number: int, spec: JobSpec) -> Item:
    """Return a finding with the job that it is about."""
    job = f"job {number} ({spec.name!r})" if spec.name else f"job {number}"
    where = job if item.where.lower() == "job" else f"{job}: {item.where}"
    return Item(item.kind, where, item.what, item.line, item.column)
