"""For how long this node may be sure that nobody else is given what it runs.

The head says so in its answer to each heartbeat, and that counts from when the heartbeat was said.  A head
that does not run gives nobody anything: where nothing listens at its address, the time begins anew, unless
it was over by then, for what the head gave away before it went is gone.  A later head waits that long, too.
"""

import math
from collections.abc import Callable

from headnode.adapters.processes.lease import boot_time
from headnode.core.model.quantities import Seconds

MOST_UNANSWERED = 100  # heartbeats

Tell = Callable[[float | None], None]
"""Says until when (seconds since the machine was started), or with None that it is for ever."""


class HeldLease:
    """The lease of this node.  Until the head has said how long it is, nothing is said of it."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self.length = Seconds(0.0)  # 0: there is none
        self._until = math.inf  # when it is over
        self._number = 0
        self._said: dict[int, float] = {}  # when each heartbeat was said that was not answered yet

    @property
    def is_over(self) -> bool:
        """Whether others may be given what runs here."""
        return boot_time() >= self._until

    def next_heartbeat(self) -> int:
        """Return the number of a heartbeat that is said now."""
        self._number += 1
        self._said[self._number] = boot_time()
        self._said.pop(self._number - MOST_UNANSWERED, None)
        return self._number

    def heard(self, number: int, length: Seconds) -> None:
        """The head has answered a heartbeat."""
        said = self._said.pop(number, None)
        if said is not None:  # else it comes a second time
            self.length = length
            self._is_over_at(said + length if length else math.inf)

    def head_is_off(self, dialed: float) -> None:
        """Nothing listened at the head's address when it was dialed, so many seconds after the boot."""
        if self.length and dialed < self._until:
            self._is_over_at(dialed + self.length)

    def let_go(self) -> None:
        """The head is stopped, on purpose: tasks go on without it."""
        self._is_over_at(math.inf)

    def _is_over_at(self, until: float) -> None:
        self._until = until
        self._tell(None if math.isinf(until) else until)
