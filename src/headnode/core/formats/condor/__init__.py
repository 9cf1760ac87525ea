"""Submit description files of HTCondor as job files.

`lines` and `statements` find values and queue commands, `macros` expands them, `commands` and
`other_commands` are the tables of what they ask for, `draft` collects that for a process, `jobs` makes jobs;
`reading` puts them together, `flows` reads flows of DAGMan, `writing` writes a submit file.
"""

from headnode.core.formats.condor.flows import files_of_flow, read_flow
from headnode.core.formats.condor.reading import items_named, place_of, read_submit
from headnode.core.formats.condor.recognition import is_flow, is_submit_file
from headnode.core.formats.condor.statements import PATTERNS
from headnode.core.formats.condor.writing import write_submit

__all__ = [
    "PATTERNS",
    "files_of_flow",
    "is_flow",
    "is_submit_file",
    "items_named",
    "place_of",
    "read_flow",
    "read_submit",
    "write_submit",
]
