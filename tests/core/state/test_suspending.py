"""Suspending gives back what a job holds; resuming takes it again: the same nodes, the old place in line."""

import pytest
from worlds import ADA, BOB, ROOT, World

from headnode.core.model.errors import NotAllowed, WrongState
from headnode.core.model.job import JobSpec, Licence
from headnode.core.model.quantities import JobId, Priority, Seconds
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state import suspension_events as sj
from headnode.core.state.command import Command
from headnode.core.state.hold import HoldJob, ReleaseJob
from headnode.core.state.join import RegisterNode
from headnode.core.state.modify import ModifyJob, RequeueJob
from headnode.core.state.node_loss import GiveUpNode
from headnode.core.state.nodes import ChangeNode, NodeVanished, SetParameter
from headnode.core.state.start import StartJob
from headnode.core.state.stop import StopJob, StopTask
from headnode.core.state.submit import CreateJob
from headnode.core.state.suspend import ResumeJob, SuspendJob
from headnode.core.state.transitions import JobState

TASK = TaskSpec(command="x")
TWO = TaskSpec(command="x", minimum=2, maximum=2)


def suspend(world: World, job: JobId) -> None:
    """Suspend a job, and let its nodes say that all stands still."""
    world.do(SuspendJob(by=ROOT, job=job))
    for report in world.nodes.stopped(job):
        world.do(report)


def resume(world: World, job: JobId) -> None:
    world.do(ResumeJob(by=ROOT, job=job))


def state(world: World, job: JobId) -> JobState:
    return world.record(job).state


def held(world: World, job: JobId) -> dict[str, tuple[int, ...]]:
    run = world.record(job).run
    return run.allocation if run is not None else {}


def test_processors_are_free_for_others_only_when_every_node_has_stopped_everything() -> None:
    world = World(2, 2)
    job = world.submit(TaskSpec(command="x", minimum=4, maximum=4), suspendable=True)
    other = world.submit(TWO)
    world.do(SuspendJob(by=ROOT, job=job))
    first, second = world.nodes.stopped(job)
    world.do(first)
    assert (state(world, job), state(world, other)) == (JobState.SUSPENDING, JobState.QUEUED)
    world.do(second)
    assert (state(world, job), state(world, other)) == (JobState.SUSPENDED, JobState.RUNNING)
    assert held(world, job) == {}
    world.check_replay()


def test_it_goes_on_with_as_many_processors_of_the_same_nodes_and_not_before_they_are_free() -> None:
    world = World(2, 2, 4)
    job = world.submit(
        TaskSpec(command="x", required_nodes=("node1", "node2"), minimum=3, maximum=3), suspendable=True
    )
    before = held(world, job)
    assert sum(map(len, before.values())) == 3
    suspend(world, job)
    other = world.submit(TWO, requested_nodes=("node1",))
    resume(world, job)
    assert state(world, job) is JobState.RESUMING  # though node3 is idle
    world.end(other, 1)
    assert state(world, job) is JobState.RUNNING
    assert held(world, job) == before
    world.check_replay()
    world.end(job, 1)
    assert state(world, job) is JobState.FINISHED


def test_it_has_its_old_place_in_the_queue() -> None:
    world = World(1)
    first = world.submit(TASK, suspendable=True)
    suspend(world, first)
    running = world.submit(TASK)
    later = world.submit(TASK)
    resume(world, first)
    world.end(running, 1)
    assert (state(world, first), state(world, later)) == (JobState.RUNNING, JobState.QUEUED)


def test_other_processors_of_the_node_do_when_the_old_ones_are_taken() -> None:
    world = World(4)
    job = world.submit(TWO, suspendable=True)
    assert held(world, job) == {"node1": (0, 1)}
    suspend(world, job)
    other = world.submit(TASK)
    resume(world, job)
    assert held(world, other) == {"node1": (0,)}
    assert held(world, job) == {"node1": (1, 2)}
    world.check_replay()
    world.end(job, 1)
    assert state(world, job) is JobState.FINISHED


def test_the_old_processors_are_taken_again_where_they_are_free() -> None:
    world = World(4)
    first = world.submit(TASK)
    job = world.submit(TWO, suspendable=True)
    assert held(world, job) == {"node1": (1, 2)}
    suspend(world, job)
    world.end(first, 1)  # now 0 is the lowest that is free
    resume(world, job)
    assert held(world, job) == {"node1": (1, 2)}


