"""Writing a job in any dialect."""

from typing import TYPE_CHECKING

from headnode.core.formats.dialects.table import Dialect, Language, dialect_named
from headnode.core.formats.fidelity import Item, Kind, Report
from headnode.core.model.job import JobSpec

if TYPE_CHECKING:
    from headnode.core.formats import sss
    from headnode.core.formats.live_jobs import Live

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


def version_of(wanted: Dialect) -> "sss.Version":
    """Return the version of SSS that a dialect of it is."""
    from headnode.core.formats import sss

    return sss.Version.V3_1 if wanted.name == "sss" else sss.Version.V3_0


def _document(spec: JobSpec, wanted: Dialect, live: "Live | None") -> Written:
    from headnode.core.formats import sss
    from headnode.core.formats.sss import meaning

    version = version_of(wanted)
    identifier = str(live.id) if live is not None else ""
    document, report = meaning.document_of(spec, version, identifier=identifier)
    if live is not None:
        from headnode.core.formats.dialects.sss_live import unlisted, with_live

        document = with_live(document, live, spec)
        report += unlisted(live)
    text, more = sss.write_document(document, version)
    return text, report + more


def _description(spec: JobSpec, wanted: Dialect) -> Written:
    if wanted.language is Language.GRID:
        from headnode.core.formats import grid

        return grid.write_job(spec, wanted.name)
    from headnode.core.formats import native_form

    return native_form.write_job(spec, wanted.name)


def _not_told(title: str) -> Report:
    what = f"its state, times and nodes are not written: {title} describes requests only"
    return (Item(Kind.NOTE, "Job", what),)
