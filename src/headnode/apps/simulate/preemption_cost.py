"""Which jobs were stopped for others, what work that cost, and where jobs ran, from a replay's journal."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headnode.adapters.journal.memory import MemoryJournal
from headnode.core.model.quantities import JobId
from headnode.core.state.events import Event
from headnode.core.state.job_events import (
    AllocationGrown,
    AllocationShrunk,
    InstancesDispatched,
    InstancesStopping,
    JobEnded,
    JobEnding,
    JobEvent,
    JobRequeued,
    JobReturned,
    JobStarted,
    NodeCores,
)


class PreemptionCost(NamedTuple):
    """One value for each job, in the order in which they came.

    Unit:  seconds on the log's clock for `begun`, the first start, and `ended`; processor seconds for the
           work that was `lost`: of tasks that were stopped for others, and began anew.

    `returned` counts how often the job went back to the queue for others, `stopped` its tasks that were
    stopped for others.  `cut`: it was over at its run time limit, with work left to do.

    `held` is no column: it says by how much the number of processors that jobs hold changes at which seconds.
    """

    begun: Sequence[float]
    ended: Sequence[float]
    returned: Sequence[int]
    stopped: Sequence[int]
    lost: Sequence[float]
    cut: Sequence[bool]
    held: Mapping[float, int]


def preemption_cost(journal: MemoryJournal, jobs: int) -> PreemptionCost:
    """Return what became of the first jobs of a head that are all over.  Cost: one look at every event."""
    told = _CostCounter(jobs)
    for _, event in journal.replay():
        told.note(event)
    return PreemptionCost(told.begun, told.ended, told.returned, told.stopped, told.lost, told.cut, told.held)


class _CostCounter:
    """What has been told so far; a new head counts jobs from 1, in the order they come."""

    def __init__(self, jobs: int) -> None:
        never = float("nan")
        self.begun, self.ended, self.lost = [never] * jobs, [never] * jobs, [0.0] * jobs
        self.returned, self.stopped, self.cut = [0] * jobs, [0] * jobs, [False] * jobs
        self.held: Counter[float] = Counter()
        self._waiting = [True] * jobs
        self._sizes = [0] * jobs
        self._leaving: set[JobId] = set()  # they were preempted, and end
        self._since: dict[tuple[JobId, int, int], tuple[float, int]] = {}  # of live instances

    def note(self, event: Event) -> None:
        """Take note of what happened."""
        match event:
            case JobStarted():
                self._start(event)
            case InstancesDispatched():
                processors = _size(event.place)
                for instance, _ in event.attempts:
                    self._since[event.job, event.task, instance] = event.at, processors
            case AllocationGrown():
                self._hold(event, _size(event.added))
            case AllocationShrunk():
                self._hold(event, -_size(event.removed))
            case JobEnding(preempted_by=by) if by:
                self._leaving.add(event.job)
            case InstancesStopping():
                if event.cause == "preempted" or event.job in self._leaving:
                    self._stop(event)
            case JobReturned() | JobRequeued():
                self._leaving.discard(event.job)
                self.returned[event.job - 1] += 1
                self._hold(event, -self._sizes[event.job - 1])
            case JobEnded():
                self._hold(event, -self._sizes[event.job - 1])
                self.ended[event.job - 1] = event.at
                self.cut[event.job - 1] = event.outcome != "finished"

    def _start(self, event: JobStarted) -> None:
        row = event.job - 1
        if self._waiting[row]:
            self._waiting[row] = False
            self.begun[row] = event.at
        self._hold(event, _size(event.allocation))

    def _hold(self, event: JobEvent, more: int) -> None:
        self.held[event.at] += more
        self._sizes[event.job - 1] += more

    def _stop(self, event: InstancesStopping) -> None:
        row = event.job - 1
        for instance in event.instances:
            live = self._since.pop((event.job, event.task, instance), None)
            if live is not None:  # else it was being stopped already
                since, processors = live
                self.stopped[row] += 1
                self.lost[row] += (event.at - since) * processors


def _size(place: NodeCores) -> int:
    return sum(len(numbers) for _, numbers in place)


def last_allocations(journal: MemoryJournal, jobs: int) -> Sequence[NodeCores]:
    """Return the processors that each job was given when it started last.

    A new head counts jobs from 1, in the order they come; they are jobs of one size and so never grow.
    """
    given = {event.job: event.allocation for _, event in journal.replay() if isinstance(event, JobStarted)}
    return [given[JobId(row + 1)] for row in range(jobs)]
