"""What nodes say that look for their head at a standby: for how long they have been without it."""

from collections.abc import Collection
from typing import Final, NamedTuple

from headnode.core.state.standby_votes import MIN_TAKEOVER_AFTER, RECENT, is_majority

MAX_NODES: Final = 100_000  # remembered; only nodes of the cluster are


class Knock(NamedTuple):
    """When a node asked last, on the monotonic clock, and its seconds without a word of a head then."""

    at: float
    silent: float


class Votes:
    """The last knock of each node."""

    def __init__(self) -> None:
        self._knocks: dict[str, Knock] = {}

    def knock(self, node: str, silent: float, now: float) -> None:
        """Note that a node has asked here, after so many seconds without a word of a head."""
        if node in self._knocks or len(self._knocks) < MAX_NODES:
            self._knocks[node] = Knock(now, silent)

    def without_head(self, of: Collection[str], seconds: float, now: float) -> int:
        """Return how many of these nodes asked just now, and had been without a head for so long then."""
        asked = [self._knocks[name] for name in of if name in self._knocks]
        return sum(now - knock.at <= RECENT and knock.silent >= seconds for knock in asked)

    def head_is_lost(self, received: float, of: Collection[str], wished: float, now: float) -> bool:
        """Whether a standby and more than half of these nodes have been without a head for long enough.

        heard:   when the standby heard the head last, on the monotonic clock
        wished:  seconds without the head, as the administrator has said
        """
        patience = max(MIN_TAKEOVER_AFTER, wished)
        return now - received >= patience and is_majority(self.without_head(of, patience, now), of)
