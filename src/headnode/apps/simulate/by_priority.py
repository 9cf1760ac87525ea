"""What a variant meant for jobs of each priority: how long they waited, and what of them was stopped."""

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from headnode.apps.simulate.html.classes import slowdowns, waits
from headnode.apps.simulate.simulation import Outcome, Simulation
from headnode.apps.simulate.toll import Toll
from headnode.core.model.quantities import Priority, format_priority

ALL = "all"
_HOUR = 3600


class OfPriority(NamedTuple):
    """Of all jobs of a priority.  Times in seconds.

    `mean_first_wait` is until a job began for the first time; `mean_wait` all that it took beyond its run
    time, so what it lost by being stopped, and by fewer processors than its own, counts as waiting.
    `jobs_returned` went back to the queue for others, `jobs_cut` were over at their run time limits.
    """

    priority: str
    jobs: int
    mean_first_wait: float
    mean_wait: float
    mean_bounded_slowdown: float
    jobs_returned: int
    tasks_stopped: int
    lost_processor_hours: float
    jobs_cut: int


def by_priority(simulation: Simulation, outcome: Outcome) -> list[OfPriority]:
    """Return the figures of all jobs that went through the head, then of each priority, highest first."""
    toll, work = outcome.toll, simulation.log.workload
    if toll is None:
        return []
    rows: dict[Priority, list[int]] = {}
    for row in range(len(outcome.starts)):
        rows.setdefault(simulation.scene.asking.priority(work, row), []).append(row)
    first_waits = waits(work, toll.begun)
    seen = _Seen(toll, first_waits, waits(work, outcome.starts), slowdowns(work, outcome.starts))
    return [
        seen.of(ALL, range(len(outcome.starts))),
        *(seen.of(format_priority(priority), rows[priority]) for priority in sorted(rows, reverse=True)),
    ]


class _Seen(NamedTuple):
    """One value for each job."""

    toll: Toll
    first_waits: Sequence[float]
    waits: Sequence[float]
    slowdowns: Sequence[float]

    def of(self, priority: str, rows: Sequence[int]) -> OfPriority:
        """Return the figures of the jobs of these rows."""
        toll = self.toll
        return OfPriority(
            priority,
            len(rows),
            fmean(self.first_waits[row] for row in rows),
            fmean(self.waits[row] for row in rows),
            fmean(self.slowdowns[row] for row in rows),
            sum(toll.returned[row] > 0 for row in rows),
            sum(toll.stopped[row] for row in rows),
            sum(toll.lost[row] for row in rows) / _HOUR,
            sum(toll.cut[row] for row in rows),
        )
