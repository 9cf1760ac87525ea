"""Nodes whose agent was started by an ordinary user serve that user only."""

from msgspec.structs import replace
from worlds import ADA, BOB, World

from headnode.core.model.node import NodeFacts
from headnode.core.model.task import TaskSpec
from headnode.core.state import join as c
from headnode.core.state.transitions import JobState

TASK = TaskSpec(command="true")
OPEN = NodeFacts(name="open", processors=1)
HERS = NodeFacts(name="hers", processors=1, only_user=ADA.name)


def world_with(*nodes: NodeFacts) -> World:
    world = World()
    for facts in nodes:
        world.do(c.RegisterNode(facts=facts, approved=True))
    return world


def where(world: World, job: int) -> list[str]:
    return [held.place[0][0] for held in world.nodes.running() if held.job == job]


def test_jobs_of_others_never_go_there_and_the_reason_says_why() -> None:
    world = world_with(HERS)
    his = world.submit(TASK, by=BOB)
    assert world.record(his).state is JobState.QUEUED
    assert world.engine.last_plan is not None
    wait = world.engine.last_plan.waits[world.cluster.request(world.record(his))]
    assert any("serves only user 'ada'" in reason.text for reason in wait.reasons), wait.reasons
    hers = world.submit(TASK, by=ADA)
    assert where(world, hers) == ["hers"]
    world.check_replay()


def test_each_goes_where_he_is_served() -> None:
    world = world_with(HERS, OPEN)
    his, hers = world.submit(TASK, by=BOB), world.submit(TASK, by=ADA)
    assert (where(world, his), where(world, hers)) == (["open"], ["hers"])
    third = world.submit(TASK, by=BOB)
    world.end(hers, 1)
    assert world.record(third).state is JobState.QUEUED
    world.end(his, 1)
    assert where(world, third) == ["open"]


def test_a_queue_that_stood_before_the_node_came_knows_whose_its_jobs_are() -> None:
    world = World()
    his, hers = world.submit(TASK, by=BOB), world.submit(TASK, by=ADA)
    world.do(c.RegisterNode(facts=HERS, approved=True))
    assert (where(world, his), where(world, hers)) == ([], ["hers"])
    world.check_replay()


def test_equal_requests_of_different_users_are_one_class_where_everybody_is_served() -> None:
    world = world_with(OPEN)
    world.submit(TASK, by=ADA)
    world.submit(TASK, by=BOB)
    world.submit(TASK, by=ADA)
    assert len(world.cluster.queue.by_request) == 1
    world.do(c.RegisterNode(facts=HERS, approved=True))
    world.do(c.RegisterNode(facts=replace(HERS, only_user=""), approved=True))
    assert not world.cluster.personal
    world.check_replay()
