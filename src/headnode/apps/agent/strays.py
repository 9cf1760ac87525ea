"""Processes of tasks that an agent does not know, because its directory was moved away or removed.

So it is after `hn restore`: the head counts these tasks as lost, and may run them again.
"""

import os
import signal
import time
from collections.abc import Collection, Mapping

from headnode.adapters import process_tree
from headnode.apps.agent.client_door import SOCKET
from headnode.apps.agent.places import Places
from headnode.core.launching.environment import SHEPHERD_MARKER

_SHEPHERD = b"headnode.adapters.processes.fork_server"  # in the command line of a shepherd
_PAUSE = 0.02  # seconds between two rounds of killing


def end_strays(node: str, places: Places, known: Collection[str], timeout: float) -> tuple[int, set[int]]:
    """Kill processes of tasks of this node whose shepherds are not `known`, by their markers.

    Return how many there were, and those left after `timeout` seconds.  A user writes the environment of
    processes, and may name the shepherd of another there: so nothing is ended but these processes and the
    shepherds that have started them.
    """
    if process_tree.has_variable(os.getpid(), SHEPHERD_MARKER.encode()):
        return 0, set()  # a task has started this agent: its processes are no strays
    own = frozenset(marker.encode() for marker in known)
    until, ended = time.monotonic() + timeout, set[int]()
    while left := _strays(node, places, own):
        ended |= left.keys()
        if time.monotonic() > until:
            return len(ended), set(left)
        process_tree.send([*_shepherds(left), *left], signal.SIGKILL)
        time.sleep(_PAUSE)
    return len(ended), set()


def _strays(node: str, places: Places, own: frozenset[bytes]) -> dict[int, int]:
    """Return the processes to end, each with its parent."""
    living = process_tree.picture().items()
    return {number: seen.parent for number, seen in living if _is_stray(number, node, places, own)}


def _shepherds(strays: Mapping[int, int]) -> set[int]:
    """Return the parents that are shepherds of the same user, who may have written the variables."""
    return {
        parent
        for process, parent in strays.items()
        if process_tree.has_word(parent, _SHEPHERD)
        and process_tree.owner_of(parent) == process_tree.owner_of(process)
    }


def _is_stray(process: int, node: str, places: Places, own: frozenset[bytes]) -> bool:
    variables = process_tree.variables_of(process)
    marker = variables.get(SHEPHERD_MARKER.encode())
    if marker is None or marker in own or variables.get(b"HEADNODE_NODE") != node.encode():
        return False
    of_head = os.fsencode(places.state.parent.parent)  # STATE/nodes/NODE, where a head has its own nodes
    return variables.get(b"HEADNODE_STATE") == of_head or variables.get(b"HEADNODE_AGENT") == os.fsencode(
        places.run / SOCKET
    )
