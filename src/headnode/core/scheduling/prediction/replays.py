"""When waiting jobs will start if no other job comes: the policy itself, run ahead over given run times.

The policy goes on seeing limits, as it does today; only the ends come when they are expected."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from headnode.core.model.quantities import NEVER, Instant, Seconds
from headnode.core.scheduling.prediction.run_times import JobTraits, RunTimeForecast, RunTimeHistory, quantile

if TYPE_CHECKING:
    from headnode.core.scheduling.pool.replay import ForkablePolicy

REPLAYS = 10  # more do not make the median better on the logs tried
_GOLDEN, _PLASTIC = 0.6180339887498949, 0.7548776662466927  # their multiples are spread evenly over (0, 1)

RunTimeOf = Callable[[int], float]
"""How long a job runs in all, in seconds, in one of the possible futures."""


class ReplayInput(NamedTuple):
    """The state from which replays start, after the pass.  Jobs are known by numbers.

    `running` has the start of each running job; `asked` says what a running or queued job asked for.
    """

    now: Instant
    policy: "ForkablePolicy"
    running: Mapping[int, Instant]
    asked: Callable[[int], JobTraits]


class PredictedWait(NamedTuple):
    """The wait of a job over all replays (median and longest), and if all jobs run to their limits.

    Unit:  seconds from the instant of looking ahead; inf if it never starts.
    """

    middle: Seconds
    longest: Seconds
    by_limits: Seconds


class Replays:
    """The simulated futures of one state: one in which all jobs run to their limits, and the replays.

    Each replay draws the run time of every job from what its like took; the first takes all medians.
    """

    def __init__(
        self,
        scene: ReplayInput,
        history: RunTimeHistory,
        replays: int = REPLAYS,
        drawn: "DrawnRunTimes | None" = None,
    ) -> None:
        lives = _RunTimes(scene, history, {} if drawn is None else drawn)
        self._limits = RunAhead(scene, lambda job: scene.asked(job).limit)
        self._replays = [RunAhead(scene, lives.lasts(replay)) for replay in range(replays)]

    def foresee(self, now: Instant, wanted: Collection[int]) -> dict[int, PredictedWait]:
        """Return when each of the wanted jobs will start, counted from `now`."""
        limits = self._limits.starts(wanted)
        replays = [replay.starts(wanted) for replay in self._replays]
        return {
            job: predicted_wait(
                [max(0.0, starts[job] - now) for starts in replays], max(0.0, limits[job] - now)
            )
            for job in wanted
        }

    def joined(self, now: Instant, job: int) -> None:
        """Append a job submitted since then to the queue."""
        for future in (self._limits, *self._replays):
            future.joined(now, job)


def predicted_wait(waits: Iterable[float], by_limits: float) -> PredictedWait:
    """Return what replays say of one job: how long it waits in each, and if all jobs run to their limits."""
    ascending = sorted(waits)
    return PredictedWait(Seconds(quantile(ascending, 0.5)), Seconds(ascending[-1]), Seconds(by_limits))


def replay_quantile(job: int, replay: int) -> float:
    """Return which quantile of its run times a job has in a replay: in the first the median, then any."""
    return 0.5 if replay == 0 else (job * _GOLDEN + replay * _PLASTIC) % 1.0


class RunAhead:
    """One simulated future, computed only as far as needed.

    A running job that should have ended ends at once.
    Cost:  that of the policy's passes until the last job asked for has started.
    """

    def __init__(self, scene: ReplayInput, lasts: RunTimeOf) -> None:
        now = self._now = scene.now
        self._policy, self._lasts = scene.policy.fork(), lasts
        self._starts: dict[int, Instant] = {}
        self._ends: list[tuple[float, int]] = [(inf, -1)]
        self._late = self._policy.late_jobs()
        if self._late is not None:
            self._late.passed(now)
        for job, start in scene.running.items():
            end = start + lasts(job)
            self._ends.append((end if end > now else now, job))
        heapify(self._ends)

    def starts(self, wanted: Iterable[int]) -> dict[int, Instant]:
        """Return when each of these jobs starts; `NEVER` if it does not."""
        for job in wanted:
            if job not in self._starts:
                self._live_until_it_starts(job)
        return {job: self._starts.get(job, NEVER) for job in wanted}

    def joined(self, now: Instant, job: int) -> None:
        """Let a job come now, behind all others, in a future that has been lived through for a while.

        If no job overtakes, it comes at the end of that while.
        """
        if self._late is not None:
            start = self._late.start(now, job, self._lasts(job))
            if start is not None:
                self._starts[job] = Instant(start)
                return
        self._policy.arrived(self._now, job)
        for each in self._policy.starts(self._now):
            self._starts[each] = self._now
            heappush(self._ends, (self._now + self._lasts(each), each))

    def _live_until_it_starts(self, wanted: int) -> None:
        ends, policy, starts, lasts = self._ends, self._policy, self._starts, self._lasts
        late = self._late
        next_wake, ended, pass_of = policy.wakes, policy.ended, policy.starts
        while wanted not in starts:
            now, wakes = ends[0][0], next_wake()
            if wakes < now:
                now = wakes
            if now == inf:
                return
            while ends[0][0] == now:
                ended(now, heappop(ends)[1])
            self._now = at = Instant(now)
            for job in pass_of(now):
                starts[job] = at
                heappush(ends, (now + lasts(job), job))
            if late is not None:
                late.passed(now)


DrawnRunTimes = dict[int, tuple[RunTimeForecast, Sequence[Seconds]]]
"""Job: what was forecast of it, and its run time in each of `REPLAYS` replays."""


class _RunTimes:
    """The possible run times of the jobs of a scene: each is looked up and drawn once, for all replays.

    What was drawn before holds as long as the forecast is the same.
    """

    def __init__(self, scene: ReplayInput, history: RunTimeHistory, drawn: DrawnRunTimes) -> None:
        self._asked, self._history, self._drawn = scene.asked, history, drawn
        self._of_kind: dict[JobTraits, RunTimeForecast] = {}
        self._of_job: dict[int, Sequence[Seconds]] = {
            job: self._draw(job, history.forecast(scene.asked(job), Seconds(scene.now - start)))
            for job, start in scene.running.items()
        }

    def lasts(self, replay: int) -> RunTimeOf:
        """Return the run times of one replay.  The same replay has the same: nothing is left to chance."""
        of_job, look_up = self._of_job, self._look_up
        return lambda job: (of_job.get(job) or look_up(job))[replay]

    def _look_up(self, job: int) -> Sequence[Seconds]:
        """Return the run times of a queued job; equal jobs share the forecast."""
        asked = self._asked(job)
        forecast = self._of_kind.get(asked)
        if forecast is None:
            forecast = self._of_kind[asked] = self._history.forecast(asked)
        found = self._of_job[job] = self._draw(job, forecast)
        return found

    def _draw(self, job: int, forecast: RunTimeForecast) -> Sequence[Seconds]:
        before = self._drawn.get(job)
        if before is not None and before[0] == forecast:
            return before[1]
        run_times = [forecast.at(replay_quantile(job, replay)) for replay in range(REPLAYS)]
        self._drawn[job] = forecast, run_times
        return run_times


class PolicyTraits(NamedTuple):
    """Properties of a policy that shorten predictions.

    `firm`: no job starts later than planned from the limits.  `in_turn`: no job overtakes.
    `is_expensive`: the cost of a pass grows faster than the queue, so a long queue is replayed less often.
    If `in_turn`, a prediction goes on from the one before; else each may be made alone.
    """

    firm: bool = False
    in_turn: bool = False
    is_expensive: bool = False

    def replays(self, queued: int) -> int:
        """Return how many replays a prediction is worth with so many in the queue.

        >>> PolicyTraits(is_expensive=True).replays(4), PolicyTraits(is_expensive=True).replays(400)
        (10, 1)
        >>> PolicyTraits().replays(4), PolicyTraits().replays(400)
        (10, 4)
        """
        if self.in_turn:
            return REPLAYS
        if self.is_expensive:
            return REPLAYS if queued <= _FEW else 3 if queued <= _SOME else 1
        return REPLAYS if queued <= _SOME else 4


_FEW, _SOME = 5, 20  # waiting jobs

POLICY_TRAITS: Mapping[str, PolicyTraits] = MappingProxyType(
    {
        "fcfs": PolicyTraits(firm=True, in_turn=True),
        "easy": PolicyTraits(),
        "conservative": PolicyTraits(firm=True, is_expensive=True),
        "conservative-replan": PolicyTraits(is_expensive=True),
    }
)
