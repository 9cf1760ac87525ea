"""Which attempts were handed over on this connection: an order that comes again runs nothing again."""

from headnode.core.model.quantities import JobId
from headnode.core.model.ranges import Ranges

MOST_JOBS = 10_000  # of which the orders are remembered, also when they are closed


class Taken:
    """The attempts of one connection's orders, as spans of instances."""

    def __init__(self) -> None:
        self._jobs: dict[JobId, dict[tuple[int, int], Ranges]] = {}

    def add(self, job: JobId, task: int, instance: int, attempt: int) -> bool:
        """Note an attempt; False when it was noted before."""
        spans = self._jobs.setdefault(job, {}).setdefault((task, attempt), Ranges())
        if instance in spans:
            return False
        spans.add(instance)
        if len(self._jobs) > MOST_JOBS:
            del self._jobs[next(iter(self._jobs))]
        return True

    def forget(self) -> None:
        """Begin anew: what was said on another connection cannot come any more."""
        self._jobs.clear()
