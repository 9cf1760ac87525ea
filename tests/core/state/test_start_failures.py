"""Nodes that cannot start what they are given: whose fault that is, and which nodes are drained for it."""

from collections.abc import Iterator
from itertools import product

import pytest
from worlds import ADA, BOB, ROOT, World

from headnode.core.model import faults
from headnode.core.model.faults import FAULTS, MAYBE_OF_NODE, Fault, fault_of
from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.model.user import User
from headnode.core.state import nodes as c
from headnode.core.state.transitions import JobState

TASK = TaskSpec(command="x", rerunnable=False)
OF_NODES = [trouble for trouble, fault in FAULTS.items() if fault is Fault.NODE]
OF_JOBS = [trouble for trouble, fault in FAULTS.items() if fault is Fault.JOB]


def sweep(instances: int) -> TaskSpec:
    return TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=instances)


def cannot_start(world: World, node: str, trouble: str, most: int = 1_000) -> int:
    """Let a node fail to start what it has, until it has nothing or often enough; return how often."""
    for count in range(most):
        held = next((held for held in world.nodes.running() if held.place[0][0] == node), None)
        if held is None:
            return count
        world.do(world.nodes.ended(held, world.clock.now(), kind="not-started", trouble=trouble))
    return most


def run_elsewhere(world: World, node: str) -> None:
    """Let all that another node has run to its end."""
    for held in list(world.nodes.running()):
        if held.place[0][0] != node:
            now = world.clock.now()
            world.do(world.nodes.started(held, now))
            world.do(world.nodes.ended(held, now, started=now))


def causes(world: World, node: str) -> list[str]:
    return [drain.cause for drain in world.cluster.nodes[node].drains]


@pytest.mark.parametrize("trouble", OF_NODES)
def test_with_a_fault_of_the_node_nothing_fails_or_is_counted_and_the_node_is_drained(trouble: str) -> None:
    world = World(1)
    world.do(c.SetParameter(by=ROOT, name="JobRetryCount", value="0"))
    world.do(c.SetParameter(by=ROOT, name="TaskRetryCount", value="0"))
    job = world.submit(TASK)
    assert cannot_start(world, "node1", trouble) == 1
    record = world.record(job)
    assert record.state is JobState.QUEUED
    assert record.run is not None
    assert (record.run.auto_requeues, record.run.tasks[0].retries, record.run.tasks[0].system_retries) == (
        0,
        {},
        {},
    )
    assert causes(world, "node1") == ["fault"]
    world.do(c.ChangeNode(by=ROOT, node="node1", action="resume"))
    world.end(job, 1)
    assert world.record(job).state is JobState.FINISHED
    world.check_replay()


@pytest.mark.parametrize("trouble", [*OF_JOBS, "", "a word of tomorrow"])
def test_a_fault_of_the_job_fails_its_task_and_drains_no_node(trouble: str) -> None:
    world = World(1)
    job = world.submit(TASK)
    cannot_start(world, "node1", trouble)
    assert world.record(job).state is JobState.FAILED
    assert causes(world, "node1") == []


def test_what_runs_on_a_node_that_is_drained_for_a_fault_goes_on_and_the_rest_runs_elsewhere() -> None:
    world = World(2, 1)
    job = world.submit(sweep(6), minimum=1, maximum=3)
    held = next(held for held in world.nodes.running() if held.place[0][0] == "node1")
    world.do(world.nodes.started(held, world.clock.now()))
    other = [h for h in world.nodes.running() if h.place[0][0] == "node1" and h != held]
    assert len(other) == 1
    now = world.clock.now()
    world.do(world.nodes.ended(other[0], now, kind="not-started", trouble=faults.JOURNAL))
    there = [h for h in world.nodes.running() if h.place[0][0] == "node1"]
    assert there == [held]
    for _ in range(6):
        run_elsewhere(world, "node1")
    assert world.record(job).state is JobState.RUNNING
    world.do(world.nodes.ended(held, world.clock.now()))
    record = world.record(job)
    assert record.state is JobState.FINISHED
    assert record.run is not None
    assert len(record.run.tasks[0].finished) == 6


def test_every_word_for_a_trouble_has_a_fault() -> None:
    words = {value for name, value in vars(faults).items() if name.isupper() and isinstance(value, str)}
    assert words == FAULTS.keys()
    assert fault_of("a word of tomorrow") is Fault.JOB


