"""Paused nodes: what runs goes on, and only administrators' jobs start there."""

import pytest
from worlds import ADA, ROOT, World

from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.state.drain import DrainNode
from headnode.core.state.nodes import ChangeNode
from headnode.core.state.transitions import JobState

TRUE = TaskSpec(command="/bin/true")


def paused(*processors: int, at: str = "node1") -> World:
    world = World(*processors)
    world.do(ChangeNode(by=ROOT, node=at, action="pause"))
    return world


def nodes_of(world: World, job: JobId) -> list[str]:
    run = world.record(job).run
    return [] if run is None else list(run.allocation)


@pytest.mark.parametrize(
    ("by", "options", "starts"),
    [
        (ROOT, {"requested_nodes": ("NODE1",)}, True),
        (ROOT, {"needs": NodeNeeds(names=("node1",))}, True),
        (ROOT, {}, True),
        (ADA, {}, False),
        (ADA, {"requested_nodes": ("node1",)}, False),
        (ROOT, {"requested_nodes": ("node2",)}, False),
        (ROOT, {"excluded_nodes": ("node1",)}, False),
        (ROOT, {"requested_nodes": ("node1",), "minimum": 2, "maximum": 2}, False),
        (ROOT, {"requested_nodes": ("node1", "node2")}, True),
    ],
)
def test_a_paused_node_starts_only_jobs_of_administrators(
    by: User, options: dict[str, object], starts: bool
) -> None:
    world = paused(1)
    job = world.submit(TRUE, by=by, **options)
    assert nodes_of(world, job) == (["node1"] if starts else [])
    world.check_replay()


def test_an_administrators_job_starts_on_a_paused_node_only_where_others_have_no_room() -> None:
    world = paused(1, 1)
    first, second, third = (world.submit(TRUE) for _ in range(3))
    assert [nodes_of(world, job) for job in (first, second, third)] == [["node2"], ["node1"], []]
    world.end(second, 1)
    assert nodes_of(world, third) == ["node1"]
    world.check_replay()


def test_an_administrators_job_that_no_paused_node_can_run_keeps_none_of_them_idle() -> None:
    world = paused(1, 4)
    world.submit(TRUE, by=ADA, minimum=4, maximum=4)
    large = world.submit(TRUE, minimum=2, maximum=2)
    small = world.submit(TRUE)
    assert (nodes_of(world, large), nodes_of(world, small)) == ([], ["node1"])


def test_a_task_that_requires_the_paused_node_names_it_too() -> None:
    world = paused(1, 1)
    job = world.submit(TaskSpec(command="x", required_nodes=("node1",)))
    assert nodes_of(world, job) == ["node1"]


def test_what_runs_on_a_node_goes_on_when_it_is_paused_and_takes_its_next_task() -> None:
    world = World(1)
    job = world.submit(TRUE, TRUE)
    world.do(ChangeNode(by=ROOT, node="node1", action="pause"))
    world.end(job, 1)
    assert world.dispatched(job) == [(2, 1)]
    world.end(job, 2)
    assert world.record(job).state is JobState.FINISHED


def test_jobs_wait_their_turn_on_a_paused_node() -> None:
    world = paused(2)
    jobs = [world.submit(TRUE, requested_nodes=("node1",)) for _ in range(3)]
    assert [nodes_of(world, job) for job in jobs] == [["node1"], ["node1"], []]
    world.end(jobs[0], 1)
    assert nodes_of(world, jobs[2]) == ["node1"]


def test_a_paused_node_that_is_drained_starts_nothing() -> None:
    world = paused(1)
    world.do(DrainNode(by=ROOT, node="node1"))
    assert nodes_of(world, world.submit(TRUE, requested_nodes=("node1",))) == []


def test_an_exclusive_job_has_a_paused_node_to_itself() -> None:
    world = paused(2)
    first = world.submit(TRUE, requested_nodes=("node1",))
    alone = world.submit(TRUE, requested_nodes=("node1",), exclusive=True)
    assert nodes_of(world, alone) == []
    world.end(first, 1)
    assert nodes_of(world, alone) == ["node1"]


def test_a_job_that_a_user_submitted_may_start_again_when_the_node_is_resumed() -> None:
    world = paused(1)
    job = world.submit(TRUE, by=ADA, requested_nodes=("node1",))
    world.do(ChangeNode(by=ROOT, node="node1", action="resume"))
    assert nodes_of(world, job) == ["node1"]
