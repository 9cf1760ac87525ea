"""At each limit: the last value that is good and the first that is not."""

import pytest
from worlds import ADA, BOB, ROOT, World

from headnode.core.model.errors import BadRequest, NotAllowed, WrongState
from headnode.core.model.job import GroupEdge, JobSpec, Licence, UnitType
from headnode.core.model.node import NodeFacts, NodeState
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.command import AttemptReport
from headnode.core.state.events import NodeRegistered
from headnode.core.state.job_events import InstancesDispatched, InstancesRequeued
from headnode.core.state.join import RegisterNode
from headnode.core.state.modify import ModifyJob, RequeueJob, SetProgress
from headnode.core.state.nodes import ChangeNode, NodeVanished, SetParameter
from headnode.core.state.report import ReportEnded
from headnode.core.state.rerun import way_to_run_again
from headnode.core.state.start import StartJob
from headnode.core.state.stop import RequeueTask, StopJob, StopTask
from headnode.core.state.submit import CreateJob, SubmitJob
from headnode.core.state.transitions import JobState

TRUE = TaskSpec(command="x", rerunnable=True)
ONCE = TaskSpec(command="x")
YEAR = 366 * 86400


def sweep(count: int, **options: object) -> TaskSpec:
    return TaskSpec(command="x *", kind=TaskType.SWEEP, start=1, end=count, **options)


def test_a_hold_may_be_a_year_ahead_and_no_longer() -> None:
    world = World(1)
    now = world.clock.now()
    job = world.submit(TRUE, hold_until=Instant(now + YEAR))
    with pytest.raises(BadRequest, match="hold-until"):
        world.submit(TRUE, hold_until=Instant(now + YEAR + 1))
    later = JobSpec(hold_until=Instant(now + YEAR + 1))
    with pytest.raises(BadRequest, match="hold-until"):
        world.do(ModifyJob(by=ROOT, job=job, spec=later, fields=("hold_until",)))


def test_what_a_waiting_job_asks_of_nodes_may_change_and_not_that_of_a_running_one() -> None:
    world = World(1)
    changed = JobSpec(needs=NodeNeeds(features=(("gpu",),)))
    running = world.submit(TRUE)
    waiting = world.submit(TRUE)
    assert world.record(running).state.is_active
    with pytest.raises(WrongState, match="not-modifiable"):
        world.do(ModifyJob(by=ROOT, job=running, spec=changed, fields=("needs",)))
    world.do(ModifyJob(by=ROOT, job=waiting, spec=changed, fields=("needs",)))
    assert world.cluster.written(world.record(waiting)).needs == changed.needs


@pytest.mark.parametrize(
    ("field", "before", "after"),
    [
        ("maximum_memory", 1000, 2000),
        ("maximum_processors_per_node", 1, 2),
        ("excluded_nodes", ("large",), ()),
        ("single_node", True, False),
    ],
)
def test_a_waiting_job_whose_choice_of_nodes_is_widened_starts(
    field: str, before: object, after: object
) -> None:
    world = World(1, 1)
    world.do(RegisterNode(facts=NodeFacts(name="large", processors=2, memory=1500), approved=True))
    busy = ("large",) if field == "single_node" else ("node1", "node2")
    for node in busy:
        world.submit(TRUE, requested_nodes=(node,))
    size = 2 if field == "single_node" else 1
    task = TaskSpec(command="x", minimum=size, maximum=size)
    job = world.submit(task, minimum=size, maximum=size, **{field: before})
    assert world.record(job).state is JobState.QUEUED
    spec = JobSpec(**{field: after})
    world.do(ModifyJob(by=ROOT, job=job, spec=spec, fields=(field,)))
    assert world.record(job).state is JobState.RUNNING
    world.check_replay()


@pytest.mark.parametrize(("percent", "good"), [(-1, False), (0, True), (100, True), (101, False)])
def test_progress_is_a_percentage(percent: int, good: bool) -> None:
    world = World(1)
    job = world.submit(TRUE)
    if good:
        world.do(SetProgress(by=ROOT, job=job, percent=percent))
        run = world.record(job).run
        assert run is not None
        assert run.percent == percent
    else:
        with pytest.raises(BadRequest, match="progress"):
            world.do(SetProgress(by=ROOT, job=job, percent=percent))


def test_a_message_may_have_320_characters() -> None:
    world = World(1)
    job = world.submit(TRUE)
    with pytest.raises(BadRequest, match="message"):
        world.do(StopJob(by=ROOT, job=job, outcome="canceled", message="x" * 321))
    world.do(StopJob(by=ROOT, job=job, outcome="canceled", message="x" * 320))
    assert world.record(job).message == "x" * 320


