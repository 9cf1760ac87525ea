"""A policy over a pool that says of every job, as it comes, when it will start; and how often that held.

It lives through a log as a cluster would: run times are known when jobs end, waits when they start, and
nothing is known earlier.
"""

from collections.abc import Sequence

from headnode.core.model.quantities import FOREVER, NEVER, Instant, Seconds
from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.policy import ForkablePolicy
from headnode.core.scheduling.predicting.calibration import Calibration
from headnode.core.scheduling.predicting.foresight import Foreseen, Scene, foresee
from headnode.core.scheduling.predicting.frugality import Frugality
from headnode.core.scheduling.predicting.run_times import Asked, History
from headnode.core.scheduling.predicting.scores import Judged


class Foretelling:
    """Stands between a replay and a policy, and changes no decision.

    `firm` says that nobody starts later under the policy than by the plan from the limits.
    """

    def __init__(
        self, workload: Workload, policy: ForkablePolicy, frugality: Frugality, *, firm: bool
    ) -> None:
        self._workload, self._policy, self._frugality, self._firm = workload, policy, frugality, firm
        self._history, self._calibration = History(), Calibration()
        self._new: list[int] = []
        self._queued: dict[int, Instant] = {}
        self._running: dict[int, Instant] = {}
        self._told: dict[int, tuple[Foreseen, Judged]] = {}
        self._asked = _asked(workload)
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
        self._history.learn(self._asked[job], Seconds(now - self._running.pop(job)))

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
        self._calibration.learn(foreseen, Seconds(now - made))
        self.judged.append(judged._replace(started=now))

    def _tell(self, now: Instant, waiting: Sequence[int]) -> None:
        scene = Scene(now, self._policy, self._running, self._asked.__getitem__)
        replays = self._frugality(len(self._queued))
        for job, foreseen in foresee(scene, self._history, waiting, replays).items():
            latest = foreseen.by_limits if self._firm else FOREVER
            p50, p90 = self._calibration.expected(foreseen, latest)
            judged = Judged(
                now, Instant(now + foreseen.by_limits), Instant(now + p50), Instant(now + p90), NEVER
            )
            self._told[job] = foreseen, judged


def _asked(workload: Workload) -> Sequence[Asked]:
    unknown = [""] * len(workload.submits)
    return [
        Asked(user, name, Seconds(estimate))
        for user, name, estimate in zip(
            workload.users or unknown, workload.names or unknown, workload.estimates, strict=True
        )
    ]
