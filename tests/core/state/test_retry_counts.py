"""How often what the system lost is tried again: cluster parameters, in force at once."""

import pytest
from worlds import ROOT, World

from headnode.core.model.errors import BadRequest
from headnode.core.model.task import TaskSpec
from headnode.core.state.join import RegisterNode
from headnode.core.state.node_loss import GiveUpNode
from headnode.core.state.nodes import NodeVanished, SetParameter
from headnode.core.state.transitions import JobState
from headnode.engine.settings import check_parameter

RERUNNABLE = TaskSpec(command="x", rerunnable=True)


def set_parameter(world: World, name: str, value: str | None) -> None:
    world.do(SetParameter(by=ROOT, name=name, value=value))


@pytest.mark.parametrize("allowed", [None, "0", "1", "5"])
def test_a_lost_task_runs_again_as_often_as_the_parameter_says(allowed: str | None) -> None:
    world = World(1)
    job = world.submit(RERUNNABLE)
    set_parameter(world, "TaskRetryCount", "7")
    set_parameter(world, "TaskRetryCount", allowed)
    losses = 0
    while world.record(job).state is JobState.RUNNING:
        world.end(job, 1, kind="lost")
        losses += 1
    assert losses == int(allowed or 3) + 1
    assert world.record(job).state is JobState.FAILED


@pytest.mark.parametrize("allowed", [None, "0", "2"])
def test_a_job_goes_back_to_the_queue_as_often_as_the_parameter_says(allowed: str | None) -> None:
    world = World(1)
    set_parameter(world, "JobRetryCount", allowed)
    set_parameter(world, "TaskRetryCount", "100")
    job = world.submit(RERUNNABLE)
    returns = 0
    while True:
        world.do(NodeVanished(node="node1"), GiveUpNode(node="node1"))
        if world.record(job).state is not JobState.QUEUED:
            break
        returns += 1
        world.do(RegisterNode(facts=world.cluster.nodes["node1"].facts))
    assert returns == int(allowed or 3)
    assert world.record(job).state is JobState.FAILED
    assert "returns to the queue" in world.record(job).message


@pytest.mark.parametrize("name", ["JobRetryCount", "TaskRetryCount"])
def test_a_retry_count_below_zero_is_refused(name: str) -> None:
    assert check_parameter(name, "0").name == name
    with pytest.raises(BadRequest, match=f"{name} cannot be '-1'"):
        check_parameter(name, "-1")
