"""Tasks that prepare and release the nodes of a job: once on each node, before everything and after it."""

import pytest
from worlds import ROOT, World

from headnode.core.model.errors import BadRequest, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.join import RegisterNode
from headnode.core.state.modify import ModifyJob, RequeueJob
from headnode.core.state.node_loss import GiveUpNode
from headnode.core.state.nodes import NodeVanished
from headnode.core.state.stop import RequeueTask, StopJob, StopTask
from headnode.core.state.suspend import SuspendJob
from headnode.core.state.transitions import JobState

PREP = TaskSpec(command="prepare", kind=TaskType.NODE_PREP)
RELEASE = TaskSpec(command="release", kind=TaskType.NODE_RELEASE)
TRUE = TaskSpec(command="/bin/true", rerunnable=True)
PREP_TASK, RELEASE_TASK = 1, 2


def sweep(count: int) -> TaskSpec:
    return TaskSpec(command="run *", kind=TaskType.SWEEP, start=1, end=count, rerunnable=True)


def live(world: World, job: JobId, task: int) -> dict[str, int]:
    """Return the live instances of a task by the node that they are on."""
    run = world.record(job).run
    there = run.tasks[task - 1].live if run is not None else {}
    return {each.placement[0][0]: instance for instance, each in there.items()}


def end_all(world: World, job: JobId, task: int, **how: object) -> None:
    for instance in sorted(live(world, job, task).values()):
        world.end(job, task, instance, **how)


def prepared(world: World, *tasks: TaskSpec, **options: object) -> JobId:
    """Return a job whose nodes are prepared."""
    job = world.submit(PREP, RELEASE, *tasks, **options)
    end_all(world, job, PREP_TASK)
    return job


def test_each_node_is_prepared_once_before_its_first_task() -> None:
    world = World(2, 2)
    job = world.submit(PREP, sweep(8), maximum=4)
    assert live(world, job, 1) == {"node1": 1, "node2": 2}
    assert world.dispatched(job) == [(1, 1), (1, 2)]
    world.end(job, 1, 1)
    assert {h.place[0][0] for h in world.nodes.running() if h.task == 2} == {"node1"}
    world.end(job, 1, 2)
    assert len(live(world, job, 2)) == 2
    while live(world, job, 2):
        end_all(world, job, 2)
    assert world.record(job).state is JobState.FINISHED
    assert world.record(job).run.tasks[0].instances_made == 2
    world.check_replay()


def test_a_node_that_cannot_be_prepared_is_given_back_and_the_job_goes_on_without_it() -> None:
    world = World(1, 1)
    job = world.submit(PREP, sweep(3), minimum=1, maximum=2)
    world.end(job, 1, live(world, job, 1)["node1"], exit_code=7)
    assert list(world.cluster.jobs[job].run.allocation) == ["node2"]
    assert world.cluster.cores.free["node1"] == [0]  # it would grow there, were it not refused
    end_all(world, job, 1)
    for instance in (1, 2, 3):
        world.end(job, 2, instance)
    assert world.record(job).state is JobState.FINISHED
    world.check_replay()


def test_a_job_that_needs_the_node_that_cannot_be_prepared_fails_and_says_why() -> None:
    world = World(1, 1)
    job = world.submit(PREP, RELEASE, sweep(3), minimum=2, maximum=2)
    there = live(world, job, PREP_TASK)
    world.end(job, PREP_TASK, there["node2"])
    world.end(job, PREP_TASK, there["node1"], exit_code=7)
    assert world.record(job).state is JobState.ENDING
    assert live(world, job, PREP_TASK) == {}
    assert list(live(world, job, RELEASE_TASK)) == []  # a task of it runs on node2 still
    end_all(world, job, 3, kind="stopped")
    assert list(live(world, job, RELEASE_TASK)) == ["node2"]
    end_all(world, job, RELEASE_TASK)
    record = world.record(job)
    assert record.state is JobState.FAILED
    assert record.message == "node node1 could not be prepared: the program ended with exit code 7"
    world.check_replay()


def test_a_node_that_the_job_grows_onto_is_prepared_before_it_is_used() -> None:
    world = World(1, 1)
    other = world.submit(TRUE)
    job = prepared(world, sweep(4), minimum=1, maximum=2)
    assert list(live(world, job, 3)) == ["node2"]
    world.end(other, 1)
    assert live(world, job, PREP_TASK) == {"node1": 2}
    assert list(live(world, job, 3)) == ["node2"]
    end_all(world, job, PREP_TASK)
    assert sorted(live(world, job, 3)) == ["node1", "node2"]


