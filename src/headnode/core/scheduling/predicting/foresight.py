"""When waiting jobs will start if nobody else comes: the policy itself, run ahead over given run times.

The policy goes on seeing limits, as it does today; only the ends come when they are expected.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple

from headnode.core.model.quantities import Instant, Seconds
from headnode.core.scheduling.pool.policy import ForkablePolicy
from headnode.core.scheduling.predicting.run_times import Asked, History, quantile

REPLAYS = 10  # more do not make the median better on the logs tried
_GOLDEN, _PLASTIC = 0.6180339887498949, 0.7548776662466927  # their multiples are spread evenly over (0, 1)

Draw = Callable[[int, Seconds], Seconds]
"""The run time of a job that has run for so long, in one of the possible futures."""


class Scene(NamedTuple):
    """The instant from which to look ahead, after the pass.  Jobs are known by numbers.

    `running` has the start of each running job; `asked` says what a running or queued job asked for.
    """

    now: Instant
    policy: ForkablePolicy
    running: Mapping[int, Instant]
    asked: Callable[[int], Asked]


class Foreseen(NamedTuple):
    """How long a job waits in the replays: the median, and the longest; and if all jobs run to their limits.

    Unit:  seconds from the instant of looking ahead; inf if it never starts.
    """

    middle: Seconds
    longest: Seconds
    by_limits: Seconds


def foresee(
    scene: Scene, history: History, wanted: Collection[int], replays: int = REPLAYS
) -> dict[int, Foreseen]:
    """Return when each of the wanted jobs, all of them queued, will start.

    Each replay draws the run time of every job from what its like took; the first takes all medians.
    """
    limits = starts_ahead(scene, wanted, lambda job, _ran: scene.asked(job).limit)
    futures = [starts_ahead(scene, wanted, drawn(scene, history, number)) for number in range(replays)]
    return {
        job: foreseen_in([future[job] - scene.now for future in futures], limits[job] - scene.now)
        for job in wanted
    }


def foreseen_in(waits: Iterable[float], by_limits: float) -> Foreseen:
    """Return what replays say of one job: how long it waits in each, and if all jobs run to their limits."""
    ascending = sorted(waits)
    return Foreseen(Seconds(quantile(ascending, 0.5)), Seconds(ascending[-1]), Seconds(by_limits))


def drawn(scene: Scene, history: History, replay: int) -> Draw:
    """Return the run times of one replay.  The same replay draws the same: nothing is left to chance."""

    def draw(job: int, ran: Seconds) -> Seconds:
        return history.forecast(scene.asked(job), ran).at(level(job, replay))

    return draw


def level(job: int, replay: int) -> float:
    """Return which quantile of its run times a job has in a replay: in the first the median, then any."""
    return 0.5 if replay == 0 else (job * _GOLDEN + replay * _PLASTIC) % 1.0


def starts_ahead(scene: Scene, wanted: Collection[int], run_time: Draw) -> dict[int, Instant]:
    """Return when each of the wanted jobs starts if jobs run for so long; `NEVER` if it does not.

    Cost:  that of the policy's passes until the last of them has started.
    """
    now, policy = scene.now, scene.policy.fork()
    ends = [
        (max(now, start + run_time(job, Seconds(now - start))), job) for job, start in scene.running.items()
    ]
    heapify(ends)
    ends.append((inf, -1))
    starts = dict.fromkeys(wanted, Instant(inf))
    waited_for = len(starts)
    while waited_for and (now := Instant(min(ends[0][0], policy.wakes()))) != inf:
        policy.expected_ends(now)
        while ends[0][0] == now:
            policy.ended(now, heappop(ends)[1])
        for job in policy.starts(now):
            if job in starts:
                starts[job] = now
                waited_for -= 1
            heappush(ends, (now + run_time(job, Seconds(0.0)), job))
    return starts