def test_a_running_job_with_a_live_task_that_may_not_run_twice_is_not_requeued() -> None:
    world = World(1)
    job = world.submit(ONCE)
    with pytest.raises(WrongState, match="its tasks 1 are not rerunnable"):
        world.do(RequeueJob(by=ROOT, job=job))
    assert world.record(job).state is JobState.RUNNING


def test_force_is_stronger_than_graceful() -> None:
    world = World(1)
    job = world.submit(TRUE)
    world.do(StopJob(by=ROOT, job=job, outcome="canceled", graceful=True, force=True))
    assert world.record(job).state is JobState.ENDING


def test_requeueing_a_whole_sweep_leaves_what_finished_alone() -> None:
    world = World(1)
    job = world.submit(sweep(3, rerunnable=True))
    world.end(job, 1, 1)
    world.end(job, 1, 2, exit_code=1)
    events = world.do(RequeueTask(by=ROOT, job=job, task=1))
    assert [event.spans for event in events if isinstance(event, InstancesRequeued)] == [((2, 2),)]
    world.do(RequeueTask(by=ROOT, job=job, task=1, instance=1))
    run = world.record(job).run
    assert run is not None
    assert 1 in run.tasks[0].queued
    assert 1 not in run.tasks[0].finished


def test_no_task_of_a_job_that_was_asked_to_end_is_requeued() -> None:
    world = World(1)
    job = world.submit(TRUE, TRUE, minimum=1, maximum=1)
    world.do(StopTask(by=ROOT, job=job, task=2))
    world.do(StopJob(by=ROOT, job=job, outcome="finished", graceful=True))
    with pytest.raises(WrongState, match="job-not-active"):
        world.do(RequeueTask(by=ROOT, job=job, task=2))


@pytest.mark.parametrize(("exit_code", "way"), [(0, "hn job clone"), (1, "hn job requeue")])
def test_a_refused_requeue_of_a_task_names_a_command_that_its_job_accepts(exit_code: int, way: str) -> None:
    world = World(1)
    job = world.submit(TRUE, fail_on_task_failure=True)
    world.end(job, 1, exit_code=exit_code)
    record = world.archived(job)
    assert record is not None
    assert way_to_run_again(record).endswith(f"{way} {job}")
    if way == "hn job requeue":
        world.do(RequeueJob(by=ROOT, job=job, archived=world.archived(job)))
        assert world.record(job).state is JobState.RUNNING


def test_what_is_stopped_because_another_task_failed_the_job_is_canceled_and_not_failed() -> None:
    world = World(2)
    job = world.submit(TRUE, TRUE, fail_on_task_failure=True)
    world.end(job, 1, exit_code=1)
    world.end(job, 2, kind="stopped")
    run = world.record(job).run
    assert run is not None
    assert [len(run.tasks[0].failed), len(run.tasks[1].canceled)] == [1, 1]


def test_the_last_allowed_failure_of_a_sweep_is_forgiven_and_the_next_fails_the_job() -> None:
    world = World(1)
    job = world.submit(sweep(9, fail_job_on_failure=True, fail_job_count=2))
    world.end(job, 1, 1, exit_code=1)
    assert world.record(job).state is JobState.RUNNING
    world.end(job, 1, 2, exit_code=1)
    assert world.record(job).state is JobState.FAILED


def test_failures_that_are_reported_together_count_together() -> None:
    world = World(2)
    job = world.submit(sweep(9, fail_job_on_failure=True, fail_job_count=2))
    now = world.clock.now()
    reports = [world.nodes.ended(held, now, exit_code=1).reports[0] for held in world.nodes.running()]
    world.do(ReportEnded(node="node1", job=job, reports=tuple(reports)))
    assert world.record(job).state is JobState.FAILED
    world.check_replay()


def test_what_would_run_again_is_canceled_when_the_same_report_fails_the_job() -> None:
    world = World(3)
    job = world.submit(TaskSpec(command="x", fail_job_on_failure=True), TRUE, TRUE)
    now = world.clock.now()
    first, second, _ = world.nodes.running()
    reports = (
        world.nodes.ended(first, now, exit_code=1).reports[0],
        world.nodes.ended(second, now, kind="lost").reports[0],
    )
    world.do(ReportEnded(node="node1", job=job, reports=reports))
    world.end(job, 3, kind="stopped")
    run = world.record(job).run
    assert run is not None
    assert [len(p.canceled) for p in run.tasks] == [0, 1, 1]
    assert world.record(job).state is JobState.FAILED


