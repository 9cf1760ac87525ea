"""From one dialect to another, with what is lost on the way."""

from typing import TYPE_CHECKING

from headnode.core.formats.dialects.reading import How, read, sss_dialect
from headnode.core.formats.dialects.recognising import language_of
from headnode.core.formats.dialects.several import write_each, write_together
from headnode.core.formats.dialects.table import Dialect, Language, dialect_named
from headnode.core.formats.dialects.writing import Written, version_of
from headnode.core.formats.fidelity import Report, honour

if TYPE_CHECKING:
    from collections.abc import Sequence


def convert(data: bytes | str, how: How, to: str) -> tuple[str, Report, Written]:
    """Return what a job file was read as, the report of that, and all its jobs in dialect `to` with theirs.

    Within SSS the document itself is written.
    Raises:  as `read` and `write_together`; BadRequest ``several-jobs``; and ``not-understood`` under
             awareness policy Reject when something is lost.
    """
    wanted = dialect_named(to)
    if wanted.language is Language.SSS and (how.language or language_of(data)) is Language.SSS:
        was, report, written = _respelled(data, how, wanted)
    else:
        reading = read(data, how)
        was, report, written = reading.dialect, reading.report, write_together(reading, wanted.name)
    return was, report, (written[0], honour(how.awareness, written[1]))


def convert_each(
    data: bytes | str, how: How, to: str
) -> "tuple[str, Report, tuple[Sequence[tuple[str, bytes]], Report]]":
    """Return what a job file was read as, the report of that, and each job as a file, with their report.

    Raises:  as `read` and `write_each`, and BadRequest ``not-understood`` as `convert`.
    """
    reading = read(data, how)
    files, report = write_each(reading, to)
    return reading.dialect, reading.report, (files, honour(how.awareness, report))


def _respelled(data: bytes | str, how: How, wanted: Dialect) -> tuple[str, Report, Written]:
    from headnode.core.formats import sss

    document, report = sss.read_document(data, awareness=how.awareness, lenient=how.lenient)
    return sss_dialect(document), report, sss.write_document(document, version_of(wanted))
