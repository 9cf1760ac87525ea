"""Every dialect of job files: recognised by content, read, and written, through one table of names."""

from headnode.core.formats.dialects.reading import (
    DIALECTS,
    SUBMITTED,
    JobDialect,
    JobLanguage,
    ReadJobs,
    ReadOptions,
    dialect_named,
    language_of,
    locate,
    read,
)
from headnode.core.formats.dialects.writing import (
    WRITTEN,
    convert,
    convert_each,
    write,
    write_each,
    write_together,
)

__all__ = [
    "DIALECTS",
    "SUBMITTED",
    "WRITTEN",
    "JobDialect",
    "JobLanguage",
    "ReadJobs",
    "ReadOptions",
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
