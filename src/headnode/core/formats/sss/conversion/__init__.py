"""SSS job objects as jobs of the model, and back."""

from headnode.core.formats.sss.conversion.choosing import Asker
from headnode.core.formats.sss.conversion.document_reading import ConvertedJobs, jobs_in
from headnode.core.formats.sss.conversion.extensions import id_read_with
from headnode.core.formats.sss.conversion.job_writing import document_of
from headnode.core.formats.sss.conversion.several_jobs import document_of_jobs
from headnode.core.model.dependencies import DependencyLink

__all__ = [
    "Asker",
    "ConvertedJobs",
    "DependencyLink",
    "document_of",
    "document_of_jobs",
    "id_read_with",
    "jobs_in",
]
