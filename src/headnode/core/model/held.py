"""What a job holds of each of its nodes while it runs, beside processors.

Source: SSS 3.1.0, "Consumable Resources", Table 25-4 (Memory, Disk, Swap).
"""

import msgspec


class Held(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False, forbid_unknown_fields=True
):
    """MB of every node that the job runs on, whatever number of processors it has there.

    No other job is given them before the job ends.  Which nodes have so much in all is said elsewhere.
    """

    memory: int = 0
    disk: int = 0
    swap: int = 0

    def __bool__(self) -> bool:
        """Return whether anything is held."""
        return bool(self.memory or self.disk or self.swap)


NOTHING_HELD = Held()
