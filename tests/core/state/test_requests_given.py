"""Jobs that would do with several requests: the one that a job is given, and all that follows from it."""

import msgspec
import pytest
from worlds import ADA, ROOT, World

from headnode.core.model.errors import WrongState
from headnode.core.model.job import Alternative, JobSpec, Licence, TaskAlternative
from headnode.core.model.quantities import FOREVER, JobId, Seconds
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_record import decode_record, encode_record, spec_of
from headnode.core.state.join import RegisterNode
from headnode.core.state.modify import ModifyJob, RequeueJob
from headnode.core.state.node_loss import GiveUpNode
from headnode.core.state.nodes import ChangeNode, NodeVanished, SetParameter
from headnode.core.state.snapshot import Snapshot
from headnode.core.state.start import GrowJob, StartJob
from headnode.core.state.stop import StopJob
from headnode.core.state.transitions import JobState
from headnode.engine.recovery import save
from headnode.engine.view_builder import ViewBuilder

ONCE = TaskSpec(command="x")
SWEEP = TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=2, rerunnable=True)
SMALLER = Alternative(minimum=1, maximum=1, run_time=Seconds(600))


def option(world: World, job: JobId) -> int:
    run = world.record(job).run
    assert run is not None
    return run.alternative


def instances(world: World, job: JobId, task: int = 1) -> int:
    run = world.record(job).run
    assert run is not None
    progress = run.tasks[task - 1]
    over = (progress.queued, progress.finished, progress.failed, progress.canceled)
    return sum(map(len, over)) + len(progress.live)


def busy(world: World, processors: int) -> JobId:
    """Let a job without a limit hold so many processors."""
    return world.submit(ONCE, by=ADA, minimum=processors, maximum=processors)


def test_a_job_runs_under_the_request_it_was_given() -> None:
    world = World(4)
    busy(world, 2)
    job = world.submit(ONCE, minimum=4, maximum=4, run_time=Seconds(60), alternatives=(SMALLER,))
    record = world.record(job)
    assert record.run is not None
    assert (record.state, option(world, job)) == (JobState.RUNNING, 1)
    assert record.run.allocation == {"node1": (2,)}
    assert record.run.deadline == world.clock.now() + 600
    assert world.cluster.spec(record).run_time == 600
    assert world.cluster.request(record).alternatives == ()
    assert (world.cluster.request(record).minimum, world.cluster.request(record).run_time) == (1, 600)
    assert world.cluster.written(record).run_time == 60
    world.wait(61)
    assert world.record(job).state is JobState.RUNNING, "the limit is that of its alternative"
    world.check_replay()


def test_a_queued_job_still_asks_for_all() -> None:
    world = World(2)
    busy(world, 2)
    job = world.submit(ONCE, minimum=2, maximum=2, alternatives=(SMALLER,))
    request = world.cluster.request(world.record(job))
    assert [other.maximum for other in request.alternatives] == [1]
    held = world.submit(ONCE, minimum=2, maximum=2, alternatives=(SMALLER,), holds=("user",))
    assert world.cluster.request(world.record(held)) == request


def test_what_was_given_is_forgotten_when_the_job_goes_back_to_the_queue() -> None:
    world = World(4)
    other = busy(world, 2)
    again = TaskSpec(command="x", rerunnable=True)
    job = world.submit(again, minimum=4, maximum=4, alternatives=(SMALLER,))
    assert option(world, job) == 1
    world.end(other, 1)
    world.do(RequeueJob(by=ROOT, job=job))
    for held in world.nodes.running():
        world.do(world.nodes.ended(held, world.clock.now(), kind="stopped"))
    assert (world.record(job).state, option(world, job)) == (JobState.RUNNING, 0)
    run = world.record(job).run
    assert run is not None
    assert (len(run.allocation["node1"]), run.deadline) == (4, None)
    world.check_replay()


def test_a_job_that_was_given_what_it_prefers_asks_for_nothing_else_while_it_runs() -> None:
    world = World(2)
    job = world.submit(ONCE, minimum=2, maximum=2, alternatives=(SMALLER,))
    assert option(world, job) == 0
    assert world.cluster.request(world.record(job)).alternatives == ()


