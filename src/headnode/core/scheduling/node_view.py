"""A node as a policy sees it."""

from math import inf

import msgspec

from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import JobId


class Reserved(msgspec.Struct, frozen=True, gc=False):
    """A time for which a node is kept for some; whoever is not welcome runs there before or after it."""

    name: str  # of the reservation, in lower case
    begins: float  # seconds from now; zero or less once it has begun
    ends: float  # seconds from now
    limits: bool = True  # who goes in by its name starts only if surely over by its end
    says: str = ""  # for whom it is and when, as people read it


class NodeView(msgspec.Struct, frozen=True, gc=False):
    """A node and what is free of it."""

    facts: NodeFacts
    free: int  # processors no job holds
    jobs: int = 0  # how many jobs hold some of it
    exclusive_to: JobId | None = None  # the job that owns all of it
    closed: str = ""  # why it accepts no new jobs: paused, unreachable, pending; empty: it does
    memory_held: int = 0  # MB of its memory that jobs hold
    open_for: float = inf  # seconds from now until it closes; what may run longer does not start there
    reserved: tuple[Reserved, ...] = ()  # in the order in which they begin
    disk_held: int = 0  # MB
    swap_held: int = 0  # MB