def test_a_plan_that_is_stale_is_refused() -> None:
    world = World(2)
    job = world.submit(TASK, suspendable=True)
    suspend(world, job)
    world.do(HoldJob(by=ROOT, job=job, name="night"))
    resume(world, job)
    for shares in ((("node1", 1),), (("node1", 2),), ()):
        with pytest.raises(WrongState, match="stale-plan"):
            world.do(StartJob(job=job, shares=shares))


def test_nothing_is_handed_over_behind_what_runs_with_other_processors_now() -> None:
    world = World(2)
    sweep = TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=400)
    job = world.submit(sweep, maximum=1, suspendable=True)
    for instance in range(1, 4):  # known to be short: several are handed over at a time from now on
        one = next(h for h in world.nodes.running() if h.job == job and h.instance == instance)
        now = world.clock.now()
        world.do(world.nodes.ended(one, now, started=now))
    assert len(world.dispatched(job)) > 1
    suspend(world, job)
    taker = world.submit(TASK)
    assert held(world, taker) == {"node1": (0,)}
    resume(world, job)
    assert held(world, job) == {"node1": (1,)}
    before = set(world.dispatched(job))
    for instance in sorted(number for _, number in before)[:-1]:
        world.end(job, 1, instance)
        assert set(world.dispatched(job)) <= before
    world.end(job, 1, max(number for _, number in before))
    assert set(world.dispatched(job)) - before


def test_its_run_time_limit_stands_still() -> None:
    world = World(1)
    job = world.submit(TASK, suspendable=True, run_time=Seconds(100.0))
    world.wait(40)
    suspend(world, job)
    world.wait(1000)
    assert state(world, job) is JobState.SUSPENDED
    resume(world, job)
    world.wait(59)
    assert state(world, job) is JobState.RUNNING
    world.wait(2)
    assert state(world, job) is JobState.ENDING
    assert world.record(job).message == "run time expired"


def test_how_long_it_was_suspended_is_kept_when_it_is_over() -> None:
    world = World(1)
    job = world.submit(TASK, suspendable=True)
    for seconds in (30, 12):
        suspend(world, job)
        world.wait(seconds)
        resume(world, job)
        world.wait(5)
    world.end(job, 1)
    record = world.record(job)
    assert record.run is not None
    assert (record.run.suspended_time, record.run.suspensions, record.run.starts) == (42.0, 2, 1)


def test_its_licences_are_free_for_others_and_taken_again() -> None:
    world = World(2)
    world.do(SetParameter(by=ROOT, name="Licences", value="matlab:1"))
    wish = (Licence("matlab", 1),)
    job = world.submit(TASK, suspendable=True, licences=wish)
    other = world.submit(TASK, licences=wish)
    suspend(world, job)
    assert state(world, other) is JobState.RUNNING
    resume(world, job)
    assert state(world, job) is JobState.RESUMING
    world.end(other, 1)
    assert state(world, job) is JobState.RUNNING


def test_its_memory_stays_held_where_memory_is_counted() -> None:
    world = World(4)  # with 1024 MB
    job = world.submit(TASK, suspendable=True, process_memory=800)
    suspend(world, job)
    other = world.submit(TASK, process_memory=800)
    small = world.submit(TASK, process_memory=200)
    assert state(world, other) is JobState.QUEUED
    assert state(world, small) is JobState.RUNNING
    resume(world, job)
    assert state(world, job) is JobState.RUNNING
    world.end(job, 1)
    assert state(world, other) is JobState.RUNNING


def test_an_exclusive_job_goes_on_when_nobody_else_is_on_its_node() -> None:
    world = World(2)
    job = world.submit(TASK, suspendable=True, exclusive=True)
    suspend(world, job)
    other = world.submit(TASK)
    resume(world, job)
    assert state(world, job) is JobState.RESUMING
    world.end(other, 1)
    assert state(world, job) is JobState.RUNNING
    world.submit(TASK)
    world.check_replay()


def test_nothing_starts_while_it_stands_still_and_the_rest_starts_afterwards() -> None:
    world = World(1)
    job = world.submit(TASK, TASK, maximum=1, suspendable=True)
    suspend(world, job)
    world.end(job, 1)
    assert world.dispatched(job) == []
    resume(world, job)
    assert world.dispatched(job) == [(2, 1)]


def test_a_task_that_dies_while_it_stands_still_may_end_the_job() -> None:
    world = World(1)
    job = world.submit(TASK, suspendable=True)
    suspend(world, job)
    world.end(job, 1, exit_code=1)
    assert state(world, job) is JobState.FAILED


