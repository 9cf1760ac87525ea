"""What a running job gives up for others: nothing is lost, and it costs it none of its retries."""

from itertools import islice, product

import pytest
from worlds import ROOT, World

from headnode.core.model.errors import Refused, WrongState
from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.join import RegisterNode
from headnode.core.state.modify import RequeueJob
from headnode.core.state.node_loss import GiveUpNode
from headnode.core.state.nodes import ChangeNode, NodeVanished
from headnode.core.state.preempt import PreemptJob, RecallProcessors
from headnode.core.state.stop import StopJob
from headnode.core.state.transitions import JobState

OTHER = JobId(99)


def sweep(end: int, *, rerunnable: bool = True) -> TaskSpec:
    return TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=end, rerunnable=rerunnable)


def recall(job: JobId, *shares: tuple[str, int], immediate: bool = False) -> RecallProcessors:
    return RecallProcessors(job=job, shares=shares, immediate=immediate, message="why")


def close(world: World) -> None:
    """Nothing that is given up is given to anybody, as if others had it."""
    for node in world.cluster.nodes:
        world.do(ChangeNode(by=ROOT, node=node, action="pause"))


def test_recalled_processors_go_as_tasks_end_and_nothing_starts_there() -> None:
    world = World(3)
    job = world.submit(sweep(5), minimum=1, maximum=3)
    close(world)
    world.do(recall(job, ("node1", 2)))
    assert world.record(job).run.recalled == {"node1": 2}
    for instance in (1, 2):
        world.end(job, 1, instance)
    run = world.record(job).run
    assert [len(numbers) for numbers in run.allocation.values()] == [1]
    assert run.recalled == {}
    assert len(world.dispatched(job)) == 1
    assert run.tasks[0].finished.count == 2
    world.check_replay()


def test_what_was_recalled_may_be_kept_after_all_unless_it_is_too_little() -> None:
    world = World(3)
    job = world.submit(sweep(9), minimum=2, maximum=3)
    world.do(recall(job, ("node1", 1)))
    world.do(recall(job))
    assert world.record(job).run.recalled == {}
    close(world)
    world.do(recall(job, ("node1", 2)))
    assert world.record(job).run.recalled == {"node1": 3}, "less than its minimum is nothing"
    world.end(job, 1, 1)
    world.end(job, 1, 2)
    world.do(recall(job))
    assert world.record(job).run.recalled == {"node1": 1}
    world.check_replay()


def test_what_it_does_not_need_and_what_is_recalled_are_together_never_more_than_it_can_spare() -> None:
    world = World(2, 1)
    job = world.submit(sweep(3), minimum=2, maximum=3)
    close(world)
    world.do(recall(job, ("node1", 1)))
    alone = next(h for h in world.nodes.running() if h.place[0][0] == "node2")
    world.do(world.nodes.ended(alone, world.clock.now()))
    assert set(world.record(job).run.allocation) == {"node1", "node2"}


def test_an_immediate_recall_stops_the_youngest_which_run_again_without_a_retry_counted() -> None:
    world = World(3)
    job = world.submit(sweep(3), minimum=1, maximum=3)
    for instance, h in enumerate(world.nodes.running(), 1):
        world.wait(1)
        world.do(world.nodes.started(h, world.clock.now()))
        assert h.instance == instance
    close(world)
    world.do(recall(job, ("node1", 2), immediate=True))
    live = world.record(job).run.tasks[0].live
    assert {n: one.cause for n, one in live.items() if one.outcome} == {2: "preempted", 3: "preempted"}
    for instance in (2, 3):
        world.end(job, 1, instance, kind="stopped")
    run = world.record(job).run
    assert list(run.tasks[0].queued) == [2, 3]
    assert (run.tasks[0].system_retries, run.tasks[0].retries) == ({}, {})
    assert run.tasks[0].attempts == {2: 1, 3: 1}
    world.check_replay()


def test_an_immediate_recall_stops_nothing_that_may_not_run_twice_and_leaves_the_minimum() -> None:
    world = World(3)
    job = world.submit(sweep(3, rerunnable=False), minimum=1, maximum=3)
    with pytest.raises(WrongState, match="may not run twice"):
        world.do(recall(job, ("node1", 1), immediate=True))
    with pytest.raises(WrongState, match="less than its minimum"):
        world.do(recall(job, ("node1", 3), immediate=True))
    with pytest.raises(WrongState):
        world.do(recall(job, ("node1", 4)))
    assert not any(one.outcome for one in world.record(job).run.tasks[0].live.values())


