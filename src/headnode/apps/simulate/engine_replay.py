"""Replays past jobs through the whole head: commands, life cycles, events, passes, a journal in memory.

Nothing here knows how to schedule; nothing in the head knows that its clock and its nodes are not real.
"""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf

from msgspec.structs import replace

from headnode.adapters.clock.virtual import VirtualClock
from headnode.adapters.journal.memory import MemoryJournal
from headnode.adapters.nodes.timed import TimedNodes
from headnode.apps.simulate.asking import AS_LOGGED, Asking
from headnode.apps.simulate.machine import Machine
from headnode.apps.simulate.submissions import Submissions
from headnode.apps.simulate.toll import Toll, toll
from headnode.apps.simulate.variants import Values
from headnode.core.lifecycle import commands as c
from headnode.core.model.errors import BadRequest, HeadnodeError
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.reservation import NodeReservation
from headnode.core.model.user import User
from headnode.core.model.workload import Workload
from headnode.core.scheduling.policies import POLICIES, Policy
from headnode.core.scheduling.pool.ties import Ties
from headnode.engine.engine import Engine

STEP = 256  # jobs between two reports of progress
_YOUNG = 100_000  # objects before the collector looks for circles of garbage
_OPERATOR = User(name="operator", uid=0, gid=0, administrator=True)


class EngineReplay:
    """A head with a clock and nodes of its own, to which the jobs of a workload come one after the other."""

    def __init__(
        self,
        workload: Workload,
        machine: Machine,
        policy: str,
        policies: Mapping[str, Policy] = POLICIES,
        *,
        parameters: Values = (),
        asking: Asking = AS_LOGGED,
    ) -> None:
        """Start the head with parameters that have been checked.

        Raises:  BadRequest when it refuses a node.
        """
        self._workload = workload
        self._submissions = Submissions(workload, machine, asking)
        self._keeps_sizes = asking.keeps_sizes
        self._submits = [*workload.submits, inf]
        self._come = 0
        self._clock = VirtualClock(Instant(self._submits[0]))
        self._nodes = TimedNodes(self._run_time)
        self.journal = MemoryJournal()
        self.engine = Engine(self.journal, self._clock, dict(policies), self._nodes)
        choices = (("SchedulingPolicy", policy), *parameters)
        self._do([c.SetParameter(by=_OPERATOR, name=name, value=value) for name, value in choices])
        self._do([c.RegisterNode(facts=facts, approved=True) for facts in machine.nodes])
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

    def toll(self) -> Toll:
        """Return what became of the jobs; once they are all over."""
        return toll(self.journal, len(self._workload.submits))

    def _replay(self, ties: Ties, progress: Callable[[int], None] | None) -> None:
        at_once = self._ends_first if ties is Ties.ENDS_FIRST else self._arrivals_first
        told = 0
        while (now := min(news := self._next_news(), self._wake())) != inf:
            self._clock.advance_to(Instant(now))
            if news == now:  # what ends at its limit is reported before the head looks for overdue jobs
                at_once(now)
            else:
                self.engine.tick()
            if progress is not None and self._come - told >= STEP:
                told = self._come
                progress(told)

    def _run_time(self, job: JobId) -> float:
        return self._workload.run_times[job - 1]  # a new head counts jobs from 1, in the order they come

    def _next_news(self) -> float:
        """Return when the next job comes or ends."""
        return min(self._submits[self._come], self._nodes.next_end())

    def _wake(self) -> float:
        wake = self.engine.next_wake()
        return inf if wake is None else wake

    def _ends_first(self, now: float) -> None:
        """All ends and all arrivals are one batch, so one pass sees them all."""
        commands: list[c.Command] = [*self._nodes.over(now)]
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

    def _arrivals(self, now: float) -> list[c.CreateJob]:
        first = self._come
        while self._submits[self._come] == now:
            self._come += 1
        return [self._submissions.create(row) for row in range(first, self._come)]

    def _is_at_limit(self, job: JobId, now: float) -> bool:
        return self._nodes.starts[job] + self._submissions.spec(job - 1).run_time <= now

    def _do(self, commands: Sequence[c.Command]) -> None:
        for answer in self.engine.handle(commands):
            if isinstance(answer, HeadnodeError):
                raise answer

    def _starts(self) -> list[float]:
        starts = self._nodes.starts
        rows = range(len(self._workload.submits))
        never = [self._workload.numbers[row] for row in rows if JobId(row + 1) not in starts]
        if never:
            raise BadRequest(
                code="never-started",
                what=f"the policy never starts {len(never)} of the jobs, the first of which is {never[0]}",
                fix="try another policy, or leave the job out of the log",
            )
        if self._keeps_sizes:
            return [starts[JobId(row + 1)] for row in rows]
        ends = self.toll().ended
        return [ends[row] - self._workload.run_times[row] for row in rows]


def _reserves(reservation: NodeReservation, first: float) -> c.MakeReservation:
    """Return what reserves nodes for a time that counts from the first submission."""
    begins, ends = Instant(first + reservation.begins), Instant(first + reservation.ends)
    return c.MakeReservation(by=_OPERATOR, reservation=replace(reservation, begins=begins, ends=ends))


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Search for circles of garbage less often: there are few, and the journal is long to walk through."""
    young, middle, old = gc.get_threshold()
    gc.set_threshold(_YOUNG, middle, old)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