def test_a_job_that_waits_again_has_been_given_nothing() -> None:
    world = World(2)
    other = busy(world, 1)
    longer = Alternative(minimum=1, maximum=1, tasks=(TaskAlternative(end=5),))
    job = world.submit(SWEEP, minimum=2, maximum=2, alternatives=(longer,))
    assert (option(world, job), instances(world, job)) == (1, 5)
    world.do(RequeueJob(by=ROOT, job=job))
    world.do(ChangeNode(by=ROOT, node="node1", action="pause"))
    world.end(job, 1, 1, kind="stopped")
    assert world.record(job).state is JobState.QUEUED
    assert (option(world, job), instances(world, job)) == (0, 2)
    assert world.cluster.request(world.record(job)).alternatives
    world.check_replay()
    world.end(other, 1)
    world.do(ChangeNode(by=ROOT, node="node1", action="resume"))
    assert (option(world, job), instances(world, job)) == (0, 2)


def test_a_sweep_has_the_instances_of_the_request_that_it_runs_under() -> None:
    world = World(2)
    other = busy(world, 1)
    longer = Alternative(minimum=1, maximum=1, tasks=(TaskAlternative(end=5),))
    job = world.submit(SWEEP, minimum=2, maximum=2, alternatives=(longer,))
    assert (option(world, job), instances(world, job)) == (1, 5)
    assert world.dispatched(job) == [(1, 1)]
    world.end(job, 1, 1)
    world.end(other, 1)
    world.do(RequeueJob(by=ROOT, job=job))
    world.end(job, 1, 2, kind="stopped")
    assert (option(world, job), instances(world, job)) == (0, 2)
    assert world.dispatched(job) == [(1, 2)], "the first is finished, and there are but two"
    world.check_replay()


def test_a_sweep_with_fewer_instances_forgets_none_of_the_attempts_of_the_others() -> None:
    world = World(2)
    shorter = Alternative(minimum=1, maximum=1, tasks=(TaskAlternative(end=1),))
    spec = JobSpec(tasks=(SWEEP,), minimum=2, maximum=2, alternatives=(shorter,))
    job = world.submit(*spec.tasks, minimum=2, maximum=2, alternatives=spec.alternatives)
    world.end(job, 1, 2)
    world.do(RequeueJob(by=ROOT, job=job))
    other = busy(world, 1)
    world.end(job, 1, 1, kind="stopped")
    assert (option(world, job), instances(world, job)) == (0, 2), "one processor was free too late"
    world.do(RequeueJob(by=ROOT, job=job))
    assert world.record(other).state is JobState.QUEUED
    world.do(SetParameter(by=ROOT, name="SchedulingPolicy", value="fcfs"))
    world.do(ModifyJob(by=ROOT, job=other, spec=JobSpec(priority=4000), fields=("priority",)))
    world.end(job, 1, 1, kind="stopped")
    assert (option(world, job), instances(world, job)) == (1, 1)
    run = world.record(job).run
    assert run is not None
    assert run.tasks[0].attempts_used >= 1, "the second instance has run once"
    world.check_replay()


def test_a_plan_for_a_request_that_the_job_no_longer_has_is_stale() -> None:
    world = World(2)
    world.do(ChangeNode(by=ROOT, node="node1", action="pause"))
    job = world.submit(ONCE, by=ADA, minimum=2, maximum=2, alternatives=(SMALLER,))
    world.do(NodeVanished(node="node1"))
    for wrong in (2, -1):
        with pytest.raises(WrongState, match="does not match the allocation"):
            world.do(StartJob(job=job, shares=(("node1", 1),), option=wrong))
    with pytest.raises(WrongState, match="does not match the allocation"):
        world.do(StartJob(job=job, shares=(("node1", 1),), option=1, parts=((("node1", 1),),)))


def test_sole_ownership_is_that_of_the_request_given() -> None:
    world = World(4)
    busy(world, 1)
    shares = Alternative(exclusive=False, minimum=1, maximum=1)
    job = world.submit(ONCE, minimum=1, maximum=1, exclusive=True, alternatives=(shares,))
    assert option(world, job) == 1
    alone = Alternative(exclusive=True, minimum=4, maximum=4)
    second = World(4)
    taken = second.submit(ONCE, minimum=9, maximum=9, alternatives=(alone,))
    waits = busy(second, 1)
    assert option(second, taken) == 1
    assert second.record(waits).state is JobState.QUEUED


