"""Histories: jobs that come, run and end, lived through pass by pass under a policy.

Everything happens at its instant: what ends, then what comes, then one pass over the picture of it all, and
more as long as a pass still starts something.  A plan that asks to be woken is.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

import msgspec

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.decision import Grow, Plan, Reservation, Shares, Start
from headnode.core.scheduling.view import NodeView, RunningJob, View
from headnode.testing.broken import broken_unless
from headnode.testing.scenes import MINUTE, NOW, Queued, scene, turn_of

Policy = Callable[[View], Plan]
"""What plug-ins are: a function from what is, to what should happen."""

MOST_ROUNDS = 3
"""Passes at one instant: the plan, and what it gives rise to."""


class Arrival(NamedTuple):
    """A job to come.  Its id says in which order it was submitted; times are in minutes."""

    job: int
    request: JobRequest
    at: float  # after the beginning
    lasts: float  # how long it runs, whatever its limit says
    priority: int = 2000
    wants: int = 0  # how many processors more it would take while it runs


class History(NamedTuple):
    """Nodes that stay as they are, and the jobs that come.  Ids are ascending, and so are the times."""

    nodes: Sequence[NodeView]
    arrivals: Sequence[Arrival]
    licences: Mapping[str, int] = {}
    depth: float = inf

    @property
    def keeps_limits(self) -> bool:
        """Whether no job runs longer than its limit."""
        return all(each.lasts * MINUTE <= each.request.run_time for each in self.arrivals)


class Moment(NamedTuple):
    """A pass: what the policy saw and what it said, and who came since the pass before."""

    view: View
    plan: Plan
    came: tuple[Arrival, ...]


def live(history: History, policy: Policy) -> Iterator[Moment]:
    """Yield every pass.  What a plan says is done when the next is asked for; so check it before."""
    life = _Life(history)
    while life.now < inf:
        for _ in range(MOST_ROUNDS):
            came, view = life.came, life.view()
            plan = policy(view)
            yield Moment(view, plan, came)
            life.do(plan)
            if not (plan.starts or plan.grows):
                break
        life.go_on()


class _Life:
    """Where a history stands."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._coming = list(history.arrivals)
        self._arrivals = {each.job: each for each in history.arrivals}
        self._waiting: list[Arrival] = []
        self._running: dict[JobId, RunningJob] = {}
        self._ends: dict[JobId, float] = {}
        self._before: Plan | None = None
        self._freed = True
        self.came: tuple[Arrival, ...] = ()
        self.now = self._next_arrival()
        self._arrive()

    def view(self) -> View:
        """Return the picture of now."""
        nodes = [_idle(each) for each in self._history.nodes]
        queue: list[Queued] = [(each.job, each.request, each.priority) for each in self._waiting]
        running = list(self._running.values())
        licences = {name: (total, total) for name, total in self._history.licences.items()}
        view = scene(nodes, running, queue, now=Instant(self.now), depth=self._history.depth)
        return msgspec.structs.replace(
            view,
            before=None if self._before is None else _forgetful(self._before),
            freed=self._freed,
            licences=_left(licences, running),
        )

    def do(self, plan: Plan) -> None:
        """Let happen what the plan says.

        Raises:  PromiseBroken when it is about a job that does not wait or run.
        """
        self._before, self._freed, self.came = plan, False, ()
        for grow in plan.grows:
            self._grow(grow)
        for start in plan.starts:
            self._start(start)

    def go_on(self) -> None:
        """Go to the next instant at which something happens."""
        wake = NEVER if self._before is None else self._before.wake
        wake = wake if wake > self.now else NEVER
        self.now = min([self._next_arrival(), wake, *self._ends.values()])
        if self.now < inf:
            self._end()
            self._arrive()

    def _next_arrival(self) -> float:
        return NOW + self._coming[0].at * MINUTE if self._coming else inf

    def _end(self) -> None:
        for job in [job for job, end in self._ends.items() if end <= self.now]:
            self._freed = self._freed or self._running[job].end > self.now
            del self._ends[job], self._running[job]

    def _arrive(self) -> None:
        while self._coming and self._next_arrival() <= self.now:
            self.came += (self._coming[0],)
            self._waiting.append(self._coming.pop(0))

    def _start(self, start: Start) -> None:
        found = [each for each in self._waiting if each.job == start.job]
        broken_unless(len(found) == 1, f"the plan starts job {start.job}, which does not wait")
        arrival = found[0]
        self._waiting.remove(arrival)
        turn, taken = turn_of(arrival.job, arrival.priority), _taken(arrival, start)
        end = Instant(self.now + taken.run_time)
        self._running[start.job] = RunningJob(start.job, turn, taken, end, start.allocation, arrival.wants)
        lasts = arrival.lasts * MINUTE
        self._ends[start.job] = self.now + (min(lasts, taken.run_time) if start.option else lasts)

    def _grow(self, grow: Grow) -> None:
        job = self._running.get(grow.job)
        if job is None:
            broken_unless(False, f"the plan lets job {grow.job} grow, which does not run")
            return
        held = _together(job.allocation, grow.allocation)
        more = sum(count for _, count in grow.allocation)
        self._running[grow.job] = msgspec.structs.replace(
            job, allocation=held, wants=max(0, job.wants - more)
        )


def _taken(arrival: Arrival, start: Start) -> JobRequest:
    """Return the request that a job is given, which ends with its limit when it is not the job's own."""
    request = arrival.request
    there = 0 <= start.option <= len(request.others)
    broken_unless(there, f"the plan gives job {start.job} its option {start.option}, which there is not")
    return msgspec.structs.replace(request.option(start.option), others=())


def _together(one: Shares, other: Shares) -> Shares:
    held = dict(one)
    for name, count in other:
        held[name] = held.get(name, 0) + count
    return tuple(held.items())


def _idle(node: NodeView) -> NodeView:
    return NodeView(node.facts, node.facts.processors, closed=node.closed)


def _forgetful(plan: Plan) -> Plan:
    """Return the plan with nothing but its reservations, which is what a scene can be written with."""
    reservations: tuple[Reservation, ...] = plan.reservations
    return Plan((), (), {}, reservations)


def _left(totals: Mapping[str, tuple[int, int]], running: Sequence[RunningJob]) -> dict[str, tuple[int, int]]:
    free = {feature: total for feature, (total, _) in totals.items()}
    for job in running:
        for wish in job.request.licences:
            if wish.feature in free:
                held = sum(count for _, count in job.allocation)
                free[wish.feature] -= held if wish.amount is None else wish.amount
    return {feature: (total, free[feature]) for feature, (total, _) in totals.items()}
