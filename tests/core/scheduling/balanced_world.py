"""A cluster in balanced mode, played by hand: tasks of one unit each run, are stopped, and end when told to.

It holds the planner to what it may do at all; what it should do is for the tests.
"""

from dataclasses import dataclass, field

from msgspec.structs import replace

from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.quantities import NEVER, JobId
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.policies import Policy
from headnode.core.scheduling.policies import plan_easy as easy
from headnode.core.scheduling.view import Balancing, Bias, NodeSurplus, RunningJob, ShareInfo, View
from headnode.engine.preemption import plan_in_mode
from headnode.testing import scene
from headnode.testing.scenes import turn_of


@dataclass(repr=False)
class Job:
    """A job; `tasks` are those that have not ended, each of one unit."""

    number: int
    request: JobRequest
    priority: int = 2000
    tasks: int = 10**6
    rerunnable: bool = True
    holds: dict[str, int] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)  # processors of each node on which tasks run
    leaving: dict[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        asks, fixed = self.request, "" if self.rerunnable else " not rerunnable"
        size = f"{asks.minimum}-{asks.maximum} {asks.unit.value}{' exclusive' if asks.exclusive else ''}"
        place = f"{' on one node' if asks.single_node else ''}{' on ' if asks.requested_nodes else ''}"
        where = f"holds {self.holds} runs {self.runs} leaving {self.leaving}"
        named = ",".join(asks.requested_nodes)
        return f"job {self.number} ({size}{place}{named}, {self.priority}{fixed}) {where}"

    @property
    def whole(self) -> bool:
        return self.request.exclusive or self.request.unit is UnitType.NODE

    @property
    def each(self) -> int:
        """How many processors a unit has; a whole node may have any number."""
        return self.request.processors_per_gpu or 1


@dataclass(repr=False)
class World:
    """What is there, and what a pass does to it."""

    nodes: list[NodeView]
    jobs: list[Job]
    policy: Policy = easy
    bias: Bias = Bias.MEDIUM
    immediate: bool = True
    stopped: int = 0  # tasks that were stopped in all

    def __repr__(self) -> str:
        how = f"{self.bias.value}, {'immediate' if self.immediate else 'graceful'}"
        return f"{self.sizes()}, {how}: {'; '.join(map(repr, self.jobs))}"

    def sizes(self) -> dict[str, int]:
        return {node.facts.name: node.facts.processors for node in self.nodes}

    def units(self, job: Job, held: dict[str, int]) -> int:
        if job.request.unit is UnitType.NODE:
            return sum(1 for count in held.values() if count)
        if job.whole and job.request.unit is UnitType.GPU:
            gpus = {node.facts.name: node.facts.gpus for node in self.nodes}
            return sum(min(count // job.each, gpus[name]) for name, count in held.items())
        return sum(count // job.each for count in held.values())

    def view(self, *, due: bool = True) -> View:
        running = [job for job in self.jobs if job.holds]
        shown = scene(
            self.nodes,
            [
                RunningJob(
                    JobId(job.number),
                    turn_of(job.number, job.priority),
                    job.request,
                    NEVER,
                    tuple(job.holds.items()),
                )
                for job in running
            ],
            [(job.number, job.request, job.priority) for job in self.jobs if not job.holds and job.tasks],
        )
        sharers = {JobId(job.number): self.sharer(job) for job in running}
        return replace(shown, balancing=Balancing(self.bias, self.immediate, due, sharers=sharers))

    def sharer(self, job: Job) -> ShareInfo:
        held = []
        for node, count in job.holds.items():
            leaving, runs = job.leaving.get(node, 0), job.runs.get(node, 0)
            awaited = max(0, leaving - (count - runs)) if not job.whole else leaving if runs else 0
            rest = runs - awaited if not job.whole else runs
            idle = count - leaving - (rest if not job.whole or not leaving else 0)
            held.append(
                NodeSurplus(
                    node,
                    count,
                    leaving - awaited,
                    awaited,
                    max(0, idle),
                    rest if job.rerunnable and not (job.whole and leaving) else 0,
                )
            )
        there = [
            (count, job.runs.get(name, 0), job.leaving.get(name, 0)) for name, count in job.holds.items()
        ]
        if job.request.unit is UnitType.NODE:
            waits = job.tasks - sum(1 for _, runs, leaving in there if runs or not leaving)
        else:
            waits = job.tasks - sum(max(runs, count - leaving) // job.each for count, runs, leaving in there)
        return ShareInfo(JobId(job.number), job.tasks, max(0, waits), tuple(held), lasting=not job.rerunnable)

    def do_pass(self, *, due: bool = True) -> Plan:
        made = plan_in_mode(self.policy, self.view(due=due))
        by = {job.number: job for job in self.jobs}
        for recall in made.recalls:
            self.recall(by[recall.job], dict(recall.allocation), immediate=recall.immediate)
        for start in made.starts:
            assert not by[start.job].holds
            self.give(by[start.job], start.allocation)
        for grow in made.grows:
            assert by[grow.job].holds
            self.give(by[grow.job], grow.allocation)
            assert self.units(by[grow.job], by[grow.job].holds) <= self.most(by[grow.job])
        for job in self.jobs:
            self.attend(job)
        return made

    def most(self, job: Job) -> int:
        """Return how many units a job may hold: the last of whole nodes is taken in full."""
        rest = max(self.sizes().values()) - 1 if job.request.exclusive else 0
        return job.request.maximum + rest

    def give(self, job: Job, allocation: tuple[tuple[str, int], ...]) -> None:
        for node, count in allocation:
            free = self.sizes()[node] - sum(other.holds.get(node, 0) for other in self.jobs)
            assert 0 < count <= free, f"{node} has {free} free, job {job.number} was given {count}"
            others = [other for other in self.jobs if other is not job and other.holds.get(node)]
            assert not others or not (job.whole or any(other.whole for other in others))
            if job.request.unit is UnitType.GPU and not job.whole:
                assert count % job.each == 0, f"job {job.number} was given {count} processors"
                there = next(each.facts.gpus for each in self.nodes if each.facts.name == node)
                used = [o.holds.get(node, 0) // o.each for o in others if o.request.unit is UnitType.GPU]
                mine = (job.holds.get(node, 0) + count) // job.each
                assert mine + sum(used) <= there, f"{node} has {there} GPUs, job {job.number} has {mine}"
            job.holds[node] = job.holds.get(node, 0) + count

    def recall(self, job: Job, wanted: dict[str, int], *, immediate: bool) -> None:
        left = {node: count - wanted.get(node, 0) for node, count in job.holds.items()}
        assert all(count >= 0 for count in left.values())
        assert self.units(job, left) >= job.request.minimum, f"job {job.number} would keep {left}"
        if job.whole:
            assert all(count in (0, job.holds[node]) for node, count in left.items())
        job.leaving = {node: count for node, count in wanted.items() if count}
        if not immediate:
            return
        for node, count in wanted.items():
            idle = job.holds[node] - job.runs.get(node, 0)
            stop = job.runs.get(node, 0) if job.whole else max(0, count - idle)
            assert not stop or job.rerunnable, f"job {job.number} has tasks that must not be stopped"
            self.stopped += stop
            job.runs[node] = job.runs.get(node, 0) - stop

    def attend(self, job: Job) -> None:
        """Let a job give back what it was asked for, and start tasks on the rest."""
        for node in list(job.leaving):
            idle = job.holds[node] - job.runs.get(node, 0)
            gives = job.leaving[node] if not job.whole or idle == job.holds[node] else 0
            gives = min(gives, idle)
            job.leaving[node] -= gives
            job.holds[node] -= gives
            job.leaving = {name: count for name, count in job.leaving.items() if count}
            job.holds = {name: count for name, count in job.holds.items() if count}
        for node, count in job.holds.items():
            if not job.leaving.get(node):
                busy = sum(job.runs.values())
                more = min(count - job.runs.get(node, 0), max(0, self.could_use(job) - busy))
                job.runs[node] = job.runs.get(node, 0) + more

    def could_use(self, job: Job) -> int:
        if job.whole and job.request.unit is not UnitType.PROCESSOR:
            return job.tasks * max(self.sizes().values())
        return job.tasks * job.each

    def settle(self, most: int = 40, *, due: bool = True) -> int:
        """Make passes until one changes nothing; return how many did."""
        for number in range(most):
            made = self.do_pass(due=due)
            if not (made.starts or made.grows or made.recalls):
                return number
        raise AssertionError(f"it does not come to rest: {self}, lastly {made.recalls} {made.grows}")

    def end_task(self, job: Job, node: str) -> None:
        """Let one task end."""
        if job.runs.get(node):
            job.runs[node] -= 1 if job.whole else job.each
            job.tasks -= 1
            if not job.tasks:
                job.holds, job.runs, job.leaving = {}, {}, {}
            self.attend(job)

    def held(self) -> dict[int, int]:
        return {job.number: self.units(job, job.holds) for job in self.jobs if job.holds}
