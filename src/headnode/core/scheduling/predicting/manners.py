"""What is known of the policies that makes predictions surer or cheaper."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from headnode.core.scheduling.predicting.foresight import REPLAYS


class Manners(NamedTuple):
    """`firm`: nobody starts later than by the plan from the limits.  `in_turn`: nobody overtakes.

    `dear`: a pass costs more than the queue is long, so a long queue is replayed less often; its medians
    are the surer for it.
    """

    firm: bool = False
    in_turn: bool = False
    dear: bool = False

    def replays(self, queued: int) -> int:
        """Return how many replays a prediction is worth with so many in the queue.

        >>> Manners(dear=True).replays(4), Manners(dear=True).replays(400), Manners().replays(400)
        (10, 1, 10)
        """
        if not self.dear:
            return REPLAYS
        return REPLAYS if queued <= _FEW else 3 if queued <= _SOME else 1


_FEW, _SOME = 5, 20  # waiting jobs

MANNERS: Mapping[str, Manners] = MappingProxyType(
    {
        "fcfs": Manners(firm=True, in_turn=True),
        "easy": Manners(),
        "conservative": Manners(firm=True, dear=True),
        "conservative-replan": Manners(dear=True),
    }
)
