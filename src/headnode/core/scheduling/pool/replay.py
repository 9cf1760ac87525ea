"""Schedules past jobs again over a pool of equal processors, and the figures of the schedule.

The clock jumps from event to event; nothing here waits or measures."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple, Protocol

from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.late_jobs import LateJobs


class Ties(StrEnum):
    """The order of simultaneous events, as in published tables."""

    ENDS_FIRST = "ends-first"
    """All ends, all arrivals, then one pass."""

    ARRIVALS_FIRST = "arrivals-first"
    """A pass after each single event, arrivals before ends, ends by the order of their starts.

    Jobs that have reached their estimated end count as ended from the first of those passes on.
    """


class PoolPolicy(Protocol):
    """A policy for a pool: it is notified of jobs of a workload, by row, and returns the jobs to start.

    A policy knows what was asked for, never the real run time.  Instants never go back.
    """

    def arrived(self, now: float, job: int, /) -> None:
        """A job has come into the queue."""

    def ended(self, now: float, job: int, /) -> None:
        """A job it started has ended, at its estimated end or before."""

    def expected_ends(self, now: float, /) -> None:
        """Count jobs whose estimated end is now as ended; `ended` is still told of them later."""

    def starts(self, now: float, /) -> Sequence[int]:
        """Return the jobs that start now, in the order of their starts."""

    def wakes(self) -> float:
        """Return the next instant at which it may start jobs though nothing happens; inf if none."""


class ForkablePolicy(PoolPolicy, Protocol):
    """A policy that can be copied, so that it can be run ahead without being changed."""

    def fork(self) -> "ForkablePolicy":
        """Return an independent copy: queue, running jobs, reservations."""

    def late_jobs(self) -> LateJobs | None:
        """Return what finds the starts of jobs that come late; None if such a job changes those of others."""


Progress = Callable[[int], None]
"""Is told now and then how many jobs have come so far."""

STEP = 1 << 12  # jobs between two reports of progress


def replay(
    workload: Workload, policy: PoolPolicy, ties: Ties, progress: Progress | None = None
) -> Sequence[float]:
    """Return when each job of the workload starts under the policy, in seconds on the workload's clock."""
    ordered = _ends_first if ties is Ties.ENDS_FIRST else _arrivals_first
    starts: list[float] = [inf] * len(workload.submits)
    ordered(workload, policy, starts, progress or _ignore_progress)
    return starts


def _ignore_progress(_jobs: int) -> None:
    """Ignore the progress of a replay."""


def _ends_first(workload: Workload, policy: PoolPolicy, starts: list[float], progress: Progress) -> None:
    run_times, submits = workload.run_times, [*workload.submits, inf]
    ends: list[tuple[float, int]] = [(inf, -1)]
    coming = told = 0
    while (now := min(submits[coming], ends[0][0], policy.wakes())) != inf:
        while ends[0][0] == now:
            policy.ended(now, heappop(ends)[1])
        while submits[coming] == now:
            policy.arrived(now, coming)
            coming += 1
        for job in policy.starts(now):
            starts[job] = now
            heappush(ends, (now + run_times[job], job))
        if coming - told >= STEP:
            told = coming
            progress(told)


def _arrivals_first(workload: Workload, policy: PoolPolicy, starts: list[float], progress: Progress) -> None:
    run_times, submits = workload.run_times, [*workload.submits, inf]
    ends: list[tuple[float, int, int]] = [(inf, -1, -1)]  # end, how many started before, job
    coming = told = started = 0

    def start_some(now: float) -> None:
        nonlocal started
        for job in policy.starts(now):
            starts[job] = now
            started += 1
            heappush(ends, (now + run_times[job], started, job))

    while (now := min(submits[coming], ends[0][0], policy.wakes())) != inf:
        policy.expected_ends(now)
        while submits[coming] == now:
            policy.arrived(now, coming)
            coming += 1
            start_some(now)
        while ends[0][0] == now:
            policy.ended(now, heappop(ends)[2])
            start_some(now)
        start_some(now)
        if coming - told >= STEP:
            told = coming
            progress(told)


TAU = 10  # seconds; shorter jobs count as this long, or their slowdowns would be all that is seen


class ScheduleFigures(NamedTuple):
    """Figures of a schedule, over all its jobs.  Times in seconds.

    `utilisation` is the part of all processors in use from the first arrival to the last end, which is the
    `makespan`.  The slowdown of a job is (wait + run time) / run time, at least 1; bounded with `TAU`.
    """

    jobs: int
    mean_wait: float
    mean_bounded_slowdown: float
    utilisation: float
    makespan: float


def schedule_figures(workload: Workload, starts: Sequence[float], processors: int) -> ScheduleFigures:
    """Return the figures of a schedule of a workload on a machine of so many processors."""
    jobs = len(starts)
    waits = [start - submit for start, submit in zip(starts, workload.submits, strict=True)]
    makespan = max(job_ends(workload, starts)) - workload.submits[0]
    work = sum(map(_product, workload.run_times, workload.processors))
    return ScheduleFigures(
        jobs,
        sum(waits) / jobs,
        sum(_slowdowns(waits, workload.run_times)) / jobs,
        work / (processors * makespan),
        makespan,
    )


def job_ends(workload: Workload, starts: Sequence[float]) -> Iterator[float]:
    """Yield the end of each job."""
    return (start + run_time for start, run_time in zip(starts, workload.run_times, strict=True))


def _slowdowns(waits: Iterable[float], run_times: Iterable[float]) -> Iterator[float]:
    return (
        max(1.0, (wait + run_time) / max(run_time, TAU))
        for wait, run_time in zip(waits, run_times, strict=True)
    )


def _product(run_time: float, processors: int) -> float:
    return run_time * processors
