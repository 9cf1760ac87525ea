"""Nodes that are taken offline by force, or come back smaller: what still runs there, and what does not."""

from itertools import product

import msgspec
import pytest
from worlds import ADA, ROOT, World

from headnode.apps.server.api.nodes import core_uses, node_object
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state import job_events as e
from headnode.core.state.drain import DrainNode
from headnode.core.state.join import RegisterNode
from headnode.core.state.node_loss import GiveUpNode
from headnode.core.state.nodes import ChangeNode, NodeVanished, SetParameter
from headnode.core.state.stop import StopJob
from headnode.core.state.suspend import SuspendJob
from headnode.core.state.transitions import JobState
from headnode.protocol.node_answers import DetailedNode

AGAIN = TaskSpec(command="x", rerunnable=True)
ONCE = TaskSpec(command="x", rerunnable=False)


def sweep(instances: int) -> TaskSpec:
    return TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=instances, rerunnable=True)


def offline(world: World, node: str = "node1", reason: str = "") -> None:
    world.do(DrainNode(by=ROOT, node=node, reason=reason, force=True))


def come_back(world: World, processors: int, node: str = "node1") -> None:
    world.do(RegisterNode(facts=NodeFacts(name=node, processors=processors, memory=1024)))


def report_stopped(world: World) -> int:
    """Let the nodes end what they were told to stop; return how much that was."""
    stopping = list(world.nodes.stopping())
    for held in stopping:
        world.do(world.nodes.ended(held, world.clock.now(), kind="stopped", exit_code=None))
    return len(stopping)


def held(world: World, job: JobId) -> dict[str, tuple[int, ...]]:
    run = world.record(job).run
    return {} if run is None else run.allocation


def shown(world: World, node: str = "node1") -> dict[str, object]:
    cluster, now = world.cluster, world.clock.now()
    known = cluster.nodes[node]
    cores = core_uses(cluster, node, known.facts.processors)
    seen = node_object(
        DetailedNode, cluster, known, now, cores=cores, last_heartbeat=None, load=None, tasks_lost_at=None
    )
    return dict(msgspec.to_builtins(seen))


def where(world: World, job: JobId) -> list[str]:
    return sorted(each.place[0][0] for each in world.nodes.running() if each.job == job)


def test_a_job_of_several_nodes_goes_on_without_the_one_that_is_taken_offline() -> None:
    world = World(2, 2)
    job = world.submit(*[AGAIN] * 4, minimum=2, maximum=4)
    assert where(world, job) == ["node1", "node1", "node2", "node2"]
    offline(world, reason="it burns")
    assert report_stopped(world) == 2
    assert held(world, job) == {"node2": (0, 1)}
    assert shown(world)["state"] == "Drained"
    for task in (3, 4, 1, 2):
        world.end(job, task)
    assert world.record(job).state is JobState.FINISHED
    world.check_replay()


def test_a_job_that_has_too_little_left_runs_again_elsewhere_and_no_retry_is_counted() -> None:
    world = World(2)
    world.do(SetParameter(by=ROOT, name="JobRetryCount", value="0"))
    job = world.submit(AGAIN, AGAIN, minimum=2, maximum=2)
    offline(world)
    assert report_stopped(world) == 2
    assert world.record(job).state is JobState.QUEUED
    world.do(RegisterNode(facts=NodeFacts(name="node9", processors=2, memory=1024), approved=True))
    assert where(world, job) == ["node9", "node9"]
    world.check_replay()


def test_what_may_not_run_twice_fails_and_says_who_took_the_node_away_and_why() -> None:
    world = World(1)
    job = world.submit(ONCE, AGAIN)
    offline(world, reason="it burns")
    report_stopped(world)
    row = world.journal.instance(job, 1, 1)
    assert row is not None
    assert row.outcome.message == "node node1 was taken offline by root: it burns, and it is not rerunnable"


def test_nothing_new_of_a_running_job_goes_to_a_node_that_is_taken_offline() -> None:
    world = World(1, 1)
    job = world.submit(sweep(50), minimum=1, maximum=2)
    offline(world)
    while report_stopped(world):
        pass
    assert set(where(world, job)) == {"node2"}
    assert held(world, job) == {"node2": (0,)}


def test_a_job_gives_a_node_back_at_once_that_is_taken_away_whatever_it_runs_elsewhere() -> None:
    world = World(2, 2)
    job = world.submit(*[AGAIN] * 4, minimum=4, maximum=4)
    offline(world)
    assert report_stopped(world) == 2
    assert held(world, job) == {"node2": (0, 1)}
    assert shown(world)["state"] == "Drained"
    world.end(job, 3)  # what was stopped waits for room, and for nothing else that runs
    assert (1, 1) in world.dispatched(job)
    for task in (1, 2, 4):
        world.end(job, task)
    assert world.record(job).state is JobState.FINISHED
    world.check_replay()


