"""Tasks that are added to a job that runs: it has a node for them, or they are refused."""

import pytest
from worlds import ROOT, World

from headnode.core.model.errors import WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec
from headnode.core.state import modify as c
from headnode.core.state.task_placement import task_reasons

FIRST = TaskSpec(command="first", rerunnable=True)


def add(world: World, job: JobId, task: TaskSpec) -> None:
    spec = JobSpec(tasks=(FIRST, task))
    world.do(c.ModifyJob(by=ROOT, job=job, spec=spec, fields=("tasks",)))


@pytest.mark.parametrize(
    ("task", "what"),
    [
        (
            TaskSpec(command="x", required_nodes=("node2",)),
            "requires node 'node2', which job 1 does not hold",
        ),
        (TaskSpec(command="x", node_group="gpu"), "node1 is not in node group 'gpu'"),
        (TaskSpec(command="x", needs=NodeNeeds(minimum_memory=9999)), "node1 has 1024 MB"),
    ],
)
def test_a_task_for_which_a_running_job_has_no_node_is_refused(task: TaskSpec, what: str) -> None:
    world = World(1, 1)
    job = world.submit(FIRST)
    with pytest.raises(WrongState, match=what) as refusal:
        add(world, job, task)
    assert refusal.value.code == "not-held"
    assert "submit it as a job of its own" in refusal.value.fix


def test_the_same_task_is_taken_while_the_job_waits() -> None:
    world = World(1, 1)
    busy = world.submit(TaskSpec(command="x", minimum=2, maximum=2))
    job = world.submit(FIRST)
    add(world, job, TaskSpec(command="x", required_nodes=("node2",)))
    world.end(busy, 1)
    assert "node2" in world.cluster.jobs[job].run.allocation


def test_a_task_whose_node_its_job_has_runs_there() -> None:
    world = World(1, 1)
    job = world.submit(FIRST)
    add(world, job, TaskSpec(command="x", required_nodes=("NODE1",)))
    world.end(job, 1)
    assert world.dispatched(job) == [(2, 1)]


def test_explain_says_what_to_do_about_a_task_whose_node_its_job_has_no_more() -> None:
    world = World(1, 1)
    job = world.submit(FIRST)
    record = world.record(job)
    world.cluster.graph(job).spec = JobSpec(tasks=(TaskSpec(command="x", required_nodes=("gone",)),))
    record.run.tasks[0].queued.add(2)
    (reason,) = task_reasons(world.cluster, record, 0)
    assert reason.text == (
        "it requires gone, which its job does not hold and will not get: "
        "cancel the task, and submit it as a job of its own"
    )
