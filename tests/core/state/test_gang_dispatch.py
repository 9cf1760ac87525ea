"""A gang is handed over as a whole, each instance on its seat; other tasks to nodes that they ask for."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from worlds import ROOT, World

from headnode.core.model.errors import WrongState
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.task import Distribution, TaskSpec, TaskType
from headnode.core.state.apply_events import apply_event
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.dispatch import dispatches
from headnode.core.state.events import NodeReachable, NodeRegistered, NodeUnreachable
from headnode.core.state.invariants import check_cluster
from headnode.core.state.job_events import (
    EndState,
    InstanceEnd,
    InstancesEnded,
    InstancesRequeued,
    JobCreated,
    JobStarted,
    JobSubmitted,
    NodeCores,
)
from headnode.core.state.job_record import JobRecord, encode_spec
from headnode.core.state.join import RegisterNode
from headnode.core.state.modify import ModifyJob
from headnode.core.state.node_loss import GiveUpNode
from headnode.core.state.nodes import NodeVanished
from headnode.core.state.task_layout import rank_nodes
from headnode.core.state.task_placement import task_reasons
from headnode.core.state.transitions import JobState

NOW = Instant(5.0)
JOB = JobId(1)
MASTER = TaskSpec(name="master", command="x", minimum=2, maximum=2)

MASTER_OF_ONE = TaskSpec(name="master", command="x")


def sweep(instances: int, size: int = 1, **more: object) -> TaskSpec:
    return TaskSpec(
        command="x", kind=TaskType.SWEEP, start=1, end=instances, minimum=size, maximum=size, **more
    )


def node(name: str, processors: int, **more: object) -> NodeFacts:
    return NodeFacts(name=name, processors=processors, **more)


def started(spec: JobSpec, nodes: tuple[NodeFacts, ...], parts: tuple[NodeCores, ...] = ()) -> ClusterState:
    """Return a cluster whose one job has just been given all processors."""
    cluster = ClusterState()
    held = tuple((facts.name, tuple(range(facts.processors))) for facts in nodes)
    for facts in nodes:
        apply_event(cluster, NodeRegistered(at=NOW, facts=facts, approved=True))
    apply_event(cluster, JobCreated(at=NOW, job=JOB, owner="ada", uid=1, gid=1, spec=encode_spec(spec)))
    apply_event(cluster, JobSubmitted(at=NOW, job=JOB, order=1))
    apply_event(cluster, JobStarted(at=NOW, job=JOB, allocation=held, parts=parts))
    return cluster


def record_of(cluster: ClusterState) -> JobRecord:
    return cluster.jobs[JOB]


def dispatch(cluster: ClusterState) -> dict[tuple[int, int], NodeCores]:
    """Let the job dispatch; return the place of each (task, instance)."""
    events = dispatches(cluster, record_of(cluster), NOW)
    for event in events:
        apply_event(cluster, event)
    check_cluster(cluster)
    return {(event.task, n): event.placement for event in events for n, _ in event.attempts}


def end(
    cluster: ClusterState, task: int, instance: int, state: EndState = "finished", attempt: int = 1
) -> None:
    ended = InstanceEnd(
        task=task, instance=instance, attempt=attempt, state=state, outcome=AttemptOutcome("exited", 0)
    )
    apply_event(cluster, InstancesEnded(at=NOW, job=JOB, ended=(ended,)))


def test_a_gang_starts_all_instances_of_all_its_tasks_at_once_each_on_its_part() -> None:
    spec = JobSpec(together=True, tasks=(MASTER, sweep(3, 2)))
    parts = ((("a", (0,)), ("b", (0,))), (("a", (1, 2)), ("b", (1, 2, 3, 4))))
    cluster = started(spec, (node("a", 3), node("b", 5)), parts)
    assert dispatch(cluster) == {
        (1, 1): parts[0],
        (2, 1): (("a", (1, 2)),),
        (2, 2): (("b", (1, 2)),),
        (2, 3): (("b", (3, 4)),),
    }
    assert dispatch(cluster) == {}


def test_nothing_of_a_gang_starts_while_one_of_its_nodes_takes_no_tasks() -> None:
    spec = JobSpec(together=True, tasks=(MASTER, sweep(2)))
    parts = ((("a", (0, 1)),), (("b", (0, 1)),))
    cluster = started(spec, (node("a", 2), node("b", 2)), parts)
    apply_event(cluster, NodeUnreachable(at=NOW, node="b"))
    assert dispatch(cluster) == {}
    assert "node b" in task_reasons(cluster, record_of(cluster), 1)[0].text
    apply_event(cluster, NodeReachable(at=NOW, node="b"))
    assert set(dispatch(cluster)) == {(1, 1), (2, 1), (2, 2)}


def test_an_instance_of_a_gang_that_runs_again_has_its_own_seat_again() -> None:
    spec = JobSpec(together=True, tasks=(sweep(3), MASTER))
    parts = ((("a", (0, 1, 2)),), (("b", (0, 1)),))
    cluster = started(spec, (node("a", 3), node("b", 2)), parts)
    before = dispatch(cluster)
    end(cluster, 1, 3)
    end(cluster, 1, 2, "queued")
    assert dispatch(cluster) == {(1, 2): before[1, 2]}


def test_instances_beyond_the_seats_of_a_gang_follow_when_others_are_over() -> None:
    cluster = started(JobSpec(together=True, tasks=(sweep(3),)), (node("a", 1),), ((("a", (0,)),),))
    assert set(dispatch(cluster)) == {(1, 1)}
    end(cluster, 1, 1, "queued")
    assert set(dispatch(cluster)) == {(1, 1)}
    end(cluster, 1, 1, attempt=2)
    assert set(dispatch(cluster)) == {(1, 2)}
    end(cluster, 1, 2, "queued")
    found = dispatch(cluster)
    assert len(found) == 1
    assert "its processors are in use" in task_reasons(cluster, record_of(cluster), 0)[0].text


def test_a_seat_that_another_has_is_not_given_twice() -> None:
    part = (("a", (0,)),)
    cluster = started(JobSpec(together=True, tasks=(sweep(2),)), (node("a", 1),), (part,))
    dispatch(cluster)
    end(cluster, 1, 1)
    dispatch(cluster)
    apply_event(cluster, InstancesRequeued(at=NOW, job=JOB, task=1, spans=((1, 1),)))
    assert dispatch(cluster) == {}


def test_a_geometry_for_which_there_is_no_room_is_laid_node_by_node() -> None:
    assert rank_nodes(Distribution(geometry=((1, 2, 3), (4,))), (2, 2)) == [0, 0, 1, 1]
    assert rank_nodes(Distribution(geometry=((1,), (2,), (3,))), (2, 1)) == [0, 0, 1]


def test_the_last_task_of_a_gang_stays_on_its_part_though_all_is_free() -> None:
    wide = TaskSpec(command="x", minimum=1, maximum=9)
    parts = ((("a", (0,)),), (("a", (1,)),))
    cluster = started(JobSpec(together=True, tasks=(wide, wide)), (node("a", 2),), parts)
    assert dispatch(cluster) == {(1, 1): parts[0], (2, 1): parts[1]}
    end(cluster, 1, 1)
    end(cluster, 2, 1, "queued")
    assert dispatch(cluster) == {(2, 1): parts[1]}


def places_of(
    task: TaskSpec, *shares: int, unit: UnitType = UnitType.PROCESSOR, sockets: int = 1
) -> list[str]:
    """Return the nodes of each instance of a lone sweep on nodes a, b, c of which it has so many."""
    nodes = tuple(node(name, count, sockets=sockets) for name, count in zip("abc", shares, strict=False))
    part = tuple((facts.name, tuple(range(facts.processors))) for facts in nodes)
    spec = JobSpec(together=True, tasks=(task,), unit=unit)
    found = dispatch(started(spec, nodes, (part,)))
    taken = [(name, number) for place in found.values() for name, numbers in place for number in numbers]
    assert len(taken) == len(set(taken))
    return ["".join(name for name, _ in found[1, n]) for n in range(1, task.instances + 1) if (1, n) in found]


@pytest.mark.parametrize(
    ("distribution", "size", "shares", "nodes"),
    [
        (None, 2, (4, 4), "a a b b"),
        (Distribution(round_robin=True), 1, (2, 2, 1), "a b c a b"),
        (Distribution(per_node=1), 1, (4, 4, 4), "a b c"),
        (Distribution(per_node=2, round_robin=True), 1, (4, 4), "a b a b"),
        (Distribution(nodes=2), 1, (4, 4), "a a a b b"),
        (Distribution(nodes=3), 1, (2, 2, 1), "a a b b c"),
        (Distribution(geometry=((1, 4), (2,), (3, 5, 6))), 1, (1, 2, 3), "b a c b c c"),
    ],
)
def test_instances_lie_on_nodes_as_their_distribution_says(
    distribution: Distribution | None, size: int, shares: tuple[int, ...], nodes: str
) -> None:
    task = sweep(len(nodes.split()), size, distribution=distribution)
    assert places_of(task, *shares) == nodes.split()


def test_instances_of_nodes_and_of_sockets_have_whole_ones() -> None:
    assert places_of(sweep(1, 2), 4, 4, unit=UnitType.NODE) == ["ab"]
    assert places_of(sweep(3, 1), 4, 4, 2, unit=UnitType.NODE) == ["a", "b", "c"]
    assert places_of(sweep(4, 1), 5, 5, unit=UnitType.SOCKET, sockets=2) == ["a", "a", "b", "b"]
    assert places_of(sweep(2, 1, exclusive=True), 3, 2) == ["a", "b"]


@given(
    room=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    per_node=st.integers(0, 3),
    round_robin=st.booleans(),
    part=st.integers(0, 16),
)
def test_no_node_gets_more_processes_than_it_has_room_for(
    room: list[int], per_node: int, round_robin: bool, part: int
) -> None:
    most = [min(space, per_node or space) for space in room]
    wanted = min(part, sum(most))
    order = rank_nodes(Distribution(per_node=per_node, round_robin=round_robin), room, wanted)
    counts = [order.count(node) for node in range(len(room))]
    assert sum(counts) == wanted
    assert all(count <= limit for count, limit in zip(counts, most, strict=True))
    if round_robin:
        assert all(
            a >= b - 1 for (a, limit), b in product(zip(counts, most, strict=True), counts) if a < limit
        )


def test_a_task_goes_only_to_nodes_of_its_job_that_have_what_it_asks_for() -> None:
    wants = TaskSpec(command="x", needs=NodeNeeds(features=(("GPU",),)))
    nodes = (node("a", 2), node("b", 2, features=("gpu",)))
    cluster = started(JobSpec(minimum=4, maximum=4, tasks=(wants, wants, wants, MASTER)), nodes)
    assert dispatch(cluster) == {
        (1, 1): (("b", (0,)),),
        (2, 1): (("b", (1,)),),
        (4, 1): (("a", (0, 1)),),
    }
    assert task_reasons(cluster, record_of(cluster), 2)[0].text == (
        "it needs free processors on b: no other node of its job is eligible"
    )


def test_a_task_that_waits_for_a_kind_of_node_the_job_has_not_says_why() -> None:
    wants = TaskSpec(command="x", needs=NodeNeeds(minimum_memory=512))
    cluster = started(JobSpec(tasks=(wants,)), (node("a", 1, memory=100),))
    assert dispatch(cluster) == {}
    assert task_reasons(cluster, record_of(cluster), 0)[0].text == (
        "no node of its job is eligible: a has 100 MB of memory; at least 512 are requested; "
        "cancel the task, and submit it as a job of its own"
    )


@pytest.mark.parametrize(
    ("distribution", "counts"),
    [
        (Distribution(per_node=1), {"a": 1, "b": 1, "c": 1}),
        (Distribution(per_node=2), {"b": 1, "c": 2}),
        (Distribution(nodes=2), {"b": 1, "c": 2}),
        (Distribution(nodes=1), {"c": 3}),
        (Distribution(round_robin=True), {"a": 1, "b": 1, "c": 1}),
        (Distribution(geometry=((2, 3), (1,))), {"b": 1, "c": 2}),
        (None, {"a": 1, "b": 2}),
    ],
)
def test_processes_of_a_task_lie_as_it_says_though_its_job_has_others(
    distribution: Distribution | None, counts: dict[str, int]
) -> None:
    task = TaskSpec(command="x", minimum=3, maximum=3, distribution=distribution)
    nodes = (node("a", 1), node("b", 2), node("c", 3))
    cluster = started(JobSpec(minimum=6, maximum=6, tasks=(task, MASTER)), nodes)
    place = dispatch(cluster)[1, 1]
    assert {name: len(numbers) for name, numbers in place} == counts


def test_a_task_waits_until_its_processes_can_lie_as_it_says() -> None:
    task = TaskSpec(command="x", minimum=3, maximum=3, distribution=Distribution(nodes=1))
    other = TaskSpec(command="x", minimum=1, maximum=1, required_nodes=("a",))
    cluster = started(JobSpec(minimum=5, maximum=5, tasks=(other, task)), (node("a", 3), node("b", 2)))
    assert dispatch(cluster) == {(1, 1): (("a", (0,)),)}
    assert (
        "its 3 processes need a distribution over nodes"
        in task_reasons(cluster, record_of(cluster), 1)[0].text
    )
    end(cluster, 1, 1)
    assert dispatch(cluster) == {(2, 1): (("a", (0, 1, 2)),)}


@pytest.mark.parametrize(
    ("distribution", "nodes"),
    [
        (None, "aaabb"),
        (Distribution(round_robin=True), "ababa"),
        (Distribution(per_node=1), "ab"),
        (Distribution(per_node=2, round_robin=True), "abab"),
        (Distribution(nodes=1), "aaa"),
        (Distribution(nodes=2), "ababa"),
    ],
)
def test_instances_of_a_sweep_beside_other_tasks_spread_as_they_say(
    distribution: Distribution | None, nodes: str
) -> None:
    tasks = (sweep(9, distribution=distribution), MASTER)
    cluster = started(JobSpec(minimum=5, maximum=5, tasks=tasks), (node("a", 3), node("b", 2)))
    found = dispatch(cluster)
    assert "".join(found[1, n][0][0] for n in range(1, 10) if (1, n) in found) == nodes
    if distribution == Distribution(per_node=1):
        end(cluster, 1, 1)
        assert dispatch(cluster)[1, 3][0][0] == "a"


def test_a_gang_waits_in_the_queue_until_all_of_it_has_room_and_then_all_of_it_runs() -> None:
    world = World(2, 2)
    before = world.submit(TaskSpec(command="x", minimum=3, maximum=3))
    gang = world.submit(sweep(2, 2), together=True)
    assert world.dispatched(gang) == []
    world.end(before, 1)
    assert world.dispatched(gang) == [(1, 1), (1, 2)]
    places = [held.place for held in world.nodes.running()]
    assert places == [(("node1", (0, 1)),), (("node2", (0, 1)),)]
    world.check_replay()


def test_a_gang_that_lost_a_node_runs_again_as_a_whole_and_what_has_finished_does_not() -> None:
    world = World(2, 2)
    tasks = (sweep(2, 1, rerunnable=True), TaskSpec(command="x", minimum=2, maximum=2, rerunnable=True))
    gang = world.submit(*tasks, together=True)
    assert len(world.dispatched(gang)) == 3
    world.end(gang, 1, 1)
    (lost,) = {name for held in world.nodes.running() if held.task == 2 for name, _ in held.place}
    facts = world.cluster.nodes[lost].facts
    world.do(NodeVanished(node=lost))
    world.do(GiveUpNode(node=lost))
    for held in list(world.nodes.running()):
        world.do(world.nodes.ended(held, world.clock.now(), kind="stopped"))
    assert world.record(gang).state is JobState.QUEUED
    world.do(RegisterNode(facts=facts))
    assert world.dispatched(gang) == [(1, 2), (2, 1)]
    assert {held.attempt for held in world.nodes.running()} == {2}
    world.end(gang, 1, 2)
    world.end(gang, 2)
    assert world.record(gang).state is JobState.FINISHED
    world.check_replay()


def test_a_failed_task_of_a_gang_fails_the_job_only_if_the_job_says_so() -> None:
    for strict, state in ((False, JobState.RUNNING), (True, JobState.ENDING)):
        world = World(3)
        gang = world.submit(sweep(2), MASTER_OF_ONE, together=True, fail_on_task_failure=strict)
        world.end(gang, 2, exit_code=1)
        assert world.record(gang).state is state


def test_a_running_gang_gets_no_more_tasks() -> None:
    world = World(3)
    gang = world.submit(sweep(2), together=True)
    spec = world.cluster.spec(world.record(gang))
    more = structs.replace(spec, tasks=(*spec.tasks, MASTER_OF_ONE))
    with pytest.raises(WrongState) as refused:
        world.do(ModifyJob(by=ROOT, job=gang, spec=more, fields=("tasks",)))
    assert refused.value.code == "gang-is-whole"


def test_a_sweep_whose_instances_fit_on_no_such_nodes_runs_where_it_can() -> None:
    tasks = (sweep(2, 3, distribution=Distribution(nodes=1)), MASTER)
    cluster = started(JobSpec(minimum=4, maximum=4, tasks=tasks), (node("a", 2), node("b", 2)))
    assert dispatch(cluster) == {(1, 1): (("a", (0, 1)), ("b", (0,)))}


def test_a_job_keeps_the_nodes_that_its_waiting_tasks_ask_for_and_gives_back_others() -> None:
    world = World(2)
    world.do(RegisterNode(facts=node("gpu", 2, memory=512, features=("cuda",)), approved=True))
    first = TaskSpec(name="first", command="x", required_nodes=("node1",))
    second = TaskSpec(command="x", needs=NodeNeeds(features=(("cuda",),)), depends_on=("first",))
    job = world.submit(first, second, minimum=1, maximum=4)
    run = world.record(job).run
    assert run is not None
    assert run.allocation == {"node1": (0, 1), "gpu": (0,)}
    world.end(job, 1)
    assert world.dispatched(job) == [(2, 1)]
    world.end(job, 2)
    assert world.record(job).state is JobState.FINISHED
    world.check_replay()


def test_a_job_keeps_what_a_program_needs_that_is_to_lie_on_one_node() -> None:
    world = World(1, 3)
    wide = TaskSpec(command="x", minimum=3, maximum=3, distribution=Distribution(nodes=1), depends_on=("a",))
    job = world.submit(TaskSpec(name="a", command="x"), wide, minimum=4, maximum=4)
    world.end(job, 1)
    assert [held.place for held in world.nodes.running()] == [(("node2", (0, 1, 2)),)]


def test_a_job_that_lost_the_only_node_a_task_asks_for_goes_back_to_the_queue() -> None:
    world = World(2)
    facts = node("gpu", 2, memory=512, features=("cuda",))
    world.do(RegisterNode(facts=facts, approved=True))
    first = TaskSpec(name="first", command="x", required_nodes=("node1",), rerunnable=True)
    second = TaskSpec(command="x", needs=NodeNeeds(features=(("cuda",),)), depends_on=("first",))
    job = world.submit(first, second, minimum=1, maximum=4)
    world.do(NodeVanished(node="gpu"))
    world.do(GiveUpNode(node="gpu"))
    world.end(job, 1)
    assert world.record(job).state is JobState.QUEUED
    world.do(RegisterNode(facts=facts))
    assert world.dispatched(job) == [(2, 1)]