@pytest.mark.parametrize("resumed", [False, True])
def test_it_can_be_canceled_and_finished(resumed: bool) -> None:
    for outcome, final in (("canceled", JobState.CANCELED), ("finished", JobState.FINISHED)):
        world = World(1)
        job = world.submit(TASK, suspendable=True)
        suspend(world, job)
        world.submit(TASK)
        if resumed:
            resume(world, job)
        world.do(StopJob(by=ROOT, job=job, outcome=outcome))
        assert state(world, job) is JobState.ENDING
        world.check_replay()
        world.end(job, 1, kind="stopped")
        assert state(world, job) is final


@pytest.mark.parametrize("resumed", [False, True])
def test_it_can_be_requeued_and_starts_from_the_beginning(resumed: bool) -> None:
    world = World(1)
    job = world.submit(TaskSpec(command="x", rerunnable=True), suspendable=True)
    suspend(world, job)
    other = world.submit(TASK)
    if resumed:
        resume(world, job)
    world.do(RequeueJob(by=ROOT, job=job))
    world.end(job, 1, kind="stopped")
    assert state(world, job) is JobState.QUEUED
    world.end(other, 1)
    assert world.dispatched(job) == [(1, 1)]
    run = world.record(job).run
    assert run is not None
    assert run.starts == 2


def test_one_that_waits_to_go_on_can_be_suspended_again() -> None:
    world = World(1)
    job = world.submit(TASK, suspendable=True)
    suspend(world, job)
    other = world.submit(TASK)
    resume(world, job)
    assert [type(event) for event in world.do(SuspendJob(by=ROOT, job=job))] == [sj.JobSuspended]
    world.end(other, 1)
    assert state(world, job) is JobState.SUSPENDED
    world.check_replay()


@pytest.mark.parametrize("last", ["suspending", "suspended", "held", "resuming", "ending"])
def test_a_restart_from_a_snapshot_goes_on_from_there(last: str) -> None:
    world = World(2)
    job = world.submit(TWO, suspendable=True, run_time=Seconds(100.0))
    world.wait(10)
    world.do(SuspendJob(by=ROOT, job=job))
    if last != "suspending":
        world.do(*world.nodes.stopped(job))
    world.submit(TASK)
    if last == "held":
        world.do(HoldJob(by=ROOT, job=job, name="night"))
    if last in ("held", "resuming"):
        resume(world, job)
    if last == "ending":
        world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    world.engine.snapshot_if_due(1)
    again = world.replayed()  # which checks every invariant
    for name in ("detached", "running"):
        assert getattr(again, name) == getattr(world.cluster, name)
    assert again.queue.by_request == world.cluster.queue.by_request
    assert again.cores.free == world.cluster.cores.free
    assert again.jobs[job] == world.cluster.jobs[job]
    assert again.agenda.deadlines.next() == world.cluster.agenda.deadlines.next()


def test_one_that_is_held_goes_on_when_it_is_released() -> None:
    world = World(1)
    job = world.submit(TASK, suspendable=True)
    suspend(world, job)
    world.do(HoldJob(by=ROOT, job=job, name="night"))
    resume(world, job)
    assert state(world, job) is JobState.RESUMING
    world.check_replay()
    world.do(ReleaseJob(by=ROOT, job=job, name="night"))
    assert state(world, job) is JobState.RUNNING


def test_resumed_before_all_stood_still_it_never_lost_what_it_holds() -> None:
    world = World(2)
    job = world.submit(TWO, suspendable=True)
    before = held(world, job)
    world.do(SuspendJob(by=ROOT, job=job))
    reports = world.nodes.stopped(job)
    resume(world, job)
    assert (state(world, job), held(world, job)) == (JobState.RUNNING, before)
    world.do(*reports)  # too late
    assert state(world, job) is JobState.RUNNING
    world.do(SuspendJob(by=ROOT, job=job))
    world.do(*reports)  # of the suspension before
    assert state(world, job) is JobState.SUSPENDING


def test_asked_twice_nothing_happens() -> None:
    world = World(1)
    job = world.submit(TASK, suspendable=True)
    resume(world, job)
    world.do(SuspendJob(by=ROOT, job=job))
    assert world.do(SuspendJob(by=ROOT, job=job)) == ()
    suspend(world, job)
    assert world.do(SuspendJob(by=ROOT, job=job)) == ()