def test_nodes_are_released_after_the_last_task_there_and_given_back_only_then() -> None:
    world = World(1, 1)
    job = prepared(world, sweep(2), minimum=1, maximum=2)
    world.end(job, 3, live(world, job, 3)["node2"])
    assert list(live(world, job, RELEASE_TASK)) == ["node2"]  # it does not need it any more
    assert world.cluster.cores.free["node2"] == []
    end_all(world, job, RELEASE_TASK)
    assert world.cluster.cores.free["node2"] == [0]
    end_all(world, job, 3)
    assert world.record(job).state is JobState.ENDING
    assert list(live(world, job, RELEASE_TASK)) == ["node1"]
    end_all(world, job, RELEASE_TASK)
    assert world.record(job).state is JobState.FINISHED
    world.check_replay()


@pytest.mark.parametrize("how", [{"exit_code": 9}, {"kind": "timed-out"}, {"kind": "lost"}])
def test_a_release_that_fails_does_not_change_how_the_job_ends(how: dict[str, object]) -> None:
    world = World(1)
    job = prepared(world, TRUE)
    world.end(job, 3)
    end_all(world, job, RELEASE_TASK, **how)
    record = world.record(job)
    assert record.state is JobState.FINISHED
    assert record.run is not None
    assert list(record.run.tasks[1].failed) == [1]


@pytest.mark.parametrize("outcome", ["canceled", "finished"])
def test_a_job_that_is_stopped_releases_its_nodes_when_its_tasks_have_ended(outcome: str) -> None:
    world = World(1, 1)
    job = prepared(world, sweep(2))
    world.do(StopJob(by=ROOT, job=job, outcome=outcome))
    assert live(world, job, RELEASE_TASK) == {}
    world.end(job, 3, live(world, job, 3)["node1"], kind="stopped")
    assert list(live(world, job, RELEASE_TASK)) == ["node1"]
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))  # once more stops no release
    assert list(world.nodes.stopping()) == [h for h in world.nodes.running() if h.task == 3]
    end_all(world, job, 3, kind="stopped")
    end_all(world, job, RELEASE_TASK)
    assert world.record(job).state.value == outcome
    world.check_replay()


def test_a_job_that_is_stopped_by_force_releases_nothing() -> None:
    world = World(1, 1)
    job = prepared(world, sweep(2))
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    world.end(job, 3, live(world, job, 3)["node1"], kind="stopped")
    world.do(StopJob(by=ROOT, job=job, outcome="canceled", force=True))
    end_all(world, job, RELEASE_TASK, kind="stopped")
    end_all(world, job, 3, kind="stopped")
    record = world.record(job)
    assert record.state is JobState.CANCELED
    assert record.run is not None
    assert record.run.tasks[1].instances_made == 1


def test_a_job_that_stops_gracefully_releases_each_node_when_its_task_has_ended() -> None:
    world = World(1, 1)
    job = prepared(world, sweep(4))
    world.do(StopJob(by=ROOT, job=job, outcome="finished", graceful=True))
    world.end(job, 3, live(world, job, 3)["node1"])
    assert list(live(world, job, RELEASE_TASK)) == ["node1"]
    end_all(world, job, 3)
    end_all(world, job, RELEASE_TASK)
    assert world.record(job).state is JobState.FINISHED


def test_a_requeued_job_releases_its_nodes_and_prepares_them_anew() -> None:
    world = World(1)
    job = prepared(world, TRUE)
    world.do(RequeueJob(by=ROOT, job=job))
    world.end(job, 3, kind="stopped")
    assert list(live(world, job, RELEASE_TASK)) == ["node1"]
    end_all(world, job, RELEASE_TASK)
    assert live(world, job, PREP_TASK) == {"node1": 2}
    end_all(world, job, PREP_TASK)
    world.end(job, 3)
    end_all(world, job, RELEASE_TASK)
    assert world.record(job).state is JobState.FINISHED
    world.check_replay()


def test_a_lost_node_is_not_released_and_the_others_are() -> None:
    world = World(1, 1)
    job = prepared(world, sweep(2), minimum=2, maximum=2)
    world.do(NodeVanished(node="node1"), GiveUpNode(node="node1"))
    assert list(live(world, job, 3)) == ["node2"]
    end_all(world, job, 3)
    assert list(live(world, job, RELEASE_TASK)) == ["node2"]
    end_all(world, job, RELEASE_TASK)
    assert world.record(job).state is JobState.QUEUED
    world.check_replay()


def test_a_job_that_ends_while_its_node_is_away_ends_when_the_node_is_given_up() -> None:
    world = World(1)
    job = prepared(world, TRUE)
    world.do(NodeVanished(node="node1"))
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    world.do(GiveUpNode(node="node1"))
    assert live(world, job, 3) == {}
    world.do(GiveUpNode(node="node1"))  # as the head does while the job has something there
    assert world.record(job).state is JobState.CANCELED


def test_a_node_that_has_rebooted_is_prepared_again() -> None:
    world = World()
    for boot in ("first", "second"):
        facts = NodeFacts(name="node1", processors=1, boot_id=boot)
        world.do(RegisterNode(facts=facts, approved=True))
        if boot == "first":
            job = prepared(world, TRUE)
    assert live(world, job, PREP_TASK) == {"node1": 2}
    end_all(world, job, PREP_TASK)
    assert live(world, job, 3) == {"node1": 1}
    world.check_replay()


