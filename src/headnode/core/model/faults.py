"""Whether the job, the node or neither is at fault when an attempt could not be started.

A node names the trouble, and this table says whose fault that is.  A fault of the job fails the attempt.
With a fault of the node or of nobody the attempt never ran: it is queued again, and that is not counted.
A node with a fault of its own is drained.

What a user can bring about at will is the job's fault, whatever the system calls it: no job may drain nodes.
So the paths that a job names are the job's, also on a disk that is broken.
Standard library only: this is loaded by the shepherd factory.

Source: Slurm, "slurmctld" and "slurmd": a launch failure of the node requeues the job and drains the node.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class Fault(Enum):
    """The cause of an attempt that could not be started: the job, the node or neither."""

    JOB = "job"
    NODE = "node"
    NOBODY = "nobody"


# The job's.
COMMAND = "command"  # it is not there, is no program, or its arguments are too long
WORK_DIRECTORY = "work-directory"
FILES = "files"  # standard input, output and error that the job names, or its user's quota
TEMPORARY_DIRECTORY = "temporary-directory"  # it cannot be made; users can fill the disk
LIMITS = "limits"  # resource limits that cannot be set
PROCESS_LIMIT = "process-limit"  # the user or the job has as many processes as it may have
FILTER = "node-filter"  # a program of the site refused it
LAUNCHER = "launcher"  # its user can run no Python here, which mpiexec and transfers need
SHEPHERD_DIED = "shepherd-died"  # again and again; its user may kill it
IDENTITY = "identity"  # its user's groups or limits cannot be taken here
NO_SUCH_USER = "no-such-user"
OTHER_NUMBER = "other-number"
OTHER_USER = "other-user"
# The node's.
AGENT = "agent"  # its agent cannot write, or open what it needs
JOURNAL = "journal"  # what is started cannot be written down
CAPTURED_OUTPUT = "captured-output"
SHEPHERD = "shepherd"  # it cannot be made, or does not stay alive
FACTORY = "factory"
NODE_FILTERS = "node-filters"  # the programs of the site cannot be used here
SHORTAGE = "shortage"  # the node has no processes, descriptors or memory left
# Nobody's.
NOT_OPEN = "not-open"
NOT_READY = "not-ready"
GPUS_HELD = "gpus-held"  # by tasks that the node has not ended yet

FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        **dict.fromkeys((COMMAND, WORK_DIRECTORY, FILES, LIMITS, PROCESS_LIMIT), Fault.JOB),
        **dict.fromkeys((FILTER, LAUNCHER, SHEPHERD_DIED, TEMPORARY_DIRECTORY), Fault.JOB),
        **dict.fromkeys((IDENTITY, NO_SUCH_USER, OTHER_NUMBER, OTHER_USER), Fault.JOB),
        **dict.fromkeys((AGENT, JOURNAL, CAPTURED_OUTPUT, SHORTAGE), Fault.NODE),
        **dict.fromkeys((SHEPHERD, FACTORY, NODE_FILTERS), Fault.NODE),
        **dict.fromkeys((NOT_OPEN, NOT_READY, GPUS_HELD), Fault.NOBODY),
    }
)


MAYBE_OF_NODE = frozenset(
    (
        *(COMMAND, WORK_DIRECTORY, FILES, TEMPORARY_DIRECTORY, LIMITS, LAUNCHER, SHEPHERD_DIED),
        *(IDENTITY, NO_SUCH_USER, OTHER_NUMBER),
    )
)
"""The job's faults that may be the node's: a directory that is not mounted, a program that is missing."""


def may_be_fault_of_node(trouble: str) -> bool:
    """Whether a node where this happens again and again, and elsewhere does not, is not as the others are."""
    return trouble in MAYBE_OF_NODE


def fault_of(trouble: str) -> Fault:
    """Return the fault of a trouble; one that is not in the table is the job's, and drains no node."""
    return FAULTS.get(trouble, Fault.JOB)
