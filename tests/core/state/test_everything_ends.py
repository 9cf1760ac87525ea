"""Whatever has happened before, every job ends once nothing keeps it; no licence is ever lent twice."""

import contextlib
from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from test_histories import STEPS, Player
from worlds import ROOT, World

from depth import seeds
from headnode.core.model.errors import Refused
from headnode.core.model.job import JobSpec, Licence
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import Instant
from headnode.core.model.task import Distribution, TaskSpec, TaskType
from headnode.core.state.command import Command
from headnode.core.state.drain import DrainNode
from headnode.core.state.hold import ReleaseJob
from headnode.core.state.job_record import JobRecord
from headnode.core.state.join import RegisterNode
from headnode.core.state.nodes import ChangeNode, SetParameter
from headnode.core.state.stop import StopJob
from headnode.core.state.suspend import ResumeJob
from headnode.core.state.transitions import JobState

SEEDS = 50
LICENCES = 2
ROUNDS = 150  # each lets end what runs; far more than any history leaves


class Choosy(Player):
    """A player whose tasks are particular about nodes, and whose nodes drain."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.world.do(SetParameter(by=ROOT, name="Licences", value=f"x:{LICENCES}"))

    def add_task(self) -> None:
        """Tasks that come while a job runs ask for no node: it may never have that."""

    def task(self) -> TaskSpec:
        r, task = self.random, super().task()
        processes = task.instances if task.kind is TaskType.SWEEP else task.minimum
        layouts = (
            Distribution(per_node=1),
            Distribution(nodes=min(2, processes)),
            Distribution(round_robin=True),
        )
        return replace(
            task,
            needs=NodeNeeds(names=(self.some_node(),)) if r.random() < 0.15 else task.needs,
            distribution=r.choice(layouts) if r.random() < 0.15 else None,
            exclusive=r.random() < 0.1,
            required_nodes=(self.some_node(),) if r.random() < 0.1 else (),
        )

    def spec(self) -> JobSpec:
        r = self.random
        licence = Licence("x", r.choice((1, LICENCES, None)))
        return replace(
            super().spec(), licences=(licence,) if r.random() < 0.15 else (), single_node=r.random() < 0.1
        )

    def some_node(self) -> str:
        return f"node{self.random.randint(1, 3)}"

    def step(self) -> None:
        if self.random.random() < 0.06:
            closes = self.random.choice((None, Instant(self.world.clock.now() + 30)))
            with contextlib.suppress(Refused):
                self.world.do(DrainNode(by=ROOT, node=self.some_node(), closes=closes, reason="x"))
        else:
            super().step()


def licences_in_use(world: World) -> int:
    used = 0
    for record in world.cluster.jobs.values():
        if record.run is not None and record.run.allocation:
            held = sum(map(len, record.run.allocation.values()))
            for licence in world.cluster.request(record).licences:
                used += held if licence.amount is None else licence.amount
    return used


def what_lets_it_end(world: World, record: JobRecord) -> Iterator[Command]:
    """Yield what takes away whatever keeps a job, or ends one that waits for what never comes."""
    job, over = record.id, [parent for parent in record.waits_for if parent not in world.cluster.jobs]
    waits_in_vain = record.state is JobState.QUEUED and (over or never_fits(world, record))
    spec = world.cluster.spec(record)
    endless = spec.run_until_canceled or any(task.kind is TaskType.SERVICE for task in spec.tasks)
    if record.state is JobState.CONFIGURING or endless or waits_in_vain:
        yield StopJob(by=ROOT, job=job, outcome="canceled")
    if record.holds:
        yield ReleaseJob(by=ROOT, job=job, name=None)
    if record.state is JobState.SUSPENDING:
        yield from world.nodes.stopped(job)
    if record.state is JobState.SUSPENDED:
        yield ResumeJob(by=ROOT, job=job)


def never_fits(world: World, record: JobRecord) -> bool:
    plan = world.engine.last_plan
    waits = None if plan is None else plan.waits.get(world.cluster.request(record))
    return waits is not None and any(reason.why == "never-fits" for reason in waits.reasons)


def let_all_end(world: World) -> None:
    for _ in range(ROUNDS):
        nodes = list(world.cluster.nodes.items())
        commands: list[Command] = [RegisterNode(facts=node.facts) for _, node in nodes]
        commands += [ChangeNode(by=ROOT, node=name, action="approve") for name, _ in nodes]
        commands += [ChangeNode(by=ROOT, node=name, action="resume") for name, _ in nodes]
        for record in world.cluster.jobs.values():
            commands += what_lets_it_end(world, record)
        stopping, now = list(world.nodes.stopping()), world.clock.now()
        commands += [
            world.nodes.ended(one, now, kind="stopped" if one in stopping else "exited", exit_code=0)
            for one in world.nodes.running()
        ]
        for command in commands:
            with contextlib.suppress(Refused):
                world.do(command)
        world.wait(40)
        if not world.cluster.jobs:
            return


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_every_job_ends_once_nothing_keeps_it_and_licences_are_never_lent_twice(seed: int) -> None:
    player = Choosy(seed)
    for _ in range(STEPS):
        player.step()
        assert licences_in_use(player.world) <= LICENCES
    let_all_end(player.world)
    left = {record.id: record.state for record in player.world.cluster.jobs.values()}
    assert not left
    player.world.check_replay()
