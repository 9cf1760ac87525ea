"""How many replays a prediction may cost: a long queue makes each dearer, and its median surer."""

from typing import NamedTuple


class Frugality(NamedTuple):
    """Ten replays for a queue of up to `ten` jobs, three for up to `three`, else one."""

    ten: int
    three: int

    def __call__(self, queued: int) -> int:
        """Return the number of replays for a queue of this length.

        >>> Frugality(100, 1000)(500)
        3
        """
        return 10 if queued <= self.ten else 3 if queued <= self.three else 1
