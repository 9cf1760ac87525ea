"""The engine comes to rest after every batch, whatever follows from what, and repetition is harmless."""

import pytest
from worlds import ROOT, World

from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.task import TaskSpec
from headnode.core.state import job_events as e
from headnode.core.state.join import RegisterNode
from headnode.core.state.modify import ModifyJob
from headnode.core.state.nodes import NodeVanished
from headnode.core.state.report import ReportEnded, ReportStarted
from headnode.core.state.start import StartJob
from headnode.core.state.stop import StopJob
from headnode.core.state.transitions import JobState
from headnode.engine import engine as engines

TRUE = TaskSpec(command="/bin/true")


def test_a_job_does_not_grow_and_shrink_for_ever_when_its_task_cannot_be_placed() -> None:
    world = World(2, 2)
    on_first = TaskSpec(command="x", required_nodes=("node1",))
    job = world.submit(on_first, on_first, TRUE, unit=UnitType.NODE, minimum=1, maximum=2)
    world.do(NodeVanished(node="node1"))
    for held in world.nodes.running():
        world.do(world.nodes.ended(held, world.clock.now()))
    assert world.record(job).state is JobState.RUNNING
    assert world.dispatched(job) == []
    world.do(RegisterNode(facts=NodeFacts(name="node1", processors=2, memory=1024)))
    world.end(job, 2)
    assert world.record(job).state is JobState.FINISHED


def test_very_many_jobs_without_tasks_end_without_a_word_of_endlessness(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engines, "MAX_ROUNDS", 5)
    world = World(1)
    running = world.submit(TRUE)
    empty = [world.submit() for _ in range(20)]
    world.end(running, 1)
    for _ in range(20):
        if world.engine.next_wake() is None:
            break
        world.wait(1)
    assert {world.record(job).state for job in empty} == {JobState.FINISHED}
    world.check_replay()


def test_a_task_that_requires_more_nodes_than_it_has_units_gets_something_of_each() -> None:
    world = World(1, 1)
    both = TaskSpec(command="x", required_nodes=("node1", "node2"))
    job = world.submit(both, minimum=2, maximum=2)
    assert [held.place for held in world.nodes.running()] == [(("node1", (0,)), ("node2", (0,)))]
    world.end(job, 1)
    assert world.record(job).state is JobState.FINISHED


def test_a_node_that_says_a_start_twice_in_one_message_is_forgiven() -> None:
    world = World(1)
    job = world.submit(TRUE)
    begun = e.InstanceStart(1, 1, 1, Instant(5.0))
    events = world.do(ReportStarted(node="node1", job=job, starts=(begun, begun)))
    assert events == (e.InstancesStarted(at=world.clock.now(), job=job, started=(begun,)),)


def test_a_node_that_says_an_end_twice_in_one_message_is_forgiven() -> None:
    world = World(1)
    job = world.submit(TRUE)
    report = world.nodes.ended(world.nodes.running()[0], world.clock.now())
    world.do(ReportEnded(node="node1", job=job, reports=report.reports * 2))
    assert world.record(job).state is JobState.FINISHED


@pytest.mark.parametrize(
    "facts",
    [
        NodeFacts(name="n", processors=0),
        NodeFacts(name="n", processors=-1),
        NodeFacts(name="n", processors=1, sockets=0),
        NodeFacts(name="n", processors=1, memory=-1),
        NodeFacts(name="", processors=1),
    ],
)
def test_a_node_that_says_nonsense_of_itself_is_refused(facts: NodeFacts) -> None:
    world = World(1)
    with pytest.raises(BadRequest, match="node-facts"):
        world.do(RegisterNode(facts=facts, approved=True))
    assert set(world.cluster.nodes) == {"node1"}


def test_a_job_keeps_running_where_a_node_came_back_smaller_and_the_node_is_right_afterwards() -> None:
    world = World(4)
    job = world.submit(*[TRUE] * 8)
    world.do(NodeVanished(node="node1"))
    world.do(RegisterNode(facts=NodeFacts(name="node1", processors=2, memory=1024)))
    for task in range(1, 9):
        world.end(job, task)
    assert world.record(job).state is JobState.FINISHED
    assert world.cluster.cores.free["node1"] == [0, 1]


def test_a_node_that_came_back_larger_gives_the_new_processors_to_others() -> None:
    world = World(1)
    world.submit(TRUE)
    other = world.submit(TRUE)
    world.do(RegisterNode(facts=NodeFacts(name="node1", processors=2, memory=1024)))
    assert world.record(other).state is JobState.RUNNING


def test_a_pass_that_rests_is_not_kept_from_working_by_a_clock_that_was_set_back() -> None:
    world = World(1)
    world.engine._rest_after_pass(world.clock.now(), 10.0)
    world.clock.jump(Instant(world.clock.now() - 3600))
    job = world.submit(TRUE)
    assert world.record(job).state is JobState.RUNNING