def test_a_job_that_is_left_with_less_than_its_minimum_grows_where_there_is_room() -> None:
    world = World(2, 2, 2)
    other = world.submit(AGAIN, AGAIN, minimum=2, maximum=2)
    job = world.submit(*[AGAIN] * 4, minimum=4, maximum=4)
    (away,) = held(world, other)
    world.end(other, 1)
    world.end(other, 2)
    gone = min(held(world, job))
    offline(world, gone)
    report_stopped(world)
    assert set(held(world, job)) == {"node1", "node2", "node3"} - {gone}
    assert away in held(world, job)
    assert len(world.dispatched(job)) == 4
    world.check_replay()


def test_a_job_of_which_a_task_has_no_room_left_gives_the_node_back_and_returns_when_the_rest_is_over() -> (
    None
):
    world = World(2, 1)
    wide = TaskSpec(command="x", rerunnable=True, minimum=2, maximum=2)
    job = world.submit(wide, AGAIN, minimum=3, maximum=3)
    offline(world)
    assert report_stopped(world) == 1
    assert held(world, job) == {"node2": (0,)}
    assert shown(world)["state"] == "Drained"
    world.end(job, 2)
    assert world.record(job).state is JobState.QUEUED
    world.check_replay()


def test_a_gang_that_is_taken_a_node_stops_as_a_whole_and_runs_again_as_a_whole() -> None:
    world = World(1, 1)
    job = world.submit(AGAIN, AGAIN, minimum=2, maximum=2, together=True)
    offline(world)
    assert report_stopped(world) == 2
    assert world.record(job).state is JobState.QUEUED
    world.do(ChangeNode(by=ROOT, node="node1", action="resume"))
    assert len(world.dispatched(job)) == 2
    world.check_replay()


def test_what_is_taken_by_force_gets_no_grace() -> None:
    world = World(1)
    world.submit(AGAIN)
    events = world.do(DrainNode(by=ROOT, node="node1", force=True))
    assert [event.force for event in events if isinstance(event, e.InstancesStopping)] == [True]


def test_what_was_to_end_with_grace_ends_at_once_and_as_it_was_to() -> None:
    world = World(1)
    job = world.submit(AGAIN)
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    events = world.do(DrainNode(by=ROOT, node="node1", force=True))
    (hurried,) = [event for event in events if isinstance(event, e.InstancesStopping)]
    assert hurried.force
    report_stopped(world)
    assert world.record(job).state is JobState.CANCELED
    assert shown(world)["state"] == "Drained"
    world.check_replay()


def test_a_node_that_is_away_loses_at_once_what_may_not_run_twice_and_the_rest_when_it_is_given_up() -> None:
    world = World(2, 1)
    job = world.submit(ONCE, AGAIN, AGAIN, minimum=3, maximum=3, fail_on_task_failure=False)
    world.do(NodeVanished(node="node1"))
    offline(world, reason="it burns")
    record = world.record(job)
    assert record.run is not None
    assert list(record.run.tasks[0].failed) == [1]
    row = world.journal.instance(job, 1, 1)
    assert row is not None
    assert row.outcome.message == "node node1 was taken offline by root: it burns, and it is not rerunnable"
    assert held(world, job) == {"node1": (1,), "node2": (0,)}  # a task that may run twice may still run there
    world.do(GiveUpNode(node="node1"))
    assert held(world, job) == {"node2": (0,)}
    world.end(job, 3)
    assert world.dispatched(job)[-1] == (2, 1)  # not counted as a loss
    assert world.record(job).run.tasks[1].system_retries == {}
    world.end(job, 2)
    assert world.record(job).state is JobState.FAILED
    world.check_replay()


def test_a_suspended_job_goes_back_to_the_queue_and_lets_go_of_all_its_nodes() -> None:
    world = World(1, 1)
    job = world.submit(AGAIN, AGAIN, minimum=2, maximum=2, suspendable=True)
    world.do(SuspendJob(by=ROOT, job=job))
    world.do(*world.nodes.stopped(job))
    assert world.record(job).state is JobState.SUSPENDED
    offline(world)
    assert report_stopped(world) == 2
    assert world.record(job).state is JobState.QUEUED
    assert not world.cluster.on_node("node1") | world.cluster.on_node("node2")
    world.check_replay()


