"""SSS job objects as jobs of the model, and back.

A job that is read has these forms, each for a reason:
- `SssDocument` (`reading`): what stands in the file, for writing it in either version;
- `EffectiveJob` (`job_object`): with defaults and what encloses it filled in;
- `SortedScope` (`simple_fields`): the properties of the job, of a task group or task, each sorted once;
- alternatives of constraints (`expressions`): only where properties of a request are compared or joined;
- fields of the model (`resource_table`): what is requested, with what is not said left out;
- `JobSpec`, with what has no field in its extensions.
Back, a job is fields of the model again, and these are properties by the same table.
"""

from headnode.core.formats.sss.conversion.document_reading import ConvertedJobs, jobs_in
from headnode.core.formats.sss.conversion.document_writing import document_of_jobs
from headnode.core.formats.sss.conversion.extensions import id_read_with
from headnode.core.formats.sss.conversion.job_writing import document_of
from headnode.core.formats.sss.conversion.simple_fields import Asker
from headnode.core.model.dependency import DependencyLink

__all__ = [
    "Asker",
    "ConvertedJobs",
    "DependencyLink",
    "document_of",
    "document_of_jobs",
    "id_read_with",
    "jobs_in",
]
