"""Writing a job in any dialect."""

from typing import TYPE_CHECKING

from headnode.core.formats.dialects.reading import How, read, sss_dialect
from headnode.core.formats.dialects.recognising import language_of
from headnode.core.formats.dialects.table import Dialect, Language, dialect_named
from headnode.core.formats.fidelity import Item, Kind, Report, honour
from headnode.core.model.job import JobSpec

if TYPE_CHECKING:
    from headnode.core.formats import sss
    from headnode.core.formats.compute_cluster_xml import Live

Written = tuple[bytes, Report]


def write(spec: JobSpec, dialect: str, live: "Live | None" = None) -> Written:
    """Write a job in `dialect`; say what the dialect cannot.  `live` adds what only the scheduler knows.

    Raises:  BadRequest ``dialect``, and what the writer of the dialect refuses: ``too-large``,
             ``no-tasks``, ``one-task``, ``not-unicode``.
    """
    found = dialect_named(dialect)
    if found.language is Language.COMPUTE_CLUSTER:
        from headnode.core.formats import compute_cluster_xml

        return compute_cluster_xml.write_job(spec, found.name, live=live)
    if found.language is Language.SSS:
        return _document(spec, found, live)
    text, report = _description(spec, found)
    return text, report + (_not_told(found.title) if live is not None else ())


def convert(data: bytes | str, how: How, to: str) -> tuple[str, Report, Written]:
    """Return what a job file was read as, the report of that, and the job in dialect `to` with its own.

    Within SSS the document itself is written, with all its jobs.
    Raises:  as `read` and `write`; BadRequest ``several-jobs``; and ``not-understood`` under awareness
             policy Reject when something is lost.
    """
    wanted = dialect_named(to)
    if wanted.language is Language.SSS and (how.language or language_of(data)) is Language.SSS:
        was, report, written = _respelled(data, how, wanted)
    else:
        reading = read(data, how)
        was, report, written = reading.dialect, reading.report, write(reading.only_job(), wanted.name)
    return was, report, (written[0], honour(how.awareness, written[1]))


def _respelled(data: bytes | str, how: How, wanted: Dialect) -> tuple[str, Report, Written]:
    from headnode.core.formats import sss

    document, report = sss.read_document(data, awareness=how.awareness, lenient=how.lenient)
    return sss_dialect(document), report, sss.write_document(document, _version(wanted))


def _version(wanted: Dialect) -> "sss.Version":
    from headnode.core.formats import sss

    return sss.Version.V3_1 if wanted.name == "sss" else sss.Version.V3_0


def _document(spec: JobSpec, wanted: Dialect, live: "Live | None") -> Written:
    from headnode.core.formats import sss
    from headnode.core.formats.sss import meaning

    version = _version(wanted)
    identifier = str(live.id) if live is not None else ""
    document, report = meaning.document_of(spec, version, identifier=identifier)
    if live is not None:
        from headnode.core.formats.dialects.sss_live import with_live

        document = with_live(document, live)
    text, more = sss.write_document(document, version)
    return text, report + more


def _description(spec: JobSpec, wanted: Dialect) -> Written:
    if wanted.language is Language.GRID:
        from headnode.core.formats import grid

        return grid.write_job(spec, wanted.name)
    from headnode.core.formats import native_form

    return native_form.write_job(spec, wanted.name)


def _not_told(title: str) -> Report:
    what = f"its state, times and nodes are not written: {title} describes what is asked for"
    return (Item(Kind.NOTE, "Job", what),)