@pytest.mark.parametrize(("code", "state"), [(0, "failed"), (3, "finished"), (5, "finished"), (6, "failed")])
def test_a_tasks_own_list_of_good_exit_codes_overrides_the_jobs_and_both_ends_are_good(
    code: int, state: str
) -> None:
    world = World(1)
    job = world.submit(TaskSpec(command="x", valid_exit_codes=((3, 5),)), valid_exit_codes=((0, 0), (6, 6)))
    world.end(job, 1, exit_code=code)
    assert world.record(job).state.value == state


def test_a_late_report_of_an_attempt_that_was_never_made_is_ignored() -> None:
    world = World(1)
    job = world.submit(TRUE)
    report = AttemptReport(task=1, instance=1, attempt=2, outcome=AttemptOutcome("exited", 0))
    early = AttemptReport(task=1, instance=1, attempt=0, outcome=AttemptOutcome("exited", 0))
    wrong = AttemptReport(task=2, instance=1, attempt=1, outcome=AttemptOutcome("exited", 0))
    assert world.do(ReportEnded(node="node1", job=job, reports=(report, early, wrong))) == ()


def test_a_task_waits_for_a_chain_and_its_failure_takes_the_whole_chain_with_it() -> None:
    world = World(4)
    chain = [
        TaskSpec(name=name, command="x", depends_on=before)
        for name, before in (("a", ()), ("b", ("a",)), ("c", ("b",)), ("d", ("c",)))
    ]
    job = world.submit(*chain, ONCE, fail_dependent_tasks=True)
    world.end(job, 1, exit_code=1)
    run = world.record(job).run
    assert run is not None
    assert [len(p.failed) for p in run.tasks] == [1, 1, 1, 1, 0]
    world.end(job, 5)
    assert world.record(job).state is JobState.FAILED


def test_a_task_of_a_paused_nodes_job_is_still_dispatched_there_but_no_new_job_is() -> None:
    world = World(2)
    job = world.submit(TRUE, TRUE, minimum=1, maximum=1)
    world.do(ChangeNode(by=ROOT, node="node1", action="pause"))
    other = world.submit(TRUE, by=ADA)
    world.end(job, 1)
    assert world.dispatched(job) == [(2, 1)]
    assert world.record(other).state is JobState.QUEUED
    answer = world.engine.handle([StartJob(job=other, shares=(("node1", 1),))])[0]
    assert getattr(answer, "code", None) == "stale-plan"


def test_a_task_runs_only_in_the_node_group_it_names() -> None:
    world = World()
    for name, groups in (("a", ()), ("b", ("Fast",))):
        facts = NodeFacts(name=name, processors=1, groups=groups)
        world.do(RegisterNode(facts=facts, approved=True))
    fast = TaskSpec(command="x", node_group="fast")
    job = world.submit(fast, fast, minimum=2, maximum=2)
    assert [held.place[0][0] for held in world.nodes.running()] == ["b"]
    world.end(job, 1)
    assert world.dispatched(job) == [(2, 1)]


def test_a_parallel_task_takes_less_than_its_maximum_when_it_has_its_minimum() -> None:
    world = World(3)
    job = world.submit(TaskSpec(command="x", minimum=2, maximum=9), minimum=2, maximum=9)
    assert [len(held.place[0][1]) for held in world.nodes.running() if held.job == job] == [3]


def test_an_exclusive_task_waits_until_its_node_is_empty() -> None:
    world = World(2)
    alone = TaskSpec(command="x", exclusive=True)
    job = world.submit(TRUE, alone, exclusive=True, minimum=2, maximum=2)
    assert world.dispatched(job) == [(1, 1)]
    world.end(job, 1)
    assert [len(held.place[0][1]) for held in world.nodes.running()] == [2]


def test_an_exclusive_job_gives_back_whole_nodes_only() -> None:
    world = World(2, 2)
    job = world.submit(*[TRUE] * 4, exclusive=True, minimum=1, maximum=4)
    world.end(job, 1)
    assert world.cluster.cores.free == {"node1": [], "node2": []}
    world.end(job, 2)
    assert sorted(map(len, world.cluster.cores.free.values())) == [0, 2]


def test_a_node_that_a_task_requires_is_kept_whatever_its_spelling() -> None:
    world = World(1, 1)
    there = TaskSpec(command="x", required_nodes=("NODE2",), depends_on=("a",))
    job = world.submit(TaskSpec(name="a", command="x"), there, ONCE, minimum=1, maximum=2)
    world.end(job, 3)
    world.end(job, 1)
    assert world.dispatched(job) == [(2, 1)]
    world.end(job, 2)
    assert world.record(job).state is JobState.FINISHED


