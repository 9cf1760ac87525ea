"""When waiting jobs will start if no other job comes: the policy itself, run ahead over given run times.

The policy goes on seeing limits, as it does today; only the ends come when they are expected.  A policy over
a pool can be wrapped in one that predicts: `PredictingPolicy`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from headnode.core.model.quantities import FOREVER, NEVER, Instant, Seconds
from headnode.core.scheduling.prediction.calibration import (
    SHORT,
    Calibration,
    JudgedPrediction,
    PredictedWait,
    predicted_wait,
    replay_quantile,
)
from headnode.core.scheduling.prediction.run_times import JobTraits, RunTimeForecast, RunTimeHistory

if TYPE_CHECKING:
    from headnode.core.model.workload import Workload
    from headnode.core.scheduling.pool.replay import ForkablePolicy

REPLAYS = 10  # more do not make the median better on the logs tried

RunTimeOf = Callable[[int], float]
"""How long a job runs in all, in seconds, in one of the possible futures."""


class ReplayInput(NamedTuple):
    """The state from which replays start, after the pass.  Jobs are known by numbers.

    `running` has the start of each running job; `traits_of` says what a running or queued job asked for.
    """

    now: Instant
    policy: "ForkablePolicy"
    running: Mapping[int, Instant]
    traits_of: Callable[[int], JobTraits]


class Replays:
    """The simulated futures of one state: one in which all jobs run to their limits, and the replays.

    Each replay draws the run time of every job from what its like took; the first takes all medians.
    """

    def __init__(
        self,
        scene: ReplayInput,
        history: RunTimeHistory,
        replays: int = REPLAYS,
        run_times: "DrawnRunTimes | None" = None,
    ) -> None:
        lives = _RunTimes(scene, history, {} if run_times is None else run_times)
        self._limits = RunAhead(scene, lambda job: scene.traits_of(job).limit)
        self._replays = [RunAhead(scene, lives.lasts(replay)) for replay in range(replays)]

    def foresee(self, now: Instant, jobs: Collection[int]) -> dict[int, PredictedWait]:
        """Return when each of the wanted jobs will start, counted from `now`."""
        limits = self._limits.starts(jobs)
        replays = [replay.starts(jobs) for replay in self._replays]
        return {
            job: predicted_wait(
                [max(0.0, starts[job] - now) for starts in replays], max(0.0, limits[job] - now)
            )
            for job in jobs
        }

    def joined(self, now: Instant, job: int) -> None:
        """Append a job submitted since then to the queue."""
        for future in (self._limits, *self._replays):
            future.joined(now, job)


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

    def starts(self, jobs: Iterable[int]) -> dict[int, Instant]:
        """Return when each of these jobs starts; `NEVER` if it does not."""
        for job in jobs:
            if job not in self._starts:
                self._live_until_it_starts(job)
        return {job: self._starts.get(job, NEVER) for job in jobs}

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

    def _live_until_it_starts(self, number: int) -> None:
        ends, policy, starts, lasts = self._ends, self._policy, self._starts, self._lasts
        late = self._late
        next_wake, ended, pass_of = policy.wakes, policy.ended, policy.starts
        while number not in starts:
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

    def __init__(self, scene: ReplayInput, history: RunTimeHistory, run_times: DrawnRunTimes) -> None:
        self._asked, self._history, self._drawn = scene.traits_of, history, run_times
        self._of_kind: dict[JobTraits, RunTimeForecast] = {}
        self._of_job: dict[int, Sequence[Seconds]] = {
            job: self._draw(job, history.forecast(scene.traits_of(job), Seconds(scene.now - start)))
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


_FRESH = 0.01  # of the wait foreseen: that much later it is still worth telling


class ReplayShare(NamedTuple):
    """One of several equal shares of the work of looking ahead: every `of`-th outlook is of share `nth`."""

    nth: int
    of: int


class PredictingPolicy:
    """A wrapper of a replay's policy that records predictions and changes no decision.

    What is foreseen depends on the workload alone, so that several wrappers may do a share each, in which
    nothing is judged.  Their `foreseen` together is `known` to one that judges.
    """

    def __init__(
        self,
        workload: "Workload",
        policy: "ForkablePolicy",
        manners: PolicyTraits,
        *,
        share: ReplayShare | None = None,
        known: Mapping[int, PredictedWait] | None = None,
    ) -> None:
        self._policy, self._manners = policy, manners
        self._share, self._known, self._outlooks = share, known, 0
        self._is_overtaking = policy.late_jobs() is not None
        self.foreseen: dict[int, PredictedWait] = {}
        """The wait foreseen for each job that did not start at once."""
        self.history, self.calibration = RunTimeHistory(), Calibration()
        self._new: list[int] = []
        self._queued: dict[int, Instant] = {}
        self._running: dict[int, Instant] = {}
        self._told: dict[int, tuple[PredictedWait, JudgedPrediction]] = {}
        self._asked = _traits_of(workload)
        self._outlook: Replays | None = None
        self._drawn: DrawnRunTimes = {}
        self._fresh_until = Instant(0.0)
        self.judged: list[JudgedPrediction] = []
        """Every prediction and what became of it, in the order of starts."""

    def arrived(self, now: float, job: int) -> None:
        """Keep the job until the pass has been: what starts at once needs no prediction."""
        self._policy.arrived(now, job)
        self._queued[job] = Instant(now)
        self._new.append(job)

    def ended(self, now: float, job: int) -> None:
        """Learn how long it ran."""
        self._policy.ended(now, job)
        self.history.learn(self._asked[job], Seconds(now - self._running.pop(job)))
        self._drawn.pop(job, None)
        self._changed()

    def expected_ends(self, now: float) -> None:
        """Nothing is learned from it."""
        self._policy.expected_ends(now)

    def wakes(self) -> float:
        """Return what the policy says."""
        return self._policy.wakes()

    def starts(self, now: float) -> Sequence[int]:
        """Judge the predictions of jobs that start, and predict waits of new jobs that must wait."""
        started = self._policy.starts(now)
        for job in started:
            self._judge(Instant(now), job)
        if started:
            self._changed()
        waiting = [job for job in self._new if job in self._queued]
        self._new.clear()
        if waiting:
            self._predict(Instant(now), waiting)
        return started

    def _changed(self) -> None:
        """Let the next prediction look ahead anew: other jobs are running."""
        if self._is_overtaking:
            self._fresh_until = Instant(0.0)

    def _judge(self, now: Instant, job: int) -> None:
        made = self._queued.pop(job)
        self._running[job] = now
        told = self._told.pop(job, None)
        if told is None:
            self.judged.append(JudgedPrediction(made, made, made, made, now))
            return
        foreseen, judged = told
        self.calibration.learn(foreseen, Seconds(now - made), now)
        self.judged.append(judged._replace(started=now))

    def _predict(self, now: Instant, waiting: Sequence[int]) -> None:
        if now >= self._fresh_until:
            self._outlook = None
            self._outlooks += 1
            if self._is_overtaking:
                self._fresh_until = Instant(now + SHORT)
        share = self._share
        if share is not None and self._outlooks % share.of != share.nth:
            return
        found = self._foreseen(now, waiting)
        self.foreseen |= found
        for job, foreseen in found.items() if share is None else ():
            at_most = foreseen.by_limits if self._manners.firm else FOREVER
            p50, p90 = self.calibration.expected(foreseen, at_most)
            promise = Instant(now + foreseen.by_limits)
            self._told[job] = (
                foreseen,
                JudgedPrediction(now, promise, Instant(now + p50), Instant(now + p90), NEVER),
            )

    def _foreseen(self, now: Instant, waiting: Sequence[int]) -> dict[int, PredictedWait]:
        if self._known is not None:
            return {job: self._known[job] for job in waiting}
        return self._outlook_on(now, waiting).foresee(now, waiting)

    def _outlook_on(self, now: Instant, waiting: Sequence[int]) -> Replays:
        """Return the futures; recent ones with the new jobs appended, if these are as good."""
        if self._outlook is not None:
            for job in waiting:
                self._outlook.joined(now, job)
            return self._outlook
        scene = ReplayInput(now, self._policy, self._running, self._asked.__getitem__)
        outlook = Replays(scene, self.history, self._manners.replays(len(self._queued)), self._drawn)
        if self._manners.in_turn or self._is_overtaking:
            self._outlook = outlook
        if self._manners.in_turn:
            self._fresh_until = Instant(now + _FRESH * outlook.foresee(now, waiting[-1:])[waiting[-1]].middle)
        return outlook


def _traits_of(workload: "Workload") -> Sequence[JobTraits]:
    unknown = [""] * len(workload.submits)
    return [
        JobTraits(user, name, Seconds(estimate))
        for user, name, estimate in zip(
            workload.users or unknown, workload.names or unknown, workload.estimates, strict=True
        )
    ]