def test_licences_held_are_those_of_the_request_given() -> None:
    world = World(4)
    world.do(SetParameter(by=ROOT, name="Licences", value="x:3"))
    fewer = Alternative(licences=(Licence("x", 1),))
    job = world.submit(ONCE, minimum=1, maximum=1, licences=(Licence("x", 9),), alternatives=(fewer,))
    view = ViewBuilder(world.cluster, keeps=False).view(world.clock.now())
    assert option(world, job) == 1
    assert view.licences == {"x": (3, 2)}


def test_a_job_grows_to_the_maximum_of_the_request_given() -> None:
    world = World(4)
    other = busy(world, 3)
    tasks = (TaskSpec(command="x"),) * 4
    job = world.submit(*tasks, minimum=4, maximum=4, alternatives=(Alternative(minimum=1, maximum=2),))
    world.end(other, 1)
    run = world.record(job).run
    assert run is not None
    assert (run.alternative, run.allocation) == (1, {"node1": (0, 3)})
    world.end(job, 1)
    world.end(job, 2)
    world.end(job, 3)
    assert len(world.cluster.graph(job).run.allocation["node1"]) == 1, "it keeps its minimum"


def test_a_new_limit_of_a_running_job_counts_for_the_request_that_it_runs_under() -> None:
    world = World(4)
    busy(world, 2)
    job = world.submit(ONCE, minimum=4, maximum=4, run_time=Seconds(60), alternatives=(SMALLER, SMALLER))
    change = JobSpec(run_time=Seconds(900))
    world.do(ModifyJob(by=ROOT, job=job, spec=change, fields=("run_time",)))
    record = world.record(job)
    assert record.run is not None
    assert record.run.deadline == world.clock.now() + 900
    assert world.cluster.spec(record).run_time == 900
    written = world.cluster.written(record)
    assert [other.run_time for other in written.alternatives] == [900, 600]
    assert world.cluster.request(record).run_time == 900
    world.check_replay()


def test_tasks_added_later_are_as_they_say_under_every_request() -> None:
    world = World(2)
    busy(world, 1)
    found = Alternative(minimum=1, maximum=1, tasks=(TaskAlternative(end=3),))
    job = world.submit(SWEEP, minimum=2, maximum=2, alternatives=(found,))
    change = JobSpec(tasks=(SWEEP, SWEEP))
    world.do(ModifyJob(by=ROOT, job=job, spec=change, fields=("tasks",)))
    assert [instances(world, job, task) for task in (1, 2)] == [3, 2]
    assert world.cluster.written(world.record(job)).alternatives[0].tasks[1] == TaskAlternative()
    world.check_replay()


def test_a_restart_and_the_archive_remember_which_request_was_given() -> None:
    world = World(4)
    busy(world, 2)
    job = world.submit(ONCE, minimum=4, maximum=4, alternatives=(SMALLER,))
    snapshot = msgspec.msgpack.decode(save(world.cluster), type=Snapshot)
    assert ClusterState(snapshot).request(ClusterState(snapshot).jobs[job]).minimum == 1
    again = world.replayed()
    assert again.request(again.jobs[job]) == world.cluster.request(world.cluster.jobs[job])
    assert again.graph(job).spec == world.cluster.graph(job).spec
    assert decode_record(encode_record(world.record(job))) == world.record(job)
    world.end(job, 1)
    over = world.record(job)
    assert (over.state, option(world, job)) == (JobState.FINISHED, 1)
    assert spec_of(over).run_time == 600


def test_a_job_that_failed_under_an_alternative_asks_for_all_again() -> None:
    world = World(4)
    other = busy(world, 2)
    again = TaskSpec(command="x", rerunnable=True)
    job = world.submit(again, minimum=4, maximum=4, run_time=FOREVER, alternatives=(SMALLER,))
    world.end(job, 1, exit_code=1)
    assert (world.record(job).state, option(world, job)) == (JobState.FAILED, 1)
    world.do(RequeueJob(by=ROOT, job=job, archived=world.archived(job)))
    assert (world.record(job).state, option(world, job)) == (JobState.RUNNING, 1)
    world.end(job, 1, exit_code=1)
    world.end(other, 1)
    world.do(RequeueJob(by=ROOT, job=job, archived=world.archived(job)))
    assert (world.record(job).state, option(world, job)) == (JobState.RUNNING, 0)
    world.check_replay()


