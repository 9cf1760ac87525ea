"""Nodes without machines, whose tasks take as long as is known beforehand: for replays of past jobs."""

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Any, NamedTuple

from headnode.core.model.outcome import AttemptOutcome, Ending
from headnode.core.model.quantities import Instant, JobId
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import AttemptReport
from headnode.core.state.events import Event
from headnode.core.state.job_events import InstancesDispatched, InstancesStopping, JobStarted
from headnode.core.state.report import ReportEnded

RunTime = Callable[[JobId], float]
"""How many seconds every task of a job takes."""

_TimedAttempt = tuple[JobId, int, int, int]
"""Job, task, instance and attempt."""


class _TimedEnd(NamedTuple):
    """One attempt and when it is over; the first that is over is the smallest."""

    end: float
    order: int  # of the start of its job
    attempt: _TimedAttempt
    ending: Ending
    node: str
    begun: Instant


class TimedNodes:
    """An `Effects` that says when each attempt is over, by an external clock.

    Every instance runs from the instant it is handed over.  What is stopped is over at once.
    """

    def __init__(self, run_time: RunTime) -> None:
        self.starts: dict[JobId, Instant] = {}
        """When each job was given its processors last, by the order in which jobs first were."""
        self._begun = 0  # how often a job was given its processors
        self._run_time = run_time
        self._order: dict[JobId, int] = {}
        self._coming: list[_TimedEnd] = []  # a heap; some are of attempts that were stopped before
        self._held: dict[_TimedAttempt, _TimedEnd] = {}
        self._notice: Mapping[type, Callable[[Any], None]] = {
            JobStarted: self._start,
            InstancesDispatched: self._take,
            InstancesStopping: self._stop,
        }

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:  # noqa: ARG002  (it is an Effects)
        """Note started tasks, start dispatched ones, and end those that are to be stopped."""
        for event in events:
            notice = self._notice.get(type(event))
            if notice is not None:
                notice(event)

    def next_end(self) -> float:
        """Return when the next attempt is over, on the clock of the events; inf if none runs."""
        coming, held = self._coming, self._held
        while coming and held.get(coming[0].attempt) is not coming[0]:
            heappop(coming)
        return coming[0].end if coming else inf

    def over(self, now: float) -> list[ReportEnded]:
        """Return what is over by now, each attempt once, by ends, then by the starts of the jobs."""
        reports = []
        while self.next_end() <= now:
            over = heappop(self._coming)
            del self._held[over.attempt]
            reports.append(_report(over))
        return reports

    def _start(self, event: JobStarted) -> None:
        self.starts[event.job] = event.at
        self._order[event.job] = self._begun
        self._begun += 1

    def _take(self, event: InstancesDispatched) -> None:
        end = event.at + self._run_time(event.job)
        for instance, attempt in event.attempts:
            known = (event.job, event.task, instance, attempt)
            self._hold(
                _TimedEnd(end, self._order[event.job], known, "exited", event.placement[0][0], event.at)
            )

    def _stop(self, event: InstancesStopping) -> None:
        stopped = {(event.job, event.task, instance) for instance in event.instances}
        for attempt in [attempt for attempt in self._held if attempt[:3] in stopped]:
            self._hold(self._held[attempt]._replace(end=event.at, ending="stopped"))

    def _hold(self, over: _TimedEnd) -> None:
        self._held[over.attempt] = over
        heappush(self._coming, over)


def _report(over: _TimedEnd) -> ReportEnded:
    job, task, instance, attempt = over.attempt
    code = 0 if over.ending == "exited" else None
    outcome = AttemptOutcome(over.ending, code, started=over.begun, ended=Instant(over.end))
    report = AttemptReport(task, instance, attempt, outcome)
    return ReportEnded(node=over.node, job=job, reports=(report,))
