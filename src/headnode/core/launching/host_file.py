"""The list of hosts that MPI launchers read, in each of their spellings."""

from enum import IntEnum

from headnode.core.lifecycle.events import Place


class HostFileFormat(IntEnum):
    """The value of ``CCP_MPI_HOSTFILE_FORMAT``."""

    NAMES = 0  # node
    COLON = 1  # node:2
    SLOTS = 2  # node slots=2
    BLANK = 3  # node 2


_LINES = {
    HostFileFormat.NAMES: "{node}",
    HostFileFormat.COLON: "{node}:{count}",
    HostFileFormat.SLOTS: "{node} slots={count}",
    HostFileFormat.BLANK: "{node} {count}",
}


def host_file(place: Place, form: HostFileFormat = HostFileFormat.COLON) -> str:
    """Return a host file for a place: one line for each node, with how many processes it takes.

    >>> print(host_file((("n1", (0, 1)), ("n2", (3,))), HostFileFormat.SLOTS), end="")
    n1 slots=2
    n2 slots=1
    """
    line = _LINES[form]
    return "".join(f"{line.format(node=node, count=len(processors))}\n" for node, processors in place)