def test_a_suspended_job_releases_its_nodes_when_it_is_canceled() -> None:
    world = World(1)
    job = prepared(world, TRUE, suspendable=True)
    world.do(SuspendJob(by=ROOT, job=job))
    world.do(*world.nodes.stopped(job))
    other = world.submit(TRUE)
    assert live(world, other, 1) == {"node1": 1}
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    world.end(job, 3, kind="stopped")
    assert live(world, job, RELEASE_TASK) == {"node1": 1}
    end_all(world, job, RELEASE_TASK)
    assert world.record(job).state is JobState.CANCELED
    world.check_replay()


def test_a_prepared_job_without_tasks_is_a_reservation_of_prepared_nodes() -> None:
    world = World(1, 1)
    job = world.submit(PREP, RELEASE, run_until_canceled=True, minimum=2, maximum=2)
    end_all(world, job, PREP_TASK)
    assert world.record(job).state is JobState.RUNNING
    spec = JobSpec(tasks=(PREP, RELEASE, TRUE), run_until_canceled=True, minimum=2, maximum=2)
    world.do(ModifyJob(by=ROOT, job=job, spec=spec, fields=("tasks",)))
    assert len(live(world, job, 3)) == 1
    end_all(world, job, 3)
    assert world.record(job).state is JobState.RUNNING
    world.do(StopJob(by=ROOT, job=job, outcome="finished"))
    assert sorted(live(world, job, RELEASE_TASK)) == ["node1", "node2"]
    end_all(world, job, RELEASE_TASK)
    assert world.record(job).state is JobState.FINISHED


def test_a_gang_starts_when_all_its_nodes_are_prepared() -> None:
    world = World(1, 1)
    job = world.submit(PREP, RELEASE, TRUE, TRUE, together=True)
    world.end(job, PREP_TASK, 1)
    assert world.dispatched(job) == [(1, 2)]
    world.end(job, PREP_TASK, 2)
    assert world.dispatched(job) == [(3, 1), (4, 1)]
    world.end(job, 3)
    world.end(job, 4)
    end_all(world, job, RELEASE_TASK)
    assert world.record(job).state is JobState.FINISHED


def test_preparing_and_releasing_cannot_be_canceled_as_a_whole() -> None:
    world = World(1)
    job = world.submit(PREP, RELEASE, TRUE)
    for task in (PREP_TASK, RELEASE_TASK):
        with pytest.raises(WrongState, match="which runs once on each node of the job"):
            world.do(StopTask(by=ROOT, job=job, task=task))
    world.do(StopTask(by=ROOT, job=job, task=PREP_TASK, instance=1))
    world.end(job, PREP_TASK, 1, kind="stopped")
    assert world.record(job).state is JobState.FAILED
    assert "could not be prepared: canceled by root" in world.record(job).message


def test_special_tasks_are_added_only_before_the_job_is_submitted() -> None:
    world = World(1)
    job = world.submit(TRUE)
    for kind in (TaskType.NODE_PREP, TaskType.NODE_RELEASE):
        spec = JobSpec(tasks=(TRUE, TaskSpec(command="x", kind=kind)))
        with pytest.raises(WrongState, match=f"a {kind.value} task, and the job is running"):
            world.do(ModifyJob(by=ROOT, job=job, spec=spec, fields=("tasks",)))


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"depends_on": ("z",)}, "dependencies"),
        ({"required_nodes": ("node1",)}, "required nodes"),
        ({"group": 3}, "a group"),
        ({"minimum": 2, "maximum": 2}, "a size"),
        ({"node_group": "g"}, "a node group"),
    ],
)
@pytest.mark.parametrize("kind", [TaskType.NODE_PREP, TaskType.NODE_RELEASE])
def test_what_a_preparing_or_releasing_task_cannot_have_is_refused_by_name(
    kind: TaskType, wrong: dict[str, object], what: str
) -> None:
    special = TaskSpec(command="x", kind=kind, **wrong)
    with pytest.raises(BadRequest, match=f"a {kind.value} task, has {what}"):
        World(1).submit(special, TaskSpec(name="z", command="x"))


def test_no_instance_of_a_special_task_runs_twice_even_if_its_file_says_that_it_may() -> None:
    world = World(1)
    prep = TaskSpec(command="prepare", kind=TaskType.NODE_PREP, rerunnable=True)
    job = world.submit(prep, TRUE)
    world.end(job, 1, kind="lost")
    assert world.record(job).state is JobState.FAILED
    other = world.submit(prep, TRUE)
    world.end(other, 1)
    with pytest.raises(WrongState, match="no instance runs twice"):
        world.do(RequeueTask(by=ROOT, job=other, task=1, instance=1))


def test_two_tasks_that_prepare_are_one_too_many() -> None:
    with pytest.raises(BadRequest, match="2 node-prep tasks in a job"):
        World(1).submit(PREP, PREP, TRUE)
