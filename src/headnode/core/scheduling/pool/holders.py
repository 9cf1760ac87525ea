"""The jobs that hold processors of a pool, by the instant at which they are expected to give them back."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from math import inf

from headnode.core.model.workload import Workload


class Holders:
    """Counts what is free, and answers when more will be, by the estimates."""

    __slots__ = ("_ends", "_estimates", "_expected", "_processors", "_workload", "free")

    def __init__(self, workload: Workload, processors: int) -> None:
        self.free = processors
        self._workload = workload
        self._processors, self._estimates = workload.processors, workload.estimates
        self._expected: list[tuple[float, int]] = []  # (estimated end, job), ascending
        self._ends: dict[int, float] = {}  # job: its estimated end, while it counts as a holder

    def copy(self) -> "Holders":
        """Return an independent copy."""
        twin = Holders(self._workload, self.free)
        twin._expected, twin._ends = self._expected.copy(), self._ends.copy()
        return twin

    def start(self, now: float, job: int) -> None:
        """Let the job hold its processors."""
        self.free -= self._processors[job]
        self._ends[job] = end = now + self._estimates[job]
        insort(self._expected, (end, job))

    def end(self, job: int) -> bool:
        """Take the job's processors back; False if that was done when its estimate was over."""
        end = self._ends.pop(job, None)
        if end is None:
            return False
        del self._expected[bisect_left(self._expected, (end, job))]
        self.free += self._processors[job]
        return True

    def end_expected(self, now: float) -> bool:
        """Take back what jobs hold whose estimated end is now; False if there are none."""
        expected = self._expected
        if not expected or expected[0][0] > now:
            return False
        while expected and expected[0][0] <= now:
            job = expected.pop(0)[1]
            del self._ends[job]
            self.free += self._processors[job]
        return True

    def expected(self) -> Sequence[tuple[float, int]]:
        """Return the holders as (estimated end, job), ascending."""
        return self._expected

    def shadow(self, processors: int) -> tuple[float, int]:
        """Return when so many will be free, and how many more are free then: all that end then count.

        Only for what the pool can hold at all, and does not hold free now.
        """
        free, at = self.free, -inf
        for end, job in self._expected:
            if free >= processors and end > at:
                break
            at = end
            free += self._processors[job]
        return at, free - processors
