"""Prologs and epilogs as the head sees them: who waits for whom, and what a failure does."""

from itertools import permutations, product

import pytest
from worlds import ROOT, World

from headnode.core.model.job import JobSpec
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import JobId, Seconds
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.drain import ReportHealth
from headnode.core.state.hooks import (
    EPILOG_TIMEOUT,
    MARGIN,
    NODE_FILTER_TIMEOUT,
    PROLOG_TIMEOUT,
    ReportClosed,
    ReportHook,
    ReportReady,
)
from headnode.core.state.join import RegisterNode
from headnode.core.state.modify import ModifyJob, RequeueJob
from headnode.core.state.node_loss import GiveUpNode
from headnode.core.state.nodes import ChangeNode, NodeVanished, SetParameter
from headnode.core.state.stop import StopJob
from headnode.core.state.suspend import ReportSuspended, SuspendJob
from headnode.core.state.transitions import JobState

ONE = TaskSpec(command="x")
BOTH = ("PrologProgram", "EpilogProgram")


def world(*processors: int, hooks: tuple[str, ...] = BOTH) -> World:
    """Return a head whose site has these hooks."""
    made = World(*processors)
    for name in hooks:
        made.do(SetParameter(by=ROOT, name=name, value="/site/hook"))
    return made


def ready(world: World, job: JobId, *nodes: str) -> None:
    for node in nodes:
        world.do(ReportReady(node=node, job=job))


def clean(world: World, job: JobId, *nodes: str) -> None:
    for node in nodes:
        world.do(ReportClosed(node=node, job=job))


def fails(world: World, job: JobId, node: str, hook: str = "prolog", text: str = "no disk") -> None:
    world.do(ReportHook(node=node, job=job, hook=hook, reason=text))


def state(world: World, job: JobId) -> JobState:
    return world.record(job).state


def held(world: World, job: JobId) -> list[str]:
    run = world.record(job).run
    return [] if run is None else list(run.allocation)


def test_nothing_is_dispatched_to_a_node_before_it_has_said_that_it_is_ready() -> None:
    scene = world(1, 1)
    job = scene.submit(ONE, ONE, minimum=2, maximum=2)
    assert (state(scene, job), scene.dispatched(job)) == (JobState.RUNNING, [])
    ready(scene, job, "node2")
    assert scene.dispatched(job) == [(1, 1)]
    assert [held.place[0][0] for held in scene.nodes.running()] == ["node2"]
    ready(scene, job, "node2", "node1", "node1")
    assert scene.dispatched(job) == [(1, 1), (2, 1)]
    scene.check_replay()


def test_a_parallel_task_and_a_gang_wait_for_all_their_nodes() -> None:
    wide = TaskSpec(command="x", minimum=2, maximum=2)
    for options in ({"minimum": 2, "maximum": 2}, {"gang": True}):
        scene = world(1, 1)
        tasks = (wide,) if "minimum" in options else (ONE, ONE)
        options = {} if "gang" in options else options
        job = scene.submit(*tasks, **options)
        ready(scene, job, "node1")
        if tasks == (wide,):
            assert scene.dispatched(job) == []
        ready(scene, job, "node2")
        assert len(scene.dispatched(job)) == len(tasks)


def test_what_a_job_held_is_given_back_node_by_node_as_they_are_clean() -> None:
    for order in permutations(("node1", "node2")):
        scene = world(1, 1)
        job = scene.submit(ONE, ONE, minimum=2, maximum=2)
        ready(scene, job, "node1", "node2")
        scene.end(job, 1)
        scene.end(job, 2)
        assert (state(scene, job), sorted(held(scene, job))) == (JobState.ENDING, ["node1", "node2"])
        behind = scene.submit(ONE)
        assert state(scene, behind) is JobState.QUEUED
        clean(scene, job, order[0])
        assert (held(scene, job), held(scene, behind)) == ([order[1]], [order[0]])
        assert state(scene, job) is JobState.ENDING
        scene.check_replay()
        clean(scene, job, order[0], order[1])
        assert state(scene, job) is JobState.FINISHED