def test_the_minimum_is_kept_though_nothing_needs_it() -> None:
    world = World(4)
    job = world.submit(TRUE, minimum=3, maximum=4)
    assert len(world.cluster.cores.free["node1"]) == 1
    run = world.record(job).run
    assert run is not None
    assert len(run.allocation["node1"]) == 3


def test_the_node_taken_last_is_given_back_first() -> None:
    world = World(1, 1, 1)
    job = world.submit(TRUE, minimum=1, maximum=3)
    run = world.record(job).run
    assert run is not None
    assert list(run.allocation) == ["node1"]


def test_a_child_is_not_released_by_a_parent_that_was_canceled() -> None:
    world = World(2)
    parent = world.submit(TRUE, hold_until=Instant(world.clock.now() + 50))
    child = world.submit(TRUE, parents=(parent,))
    world.do(StopJob(by=ROOT, job=parent, outcome="canceled"))
    assert (world.record(child).state, world.record(child).skipped) == (JobState.CANCELED, True)


def test_a_new_run_time_limit_counts_from_the_start_of_the_job() -> None:
    world = World(1)
    job = world.submit(TRUE, run_time=Seconds(1000.0))
    world.wait(50)
    spec = JobSpec(run_time=Seconds(60.0))
    world.do(ModifyJob(by=ROOT, job=job, spec=spec, fields=("run_time",)))
    world.wait(9)
    assert world.record(job).state is JobState.RUNNING
    world.wait(1)
    assert world.record(job).state is JobState.ENDING


def test_nothing_of_a_node_that_runs_jobs_is_removed_and_its_tasks_follow_when_it_returns() -> None:
    world = World(1)
    job = world.submit(TRUE, TRUE)
    with pytest.raises(WrongState, match="node-busy"):
        world.do(ChangeNode(by=ROOT, node="node1", action="remove"))
    facts = world.cluster.nodes["node1"].facts
    world.do(NodeVanished(node="node1"))
    world.end(job, 1)
    assert world.dispatched(job) == []
    world.do(RegisterNode(facts=facts))
    assert world.dispatched(job) == [(2, 1)]


def test_a_node_that_says_the_same_again_changes_nothing() -> None:
    world = World(1)
    assert world.do(RegisterNode(facts=world.cluster.nodes["node1"].facts)) == ()
    changed = NodeFacts(name="node1", processors=1, memory=4096)
    assert world.do(RegisterNode(facts=changed)) == (NodeRegistered(at=world.clock.now(), facts=changed),)


@pytest.mark.parametrize("wish", ["approve", "pause", "resume", "remove"])
def test_only_administrators_change_nodes_and_parameters(wish: str) -> None:
    world = World(1)
    with pytest.raises(NotAllowed, match="not-administrator"):
        world.do(ChangeNode(by=ADA, node="node1", action=wish))
    with pytest.raises(NotAllowed, match="not-administrator"):
        world.do(SetParameter(by=BOB, name="SchedulingPolicy", value="fcfs"))
    assert world.cluster.nodes["node1"].state is NodeState.READY


def test_a_licence_for_every_processor_is_counted_by_what_the_job_holds() -> None:
    world = World(8)
    world.do(SetParameter(by=ROOT, name="Licences", value="solver:4"))
    each = Licence("solver", None)
    first = world.submit(TRUE, TRUE, TRUE, minimum=3, maximum=3, licences=(each,))
    second = world.submit(TRUE, TRUE, minimum=2, maximum=2, licences=(each,))
    third = world.submit(TRUE, licences=(Licence("solver", 1),))
    states = [world.record(job).state for job in (first, second, third)]
    assert states == [JobState.RUNNING, JobState.QUEUED, JobState.RUNNING]


def test_a_job_that_is_asked_to_end_gracefully_does_not_grow() -> None:
    world = World(2)
    other = world.submit(TRUE)
    job = world.submit(sweep(4), minimum=1, maximum=2)
    world.do(StopJob(by=ROOT, job=job, outcome="finished", graceful=True))
    world.end(other, 1)
    run = world.record(job).run
    assert run is not None
    assert sum(map(len, run.allocation.values())) == 1


def test_groups_of_tasks_wait_through_groups() -> None:
    world = World(2)
    job = world.submit(
        TaskSpec(command="x", group=1),
        TaskSpec(command="x", group=2),
        TaskSpec(command="x", group=3),
        group_edges=(GroupEdge(1, 2), GroupEdge(2, 3)),
    )
    for task in (1, 2, 3):
        assert world.dispatched(job) == [(task, 1)]
        world.end(job, task)


