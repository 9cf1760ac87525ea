"""Promises about what follows: watchers that see every pass of a history, in order."""

from collections.abc import Sequence
from math import inf

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import Instant, JobId
from headnode.core.scheduling.view import Turn
from headnode.testing.broken import broken_unless
from headnode.testing.histories import History, Moment
from headnode.testing.holding import empty
from headnode.testing.scenes import MINUTE, scene
from headnode.testing.specification import World, ways


class NeverLater:
    """A reservation once given never moves later, is not lost, and its start is not missed.

    `unless_ahead`: it may be, when a job with a better turn comes, or grows, after it was given.
    Not asked of histories in which jobs run longer than their limits.
    """

    def __init__(self, history: History, *, unless_ahead: bool = False) -> None:
        self._asked, self._unless_ahead = history.keeps_limits, unless_ahead
        self._promised: dict[JobId, tuple[Instant, Turn]] = {}

    def see(self, moment: Moment) -> None:
        """Look at a pass.

        Raises:  PromiseBroken.
        """
        if not self._asked:
            return
        if self._unless_ahead:
            self._release(moment)
        now, slots = moment.view.now, {each.job: each for each in moment.plan.reservations}
        for start in moment.plan.starts:
            at, _ = self._promised.pop(start.job, (Instant(inf), ()))
            broken_unless(now <= at, f"job {start.job} was to start {_ago(at, now)} and starts only now")
        for job, (at, _) in self._promised.items():
            broken_unless(at > now or (at == now and job in slots), f"job {job} was to start {_ago(at, now)}")
            broken_unless(job in slots, f"job {job} has lost its reservation for {_ago(at, now)}")
            broken_unless(
                slots[job].at <= at, f"the reservation of job {job} for {_ago(at, now)} moves later"
            )
        self._promised |= {job: (slot.at, slot.turn) for job, slot in slots.items()}

    def _release(self, moment: Moment) -> None:
        """Forget what was promised to those behind whom comes or grows."""
        growing = {each.job for each in moment.plan.grows}
        ahead = [(-each.priority, each.job, each.job) for each in moment.came]
        ahead += [job.turn for job in moment.view.running if job.job in growing]
        if ahead:
            best = min(ahead)
            self._promised = {job: told for job, told in self._promised.items() if told[1] < best}

    def end(self, waiting: Sequence[JobId]) -> None:
        """Look at who never started; nothing to say here."""


class EverybodyStarts:
    """Who could run on the empty cluster does run at last.

    Not asked where nodes are closed, nor where a job never ends.
    """

    def __init__(self, history: History) -> None:
        closed = any(each.closed for each in history.nodes)
        self._asked = not closed and all(each.lasts < inf for each in history.arrivals)
        self._history = history

    def see(self, moment: Moment) -> None:
        """Look at a pass; nothing to say here."""

    def end(self, waiting: Sequence[JobId]) -> None:
        """Look at who never started.

        Raises:  PromiseBroken.
        """
        licences = {name: (total, total) for name, total in self._history.licences.items()}
        alone = empty(scene(self._history.nodes, licences=licences))
        for each in self._history.arrivals if self._asked else ():
            stuck = each.job in waiting and _fits(each.request, alone)
            broken_unless(not stuck, f"job {each.job} could run, but never starts")


class StartsWithin:
    """A job starts within a bounded time, whoever comes behind it."""

    def __init__(self, job: int, minutes: float) -> None:
        self._job, self._minutes = job, minutes
        self._since: float | None = None
        self._started = False

    def see(self, moment: Moment) -> None:
        """Look at a pass.

        Raises:  PromiseBroken.
        """
        if any(each.job == self._job for each in moment.came):
            self._since = moment.view.now
        self._started = self._started or any(start.job == self._job for start in moment.plan.starts)
        if self._since is not None and not self._started:
            waited = (moment.view.now - self._since) / MINUTE
            broken_unless(
                waited <= self._minutes, f"job {self._job} has waited {waited:g} minutes: it starves"
            )

    def end(self, waiting: Sequence[JobId]) -> None:  # noqa: ARG002
        """Look at who never started.

        Raises:  PromiseBroken.
        """
        broken_unless(self._started or self._since is None, f"job {self._job} never starts")


def _fits(request: JobRequest, alone: World) -> bool:
    return any(ways(request.option(option), alone) for option in range(len(request.others) + 1))


def _ago(at: float, now: float) -> str:
    minutes = (now - at) / MINUTE
    return (
        f"{minutes:g} minutes ago" if minutes > 0 else "now" if minutes == 0 else f"in {-minutes:g} minutes"
    )
