"""When a standby may take over by itself: the head is lost, and more than half of the nodes say so.

Source:  docs/decisions/0057-standby-heads.md.
"""

import re
from collections.abc import Collection
from typing import Final

from headnode.core.model.node import NodeState
from headnode.core.state.cluster_state import ClusterState

RECENT: Final = 10.0  # seconds for which the word of a node counts
MIN_TAKEOVER_AFTER: Final = 30.0  # seconds without the head until a takeover
ANSWERED: Final = MIN_TAKEOVER_AFTER - RECENT - 2.0
"""Seconds without the standby in which most nodes must have answered the head, so that it may go on alone.

What they said to the standby before does not count there any more when it may take over."""


FIRST: Final = (0, 3)
"""The first version of Headnode whose agents look for their head at a standby."""


def voters(cluster: ClusterState) -> frozenset[str]:
    """Return the nodes that can tell where the head is.

    They are on other machines, can be reached, and have an agent that knows standby heads.
    """
    reachable = (NodeState.READY, NodeState.PAUSED)
    return frozenset(
        name
        for name, node in cluster.nodes.items()
        if node.key and node.state in reachable and _knows_standbys(node.facts.version)
    )


def _knows_standbys(version: str) -> bool:
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    return len(numbers) == 2 and tuple(numbers) >= FIRST


def is_majority(some: int, of: Collection[str]) -> bool:
    """Whether so many are more than half of the voters; without voters there is no majority."""
    return 2 * some > len(of)
