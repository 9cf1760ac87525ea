"""The Scalable Systems Software job object, versions 3.1.0 and 3.0.3, read and written.

Source: SSS 3.1.0 and SSS 3.0.3.
"""

from headnode.core.formats.sss.job_object import Document, File, Job, JobGroup, Task, TaskGroup
from headnode.core.formats.sss.job_xml.reader import read_document
from headnode.core.formats.sss.job_xml.writer import write_document
from headnode.core.formats.sss.versions import Version

__all__ = [
    "Document",
    "File",
    "Job",
    "JobGroup",
    "Task",
    "TaskGroup",
    "Version",
    "read_document",
    "write_document",
]