@pytest.mark.parametrize("resumed", [False, True])
def test_a_node_that_is_lost_takes_its_tasks_with_it_and_the_job_returns_to_the_queue(resumed: bool) -> None:
    world = World(1, 1)
    job = world.submit(TaskSpec(command="x", rerunnable=True), suspendable=True, requested_nodes=("node1",))
    suspend(world, job)
    world.submit(TASK, requested_nodes=("node1",))
    if resumed:
        resume(world, job)
    world.do(NodeVanished(node="node1"), GiveUpNode(node="node1"))
    assert state(world, job) is JobState.QUEUED
    world.check_replay()


def test_a_job_that_keeps_enough_of_its_nodes_waits_for_those() -> None:
    world = World(1, 1)
    task = TaskSpec(command="x", rerunnable=True)
    job = world.submit(task, task, minimum=1, suspendable=True)
    assert len(held(world, job)) == 2
    suspend(world, job)
    resume_blocker = world.submit(TASK, requested_nodes=("node2",))
    resume(world, job)
    world.do(NodeVanished(node="node1"), GiveUpNode(node="node1"))
    assert state(world, job) is JobState.RESUMING
    world.end(resume_blocker, 1)
    assert (state(world, job), held(world, job)) == (JobState.RUNNING, {"node2": (0,)})


def test_a_node_that_is_lost_while_it_is_stopped_is_not_waited_for() -> None:
    world = World(1, 1)
    task = TaskSpec(command="x", rerunnable=True)
    job = world.submit(task, task, minimum=1, suspendable=True)
    world.do(SuspendJob(by=ROOT, job=job))
    world.do(world.nodes.stopped(job)[0])
    lost = world.nodes.stopped(job)[1].node
    world.do(NodeVanished(node=lost), GiveUpNode(node=lost))
    assert state(world, job) is JobState.SUSPENDED
    assert world.cluster.on_node(lost) == set()


def test_a_node_with_a_suspended_job_is_not_removed() -> None:
    world = World(1)
    job = world.submit(TASK, suspendable=True)
    suspend(world, job)
    with pytest.raises(WrongState, match="node-busy"):
        world.do(ChangeNode(by=ROOT, node="node1", action="remove"))


def test_its_limit_and_its_priority_can_be_changed() -> None:
    world = World(1)
    job = world.submit(TASK, suspendable=True, run_time=Seconds(100.0))
    world.wait(40)
    suspend(world, job)
    world.submit(TASK)
    rival = world.submit(TASK, priority=Priority(2500))
    resume(world, job)
    changed = JobSpec(tasks=(TASK,), suspendable=True, run_time=Seconds(300.0), priority=Priority(3000))
    world.do(ModifyJob(by=ROOT, job=job, spec=changed, fields=("run_time", "priority")))
    world.check_replay()
    running = next(h.job for h in world.nodes.running() if h.job not in (job, rival))
    world.end(running, 1)
    record = world.record(job)
    assert (record.state, state(world, rival)) == (JobState.RUNNING, JobState.QUEUED)
    assert record.run is not None
    assert record.run.deadline == world.clock.now() + 260


@pytest.mark.parametrize("submitted", [False, True])
def test_only_running_jobs_that_say_so_can_be_suspended(submitted: bool) -> None:
    world = World(1)
    job = world.submit(TASK)
    with pytest.raises(WrongState, match="suspendable:true"):
        world.do(SuspendJob(by=ROOT, job=job))
    changed = JobSpec(tasks=(TASK,), suspendable=True)
    world.do(ModifyJob(by=ROOT, job=job, spec=changed, fields=("suspendable",)))
    spec = JobSpec(tasks=(TASK,), suspendable=True)
    waiting = world.do(CreateJob(by=ROOT, spec=spec, submit=submitted))[0].job  # type: ignore[attr-defined]
    with pytest.raises(WrongState, match=f"hn job hold {waiting}"):
        world.do(SuspendJob(by=ROOT, job=waiting))
    with pytest.raises(WrongState, match="not-suspended"):
        world.do(ResumeJob(by=ROOT, job=waiting))
    suspend(world, job)
    assert state(world, job) is JobState.SUSPENDED


def test_its_owner_and_administrators_may_and_nobody_else() -> None:
    world = World(1)
    job = world.submit(TASK, by=ADA, suspendable=True)
    for wish in (SuspendJob, ResumeJob):
        with pytest.raises(NotAllowed):
            world.do(wish(by=BOB, job=job))
        world.do(wish(by=ADA, job=job))
        world.do(wish(by=ROOT, job=job))


