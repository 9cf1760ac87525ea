"""The Scalable Systems Software job object, versions 3.1.0 and 3.0.3, read and written.

Source: SSS 3.1.0 and SSS 3.0.3.
"""

from headnode.core.formats.sss.inheritance import effective_job, effective_jobs
from headnode.core.formats.sss.job_object import Document, File, Job, JobGroup, Task, TaskGroup
from headnode.core.formats.sss.job_xml.locating import locate
from headnode.core.formats.sss.job_xml.reader import read_document
from headnode.core.formats.sss.job_xml.writer import write_document
from headnode.core.formats.sss.recognising import is_job_object
from headnode.core.formats.sss.reference import reference_tables
from headnode.core.formats.sss.requests.alternatives import request_of
from headnode.core.formats.sss.versions import Version

__all__ = [
    "Document",
    "File",
    "Job",
    "JobGroup",
    "Task",
    "TaskGroup",
    "Version",
    "effective_job",
    "effective_jobs",
    "is_job_object",
    "locate",
    "read_document",
    "reference_tables",
    "request_of",
    "write_document",
]
