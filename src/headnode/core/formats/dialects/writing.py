"""Writing a job in any dialect."""

from typing import TYPE_CHECKING

from headnode.core.formats.dialects.reading import Reading, refuse_sss
from headnode.core.formats.dialects.table import Language, dialect_named
from headnode.core.formats.fidelity import Item, Kind, Report
from headnode.core.model.job import JobSpec

if TYPE_CHECKING:
    from headnode.core.formats.compute_cluster_xml import Live

Written = tuple[bytes, Report]


def write(spec: JobSpec, dialect: str, live: "Live | None" = None) -> Written:
    """Write a job in `dialect`; say what the dialect cannot.  `live` adds what only the scheduler knows.

    Raises:  BadRequest ``dialect``, ``sss-jobs``, and what the writer of the dialect refuses: ``too-large``,
             ``no-tasks``, ``one-task``, ``not-unicode``.
    """
    found = dialect_named(dialect)
    if found.language is Language.COMPUTE_CLUSTER:
        from headnode.core.formats import compute_cluster_xml

        return compute_cluster_xml.write_job(spec, found.name, live=live)
    if found.language is Language.SSS:
        refuse_sss()
    text, report = _description(spec, found.name, found.language)
    return text, report + (_not_told(found.title) if live is not None else ())


def rewrite(reading: Reading, dialect: str) -> Written:
    """Write what was read in `dialect`.  Within SSS the document itself is written, so that nothing is lost.

    Raises:  as `write`; BadRequest ``several-jobs``.
    """
    found = dialect_named(dialect)
    if reading.document is not None and found.language is Language.SSS:
        from headnode.core.formats import sss

        version = sss.Version.V3_1 if found.name == "sss" else sss.Version.V3_0
        return sss.write_document(reading.document, version)
    return write(reading.only_job(), found.name)


def _description(spec: JobSpec, dialect: str, language: Language) -> Written:
    if language is Language.GRID:
        from headnode.core.formats import grid

        return grid.write_job(spec, dialect)
    from headnode.core.formats import native_form

    return native_form.write_job(spec, dialect)


def _not_told(title: str) -> Report:
    what = f"its state, times and nodes are not written: {title} describes what is asked for"
    return (Item(Kind.NOTE, "Job", what),)
