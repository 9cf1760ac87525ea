"""Different tasks of a job that are dispatched ahead: what may run behind what, and what never does."""

from itertools import pairwise

import pytest
from worlds import ROOT, World

from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.task import Distribution, TaskSpec, TaskType
from headnode.core.state.modify import ModifyJob
from headnode.core.state.stop import StopTask
from headnode.core.state.transitions import JobState

SHORT = 0.001  # seconds


def different(count: int, **options: object) -> list[TaskSpec]:
    return [TaskSpec(command=f"x {number}", **options) for number in range(count)]


def end_first(world: World, lasted: float = SHORT, exit_code: int = 0) -> None:
    """Let the attempt that was dispatched first end after so many seconds."""
    now = world.clock.now()
    held = world.nodes.running()[0]
    world.do(world.nodes.ended(held, now, started=Instant(now - lasted), exit_code=exit_code))


def deepest(world: World, job: JobId) -> int:
    """Return the most attempts that one place has."""
    return max(world.cluster.graph(job).lanes.values())


def test_short_different_tasks_are_dispatched_ahead_in_the_order_of_the_list() -> None:
    world = World(2)
    job = world.submit(*different(1000))
    assert deepest(world, job) == 1, "the first have no known run time"
    end_first(world)
    lanes = world.cluster.graph(job).lines.members
    assert len(lanes) == 2
    assert deepest(world, job) == 64
    assert [held.task for held in world.nodes.running()] == list(range(2, 130))


def test_every_task_runs_once_and_the_job_ends_whatever_is_dispatched_ahead() -> None:
    world = World(3)
    job = world.submit(*different(150))
    ran = []
    while world.nodes.running():
        ran.append(world.nodes.running()[0].task)
        end_first(world)
        world.check_replay()
    assert sorted(ran) == list(range(1, 151))
    assert world.record(job).state is JobState.FINISHED


def test_no_place_has_more_than_half_of_a_fair_share() -> None:
    world = World(2)
    job = world.submit(*different(44))
    end_first(world)
    assert deepest(world, job) <= 11


def test_a_place_gets_more_only_when_half_of_its_tasks_are_done() -> None:
    world = World(1)
    job = world.submit(*different(1000))
    sizes = []
    for _ in range(200):
        end_first(world)
        sizes.append(deepest(world, job))
    grown = sum(after > before for before, after in pairwise(sizes))
    assert grown <= 7
    assert min(sizes[1:]) >= 31


@pytest.mark.parametrize(
    "options",
    [
        {"exclusive": True},
        {"fail_job_on_failure": True},
        {"distribution": Distribution(per_node=1)},
        {"standard_output": "https://example.org/out"},
        {"kind": TaskType.SWEEP, "start": 1, "end": 1},
    ],
    ids=lambda options: next(iter(options)),
)
def test_tasks_that_want_more_than_processors_are_dispatched_singly(options: dict[str, object]) -> None:
    world = World(2)
    whole = {"exclusive": True, "minimum": 2, "maximum": 2} if "exclusive" in options else {}
    job = world.submit(*different(90, **options), **whole)
    for _ in range(20):
        end_first(world)
        assert deepest(world, job) == 1


def test_nothing_is_dispatched_ahead_in_a_job_that_fails_with_its_first_task() -> None:
    world = World(1)
    job = world.submit(*different(200), fail_on_task_failure=True)
    for _ in range(20):
        end_first(world)
        assert world.cluster.graph(job).lanes == {(("node1", (0,)),): 1}
    end_first(world, exit_code=1)
    assert world.nodes.running() == []


