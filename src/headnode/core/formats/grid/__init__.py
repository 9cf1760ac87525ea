"""Grid job and task descriptions in JSON, version 2, read and written.

Source: grid, "Grid job description in JSON, version 2"; the schemas and the behaviour of the Pilot service.
"""

from headnode.core.formats.grid.locating import locate
from headnode.core.formats.grid.needs_reading import refuse_other_batch
from headnode.core.formats.grid.reading import JOB, TASK, Options, files_named, read_job
from headnode.core.formats.grid.schema import job_schema, task_schema
from headnode.core.formats.grid.source import Behaviour
from headnode.core.formats.grid.transfers import Direction, Transfer, refuse_transfers, transfers_of
from headnode.core.formats.grid.writing import DIALECTS, write_job

__all__ = [
    "DIALECTS",
    "JOB",
    "TASK",
    "Behaviour",
    "Direction",
    "Options",
    "Transfer",
    "files_named",
    "job_schema",
    "locate",
    "read_job",
    "refuse_other_batch",
    "refuse_transfers",
    "task_schema",
    "transfers_of",
    "write_job",
]
