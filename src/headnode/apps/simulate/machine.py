"""The machine that past jobs are replayed on, and how they ask for it."""

from typing import NamedTuple

from headnode.core.model.errors import BadRequest
from headnode.core.model.node import NodeFacts
from headnode.core.model.reservation import NodeReservation

MOST_NODES = 100_000
MOST_PROCESSORS = 10_000_000  # of all nodes: the head knows each by its number, and 80 bytes


class Machine(NamedTuple):
    """Nodes, in the words of the production model.  `whole_nodes`: no job shares a node with another.

    The times of `reservations` count from when the first job comes.
    """

    nodes: tuple[NodeFacts, ...]
    whole_nodes: bool = False
    reservations: tuple[NodeReservation, ...] = ()

    @property
    def processors(self) -> int:
        """How many processors all nodes have together."""
        return sum(node.processors for node in self.nodes)

    @property
    def counts_memory(self) -> bool:
        """Whether any node says how much memory it has."""
        return any(node.memory for node in self.nodes)


def machine_of(nodes: tuple[NodeFacts, ...], *, whole_nodes: bool = False) -> Machine:
    """Return the machine made of these nodes.

    Raises:  BadRequest ``machine-size`` when it is larger than the head can hold.
    """
    machine = Machine(nodes, whole_nodes)
    if len(nodes) > MOST_NODES or machine.processors > MOST_PROCESSORS:
        raise BadRequest(
            code="machine-size",
            what=f"a machine of {len(nodes)} nodes with {machine.processors} processors is too large",
            fix=f"describe at most {MOST_NODES} nodes and {MOST_PROCESSORS} processors",
        )
    return machine


def pool(processors: int) -> Machine:
    """Return a machine without borders between its processors: one node that all jobs share.

    Raises:  BadRequest ``machine-size``.
    """
    return machine_of((NodeFacts(name="pool", processors=processors),))
