"""A job of which only transfers are left holds no processors and licences; it is still on its nodes."""

import pytest
from msgspec.structs import replace
from worlds import ROOT, World

from headnode.core.model.errors import WrongState
from headnode.core.model.job import Licence
from headnode.core.model.quantities import JobId, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.state.job_record import decode_spec
from headnode.core.state.modify import ModifyJob
from headnode.core.state.node_loss import GiveUpNode
from headnode.core.state.nodes import ChangeNode, NodeVanished, SetParameter
from headnode.core.state.suspend import SuspendJob
from headnode.core.state.transitions import JobState

WORK = TaskSpec(command="x", rerunnable=True)


def taken_away(world: World, job: JobId, task: int = 1) -> None:
    """Let a task run, and its results be taken away."""
    held = next(each for each in world.nodes.running() if (each.job, each.task) == (job, task))
    world.do(world.nodes.started(held, world.clock.now()))
    world.stage(held, "out")


def is_detached(world: World, job: JobId) -> bool:
    run = world.record(job).run
    return run is not None and bool(run.detached) and not run.allocation


def test_others_have_its_processors_and_licences_while_its_results_are_taken_away() -> None:
    world = World(1)
    world.do(SetParameter(by=ROOT, name="Licences", value="solver:1"))
    first = world.submit(WORK, licences=(Licence("solver", 1),), suspendable=True)
    taken_away(world, first)
    assert is_detached(world, first)
    assert world.record(first).state is JobState.RUNNING
    second = world.submit(WORK, licences=(Licence("solver", 1),))
    assert world.record(second).state is JobState.RUNNING
    assert world.cluster.on_node("node1") == {first, second}
    world.end(first, 1)
    assert world.record(first).state is JobState.FINISHED
    world.check_replay()


def test_the_run_time_and_the_usage_are_those_of_its_program() -> None:
    world = World(1)
    job = world.submit(WORK, run_time=Seconds(60.0))
    world.clock.advance(Seconds(10.0))
    taken_away(world, job)
    world.clock.advance(Seconds(1000.0))
    world.end(job, 1)
    run = world.record(job).run
    assert world.record(job).state is JobState.FINISHED
    assert run is not None
    assert run.usage.wall_time == 10.0


def test_it_stays_on_the_nodes_from_which_files_are_taken_only() -> None:
    world = World(1, 1)
    job = world.submit(WORK, WORK, minimum=2, maximum=2)
    world.end(job, 2)
    taken_away(world, job)
    (place,) = world.record(job).run.detached
    assert {node for node in world.cluster.nodes if world.cluster.on_node(node)} == {place}


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"task_retry_limit": 1}, ""),
        ({"run_until_canceled": True, "minimum": 1, "maximum": 1}, ""),
        ({}, "EpilogProgram"),
    ],
)
def test_it_keeps_its_processors_where_it_may_need_them_or_its_nodes(
    options: dict[str, object], parameter: str
) -> None:
    world = World(1)
    if parameter:
        world.do(SetParameter(by=ROOT, name=parameter, value="/hook"))
    job = world.submit(WORK, **options)
    taken_away(world, job)
    assert not is_detached(world, job)


def test_a_task_that_waits_for_the_transfer_keeps_the_processors() -> None:
    world = World(1)
    job = world.submit(TaskSpec(command="x", name="a"), TaskSpec(command="x", name="b", depends_on=("a",)))
    taken_away(world, job)
    assert not is_detached(world, job)


def test_tasks_that_are_added_wait_in_the_queue_until_the_transfers_are_over() -> None:
    world = World(1)
    job = world.submit(WORK)
    taken_away(world, job)
    other = world.submit(WORK)
    spec = replace(decode_spec(world.record(job).spec), tasks=(WORK, WORK))
    world.do(ModifyJob(by=ROOT, job=job, spec=spec, fields=("tasks",)))
    assert world.record(job).state is JobState.RUNNING
    world.end(job, 1)
    assert world.record(job).state is JobState.QUEUED
    world.end(other, 1)
    world.end(job, 2)
    assert world.record(job).state is JobState.FINISHED


def test_a_node_that_is_lost_meanwhile_costs_a_run_and_no_job() -> None:
    world = World(1, 1)
    job = world.submit(WORK)
    taken_away(world, job)
    (node,) = world.record(job).run.detached
    world.do(NodeVanished(node=node))
    world.do(GiveUpNode(node=node))
    assert world.record(job).state is JobState.RUNNING
    assert world.record(job).run.requeues == 1
    world.end(job, 1)
    assert world.record(job).state is JobState.FINISHED


def test_it_is_not_suspended_and_its_node_not_removed() -> None:
    world = World(1)
    job = world.submit(WORK, suspendable=True)
    taken_away(world, job)
    with pytest.raises(WrongState, match="only-transfers"):
        world.do(SuspendJob(by=ROOT, job=job))
    with pytest.raises(WrongState, match="has jobs"):
        world.do(ChangeNode(by=ROOT, node="node1", action="remove"))
