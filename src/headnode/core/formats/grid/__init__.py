"""Grid job and task descriptions in JSON, version 2, read and written.

Source: grid, "Grid job description in JSON, version 2"; schemas and behaviour of the Pilot service."""

from headnode.core.formats.grid.keys import job_schema, task_schema
from headnode.core.formats.grid.place_reading import placed_by_batch, refuse_other_batch
from headnode.core.formats.grid.reading import (
    JOB,
    TASK,
    GridOptions,
    files_named,
    place_of,
    read_job,
    whole_description,
)
from headnode.core.formats.grid.source import Behaviour
from headnode.core.formats.grid.writing import DIALECTS, write_job

__all__ = [
    "DIALECTS",
    "JOB",
    "TASK",
    "Behaviour",
    "GridOptions",
    "files_named",
    "job_schema",
    "place_of",
    "placed_by_batch",
    "read_job",
    "refuse_other_batch",
    "task_schema",
    "whole_description",
    "write_job",
]
