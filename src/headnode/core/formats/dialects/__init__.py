"""Every dialect of job files: recognised by content, read, and written, through one table of names."""

from headnode.core.formats.dialects.converting import convert, convert_each
from headnode.core.formats.dialects.reading import How, Reading, locate, read
from headnode.core.formats.dialects.recognising import language_of
from headnode.core.formats.dialects.several import write_each, write_together
from headnode.core.formats.dialects.table import DIALECTS, Dialect, Language, dialect_named
from headnode.core.formats.dialects.writing import write

__all__ = [
    "DIALECTS",
    "Dialect",
    "How",
    "Language",
    "Reading",
    "convert",
    "convert_each",
    "dialect_named",
    "language_of",
    "locate",
    "read",
    "write",
    "write_each",
    "write_together",
]