WAYS = {
    "finished": JobState.FINISHED,
    "failed": JobState.FAILED,
    "canceled": JobState.CANCELED,
    "forced": JobState.CANCELED,
    "overdue": JobState.CANCELED,
    "requeued": JobState.RUNNING,
}


@pytest.mark.parametrize(
    ("way", "hooks"), list(product(WAYS, (("EpilogProgram",), BOTH, ("NodeFilterDirectory",))))
)
def test_however_a_job_ends_it_holds_its_node_until_that_is_clean(way: str, hooks: tuple[str, ...]) -> None:
    scene = world(1, hooks=hooks)
    again = TaskSpec(command="x", rerunnable=True)
    job = scene.submit(again, run_time=Seconds(60.0))
    ready(scene, job, "node1")
    assert scene.dispatched(job) == [(1, 1)]
    if way in ("finished", "failed"):
        scene.end(job, 1, exit_code=int(way == "failed"))
    elif way == "requeued":
        scene.do(RequeueJob(by=ROOT, job=job))
        scene.end(job, 1, kind="stopped")
    elif way == "overdue":
        scene.wait(61.0)
        scene.end(job, 1, kind="timed-out")
    else:
        scene.do(StopJob(by=ROOT, job=job, outcome="canceled", force=way == "forced"))
        scene.end(job, 1, kind="stopped")
    assert (state(scene, job), held(scene, job)) == (JobState.ENDING, ["node1"])
    scene.check_replay()
    clean(scene, job, "node1")
    assert state(scene, job) is WAYS[way]


def test_without_hooks_nobody_waits() -> None:
    scene = world(1, hooks=())
    job = scene.submit(ONE)
    assert scene.dispatched(job) == [(1, 1)]
    scene.end(job, 1)
    assert state(scene, job) is JobState.FINISHED


def test_a_job_that_is_canceled_before_its_node_is_ready_leaves_it_as_any_other() -> None:
    scene = world(1)
    job = scene.submit(ONE)
    scene.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    assert state(scene, job) is JobState.ENDING
    ready(scene, job, "node1")
    assert scene.dispatched(job) == []
    clean(scene, job, "node1")
    assert state(scene, job) is JobState.CANCELED


def test_a_node_that_never_says_it_is_clean_is_given_back_after_a_time_and_drained() -> None:
    for unready in (False, True):
        scene = world(1)
        job = scene.submit(ONE)
        if not unready:
            ready(scene, job, "node1")
            scene.end(job, 1)
        else:
            scene.do(StopJob(by=ROOT, job=job, outcome="canceled"))
        limit = MARGIN + EPILOG_TIMEOUT + NODE_FILTER_TIMEOUT + (PROLOG_TIMEOUT if unready else 0)
        scene.wait(limit - 1)
        assert held(scene, job) == ["node1"]
        scene.wait(2)
        assert state(scene, job).is_final
        (drain,) = scene.cluster.nodes["node1"].drains
        assert drain.cause == "hook"
        assert f"epilog of job {job} has not ended" in drain.reason
        scene.check_replay()


def test_time_that_is_over_while_the_head_was_down_counts() -> None:
    scene = world(1)
    job = scene.submit(ONE)
    ready(scene, job, "node1")
    scene.end(job, 1)
    assert scene.replayed().agenda.wake_ups.next() == scene.cluster.agenda.wake_ups.next() is not None


def test_a_prolog_that_fails_drains_the_node_and_the_job_runs_elsewhere_without_a_retry_counted() -> None:
    scene = world(1, 1)
    scene.do(SetParameter(by=ROOT, name="JobRetryCount", value="0"))
    job = scene.submit(ONE)
    assert held(scene, job) == ["node1"]
    fails(scene, job, "node1")
    clean(scene, job, "node1")
    record = scene.record(job)
    assert record.run is not None
    assert (record.state, held(scene, job), record.run.auto_requeues) == (JobState.RUNNING, ["node2"], 0)
    (drain,) = scene.cluster.nodes["node1"].drains
    assert drain.reason == f"the prolog of job {job} failed: no disk"
    ready(scene, job, "node2")
    scene.end(job, 1)
    clean(scene, job, "node2")
    assert state(scene, job) is JobState.FINISHED
    scene.check_replay()


def test_a_job_that_can_do_without_the_node_goes_on_without_it() -> None:
    scene = world(1, 1)
    job = scene.submit(ONE, ONE, minimum=1, maximum=2)
    ready(scene, job, "node1")
    fails(scene, job, "node2")
    assert (held(scene, job), scene.dispatched(job)) == (["node1"], [(1, 1)])
    scene.end(job, 1)
    assert scene.dispatched(job) == [(2, 1)]
    scene.check_replay()


def test_a_job_that_needs_the_node_ends_what_runs_and_goes_back_when_the_others_are_clean() -> None:
    scene = world(1, 1)
    job = scene.submit(ONE, ONE, minimum=2, maximum=2)
    ready(scene, job, "node1")
    fails(scene, job, "node2")
    assert scene.dispatched(job) == [(1, 1)]
    scene.end(job, 1)
    assert (state(scene, job), held(scene, job)) == (JobState.RUNNING, ["node1"])
    assert scene.dispatched(job) == []
    clean(scene, job, "node1")
    record = scene.record(job)
    assert (record.state, record.message) == (
        JobState.QUEUED,
        "node node2 could not be made ready: no disk",
    )
    scene.check_replay()


def test_a_prolog_that_fails_when_the_job_is_on_its_way_out_only_drains() -> None:
    scene = world(1)
    job = scene.submit(ONE)
    scene.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    fails(scene, job, "node1")
    assert (state(scene, job), held(scene, job)) == (JobState.ENDING, ["node1"])
    assert len(scene.cluster.nodes["node1"].drains) == 1


def test_an_epilog_that_fails_drains_the_node_though_its_job_is_over_and_only_once() -> None:
    scene = world(1)
    job = scene.submit(ONE)
    ready(scene, job, "node1")
    scene.end(job, 1)
    clean(scene, job, "node1")
    fails(scene, job, "node1", "epilog", "y" * 1000)
    assert scene.do(ReportHook(node="node1", job=job, hook="epilog", reason="y" * 1000)) == ()
    assert scene.do(ReportHook(node="nobody", job=job, hook="epilog", reason="y")) == ()
    (drain,) = scene.cluster.nodes["node1"].drains
    assert drain.cause == "hook"
    scene.do(ReportHealth(node="node1", well=True))
    assert scene.cluster.nodes["node1"].drains == (drain,)
    scene.do(ChangeNode(by=ROOT, node="node1", action="resume"))
    assert scene.cluster.nodes["node1"].drains == ()


def test_a_node_that_is_given_up_is_not_waited_for() -> None:
    for ending in (False, True):
        scene = world(1, 1)
        job = scene.submit(ONE, ONE, minimum=1, maximum=2)
        ready(scene, job, "node1", "node2")
        scene.end(job, 1)
        if ending:
            scene.end(job, 2)
        scene.do(NodeVanished(node="node1"))
        scene.do(GiveUpNode(node="node1"))
        assert held(scene, job) == ["node2"]
        scene.check_replay()
        if not ending:
            scene.end(job, 2)
        clean(scene, job, "node2")
        assert state(scene, job) is JobState.FINISHED


def test_a_node_that_was_started_anew_makes_itself_ready_once_more() -> None:
    scene = world(1)
    scene.do(RegisterNode(facts=NodeFacts(name="node1", processors=1, memory=1024, boot_id="a")))
    job = scene.submit(TaskSpec(command="x", rerunnable=True))
    ready(scene, job, "node1")
    scene.do(RegisterNode(facts=NodeFacts(name="node1", processors=1, memory=1024, boot_id="b")))
    run = scene.record(job).run
    assert run is not None
    assert run.unready == ("node1",)
    assert scene.cluster.graph(job).ready == [0]
    for one in scene.nodes.running():
        scene.nodes.ended(one, scene.clock.now())
    ready(scene, job, "node1")
    assert scene.dispatched(job) == [(1, 1)]


def test_a_node_that_a_running_job_gives_back_is_cleaned_first_and_takes_nothing_of_it_meanwhile() -> None:
    scene = world(1, 1)
    job = scene.submit(ONE, ONE, minimum=1, maximum=2)
    ready(scene, job, "node1", "node2")
    scene.end(job, 1)
    run = scene.record(job).run
    assert run is not None
    assert list(run.cleaning) == ["node1"]
    spec = JobSpec(tasks=(ONE, ONE, ONE), minimum=1, maximum=2)
    scene.do(ModifyJob(by=ROOT, job=job, spec=spec, fields=("tasks",)))
    assert scene.dispatched(job) == [(2, 1)]
    clean(scene, job, "node1")
    assert "node1" not in run.cleaning
    scene.check_replay()
    ready(scene, job, "node1")
    assert scene.dispatched(job) == [(2, 1), (3, 1)]


def test_a_part_of_a_node_is_given_back_at_once_since_the_job_stays_there() -> None:
    scene = world(2)
    job = scene.submit(ONE, ONE, minimum=1, maximum=2)
    ready(scene, job, "node1")
    scene.end(job, 1)
    run = scene.record(job).run
    assert run is not None
    assert (run.cleaning, len(run.allocation["node1"])) == ({}, 1)


def test_an_epilog_that_failed_before_does_not_keep_a_job_from_the_node_that_it_has_come_back_to() -> None:
    scene = world(1)
    job = scene.submit(ONE)
    fails(scene, job, "node1", "epilog")
    assert held(scene, job) == ["node1"]
    ready(scene, job, "node1")
    assert scene.dispatched(job) == [(1, 1)]


def test_what_prepares_and_releases_nodes_is_inside_prolog_and_epilog() -> None:
    scene = world(1)
    prep, release = (TaskSpec(command="x", kind=kind) for kind in (TaskType.NODE_PREP, TaskType.NODE_RELEASE))
    job = scene.submit(prep, ONE, release)
    assert scene.dispatched(job) == []
    ready(scene, job, "node1")
    order = []
    while scene.dispatched(job):
        ((task, _),) = scene.dispatched(job)
        run = scene.record(job).run
        assert run is not None
        assert not run.cleaning
        order.append(task)
        scene.end(job, task)
    assert order == [1, 2, 3]
    assert (state(scene, job), held(scene, job)) == (JobState.ENDING, ["node1"])
    clean(scene, job, "node1")
    assert state(scene, job) is JobState.FINISHED


def test_a_suspended_job_that_is_canceled_holds_nothing_to_be_cleaned() -> None:
    scene = world(1)
    job = scene.submit(ONE, suspendable=True)
    ready(scene, job, "node1")
    scene.do(SuspendJob(by=ROOT, job=job))
    run = scene.record(job).run
    assert run is not None
    scene.do(ReportSuspended(node="node1", job=job, number=run.suspensions))
    assert state(scene, job) is JobState.SUSPENDED
    scene.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    scene.end(job, 1, kind="stopped")
    assert state(scene, job) is JobState.CANCELED


PREP = TaskSpec(command="prepare", kind=TaskType.NODE_PREP)
SWEEP = TaskSpec(command="run *", kind=TaskType.SWEEP, start=1, end=6)


def on(world: World, job: JobId, task: int) -> dict[str, int]:
    """Return the instances of a task that run, by node."""
    run = world.record(job).run
    assert run is not None
    return {each.placement[0][0]: instance for instance, each in run.tasks[task - 1].live.items()}


def test_nodes_that_could_not_be_prepared_hold_back_no_other_while_they_are_cleaned() -> None:
    scene = world(1, 1, 1, 1, hooks=("EpilogProgram",))
    job = scene.submit(PREP, SWEEP, minimum=1, maximum=4)
    for node in ("node1", "node2"):
        scene.end(job, 1, on(scene, job, 1)[node], exit_code=7)
    run = scene.record(job).run
    assert run is not None
    assert sorted(run.cleaning) == ["node1", "node2"]
    scene.end(job, 1, on(scene, job, 1)["node4"])
    assert list(on(scene, job, 2)) == ["node4"]
    clean(scene, job, "node2")
    assert held(scene, job) == ["node1", "node3", "node4"]
    scene.end(job, 1, on(scene, job, 1)["node3"])
    assert sorted(on(scene, job, 2)) == ["node3", "node4"]
    scene.check_replay()


def test_a_node_that_was_released_holds_back_no_other_while_it_is_cleaned() -> None:
    scene = world(1, 1, hooks=("EpilogProgram",))
    release = TaskSpec(command="release", kind=TaskType.NODE_RELEASE)
    job = scene.submit(PREP, release, SWEEP, minimum=1, maximum=2)
    for instance in (1, 2):
        scene.end(job, 1, instance)
    for instance in range(1, 6):
        scene.end(job, 3, instance)
    last, gone = next(iter(on(scene, job, 3))), next(iter(on(scene, job, 2)))
    assert {last, gone} == {"node1", "node2"}
    scene.end(job, 2, on(scene, job, 2)[gone])
    run = scene.record(job).run
    assert run is not None
    assert list(run.cleaning) == [gone]
    tasks = (PREP, release, SWEEP, ONE, ONE)
    scene.do(ModifyJob(by=ROOT, job=job, spec=JobSpec(tasks=tasks, maximum=2), fields=("tasks",)))
    scene.end(job, 3, 6)
    assert list(on(scene, job, 4)) == [last]
    scene.check_replay()


@pytest.mark.parametrize("tasks", [1, 2])
def test_a_node_that_is_being_cleaned_does_not_count_for_the_minimum_of_a_job(tasks: int) -> None:
    scene = world(1, 1, 1, hooks=("EpilogProgram",))
    job = scene.submit(PREP, *[ONE] * (tasks + 2), minimum=2, maximum=3)
    scene.end(job, 1, on(scene, job, 1)["node1"], exit_code=7)
    for node in ("node2", "node3"):
        scene.end(job, 1, on(scene, job, 1)[node])
    run = scene.record(job).run
    assert run is not None
    while len(scene.dispatched(job)) == 2 or any(progress.queued for progress in run.tasks[1:]):
        scene.end(job, scene.dispatched(job)[0][0])
    assert len(scene.dispatched(job)) == 1
    assert list(run.cleaning) == ["node1"]
    assert held(scene, job) == ["node1", "node2", "node3"]
    scene.check_replay()


def test_a_second_node_that_cannot_be_prepared_is_one_too_many_though_the_first_is_still_being_cleaned() -> (
    None
):
    scene = world(1, 1, 1, hooks=("EpilogProgram",))
    job = scene.submit(PREP, SWEEP, minimum=2, maximum=3)
    scene.end(job, 1, on(scene, job, 1)["node1"], exit_code=7)
    assert state(scene, job) is JobState.RUNNING
    scene.end(job, 1, on(scene, job, 1)["node2"], exit_code=7)
    assert state(scene, job) is JobState.ENDING
    assert "node2 could not be prepared" in scene.record(job).message


def test_a_node_that_is_lost_is_one_too_many_though_another_is_still_being_cleaned() -> None:
    scene = world(1, 1, 1, hooks=("EpilogProgram",))
    job = scene.submit(PREP, SWEEP, minimum=2, maximum=3)
    scene.end(job, 1, on(scene, job, 1)["node1"], exit_code=7)
    for node in ("node2", "node3"):
        scene.end(job, 1, on(scene, job, 1)[node])
    scene.do(NodeVanished(node="node3"))
    scene.do(GiveUpNode(node="node3"))
    run = scene.record(job).run
    assert run is not None
    assert run.end is not None
    assert run.end.requeue
