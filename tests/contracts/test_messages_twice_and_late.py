"""What nodes say twice, or long after it was over, causes nothing: in random histories of a whole head."""

import random

import pytest
from worlds import ROOT, World

from depth import seeds
from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.command import Command
from headnode.core.state.drain import ReportHealth
from headnode.core.state.stop import StopJob
from headnode.core.state.submit import CreateJob
from headnode.engine.recovery import save

DEEDS = 150


def deed(dice: random.Random, world: World) -> Command | None:
    """Let a user, a node or an administrator do something; return what a node said, if it said anything."""
    what, held = dice.random(), list(world.nodes.running())
    if what < 0.3 or not held:
        sweep = TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=dice.randint(1, 6))
        task = dice.choice((sweep, TaskSpec(command="x", rerunnable=True), TaskSpec(command="x")))
        world.do(CreateJob(by=ROOT, spec=JobSpec(tasks=(task, task)), submit=True))
        return None
    if what < 0.36 and world.cluster.jobs:
        job = dice.choice(sorted(world.cluster.jobs))
        world.do(StopJob(by=ROOT, job=job, outcome="canceled", force=dice.random() < 0.5))
        return None
    if what < 0.4:
        node = dice.choice(sorted(world.cluster.nodes))
        well = dice.random() < 0.5
        found = ReportHealth(node=node, well=well, reason="" if well else "ill")
        world.do(found)
        return None if well else found
    if what < 0.65:
        begun = world.nodes.started(dice.choice(held), world.clock.now())
        world.do(begun)
        return begun
    kind = dice.choice(("exited", "exited", "exited", "lost", "never-ran"))
    over = world.nodes.ended(
        dice.choice(held), world.clock.now(), kind=kind, exit_code=dice.choice((0, 0, 1))
    )
    world.do(over)
    return over


@pytest.mark.parametrize("seed", seeds(8))
def test_a_report_that_comes_again_at_once_or_much_later_changes_nothing(seed: int) -> None:
    dice, world = random.Random(seed), World(2, 3)
    messages: list[Command] = []
    again = 0
    for _ in range(DEEDS):
        message = deed(dice, world)
        if message is not None:
            messages.append(message)
        world.wait(dice.choice((0.0, 1.0, 60.0)))
        before = save(world.cluster)
        reports = [each for each in messages if not isinstance(each, ReportHealth)]
        for late in (*messages[-1:], *dice.sample(reports, min(3, len(reports)))):
            if isinstance(late, ReportHealth) and not world.cluster.nodes[late.node].drains:
                continue  # it has been well since: then it is news
            assert world.do(late) == (), late
            again += 1
        assert save(world.cluster) == before
    assert again > DEEDS
    world.check_replay()
