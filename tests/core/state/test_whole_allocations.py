"""A job that is one program on all its processors is handed over at once; others are not taken for one."""

import pytest
from worlds import ROOT, World

from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.node import NodeFacts
from headnode.core.model.ranges import Ranges
from headnode.core.model.task import TaskSpec
from headnode.core.state.job_events import NodeCores
from headnode.core.state.job_record import TaskProgress, all_queued
from headnode.core.state.join import RegisterNode
from headnode.core.state.submit import CreateJob


def two_nodes() -> World:
    """Return a head with two nodes of two processors; the second is in group ``large``."""
    world = World(2)
    facts = NodeFacts(name="node2", processors=2, memory=1024, groups=("large",))
    world.do(RegisterNode(facts=facts, approved=True))
    return world


def place_of(task: TaskSpec) -> NodeCores:
    """Return where the one task of a job on all four processors goes."""
    world = two_nodes()
    world.submit(task, minimum=4, maximum=4)
    (place,) = [held.place for held in world.nodes.running()]
    return place


def test_a_program_on_all_processors_gets_all_in_the_order_of_the_allocation() -> None:
    assert place_of(TaskSpec(command="x", minimum=4, maximum=4)) == (("node1", (0, 1)), ("node2", (0, 1)))


def test_a_task_for_a_group_or_a_node_stays_there_though_it_could_use_all() -> None:
    for task in (
        TaskSpec(command="x", minimum=1, maximum=4, node_group="Large"),
        TaskSpec(command="x", minimum=1, maximum=4, required_nodes=("NODE2",)),
    ):
        assert place_of(task) == (("node2", (0, 1)),)


def test_a_task_that_wants_less_than_its_job_holds_gets_less() -> None:
    assert place_of(TaskSpec(command="x", minimum=1, maximum=3)) == (("node1", (0, 1)), ("node2", (0,)))


def test_a_task_that_runs_a_second_time_has_a_second_attempt() -> None:
    world = two_nodes()
    job = world.submit(TaskSpec(command="x", minimum=4, maximum=4, rerunnable=True), minimum=4, maximum=4)
    world.end(job, 1, kind="lost")
    assert [(held.attempt, len(held.place)) for held in world.nodes.running()] == [(2, 2)]


def test_a_sweep_over_nothing_has_nothing_queued() -> None:
    assert all_queued(0) == TaskProgress(queued=Ranges())
    assert list(all_queued(3).queued) == [1, 2, 3]


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        (JobSpec(tasks=(TaskSpec(command="\ud800"),)), "not-unicode"),
        (JobSpec(tasks=(TaskSpec(command="x"),), minimum=2**70), "size"),
        (JobSpec(tasks=(TaskSpec(command="x" * 5000),), minimum=0), "size"),
    ],
)
def test_what_cannot_even_be_kept_is_refused_by_its_rule(spec: JobSpec, code: str) -> None:
    world = World(1)
    for _ in range(2):  # what was refused once is refused again
        with pytest.raises(BadRequest) as refused:
            world.do(CreateJob(by=ROOT, spec=spec))
        assert refused.value.code == code
    assert not world.cluster.jobs


def test_a_job_waits_for_all_that_its_task_needs_of_the_nodes_it_requires_instead_of_holding_less() -> None:
    world = two_nodes()
    guest = world.submit(TaskSpec(command="x", required_nodes=("node1",)), minimum=1, maximum=1)
    large = TaskSpec(command="x", minimum=2, maximum=2, required_nodes=("node1",))
    job = world.submit(large, minimum=3, maximum=3)
    assert world.dispatched(job) == []
    assert world.record(job).run is None  # it holds nothing that others could use
    world.end(guest, 1)
    assert world.dispatched(job) == [(1, 1)]
    world.end(job, 1)
    assert world.record(job).state.value == "finished"
