"""How long things take, counted in steps: what a monitoring system collects."""

from bisect import bisect_left

STEP_BOUNDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Of steps of the head, in seconds."""
LIFE_BOUNDS = (1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 43_200.0, 86_400.0, 259_200.0, 604_800.0)
"""Of the waits and runs of jobs, in seconds."""


class DurationHistogram:
    """Counts of durations: `counts[i]` of those up to `bounds[i]` seconds, the last of longer ones."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0  # seconds

    def add(self, seconds: float) -> None:
        """Count one duration; less than none, of a clock that was set back, counts as none."""
        seconds = max(0.0, seconds)
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds
