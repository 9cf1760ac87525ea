"""Whole lives of jobs, told as short stories."""

import pytest
from msgspec.structs import replace
from worlds import ADA, BOB, ROOT, World

from headnode.core.model.errors import NotAllowed, NotFound, WrongState
from headnode.core.model.job import GroupEdge, JobSpec
from headnode.core.model.quantities import Instant, JobId, Priority, Seconds
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.modify import ModifyJob, RequeueJob, SetProgress
from headnode.core.state.start import StartJob
from headnode.core.state.stop import StopJob, StopTask
from headnode.core.state.submit import CreateJob
from headnode.core.state.transitions import JobState

TRUE = TaskSpec(command="/bin/true")


def sweep(count: int, **options: object) -> TaskSpec:
    return TaskSpec(command="run *", kind=TaskType.SWEEP, start=1, end=count, **options)


def test_a_job_of_one_task_runs_and_finishes() -> None:
    world = World(2)
    job = world.submit(TRUE)
    assert world.record(job).state is JobState.RUNNING
    world.end(job, 1)
    assert world.record(job).state is JobState.FINISHED
    assert world.cluster.cores.free["node1"] == [0, 1]
    world.check_replay()


def test_a_failed_task_fails_the_job_only_after_the_others_have_run() -> None:
    world = World(1)
    job = world.submit(TRUE, TRUE)
    world.end(job, 1, exit_code=3)
    assert world.dispatched(job) == [(2, 1)]
    world.end(job, 2)
    assert world.record(job).state is JobState.FAILED


def test_with_fail_on_task_failure_the_first_failure_stops_the_rest() -> None:
    world = World(2)
    job = world.submit(TRUE, TRUE, TRUE, fail_on_task_failure=True)
    world.end(job, 1, exit_code=1)
    assert world.record(job).state is JobState.ENDING
    world.end(job, 2, kind="stopped")
    record = world.record(job)
    assert record.state is JobState.FAILED
    assert record.run is not None
    assert [len(p.canceled) for p in record.run.tasks] == [0, 1, 1]


def test_a_critical_sweep_fails_the_job_after_the_count_it_allows() -> None:
    world = World(1)
    job = world.submit(sweep(10, fail_job_on_failure=True, fail_job_count=3))
    for instance in (1, 2):
        world.end(job, 1, instance, exit_code=1)
    assert world.record(job).state is JobState.RUNNING
    world.end(job, 1, 3, exit_code=1)
    assert world.record(job).state is JobState.FAILED


def test_valid_exit_codes_of_the_task_override_those_of_the_job() -> None:
    world = World(2)
    good = TaskSpec(command="x", valid_exit_codes=((-1, 10), (-(2**31), -100)))
    job = world.submit(good, TRUE, valid_exit_codes=((0, 0), (7, 7)))
    world.end(job, 1, exit_code=10)
    world.end(job, 2, exit_code=7)
    assert world.record(job).state is JobState.FINISHED


def test_dependents_wait_for_every_task_of_the_name_and_run_even_when_one_failed() -> None:
    world = World(4)
    job = world.submit(
        TaskSpec(name="a", command="x"),
        TaskSpec(name="a", command="x"),
        TaskSpec(name="b", command="x", depends_on=("a",)),
        minimum=1,
        maximum=4,
    )
    assert world.dispatched(job) == [(1, 1), (2, 1)]
    world.end(job, 1, exit_code=1)
    assert world.dispatched(job) == [(2, 1)]
    world.end(job, 2)
    assert world.dispatched(job) == [(3, 1)]


def test_fail_dependent_tasks_fails_them_instead() -> None:
    world = World(1)
    job = world.submit(
        TaskSpec(name="a", command="x"),
        TaskSpec(name="b", command="x", depends_on=("a",)),
        TaskSpec(name="c", command="x", depends_on=("b",)),
        fail_dependent_tasks=True,
    )
    world.end(job, 1, exit_code=1)
    record = world.record(job)
    assert record.state is JobState.FAILED
    assert record.run is not None
    assert [len(p.failed) for p in record.run.tasks] == [1, 1, 1]


def test_a_child_group_waits_for_every_task_of_its_parent_group() -> None:
    world = World(4)
    job = world.submit(
        TaskSpec(command="x", group=1),
        TaskSpec(command="x", group=1),
        TaskSpec(command="x", group=2),
        group_edges=(GroupEdge(1, 2),),
    )
    world.end(job, 2)
    assert world.dispatched(job) == [(1, 1)]
    world.end(job, 1)
    assert world.dispatched(job) == [(3, 1)]


def test_serial_tasks_fill_node_by_node() -> None:
    world = World(2, 2)
    job = world.submit(*[TRUE] * 4)
    assert [h.place for h in world.nodes.running() if h.job == job] == [
        (("node1", (0,)),),
        (("node1", (1,)),),
        (("node2", (0,)),),
        (("node2", (1,)),),
    ]


def test_a_parallel_task_that_has_no_room_yet_keeps_later_ones_from_starving_it() -> None:
    world = World(2)
    job = world.submit(TRUE, TaskSpec(command="mpi", minimum=2, maximum=2), TRUE, minimum=2, maximum=2)
    assert world.dispatched(job) == [(1, 1)]
    world.end(job, 1)
    assert world.dispatched(job) == [(2, 1)]


def test_an_exclusive_task_owns_its_node_inside_the_job() -> None:
    world = World(2, 2)
    job = world.submit(
        TaskSpec(command="reboot", exclusive=True), TRUE, TRUE, exclusive=True, minimum=4, maximum=4
    )
    assert [(h.task, h.place) for h in world.nodes.running() if h.job == job] == [
        (1, (("node1", (0, 1)),)),
        (2, (("node2", (0,)),)),
        (3, (("node2", (1,)),)),
    ]


def test_a_task_runs_on_the_nodes_it_requires_and_others_need_not_wait_for_it() -> None:
    world = World(1, 1)
    job = world.submit(
        TaskSpec(command="x", required_nodes=("node2",)),
        TaskSpec(command="y", required_nodes=("NODE2",)),
        TRUE,
        minimum=2,
        maximum=2,
    )
    assert [(h.task, h.place[0][0]) for h in world.nodes.running()] == [(1, "node2"), (3, "node1")]
    world.end(job, 1)
    assert (2, 1) in world.dispatched(job)


def test_short_instances_are_handed_over_ahead_and_never_twice() -> None:
    world = World(2)
    job = world.submit(sweep(1000))
    seen: list[int] = []
    while world.record(job).state is JobState.RUNNING:
        held = world.nodes.running()[0]
        seen.append(held.instance)
        now = world.clock.now()
        world.do(world.nodes.ended(held, now, started=Instant(now - 0.001)))
    assert sorted(seen) == list(range(1, 1001))
    assert world.record(job).state is JobState.FINISHED


def test_long_instances_are_never_handed_over_ahead() -> None:
    world = World(2)
    job = world.submit(sweep(10))
    for _ in range(4):
        held = world.nodes.running()[0]
        now = world.clock.now()
        world.do(world.nodes.ended(held, now, started=Instant(now - 60)))
        assert len(world.dispatched(job)) == 2


def test_a_job_grows_while_tasks_wait_and_shrinks_when_none_do() -> None:
    world = World(4)
    first = world.submit(TRUE, TRUE, TRUE)
    job = world.submit(sweep(3), minimum=1, maximum=3)
    assert len(world.dispatched(job)) == 1
    world.end(first, 1)
    assert len(world.dispatched(job)) == 2
    world.end(job, 1, 1)
    world.end(job, 1, 2)
    run = world.record(job).run
    assert run is not None
    assert sum(map(len, run.allocation.values())) == 1
    world.check_replay()


def test_a_job_gives_back_at_once_what_it_got_beyond_its_tasks() -> None:
    world = World(4)
    job = world.submit(TRUE, TRUE, minimum=1, maximum=4)
    assert len(world.dispatched(job)) == 2
    assert len(world.cluster.cores.free["node1"]) == 2


def test_a_job_that_runs_until_canceled_keeps_everything_and_takes_new_tasks() -> None:
    world = World(2)
    job = world.submit(run_until_canceled=True, minimum=2, maximum=2)
    assert world.cluster.cores.free["node1"] == []
    spec = JobSpec(run_until_canceled=True, minimum=2, maximum=2, tasks=(TRUE,))
    world.do(ModifyJob(by=ROOT, job=job, spec=spec, fields=("tasks",)))
    world.end(job, 1)
    assert world.record(job).state is JobState.RUNNING
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    assert world.record(job).state is JobState.CANCELED
    assert world.cluster.cores.free["node1"] == [0, 1]


def test_an_empty_job_finishes_at_once() -> None:
    world = World(1)
    assert world.record(world.submit()).state is JobState.FINISHED


def test_a_job_over_its_run_time_is_canceled_and_its_running_tasks_fail() -> None:
    world = World(1)
    job = world.submit(TRUE, TRUE, run_time=Seconds(60.0))
    world.wait(59)
    assert world.record(job).state is JobState.RUNNING
    world.wait(1)
    world.end(job, 1, kind="stopped")
    record = world.record(job)
    assert record.state is JobState.CANCELED
    assert record.message == "run time expired"
    assert record.run is not None
    assert [len(record.run.tasks[0].failed), len(record.run.tasks[1].canceled)] == [1, 1]


def test_a_held_job_waits_for_its_time() -> None:
    world = World(1)
    job = world.submit(TRUE, hold_until=Instant(world.clock.now() + 100))
    world.wait(99)
    assert world.record(job).state is JobState.QUEUED
    world.wait(1)
    assert world.record(job).state is JobState.RUNNING
    assert world.record(job).hold_until is None


def test_a_child_job_waits_until_its_parent_has_finished_and_is_canceled_when_it_fails() -> None:
    world = World(2)
    good, bad = world.submit(TRUE), world.submit(TRUE)
    after_good = world.submit(TRUE, parents=(good,))
    after_bad = world.submit(TRUE, parents=(bad,))
    world.end(good, 1)
    world.end(bad, 1, exit_code=1)
    assert world.record(after_good).state is JobState.RUNNING
    skipped = world.archived(after_bad)
    assert skipped is not None
    assert skipped.skipped
    world.do(RequeueJob(by=ROOT, job=bad, archived=_rerunnable(world, bad), skipped=(skipped,)))
    world.end(bad, 1)
    assert world.record(after_bad).state is JobState.RUNNING


def _rerunnable(world: World, job: JobId):
    record = world.archived(job)
    assert record is not None
    import msgspec

    from headnode.core.state.job_record import decode_spec, encode_spec

    spec = decode_spec(record.spec)
    tasks = tuple(msgspec.structs.replace(task, rerunnable=True) for task in spec.tasks)
    record.spec = encode_spec(msgspec.structs.replace(spec, tasks=tasks))
    return record


def test_a_parent_must_exist_and_be_submitted() -> None:
    world = World(1)
    with pytest.raises(NotFound, match="no-such-parent"):
        world.submit(TRUE, parents=(99,))
    created = world.do(CreateJob(by=ROOT, spec=JobSpec(tasks=(TRUE,))))[0].job  # type: ignore[attr-defined]
    with pytest.raises(WrongState, match="parent-not-submitted"):
        world.submit(TRUE, parents=(created,))


def test_others_may_not_change_my_job_but_administrators_may() -> None:
    world = World(1)
    job = world.submit(TRUE, by=ADA)
    for command in (
        StopJob(by=BOB, job=job, outcome="canceled"),
        StopTask(by=BOB, job=job, task=1),
        ModifyJob(by=BOB, job=job, spec=JobSpec(tasks=(TRUE,)), fields=("name",)),
        SetProgress(by=BOB, job=job, percent=1),
    ):
        with pytest.raises(NotAllowed, match="not-owner"):
            world.do(command)
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    assert world.record(job).state is JobState.ENDING


def test_only_administrators_use_a_priority_above_normal() -> None:
    world = World(1)
    with pytest.raises(NotAllowed, match="priority-privilege"):
        world.submit(TRUE, by=ADA, priority=Priority(2001))
    assert world.submit(TRUE, by=ADA, priority=Priority(2000))


def test_higher_priority_goes_first_and_equals_go_in_order_of_submission() -> None:
    world = World(1)
    running = world.submit(TRUE)
    jobs = [world.submit(TRUE, priority=Priority(p)) for p in (2000, 3000, 2000, 3000)]
    order = []
    world.end(running, 1)
    for _ in jobs:
        started = next(iter(world.cluster.running))
        order.append(started)
        world.end(started, 1)
    assert order == [jobs[1], jobs[3], jobs[0], jobs[2]]


def test_a_lost_task_runs_again_three_times_if_it_is_rerunnable_and_fails_if_not() -> None:
    world = World(2)
    job = world.submit(TaskSpec(command="x", rerunnable=True), TRUE)
    world.end(job, 2, kind="lost")
    for _ in range(3):
        world.end(job, 1, kind="lost")
    assert world.dispatched(job) == [(1, 1)]
    world.end(job, 1, kind="lost")
    record = world.record(job)
    assert record.state is JobState.FAILED
    assert record.run is not None
    assert [len(p.failed) for p in record.run.tasks] == [1, 1]


def test_a_failing_program_runs_again_only_as_often_as_the_job_says() -> None:
    world = World(1)
    job = world.submit(TRUE, task_retry_limit=1)
    world.end(job, 1, exit_code=1)
    world.end(job, 1, exit_code=1)
    assert world.record(job).state is JobState.FAILED


def test_a_report_of_an_old_attempt_changes_nothing() -> None:
    world = World(1)
    job = world.submit(TaskSpec(command="x", rerunnable=True))
    old = world.nodes.running()[0]
    world.end(job, 1, kind="lost")
    world.do(world.nodes.ended(old, world.clock.now(), exit_code=0))
    assert world.record(job).state is JobState.RUNNING
    world.end(job, 1)
    assert world.record(job).state is JobState.FINISHED


def test_a_task_that_cannot_be_started_fails_with_the_nodes_own_words() -> None:
    world = World(1)
    job = world.submit(TaskSpec(command="nonsuch"))
    world.end(job, 1, kind="not-started")
    assert world.record(job).state is JobState.FAILED


def test_a_plan_that_went_stale_is_refused() -> None:
    world = World(1)
    world.submit(TRUE)
    waiting = world.submit(TRUE)
    with pytest.raises(WrongState, match="stale-plan"):
        world.do(StartJob(job=waiting, shares=(("node1", 1),)))


def test_a_program_that_a_signal_ended_fails_whatever_exit_codes_are_valid() -> None:
    world = World(2)
    job = world.submit(TaskSpec(command="x", valid_exit_codes=((0, 255),)))
    held = next(held for held in world.nodes.running() if held.job == job)
    ended = world.nodes.ended(held, world.clock.now(), kind="exited", exit_code=137)
    world.do(
        replace(
            ended,
            reports=tuple(replace(one, outcome=one.outcome._replace(signal=9)) for one in ended.reports),
        )
    )
    assert world.record(job).state is JobState.FAILED
