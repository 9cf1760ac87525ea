"""First come, first served over a pool: the first job starts while it fits; nobody overtakes."""

from collections import deque
from collections.abc import Sequence
from math import inf

from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.holders import Holders
from headnode.core.scheduling.pool.ties import Ties


class FirstComeFirstServed:
    """The queue in order of arrival."""

    def __init__(self, workload: Workload, processors: int, ties: Ties) -> None:
        self._made_of = workload, processors, ties
        self._processors = workload.processors
        self._holders = Holders(workload, processors)
        self._queue: deque[int] = deque()

    def fork(self) -> "FirstComeFirstServed":
        """Return an independent copy."""
        twin = FirstComeFirstServed(*self._made_of)
        twin._holders, twin._queue = self._holders.copy(), self._queue.copy()
        return twin

    def arrived(self, _now: float, job: int) -> None:
        """Put the job behind all others."""
        self._queue.append(job)

    def ended(self, _now: float, job: int) -> None:
        """Take its processors back."""
        self._holders.end(job)

    def expected_ends(self, now: float) -> None:
        """Take back what is over by the estimates."""
        self._holders.end_expected(now)

    def starts(self, now: float) -> Sequence[int]:
        """Return the first jobs, as long as they fit."""
        started = []
        queue, holders = self._queue, self._holders
        while queue and self._processors[queue[0]] <= holders.free:
            job = queue.popleft()
            holders.start(now, job)
            started.append(job)
        return started

    def wakes(self) -> float:
        """Return inf: only an end or an arrival can start a job."""
        return inf
