"""When each node said that it lives, and how busy its machine was: known to this process only."""

from typing import NamedTuple

from headnode.core.model.quantities import Instant


class Contact(NamedTuple):
    """The last heartbeat of a node, or its greeting.  `load`: the mean of one minute; None: not said."""

    at: Instant
    load: float | None = None
