"""What a schedule was like for the users and for the machine, in a few numbers."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from headnode.core.model.workload import Workload

TAU = 10  # seconds; shorter jobs count as this long, or their slowdowns would be all that is seen


class Figures(NamedTuple):
    """Of all jobs of a schedule.  Times in seconds.

    `utilisation` is the part of all processors in use from the first arrival to the last end, which is the
    `makespan`.  The slowdown of a job is (wait + run time) / run time, at least 1; bounded with `TAU`.
    """

    jobs: int
    mean_wait: float
    mean_bounded_slowdown: float
    utilisation: float
    makespan: float


def figures(workload: Workload, starts: Sequence[float], processors: int) -> Figures:
    """Return the figures of a schedule of a workload on a machine of so many processors."""
    jobs = len(starts)
    waits = [start - submit for start, submit in zip(starts, workload.submits, strict=True)]
    makespan = max(ends(workload, starts)) - workload.submits[0]
    work = sum(map(_product, workload.run_times, workload.processors))
    return Figures(
        jobs,
        sum(waits) / jobs,
        sum(_slowdowns(waits, workload.run_times)) / jobs,
        work / (processors * makespan),
        makespan,
    )


def ends(workload: Workload, starts: Sequence[float]) -> Iterator[float]:
    """Yield the end of each job."""
    return (start + run_time for start, run_time in zip(starts, workload.run_times, strict=True))


def _slowdowns(waits: Iterable[float], run_times: Iterable[float]) -> Iterator[float]:
    return (
        max(1.0, (wait + run_time) / max(run_time, TAU))
        for wait, run_time in zip(waits, run_times, strict=True)
    )


def _product(run_time: float, processors: int) -> float:
    return run_time * processors
