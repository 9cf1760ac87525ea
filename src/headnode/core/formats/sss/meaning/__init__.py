"""What SSS job objects mean to Headnode: from a document to jobs, and back."""

from headnode.core.formats.links import Link
from headnode.core.formats.sss.meaning.choosing import Asker
from headnode.core.formats.sss.meaning.coverage import CoverageRow, coverage
from headnode.core.formats.sss.meaning.documents import document_of
from headnode.core.formats.sss.meaning.jobs import Meant, jobs_in
from headnode.core.formats.sss.meaning.keeping import id_read_with
from headnode.core.formats.sss.meaning.several import document_of_jobs

__all__ = [
    "Asker",
    "CoverageRow",
    "Link",
    "Meant",
    "coverage",
    "document_of",
    "document_of_jobs",
    "id_read_with",
    "jobs_in",
]