def test_a_job_modified_after_its_end_has_the_instances_that_it_says() -> None:
    world = World(2)
    busy(world, 1)
    longer = Alternative(minimum=1, maximum=1, tasks=(TaskAlternative(end=4),))
    job = world.submit(SWEEP, minimum=2, maximum=2, alternatives=(longer,))
    world.do(StopJob(by=ROOT, job=job, outcome="canceled", force=True))
    world.end(job, 1, 1, kind="stopped")
    assert instances(world, job) == 4
    command = ModifyJob(
        by=ROOT, job=job, spec=JobSpec(name="n"), fields=("name",), archived=world.archived(job)
    )
    world.do(command)
    assert (world.record(job).state, instances(world, job), option(world, job)) == (
        JobState.CONFIGURING, 2, 0,
    )  # fmt: skip
    world.check_replay()


# Gangs


def gang(world: World, *tasks: TaskSpec, **more: object) -> JobId:
    return world.submit(*tasks, together=True, **more)


def test_a_gang_is_given_processors_for_each_of_its_parts() -> None:
    world = World(2, 3)
    job = gang(
        world, TaskSpec(command="x", minimum=2, maximum=2), TaskSpec(command="y", minimum=3, maximum=3)
    )
    run = world.record(job).run
    assert run is not None
    assert run.parts == ((("node1", (0, 1)),), (("node2", (0, 1, 2)),))
    world.check_replay()
    world.end(job, 1)
    assert world.cluster.graph(job).run.allocation == {"node1": (0, 1), "node2": (0, 1, 2)}, (
        "it does not shrink"
    )
    with pytest.raises(WrongState, match="does not grow"):
        world.do(GrowJob(job=job, shares=(("node1", 1),)))


def test_parts_that_are_not_in_what_a_gang_is_given_are_a_stale_plan() -> None:
    world = World(2)
    world.do(ChangeNode(by=ROOT, node="node1", action="pause"))
    job = gang(world, TaskSpec(command="x"), TaskSpec(command="y"))
    world.do(ChangeNode(by=ROOT, node="node1", action="resume"))
    assert world.record(job).state is JobState.RUNNING
    other = World(2)
    busy(other, 2)
    waits = gang(other, TaskSpec(command="x"), TaskSpec(command="y"))
    for parts in ((), ((("node1", 2),),)):
        with pytest.raises(WrongState, match="does not match the allocation"):
            other.do(StartJob(job=waits, shares=(("node1", 2),), parts=parts))


def test_a_gang_that_loses_a_node_is_stopped_elsewhere_and_goes_back_to_the_queue() -> None:
    world = World(1, 1)
    tasks = (TaskSpec(command="x", rerunnable=True), TaskSpec(command="y", rerunnable=True))
    job = gang(world, *tasks)
    assert sorted(world.dispatched(job)) == [(1, 1), (2, 1)]
    world.do(NodeVanished(node="node2"))
    world.do(GiveUpNode(node="node2"))
    assert [held.place[0][0] for held in world.nodes.stopping()] == ["node1"]
    world.end(job, 1, kind="stopped")
    record = world.record(job)
    assert record.state is JobState.QUEUED
    assert record.run is not None
    assert (record.run.parts, record.run.allocation, record.run.auto_requeues) == ((), {}, 1)
    world.check_replay()
    world.do(RegisterNode(facts=world.cluster.nodes["node2"].facts))
    assert sorted(world.dispatched(job))[-2:] == [(1, 1), (2, 1)]


def test_a_gang_may_be_an_alternative_of_itself_with_other_sizes() -> None:
    world = World(2, 1)
    tasks = (TaskSpec(command="x", minimum=2, maximum=2), TaskSpec(command="y", minimum=2, maximum=2))
    smaller = Alternative(tasks=(TaskAlternative(), TaskAlternative(minimum=1, maximum=1)))
    job = gang(world, *tasks, alternatives=(smaller,))
    run = world.record(job).run
    assert run is not None
    assert run.alternative == 1
    assert [sum(len(numbers) for _, numbers in part) for part in run.parts] == [2, 1]
    world.check_replay()