def test_a_job_is_ended_on_time_though_the_clock_goes_back_between_looks() -> None:
    world = World(1)
    job = world.submit(TRUE, run_time=60.0)
    start = world.clock.now()
    moments = iter([start + 61])
    steady = world.clock.now
    world.engine.clock.now = lambda: Instant(next(moments, start + 59))
    world.engine.tick()
    world.engine.clock.now = steady
    world.clock.jump(Instant(start + 62))
    world.engine.tick()
    assert world.record(job).state is JobState.ENDING


def test_deadlines_of_jobs_that_are_over_are_forgotten_long_before_they_come() -> None:
    world = World(1)
    for _ in range(500):
        job = world.submit(TRUE, run_time=86400.0)
        world.end(job, 1)
    assert len(world.cluster.agenda.deadlines) < 100


def test_holds_cost_nothing_to_look_at_and_each_is_kept_to_its_own_time() -> None:
    world = World(8)
    now = world.clock.now()
    jobs = [world.submit(TRUE, hold_until=Instant(now + 10 * n)) for n in (3, 1, 2)]
    assert world.engine.next_wake() == now + 10
    spec = JobSpec(tasks=(TRUE,), hold_until=Instant(now + 40))
    world.do(ModifyJob(by=ROOT, job=jobs[1], spec=spec, fields=("hold_until",)))
    assert world.engine.next_wake() == now + 20
    world.do(StopJob(by=ROOT, job=jobs[2], outcome="canceled"))
    assert world.engine.next_wake() == now + 30
    world.wait(30)
    assert [job in world.cluster.jobs and world.record(job).state for job in jobs] == [
        JobState.RUNNING, JobState.QUEUED, False
    ]  # fmt: skip
    assert world.engine.next_wake() == now + 40
    world.wait(10)
    assert world.record(jobs[1]).state is JobState.RUNNING
    assert world.engine.next_wake() is None


def test_a_hold_that_was_lifted_lets_the_job_go_at_once() -> None:
    world = World(1)
    job = world.submit(TRUE, hold_until=Instant(world.clock.now() + 50))
    spec = JobSpec(tasks=(TRUE,))
    world.do(ModifyJob(by=ROOT, job=job, spec=spec, fields=("hold_until",)))
    assert world.record(job).state is JobState.RUNNING


def test_a_plan_for_a_job_that_is_held_or_waits_for_its_parent_is_refused_as_stale() -> None:
    world = World(1)
    parent = world.submit(TRUE, hold_until=Instant(world.clock.now() + 50))
    child = world.submit(TRUE, parents=(parent,))
    for job in (parent, child):
        answer = world.engine.handle([StartJob(job=job, shares=(("node1", 1),))])[0]
        assert getattr(answer, "code", None) == "stale-plan"
    assert world.engine.handle([StartJob(job=JobId(99), shares=(("node1", 1),))]) == [()]


def test_sockets_that_do_not_divide_evenly_are_given_taken_and_given_back_whole() -> None:
    world = World()
    world.do(RegisterNode(facts=NodeFacts(name="odd", processors=8, sockets=3), approved=True))
    tasks = (TRUE, TRUE, TRUE)
    job = world.submit(*tasks, unit=UnitType.SOCKET, minimum=2, maximum=3)
    places = [held.place[0][1] for held in world.nodes.running()]
    assert [len(place) for place in places] == [2, 2, 2]
    world.end(job, 1)
    run = world.record(job).run
    assert run is not None
    assert len(run.allocation["odd"]) == 6  # two sockets, its minimum
    assert len(world.cluster.cores.free["odd"]) == 2
    world.end(job, 2)
    world.end(job, 3)
    assert world.record(job).state is JobState.FINISHED
    assert world.cluster.cores.free["odd"] == list(range(8))


def test_a_parallel_task_gets_the_sockets_it_asks_for() -> None:
    world = World()
    world.do(RegisterNode(facts=NodeFacts(name="odd", processors=5, sockets=2), approved=True))
    two = TaskSpec(command="x", minimum=2, maximum=2)
    job = world.submit(two, TRUE, unit=UnitType.SOCKET, minimum=2, maximum=2)
    assert [len(held.place[0][1]) for held in world.nodes.running()] == [5]
    world.end(job, 1)
    assert [len(held.place[0][1]) for held in world.nodes.running()] in ([2], [3])


def test_a_job_of_nodes_gives_back_whole_nodes_and_grows_by_whole_nodes() -> None:
    world = World(2, 2, 2)
    job = world.submit(*[TRUE] * 3, unit=UnitType.NODE, minimum=1, maximum=3)
    other = world.submit(TRUE, unit=UnitType.NODE, minimum=1, maximum=1)
    world.end(job, 1)
    assert [held.place for held in world.nodes.running() if held.job == other] == [(("node1", (0, 1)),)]
    run = world.record(job).run
    assert run is not None
    assert run.allocation == {"node2": (0, 1), "node3": (0, 1)}