def gang(world: World, **options: object) -> JobId:
    """Submit a master on one node and two workers, each of one processor, that start together."""
    workers = TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=2, rerunnable=True)
    master = TaskSpec(command="x", required_nodes=("node1",), rerunnable=True)
    return world.submit(master, workers, together=True, suspendable=True, **options)


def test_a_gang_goes_on_as_a_whole_each_task_on_its_own_part() -> None:
    world = World(4, 1)
    job = gang(world)
    run = world.record(job).run
    assert run is not None
    before, parts = dict(run.allocation), run.parts
    suspend(world, job)
    other = world.submit(TASK, requested_nodes=("node1",))
    resume(world, job)
    assert {node: len(numbers) for node, numbers in held(world, job).items()} == {
        node: len(numbers) for node, numbers in before.items()
    }
    assert held(world, other)["node1"][0] in before["node1"]  # so other processors take their place
    assert [[(node, len(numbers)) for node, numbers in part] for part in run.parts] == [
        [(node, len(numbers)) for node, numbers in part] for part in parts
    ]
    used = [(node, n) for part in run.parts for node, numbers in part for n in numbers]
    assert sorted(used) == sorted((node, n) for node, ns in held(world, job).items() for n in ns)
    world.check_replay()
    world.end(job, 1)
    for instance in (1, 2):
        world.end(job, 2, instance)
    assert state(world, job) is JobState.FINISHED


def test_a_gang_that_loses_a_node_while_it_stands_still_returns_to_the_queue() -> None:
    world = World(1, 2)
    job = gang(world)
    suspend(world, job)
    world.submit(TASK, TASK, minimum=2)  # takes what the gang would need
    world.do(NodeVanished(node="node1"), GiveUpNode(node="node1"))
    for instance in (1, 2):  # the workers are nothing without their master, and are stopped
        world.end(job, 2, instance, kind="stopped")
    assert state(world, job) is JobState.QUEUED
    world.check_replay()


def test_a_job_is_suspended_when_what_was_being_ended_is_over() -> None:
    world = World(2)
    task = TaskSpec(command="x", rerunnable=True)
    job = world.submit(task, task, minimum=2, maximum=2, suspendable=True)
    world.do(StopTask(by=ROOT, job=job, task=1))
    world.do(SuspendJob(by=ROOT, job=job))
    world.do(*world.nodes.stopped(job))
    assert state(world, job) is JobState.SUSPENDING  # the first task has its grace, on its own processor
    assert world.cluster.cores.free["node1"] == []
    world.end(job, 1, kind="stopped")
    assert state(world, job) is JobState.SUSPENDED
    assert world.cluster.cores.free["node1"] == [0, 1]
    world.check_replay()


@pytest.mark.parametrize("resuming", [False, True])
@pytest.mark.parametrize("first", ["cancel", "force", "vanish node1", "vanish node2"])
@pytest.mark.parametrize("second", ["cancel", "force", "graceful", "give up node1", "give up node2"])
@pytest.mark.parametrize("third", ["cancel", "register node1", "vanish node1", "give up node1"])
def test_a_suspended_job_can_be_ended_whatever_becomes_of_its_nodes(
    first: str, second: str, third: str, resuming: bool
) -> None:
    world = World(1, 1)
    task = TaskSpec(command="x", rerunnable=True)
    job = world.submit(task, task, minimum=2, maximum=2, suspendable=True)
    world.do(SuspendJob(by=ROOT, job=job))
    world.do(*world.nodes.stopped(job))
    if resuming:
        world.submit(TaskSpec(command="x"))
        world.do(ResumeJob(by=ROOT, job=job))
    facts = {name: node.facts for name, node in world.cluster.nodes.items()}
    rest = ("vanish node1", "vanish node2", "cancel", "give up node1", "give up node2")
    for wish in (first, second, third, *rest):
        word, _, node = wish.rpartition(" ")
        command: Command = {
            "vanish": lambda node=node: NodeVanished(node=node),
            "give up": lambda node=node: GiveUpNode(node=node),
            "register": lambda node=node: RegisterNode(facts=facts[node]),
            "": lambda wish=wish: StopJob(
                by=ROOT, job=job, outcome="canceled", force=wish == "force", graceful=wish == "graceful"
            ),
        }[word]()
        if not isinstance(command, StopJob) or job in world.cluster.jobs:
            world.do(command)
    assert state(world, job).is_final
    world.check_replay()
