"""Schedules past jobs again.  The clock jumps from event to event; nothing here waits or measures."""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import inf

from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.policy import PoolPolicy
from headnode.core.scheduling.pool.ties import Ties

Progress = Callable[[int], None]
"""Is told now and then how many jobs have come so far."""

STEP = 1 << 12  # jobs between two reports of progress


def replay(
    workload: Workload, policy: PoolPolicy, ties: Ties, progress: Progress | None = None
) -> Sequence[float]:
    """Return when each job of the workload starts under the policy, in seconds on the workload's clock."""
    ordered = _ends_first if ties is Ties.ENDS_FIRST else _arrivals_first
    starts: list[float] = [inf] * len(workload.submits)
    ordered(workload, policy, starts, progress or _untold)
    return starts


def _untold(_jobs: int) -> None:
    """Nobody wants to know."""


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
