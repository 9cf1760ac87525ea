"""Replays past jobs through the whole head, with a journal in memory; which jobs were stopped, and what
that cost.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from typing import NamedTuple

from msgspec.structs import replace

from headnode.adapters.clock import VirtualClock
from headnode.adapters.journal.memory import MemoryJournal
from headnode.adapters.nodes.timed_nodes import TimedNodes
from headnode.apps.simulate.machine import SimulatedMachine
from headnode.apps.simulate.scenario import AS_LOGGED, RequestOverrides, Values
from headnode.apps.simulate.submissions import BY_NUMBERS, LogOwners, ReplaySubmissions, groups_in_log
from headnode.core.model.errors import BadRequest, HeadnodeError
from headnode.core.model.owner_limits import LimitScope
from headnode.core.model.priority_factors import PROJECT_SHARES, WEIGHTS_PARAMETER
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.reservation import NodeReservation
from headnode.core.model.user import User
from headnode.core.model.workload import Workload
from headnode.core.scheduling.policies import POLICIES, Policy
from headnode.core.scheduling.pool.replay import Ties
from headnode.core.state.command import Command
from headnode.core.state.events import Event
from headnode.core.state.job_events import (
    AllocationGrown,
    AllocationShrunk,
    InstancesDispatched,
    InstancesStopping,
    JobAutoRequeued,
    JobEnded,
    JobEnding,
    JobEvent,
    JobRequeued,
    JobStarted,
    NodeCores,
)
from headnode.core.state.join import RegisterNode
from headnode.core.state.nodes import SetParameter, SetUserGroups
from headnode.core.state.reservations import MakeReservation
from headnode.core.state.submit import CreateJob
from headnode.engine.engine import Engine


class PreemptionCost(NamedTuple):
    """One value for each job, in the order in which they came.

    Unit:  seconds on the log's clock for `started`, the first start, and `ended`; processor seconds for the
           work that was `lost`: of tasks that were stopped for others, and began anew.

    `returned` counts how often the job went back to the queue for others, `stopped` its tasks that were
    stopped for others.  `cut`: it was over at its run time limit, with work left to do.

    The others are no columns.  `held` says by how much the number of processors that jobs hold changes at
    which seconds, `changes` at which seconds that of which job changes, in the order of time.
    """

    started: Sequence[float]
    ended: Sequence[float]
    returned: Sequence[int]
    stopped: Sequence[int]
    lost: Sequence[float]
    cut: Sequence[bool]
    held: Mapping[float, int]
    changes: Sequence[tuple[float, int, int]] = ()  # (seconds, row of the job, processors)


def preemption_cost(journal: MemoryJournal, jobs: int) -> PreemptionCost:
    """Return what became of the first jobs of a head that are all over.  Cost: one look at every event."""
    costs = _CostCounter(jobs)
    for _, event in journal.replay():
        if type(event) in _COSTS:  # few are: a match asks for one class after the other
            costs.note(event)
    held = Counter[float]()
    for at, _, more in costs.changes:
        held[at] += more
    return PreemptionCost(
        costs.started, costs.ended, costs.returned, costs.stopped, costs.lost, costs.cut, held, costs.changes
    )


_HOLDING = (JobStarted, AllocationGrown, AllocationShrunk, JobAutoRequeued, JobRequeued, JobEnded)
_COSTS = frozenset((*_HOLDING, InstancesDispatched, InstancesStopping, JobEnding))
"""Events that `_CostCounter.note` takes note of, and few others."""


class _CostCounter:
    """What has been told so far; a new head counts jobs from 1, in the order they come."""

    def __init__(self, jobs: int) -> None:
        never = float("nan")
        self.started, self.ended, self.lost = [never] * jobs, [never] * jobs, [0.0] * jobs
        self.returned, self.stopped, self.cut = [0] * jobs, [0] * jobs, [False] * jobs
        self.changes: list[tuple[float, int, int]] = []
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
                processors = _size(event.placement)
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
            case JobAutoRequeued() | JobRequeued():
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
            self.started[row] = event.at
        self._hold(event, _size(event.allocation))

    def _hold(self, event: JobEvent, more: int) -> None:
        self.changes.append((event.at, event.job - 1, more))
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
    allocations = {
        event.job: event.allocation for _, event in journal.replay() if isinstance(event, JobStarted)
    }
    return [allocations[JobId(row + 1)] for row in range(jobs)]


STEP = 256  # jobs between two reports of progress
_YOUNG = 100_000  # objects before the collector looks for circles of garbage
_OPERATOR = User(name="operator", uid=0, gid=0, administrator=True)


class EngineReplay:
    """A head with a clock and nodes of its own, to which the jobs of a workload come one after the other."""

    def __init__(
        self,
        workload: Workload,
        machine: SimulatedMachine,
        policy: str,
        policies: Mapping[str, Policy] = POLICIES,
        *,
        parameters: Values = (),
        asking: RequestOverrides = AS_LOGGED,
        owners: LogOwners = BY_NUMBERS,
    ) -> None:
        """Start the head with parameters that have been checked.

        Raises:  BadRequest when it refuses a node.
        """
        self.workload = workload
        named = dict(parameters)
        by_project = LimitScope.PROJECT.parameter in named or PROJECT_SHARES in named
        by_project |= WEIGHTS_PARAMETER in named and owners is not BY_NUMBERS  # as they were in the history
        self.submissions = ReplaySubmissions(workload, machine, asking, owners, by_project=by_project)
        self._keeps_sizes = asking.keeps_sizes
        self._submits = [*workload.submits, inf]
        self._come = 0
        self._clock = VirtualClock(Instant(self._submits[0]))
        self._nodes = TimedNodes(self._run_time)
        self.journal = MemoryJournal()
        self.engine = Engine(self.journal, self._clock, dict(policies), self._nodes)
        choices = (("SchedulingPolicy", policy), *parameters)
        self._do([SetParameter(by=_OPERATOR, name=name, value=value) for name, value in choices])
        limits = self.engine.cluster.limit_index
        if limits.group_names:
            groups = groups_in_log(workload, owners).items()
            known = {user: limits.limited_groups(names) for user, names in groups}
            self._do([SetUserGroups(groups=known)])
        self._do([RegisterNode(facts=facts, approved=True) for facts in machine.nodes])
        self._do([_reserves(each, self._submits[0]) for each in machine.reservations])

    def run(self, ties: Ties = Ties.ENDS_FIRST, progress: Callable[[int], None] | None = None) -> list[float]:
        """Return when each job starts, in seconds on the workload's clock; the last time, if it is stopped.
        Of a job that runs on fewer processors than all its own: so long before its end as it would have
        taken on all of them, as if it had waited until then.
        Raises:  BadRequest when the head refuses a job, or never starts one.
        """
        with _rare_collections():
            self._replay(ties, progress)
        return self._starts()

    def preemption_cost(self) -> PreemptionCost:
        """Return what became of the jobs; once they are all over."""
        return preemption_cost(self.journal, len(self.workload.submits))

    def _replay(self, ties: Ties, progress: Callable[[int], None] | None) -> None:
        at_once = self._ends_first if ties is Ties.ENDS_FIRST else self._arrivals_first
        reported = 0
        while (now := min(event_time := self._next_event_time(), self._wake())) != inf:
            self._clock.advance_to(Instant(now))
            if event_time == now:  # what ends at its limit is reported before the head looks for overdue jobs
                at_once(now)
            else:
                self.engine.tick()
            if progress is not None and self._come - reported >= STEP:
                reported = self._come
                progress(reported)

    def _run_time(self, job: JobId) -> float:
        return self.workload.run_times[job - 1]  # a new head counts jobs from 1, in the order they come

    def _next_event_time(self) -> float:
        """Return when the next job comes or ends."""
        return min(self._submits[self._come], self._nodes.next_end())

    def _wake(self) -> float:
        wake = self.engine.next_wake()
        return inf if wake is None else wake

    def _ends_first(self, now: float) -> None:
        """All ends and all arrivals are one batch, so one pass sees them all."""
        commands: list[Command] = [*self._nodes.over(now)]
        if self._submits[self._come] == now:
            commands += self._arrivals(now)
        self._do(commands)

    def _arrivals_first(self, now: float) -> None:
        """A pass after each event; jobs that have reached their limits end before the first."""
        ends = self._nodes.over(now)
        limits = [end for end in ends if self._is_at_limit(end.job, now)]
        single = [*self._arrivals(now), *ends]
        if limits and single[0] in limits:
            self._do(limits)
        elif single:
            self._do([*limits, single[0]])
        for command in single[1:]:
            if command not in limits:
                self._do([command])

    def _arrivals(self, now: float) -> list[CreateJob]:
        first = self._come
        while self._submits[self._come] == now:
            self._come += 1
        return [self.submissions.create(row) for row in range(first, self._come)]

    def _is_at_limit(self, job: JobId, now: float) -> bool:
        return self._nodes.starts[job] + self.submissions.spec(job - 1).run_time <= now

    def _do(self, commands: Sequence[Command]) -> None:
        for answer in self.engine.handle(commands):
            if isinstance(answer, HeadnodeError):
                raise answer

    def _starts(self) -> list[float]:
        starts = self._nodes.starts
        rows = range(len(self.workload.submits))
        never = [self.workload.numbers[row] for row in rows if JobId(row + 1) not in starts]
        if never:
            raise BadRequest(
                code="never-started",
                what=f"the policy never starts {len(never)} of the jobs, the first of which is {never[0]}",
                fix="try another policy, or leave the job out of the log",
            )
        if self._keeps_sizes:
            return [starts[JobId(row + 1)] for row in rows]
        ends = self.preemption_cost().ended
        return [ends[row] - self.workload.run_times[row] for row in rows]


def _reserves(reservation: NodeReservation, first: float) -> MakeReservation:
    """Return what reserves nodes for a time that counts from the first submission."""
    begins, ends = Instant(first + reservation.start), Instant(first + reservation.end)
    return MakeReservation(by=_OPERATOR, reservation=replace(reservation, start=begins, end=ends))


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Search for circles of garbage less often: there are few, and the journal is long to walk through."""
    young, middle, old = gc.get_threshold()
    gc.set_threshold(_YOUNG, middle, old)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