# Nodes where nothing starts though the faults are the jobs'.


def singles(world: World, owners: tuple[User, ...], count: int = 40) -> Iterator[JobId]:
    for number in range(count):
        yield world.submit(TASK, by=owners[number % len(owners)])


@pytest.mark.parametrize("trouble", sorted(MAYBE_OF_NODE))
def test_a_node_where_nothing_starts_while_it_does_elsewhere_is_drained_after_some_jobs(trouble: str) -> None:
    world = World(1, 1)
    jobs = list(singles(world, (ADA, BOB)))
    run_elsewhere(world, "node1")
    assert cannot_start(world, "node1", trouble) == 10
    assert causes(world, "node1") == ["failures"]
    for _ in jobs:
        run_elsewhere(world, "node1")
    states = [world.record(job).state for job in jobs]
    assert (states.count(JobState.FAILED), states.count(JobState.FINISHED)) == (10, 30)
    assert world.nodes.running() == []


def test_a_sweep_that_runs_elsewhere_drains_the_node_where_it_does_not() -> None:
    world = World(1, 1)
    job = world.submit(sweep(100), minimum=1, maximum=2)
    run_elsewhere(world, "node1")
    assert cannot_start(world, "node1", faults.COMMAND) >= 10  # it has some that were handed over ahead
    assert causes(world, "node1") == ["failures"]
    for _ in range(100):
        run_elsewhere(world, "node1")
    record = world.record(job)
    assert record.run is not None
    assert (len(record.run.tasks[0].failed), len(record.run.tasks[0].finished)) == (10, 90)


def test_no_node_is_drained_for_a_sweep_that_starts_nowhere() -> None:
    world = World(1, 1)
    world.submit(sweep(100), by=ADA, minimum=1, maximum=2)
    assert cannot_start(world, "node1", faults.COMMAND, 30) == 30
    assert cannot_start(world, "node2", faults.COMMAND, 30) == 30
    assert causes(world, "node1") + causes(world, "node2") == []


def test_the_only_node_is_never_drained_for_start_failures() -> None:
    world = World(1)
    list(singles(world, (ADA, BOB)))
    assert cannot_start(world, "node1", faults.COMMAND) == 40
    assert causes(world, "node1") == []


def test_one_user_alone_closes_no_node_that_others_use() -> None:
    world = World(1, 1)
    list(singles(world, (BOB,), 1))
    list(singles(world, (ADA,)))
    other = next(
        held.place[0][0] for held in world.nodes.running() if world.cluster.jobs[held.job].owner == "bob"
    )
    mine = "node2" if other == "node1" else "node1"
    run_elsewhere(world, mine)
    assert cannot_start(world, mine, faults.COMMAND, 20) == 20
    assert causes(world, mine) == []


def test_programs_that_fail_by_themselves_drain_no_node() -> None:
    world = World(1, 1)
    jobs = list(singles(world, (ADA, BOB)))
    for _ in jobs:
        for held in list(world.nodes.running()):
            world.do(world.nodes.ended(held, world.clock.now(), exit_code=1))
    assert {world.record(job).state for job in jobs} == {JobState.FAILED}
    assert causes(world, "node1") + causes(world, "node2") == []


def test_one_start_in_between_begins_the_count_anew() -> None:
    world = World(1, 1)
    list(singles(world, (ADA, BOB), 60))
    for _ in range(3):
        run_elsewhere(world, "node1")
        assert cannot_start(world, "node1", faults.FILES, 9) == 9
        run_elsewhere(world, "node2")  # what node1 has starts there
    assert causes(world, "node1") == []


@pytest.mark.parametrize(("limit", "failures"), [(1, 1), (3, 3), (0, 40)])
def test_an_administrator_says_after_how_many_failures(limit: int, failures: int) -> None:
    world = World(1, 1)
    world.do(c.SetParameter(by=ROOT, name="NodeStartFailureLimit", value=str(limit)))
    for number, owner in product(range(21), (ADA, BOB)):
        world.submit(TASK, by=owner, name=f"{number}")
    run_elsewhere(world, "node1")
    found = cannot_start(world, "node1", faults.OTHER_NUMBER, 40)
    assert found >= failures
    assert (causes(world, "node1") == ["failures"]) == (limit > 0)
