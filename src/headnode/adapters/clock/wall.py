"""The clock on the wall: the time of day as this machine has it."""

import time

from headnode.core.model.quantities import Instant


class WallClock:
    """A `Clock` that tells the machine's time.  It jumps when somebody sets the machine's clock."""

    def now(self) -> Instant:
        """Return the present instant."""
        return Instant(time.time())
