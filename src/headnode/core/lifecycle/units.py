"""How many of a job's units so many processors of a node are, and the other way round.

Sockets need not divide a node's processors evenly: three sockets of 8 processors take 3, 6 and 8 of them,
and so many are 1, 2 and 3 sockets.  Source: HPC Pack unit types.
"""

from headnode.core.model.job import UnitType
from headnode.core.model.node import NodeFacts


def units_in(unit: UnitType, processors: int, facts: NodeFacts) -> int:
    """Return how many whole units these processors of a node are; a node held in part is held."""
    if unit is UnitType.NODE:
        return min(processors, 1)
    if unit is UnitType.SOCKET:
        return processors * min(facts.sockets, facts.processors) // facts.processors
    return processors


def processors_for(unit: UnitType, units: int, facts: NodeFacts) -> int:
    """Return how many processors of a node so many units are; a part of a socket counts as all of it."""
    if unit is UnitType.NODE:
        return units * facts.processors
    if unit is UnitType.SOCKET:
        return -(-units * facts.processors // min(facts.sockets, facts.processors))
    return units