def test_a_preempted_job_is_queued_again_with_what_has_not_finished_and_no_return_counted() -> None:
    world = World(2)
    job = world.submit(sweep(4), minimum=2, maximum=2)
    world.end(job, 1, 1, exit_code=3)
    close(world)
    world.do(PreemptJob(job=job, for_job=OTHER))
    assert world.record(job).state is JobState.ENDING
    for instance in (2, 3):
        world.end(job, 1, instance, kind="stopped")
    record = world.record(job)
    run = record.run
    assert run.auto_requeues == 0
    assert (run.requeues, record.message) == (1, "preempted by job 99")
    assert list(run.tasks[0].failed) == [1], "what had failed stays failed"
    assert run.end is None
    world.check_replay()


def test_who_cancels_a_job_while_it_is_preempted_has_it_canceled() -> None:
    world = World(1)
    job = world.submit(sweep(2))
    world.do(PreemptJob(job=job, for_job=OTHER))
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    world.end(job, 1, 1, kind="stopped")
    assert world.record(job).state is JobState.CANCELED
    world.check_replay()


@pytest.mark.parametrize("how", [{"preemptable": False}, {"rerunnable": False}])
def test_who_must_not_be_preempted_is_not(how: dict[str, bool]) -> None:
    world = World(1)
    task = sweep(2, rerunnable=how.get("rerunnable", True))
    job = world.submit(task, preemptable=how.get("preemptable", True))
    with pytest.raises(WrongState):
        world.do(PreemptJob(job=job, for_job=OTHER))
    assert world.record(job).state is JobState.RUNNING


PREP = TaskSpec(command="prepare", kind=TaskType.NODE_PREP)
RELEASE = TaskSpec(command="release", kind=TaskType.NODE_RELEASE)


def test_a_node_that_is_given_up_as_a_whole_is_released_first_but_not_by_a_preempted_job() -> None:
    world = World(1, 1)
    job = world.submit(sweep(4), RELEASE, minimum=1, maximum=2)
    close(world)
    world.do(recall(job, ("node2", 1)))
    world.end(job, 1, 2)
    assert (2, 1) in world.dispatched(job)
    assert "node2" in world.record(job).run.allocation
    world.end(job, 2, 1)
    assert "node2" not in world.record(job).run.allocation
    world.do(PreemptJob(job=job, for_job=OTHER))
    for task, instance in world.dispatched(job):
        world.end(job, task, instance, kind="stopped")
    releases = world.record(job).run.tasks[1].instances_made
    assert releases == 1
    world.check_replay()


FIRST = ("recall 1", "recall 2", "now", "preempt")
THEN = ("end", "fail", "recall 2", "keep", "now", "preempt", "lose", "requeue", "finish")


def _move(world: World, job: JobId, name: str) -> None:
    held = [h for h in world.nodes.running() if h.job == job]
    match name:
        case "end" | "fail" if held:
            world.do(world.nodes.ended(held[0], world.clock.now(), exit_code=int(name == "fail")))
        case "recall 1" | "recall 2":
            world.do(recall(job, (f"node{name[-1]}", 1)))
        case "keep":
            world.do(recall(job))
        case "now":
            world.do(recall(job, ("node1", 1), immediate=True))
        case "preempt":
            world.do(PreemptJob(job=job, for_job=OTHER))
        case "lose":
            world.do(NodeVanished(node="node2"), GiveUpNode(node="node2"))
        case "requeue":
            world.do(RequeueJob(by=ROOT, job=job))
        case "finish":
            world.do(StopJob(by=ROOT, job=job, outcome="finished", graceful=True))


@pytest.mark.parametrize("tasks", [(sweep(4),), (PREP, sweep(3), RELEASE)], ids=["sweep", "prepared"])
def test_whatever_a_job_gives_up_nothing_of_it_is_lost_and_it_ends(tasks: tuple[TaskSpec, ...]) -> None:
    for moves in islice(product(FIRST, THEN, THEN), 0, None, 2):
        world = World(2, 1)
        job = world.submit(*tasks, minimum=2, maximum=3)
        for name in moves:
            try:
                _move(world, job, name)
            except Refused:
                continue
        facts = world.cluster.nodes["node2"].facts
        world.do(RegisterNode(facts=facts))
        for _ in range(40):
            if job not in world.cluster.jobs:
                break
            for h in world.nodes.running():
                live = world.record(job).run.tasks[h.task - 1].live.get(h.instance)
                stopping = live is not None and live.outcome is not None
                world.do(world.nodes.ended(h, world.clock.now(), kind="stopped" if stopping else "exited"))
        assert job not in world.cluster.jobs, f"job 1 does not end after {moves}: {world.record(job)}"
        world.check_replay()
        if not {"fail", "finish", "lose"} & set(moves):
            index = next(i for i, task in enumerate(tasks) if task.kind is TaskType.SWEEP)
            progress = world.record(job).run.tasks[index]
            assert progress.finished.count == tasks[index].instances, moves
            assert (progress.system_retries, progress.retries) == ({}, {}), moves
