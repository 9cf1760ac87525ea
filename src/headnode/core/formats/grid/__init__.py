"""Grid job and task descriptions in JSON, version 2, read and written.

Source: grid, "Grid job description in JSON, version 2"; the schemas and the behaviour of the Pilot service.
"""

from headnode.core.formats.grid.reading import JOB, TASK, Options, files_named, read_job
from headnode.core.formats.grid.source import Behaviour
from headnode.core.formats.grid.transfers import Direction, Transfer, refuse_transfers, transfers_of

__all__ = [
    "JOB",
    "TASK",
    "Behaviour",
    "Direction",
    "Options",
    "Transfer",
    "files_named",
    "read_job",
    "refuse_transfers",
    "transfers_of",
]
