"""A node as a policy sees it."""

from math import inf

import msgspec

from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import JobId


class NodeView(msgspec.Struct, frozen=True, gc=False):
    """A node and what is free of it."""

    facts: NodeFacts
    free: int  # processors no job holds
    jobs: int = 0  # how many jobs hold some of it
    exclusive_to: JobId | None = None  # the job that owns all of it
    closed: str = ""  # why it takes no new work: paused, unreachable, pending; empty: it does
    memory_held: int = 0  # MB of its memory that jobs hold
    open_for: float = inf  # seconds from now until it closes; what may run longer does not start there
