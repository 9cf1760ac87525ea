"""A policy over a pool that says of every job, as it comes, when it will start; and how often that held.

It lives through a log as a cluster would: run times are known when jobs end, waits when they start, and
nothing is known earlier.
"""

from collections.abc import Sequence

from headnode.core.model.quantities import FOREVER, NEVER, Instant, Seconds
from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.policy import ForkablePolicy
from headnode.core.scheduling.predicting.calibration import Calibration
from headnode.core.scheduling.predicting.foresight import Foreseen, Outlook, Scene
from headnode.core.scheduling.predicting.manners import Manners
from headnode.core.scheduling.predicting.run_times import Asked, History
from headnode.core.scheduling.predicting.scores import Judged

_FRESH = 0.01  # of the wait foreseen: that much later it is still worth telling


class Foretelling:
    """Stands between a replay and a policy, and changes no decision."""

    def __init__(self, workload: Workload, policy: ForkablePolicy, manners: Manners) -> None:
        self._policy, self._manners = policy, manners
        self.history, self.calibration = History(), Calibration()
        self._new: list[int] = []
        self._queued: dict[int, Instant] = {}
        self._running: dict[int, Instant] = {}
        self._told: dict[int, tuple[Foreseen, Judged]] = {}
        self._asked = _asked(workload)
        self._outlook: Outlook | None = None
        self._fresh_until = Instant(0.0)
        self.judged: list[Judged] = []
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

    def expected_ends(self, now: float) -> None:
        """Nothing is learned from it."""
        self._policy.expected_ends(now)

    def wakes(self) -> float:
        """Return what the policy says."""
        return self._policy.wakes()

    def starts(self, now: float) -> Sequence[int]:
        """Judge what was told of the jobs that start, and tell those that have come and must wait."""
        started = self._policy.starts(now)
        for job in started:
            self._judge(Instant(now), job)
        waiting = [job for job in self._new if job in self._queued]
        self._new.clear()
        if waiting:
            self._tell(Instant(now), waiting)
        return started

    def _judge(self, now: Instant, job: int) -> None:
        made = self._queued.pop(job)
        self._running[job] = now
        told = self._told.pop(job, None)
        if told is None:
            self.judged.append(Judged(made, made, made, made, now))
            return
        foreseen, judged = told
        self.calibration.learn(foreseen, Seconds(now - made), now)
        self.judged.append(judged._replace(started=now))

    def _tell(self, now: Instant, waiting: Sequence[int]) -> None:
        for job, foreseen in self._outlook_on(now, waiting).foresee(now, waiting).items():
            at_most = foreseen.by_limits if self._manners.firm else FOREVER
            p50, p90 = self.calibration.expected(foreseen, at_most)
            promise = Instant(now + foreseen.by_limits)
            self._told[job] = foreseen, Judged(now, promise, Instant(now + p50), Instant(now + p90), NEVER)

    def _outlook_on(self, now: Instant, waiting: Sequence[int]) -> Outlook:
        """Return the futures; where nobody overtakes, those seen a while ago, with the new jobs behind."""
        if self._outlook is not None and now < self._fresh_until:
            for job in waiting:
                self._outlook.joined(job)
            return self._outlook
        scene = Scene(now, self._policy, self._running, self._asked.__getitem__)
        outlook = Outlook(scene, self.history, self._manners.replays(len(self._queued)))
        if self._manners.in_turn:
            self._outlook = outlook
            self._fresh_until = Instant(now + _FRESH * outlook.foresee(now, waiting[-1:])[waiting[-1]].middle)
        return outlook


def _asked(workload: Workload) -> Sequence[Asked]:
    unknown = [""] * len(workload.submits)
    return [
        Asked(user, name, Seconds(estimate))
        for user, name, estimate in zip(
            workload.users or unknown, workload.names or unknown, workload.estimates, strict=True
        )
    ]
