"""Whatever jobs ask for and however nodes come and go: what could start once runs to its end."""

from contextlib import suppress
from random import Random

import pytest
from worlds import World

from depth import seeds
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.node import NodeFacts
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.task import Distribution, TaskSpec, TaskType
from headnode.core.state.join import RegisterNode
from headnode.core.state.node_loss import GiveUpNode
from headnode.core.state.nodes import NodeVanished
from headnode.core.state.transitions import JobState

SEEDS = 60
STEPS = 60
FEATURES = ("gpu", "ssd")


def cluster(chance: Random) -> World:
    world = World()
    for number in range(1, chance.randint(2, 4)):
        features = tuple(chance.sample(FEATURES, chance.randint(0, 2)))
        facts = NodeFacts(name=f"node{number}", processors=chance.randint(1, 4), features=features)
        world.do(RegisterNode(facts=facts, approved=True))
    return world


def distribution(chance: Random, processes: int) -> Distribution | None:
    numbers = list(range(1, processes + 1))
    chance.shuffle(numbers)
    cut = chance.randint(0, processes)
    groups = tuple(tuple(group) for group in (numbers[:cut], numbers[cut:]) if group)
    choices = (
        *(None, None, Distribution(round_robin=True), Distribution(per_node=chance.randint(1, 2))),
        *(Distribution(nodes=chance.randint(1, processes)), Distribution(geometry=groups)),
    )
    return chance.choice(choices)


def task(chance: Random, number: int, names: tuple[str, ...]) -> TaskSpec:
    sweeps, size = chance.random() < 0.4, chance.randint(1, 3)
    instances = chance.randint(1, 3) if sweeps else 1
    needs = NodeNeeds(features=((chance.choice(FEATURES),),)) if chance.random() < 0.3 else ANY_NODE
    return TaskSpec(
        name=f"t{number}",
        command="x",
        kind=TaskType.SWEEP if sweeps else TaskType.BASIC,
        start=1,
        end=instances,
        minimum=size,
        maximum=size + chance.randint(0, 1),
        rerunnable=chance.random() < 0.7,
        needs=needs,
        distribution=distribution(chance, instances if sweeps else size),
        depends_on=tuple(chance.sample(names, 1)) if names and chance.random() < 0.3 else (),
    )


def job(chance: Random) -> JobSpec:
    together = chance.random() < 0.5
    tasks: list[TaskSpec] = []
    for number in range(chance.randint(1, 3)):
        tasks.append(task(chance, number, () if together else tuple(known.name for known in tasks)))
    return JobSpec(tasks=tuple(tasks), together=together)


def submit(world: World, chance: Random) -> None:
    spec = job(chance)
    with suppress(BadRequest):  # a sweep with a geometry beside others
        world.submit(*spec.tasks, together=spec.together)


def end_one(world: World, chance: Random) -> None:
    running = world.nodes.running()
    if running:
        held = chance.choice(running)
        stopping = held in set(world.nodes.stopping())
        kind = "stopped" if stopping else "exited"
        world.do(world.nodes.ended(held, world.clock.now(), kind=kind, exit_code=chance.choice((0, 0, 0, 1))))


def lose_one(world: World, chance: Random, away: dict[str, NodeFacts]) -> None:
    here = sorted(set(world.cluster.nodes) - set(away))
    if len(here) > 1:
        name = chance.choice(here)
        away[name] = world.cluster.nodes[name].facts
        world.do(NodeVanished(node=name))
        world.do(GiveUpNode(node=name))
        for held in world.nodes.running():
            if held.place[0][0] == name:
                world.nodes.ended(held, world.clock.now())


def bring_back(world: World, away: dict[str, NodeFacts]) -> None:
    for name in list(away):
        world.do(RegisterNode(facts=away.pop(name)))


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_everything_that_has_started_is_over_once_its_processes_have_ended(seed: int) -> None:
    chance, away = Random(seed), {}
    world = cluster(chance)
    for _ in range(STEPS):
        draw = chance.random()
        if draw < 0.3:
            submit(world, chance)
        elif draw < 0.85:
            end_one(world, chance)
        elif draw < 0.92:
            lose_one(world, chance, away)
        else:
            bring_back(world, away)
    bring_back(world, away)
    for _ in range(2000):
        if not world.nodes.running():
            break
        end_one(world, chance)
        world.wait(1)
    left = {record.state for record in world.cluster.jobs.values()}
    assert left <= {JobState.QUEUED}  # those that fit on no cluster like this
    assert not any(world.cluster.cores.holders.values())
    world.check_replay()