def test_a_place_is_free_only_when_the_last_of_its_instances_has_left_it() -> None:
    world = World(1)
    job = world.submit(sweep(200))
    now = world.clock.now()
    world.do(world.nodes.ended(world.nodes.running()[0], now, started=Instant(now - 0.001)))
    ahead = len(world.dispatched(job))
    assert 1 < ahead <= 64
    places = {held.place for held in world.nodes.running()}
    assert places == {(("node1", (0,)),)}
    graph = world.cluster.graph(job)
    assert graph.lanes == {(("node1", (0,)),): ahead}
    assert graph.free == {"node1": []}


def test_only_half_of_a_fair_share_is_handed_over_ahead_and_more_only_when_half_is_done() -> None:
    world = World(2)
    job = world.submit(sweep(44))
    now = world.clock.now()
    world.do(world.nodes.ended(world.nodes.running()[0], now, started=Instant(now - 0.001)))
    counts = sorted(world.cluster.graph(job).lanes.values())
    assert counts[-1] <= 10


def test_a_queued_job_of_nodes_starts_on_whole_nodes_only() -> None:
    world = World(2)
    world.submit(TRUE)
    job = world.submit(TRUE, unit=UnitType.NODE, minimum=1, maximum=1)
    assert world.record(job).state is JobState.QUEUED


def test_the_older_of_two_equal_jobs_goes_first_though_its_id_is_greater() -> None:
    world = World(1)
    running = world.submit(TRUE)
    first = world.do(CreateJob(by=ROOT, spec=JobSpec(tasks=(TRUE,))))[0].job  # type: ignore[attr-defined]
    second = world.submit(TRUE)
    world.do(SubmitJob(by=ROOT, job=JobId(first)))
    world.end(running, 1)
    assert world.record(second).state is JobState.RUNNING


def test_what_failed_and_what_would_run_again_in_one_report_both_leave_nothing_queued() -> None:
    world = World(2)
    job = world.submit(ONCE, TRUE, fail_on_task_failure=True)
    now = world.clock.now()
    bad, lost = world.nodes.running()
    reports = (
        world.nodes.ended(lost, now, kind="lost").reports[0],
        world.nodes.ended(bad, now, exit_code=1).reports[0],
    )
    world.do(ReportEnded(node="node1", job=job, reports=reports))
    record = world.record(job)
    assert record.run is not None
    assert (record.state, len(record.run.tasks[1].canceled)) == (JobState.FAILED, 1)
    assert not record.run.tasks[1].queued


def test_three_failures_reported_together_reach_a_limit_of_three() -> None:
    world = World(3)
    job = world.submit(sweep(9, fail_job_on_failure=True, fail_job_count=3))
    now = world.clock.now()
    reports = [world.nodes.ended(held, now, exit_code=1).reports[0] for held in world.nodes.running()]
    assert len(reports) == 3
    world.do(ReportEnded(node="node1", job=job, reports=tuple(reports)))
    assert world.record(job).state is JobState.FAILED


def test_a_task_tied_to_a_node_does_not_take_what_a_parallel_task_before_it_waits_for() -> None:
    world = World(2)
    wide = TaskSpec(command="mpi", minimum=2, maximum=2)
    tied = TaskSpec(command="x", required_nodes=("node1",))
    job = world.submit(ONCE, wide, tied, minimum=2, maximum=2)
    assert world.dispatched(job) == [(1, 1)]
    world.end(job, 1)
    assert world.dispatched(job) == [(2, 1)]


def test_work_is_handed_over_ahead_again_only_when_half_of_it_is_done() -> None:
    world = World(1)
    job = world.submit(sweep(1000))
    handed = []
    for _ in range(60):
        now = world.clock.now()
        held = world.nodes.running()[0]
        events = world.engine.handle([world.nodes.ended(held, now, started=Instant(now - 0.001))])
        assert isinstance(events[0], tuple)
        handed.append(len(world.dispatched(job)))
    found = [event for _, event in world.journal.replay() if isinstance(event, InstancesDispatched)]
    assert len(found) <= 5
    assert min(handed[1:]) > 1


def test_what_ran_and_was_canceled_with_its_failing_job_gets_a_new_attempt_number() -> None:
    world = World(2)
    job = world.submit(TRUE, TRUE, fail_on_task_failure=True)
    world.end(job, 1, exit_code=1)
    world.end(job, 2, kind="stopped")
    world.do(RequeueJob(by=ROOT, job=job, archived=world.archived(job)))
    assert [(held.task, held.attempt) for held in world.nodes.running()] == [(1, 2), (2, 2)]