@pytest.mark.parametrize(
    "other",
    [
        {"minimum": 2, "maximum": 2},
        {"maximum": 2},
        {"required_nodes": ("node1",)},
        {"needs": NodeNeeds(minimum_memory=512)},
        {"rerunnable": True},
    ],
    ids=lambda options: next(iter(options)),
)
def test_only_alike_tasks_run_behind_each_other(other: dict[str, object]) -> None:
    world = World(2)
    tasks = [*different(60), *different(60, **other)] * 3
    job = world.submit(*tasks, unit=UnitType.PROCESSOR, minimum=2, maximum=2)
    for _ in range(100):
        end_first(world)
        for members in world.cluster.graph(job).lines.members.values():
            assert len({(index // 60) % 2 for index in members}) == 1, f"{members} are together"


def test_nothing_goes_behind_a_task_that_is_known_to_run() -> None:
    world = World(1)
    job = world.submit(*different(1000))
    end_first(world)
    long, *behind = world.nodes.running()
    world.do(world.nodes.started(long, world.clock.now()))
    for held in behind:
        now = world.clock.now()
        world.do(world.nodes.ended(held, now, started=Instant(now - SHORT)))
    assert world.cluster.graph(job).lines.depth > 1
    assert world.nodes.running() == [long]


def test_what_is_given_back_runs_elsewhere_with_other_attempt_numbers() -> None:
    world = World(2)
    job = world.submit(*different(300))
    end_first(world)
    long = world.nodes.running()[0]
    behind = [held for held in world.nodes.running()[1:] if held.place == long.place]
    world.do(world.nodes.started(long, world.clock.now()))
    for held in behind:
        world.do(world.nodes.ended(held, world.clock.now(), kind="never-ran"))
        world.check_replay()
    assert world.cluster.graph(job).lines.depth == 1, "less is dispatched ahead for a while"
    ran = []
    while waiting := [held for held in world.nodes.running() if held.place != long.place]:
        ran.append((waiting[0].task, waiting[0].attempt))
        now = world.clock.now()
        world.do(world.nodes.ended(waiting[0], now, started=Instant(now - SHORT)))
    assert [task for task, attempt in ran if attempt == 2] == [held.task for held in behind]
    tasks = world.record(job).run.tasks
    assert [number for number, task in enumerate(tasks, 1) if task.unstarted == {1: 1}] == [
        held.task for held in behind
    ]
    assert sorted([1, long.task, *(task for task, _ in ran)]) == list(range(1, 301))


def test_a_long_task_ends_dispatching_ahead_until_tasks_are_short_again() -> None:
    world = World(1)
    job = world.submit(*different(1000))
    end_first(world)
    while deepest(world, job) > 1 or len(world.nodes.running()) > 1:
        end_first(world, lasted=60.0)
    for _ in range(30):
        end_first(world)
    assert deepest(world, job) > 1


def test_a_wide_task_before_them_is_not_starved_by_tasks_dispatched_ahead() -> None:
    world = World(2)
    job = world.submit(*different(30), TaskSpec(command="wide", minimum=2, maximum=2), *different(500))
    order = []
    while world.record(job).state is JobState.RUNNING:
        order.append(world.nodes.running()[0].task)
        end_first(world)
    assert order.index(31) <= 34


def test_one_task_that_was_dispatched_ahead_is_canceled_alone() -> None:
    world = World(1)
    job = world.submit(*different(100))
    end_first(world)
    waiting = world.nodes.running()[5]
    world.do(StopTask(by=ROOT, job=job, task=waiting.task))
    assert [held.task for held in world.nodes.stopping()] == [waiting.task]
    world.do(world.nodes.ended(waiting, world.clock.now(), kind="never-ran"))
    run = world.record(job).run
    assert run is not None
    assert [index + 1 for index, task in enumerate(run.tasks) if task.canceled] == [waiting.task]
    while world.nodes.running():
        end_first(world)
    assert world.record(job).state is JobState.FINISHED


def test_children_start_only_when_all_of_their_parents_have_ended() -> None:
    world = World(2)
    parents = different(200, name="parent")
    job = world.submit(*parents, *different(50, depends_on=("parent",)))
    ended = 0
    while world.record(job).state is JobState.RUNNING:
        if any(held.task > 200 and not held.after for held in world.nodes.running()):
            assert ended >= 200
        assert world.nodes.running()[0].task <= 200 or ended >= 200
        end_first(world)
        ended += 1
    assert ended == 250


def test_tasks_that_are_added_later_are_dispatched_ahead_like_the_others() -> None:
    world = World(1)
    job = world.submit(*different(100))
    end_first(world)
    tasks = (*different(100), *different(100, rerunnable=True))
    world.do(ModifyJob(by=ROOT, job=job, spec=JobSpec(tasks=tasks), fields=("tasks",)))
    kinds = set()
    while world.record(job).state is JobState.RUNNING:
        kinds.add(max(held.task for held in world.nodes.running()) > 100 and deepest(world, job) > 1)
        end_first(world)
    assert kinds == {False, True}