def test_a_suspended_job_that_loses_a_node_it_cannot_do_without_lets_go_of_the_others() -> None:
    world = World(1, 1)
    job = world.submit(AGAIN, ONCE, minimum=2, maximum=2, suspendable=True, fail_on_task_failure=False)
    world.do(SuspendJob(by=ROOT, job=job))
    world.do(*world.nodes.stopped(job))
    world.do(NodeVanished(node="node1"))
    world.do(GiveUpNode(node="node1"))
    report_stopped(world)
    assert world.record(job).state is not JobState.SUSPENDED
    assert not world.cluster.on_node("node2")
    world.check_replay()


def test_force_is_for_now_and_for_administrators_and_lasts_until_the_node_is_resumed() -> None:
    world = World(1)
    later = Instant(world.clock.now() + 60)
    with pytest.raises(BadRequest, match="cannot be used together"):
        world.do(DrainNode(by=ROOT, node="node1", force=True, closes=later))
    offline(world)
    job = world.submit(AGAIN, by=ADA)
    world.do(DrainNode(by=ROOT, node="node1", reason="another word"))
    assert world.cluster.cores.usable("node1") == 0
    world.do(ChangeNode(by=ROOT, node="node1", action="resume"))
    assert world.record(job).state is JobState.RUNNING
    assert world.cluster.cores.usable("node1") == 1


def test_a_node_that_comes_back_smaller_gives_nobody_more_than_it_has() -> None:
    world = World(4)
    job = world.submit(ONCE, ONCE, minimum=2, maximum=2)
    other = world.submit(AGAIN, AGAIN, minimum=2, maximum=2)
    assert (held(world, job), held(world, other)) == ({"node1": (0, 1)}, {"node1": (2, 3)})
    come_back(world, 2)
    assert report_stopped(world) == 2  # they may run twice, and their processors are gone
    assert world.record(other).state is JobState.QUEUED
    world.end(job, 1)
    world.end(job, 2)
    assert held(world, other) == {"node1": (0, 1)}
    world.check_replay()


def test_what_may_not_run_twice_goes_on_oversubscribed_which_is_said_and_nothing_new_comes() -> None:
    world = World(4)
    low = world.submit(AGAIN, AGAIN, minimum=2, maximum=2)
    high = world.submit(ONCE, ONCE, minimum=2, maximum=2)
    waits = world.submit(AGAIN)
    world.end(low, 1)
    world.end(low, 2)
    assert where(world, waits) == ["node1"]
    world.end(waits, 1)
    come_back(world, 2)
    assert report_stopped(world) == 0
    late = world.submit(AGAIN)
    assert world.record(late).state is JobState.QUEUED
    node = shown(world)
    assert node["oversubscribed"] == [{"job": high, "processors": 2}]
    assert (node["free"], node["used"]) == (0, 2)
    assert [core["processor"] for core in node["cores"]] == [0, 1, 2, 3]  # type: ignore[attr-defined]
    world.end(high, 1)
    assert where(world, late) == ["node1"]
    world.end(high, 2)
    assert shown(world)["oversubscribed"] == []
    world.check_replay()


def test_jobs_of_whole_nodes_keep_what_is_left_of_them() -> None:
    world = World(4)
    job = world.submit(*[AGAIN] * 4, unit=UnitType.NODE, minimum=1, maximum=1)
    come_back(world, 3)
    report_stopped(world)
    assert held(world, job) == {"node1": (0, 1, 2)}
    world.check_replay()


def test_all_is_right_in_the_end_in_every_small_world() -> None:
    kinds = (AGAIN, ONCE)
    for first, second, third, size in product(kinds, kinds, kinds, (0, 1, 2)):
        force = not size
        world = World(3, 1)
        one = world.submit(first, second, minimum=1, maximum=2)
        two = world.submit(third, sweep(3), minimum=1, maximum=2)
        if force:
            offline(world)
        else:
            come_back(world, size)
        report_stopped(world)
        again = {j for j in (one, two) if not any(t is ONCE for t in (first, second, third))}
        if again or force:  # nothing goes on where it may not
            assert all(max(n) < world.cluster.cores.usable("node1") for n in numbers_on(world, "node1"))
        world.check_replay()
        world.do(ChangeNode(by=ROOT, node="node1", action="resume"))
        for _ in range(20):
            for each in list(world.nodes.running()):
                world.do(world.nodes.ended(each, world.clock.now(), exit_code=0))
        assert all(world.record(job).state.is_final for job in (one, two))
        assert world.cluster.cores.free["node1"] == list(range(3 if force else size))
        assert not world.cluster.cores.overdrawn("node1")
        world.check_replay()


def numbers_on(world: World, node: str) -> list[tuple[int, ...]]:
    return [
        numbers for each in world.nodes.running() for name, numbers in each.place if name == node and numbers
    ]
