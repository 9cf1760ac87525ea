"""The Scalable Systems Software job object, versions 3.1.0 and 3.0.3, read and written.

Source: SSS 3.1.0 and SSS 3.0.3."""

from headnode.core.formats.sss.expressions import request_of
from headnode.core.formats.sss.job_object import (
    File,
    JobGroup,
    SssDocument,
    SssJob,
    Task,
    TaskGroup,
    effective_job,
    effective_jobs,
)
from headnode.core.formats.sss.reading import place_of, read_document
from headnode.core.formats.sss.source_text import is_job_object
from headnode.core.formats.sss.value_types import SssVersion
from headnode.core.formats.sss.writing import write_document

__all__ = [
    "File",
    "JobGroup",
    "SssDocument",
    "SssJob",
    "SssVersion",
    "Task",
    "TaskGroup",
    "effective_job",
    "effective_jobs",
    "is_job_object",
    "place_of",
    "read_document",
    "request_of",
    "write_document",
]
