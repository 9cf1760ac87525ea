"""Counters of what jobs do, kept with the events at constant cost: for monitoring systems."""

from collections import Counter
from collections.abc import Sequence

from headnode.core.model.quantities import LIFE_BOUNDS, DurationHistogram, JobId
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event

MOST_TEMPLATES = 100  # by which waits and runs are counted apart
OTHER_TEMPLATES = "(other)"


class JobCounters:
    """What happened since the head started."""

    def __init__(self) -> None:
        self.submitted = self.started = self.backfilled = 0
        self.ended: Counter[str] = Counter()  # by outcome
        self.tasks_ended: Counter[str] = Counter()
        self.waits: dict[str, DurationHistogram] = {}  # by job template
        self.runs: dict[str, DurationHistogram] = {}
        self._running: dict[JobId, tuple[str, float]] = {}  # template and start
        self._requeued: dict[JobId, float] = {}  # when they came back into the queue

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Count the events."""
        for event in events:
            match event:
                case e.InstancesEnded(ended=ended):
                    for one in ended:
                        self.tasks_ended[one.state] += 1
                case e.JobSubmitted():
                    self.submitted += 1
                case e.JobStarted():
                    self._start(event, cluster)
                case e.JobEnded(job=job, outcome=outcome, at=at):
                    self.ended[outcome] += 1
                    self._requeued.pop(job, None)
                    template, started = self._running.pop(job, ("", None))
                    if started is not None:
                        self._count(self.runs, template, at - started)
                case e.JobAutoRequeued(job=job, at=at) | e.JobRequeued(job=job, at=at):
                    self._running.pop(job, None)
                    self._requeued[job] = at

    def _start(self, event: e.JobStarted, cluster: ClusterState) -> None:
        self.started += 1
        self.backfilled += event.backfilled
        record = cluster.jobs.get(event.job)
        template = ""
        if record is not None:
            template = cluster.graph(event.job).spec.template if event.job in cluster.graphs else ""
            since = self._requeued.pop(event.job, record.submitted or event.at)
            self._count(self.waits, template, event.at - since)
        self._running[event.job] = template, event.at

    def _count(self, histograms: dict[str, DurationHistogram], template: str, seconds: float) -> None:
        template = template or "Default"
        if template not in histograms and len(histograms) >= MOST_TEMPLATES:
            template = OTHER_TEMPLATES
        if template not in histograms:
            histograms[template] = DurationHistogram(LIFE_BOUNDS)
        histograms[template].add(seconds)
