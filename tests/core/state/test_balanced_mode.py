"""Balanced mode in a whole head: everybody has the minimum, the rest is shared, and nothing is lost by it."""

import random

import pytest
from worlds import ROOT, World

from depth import seeds
from headnode.core.model.job import Licence, UnitType
from headnode.core.model.quantities import JobId, Priority
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state import job_events as e
from headnode.core.state import nodes as c
from headnode.core.state.transitions import JobState

LOW, NORMAL, HIGH = Priority(1000), Priority(2000), Priority(3000)


def sweep(end: int = 100, *, rerunnable: bool = True, processors: int = 1) -> TaskSpec:
    return TaskSpec(
        command="x",
        kind=TaskType.SWEEP,
        start=1,
        end=end,
        rerunnable=rerunnable,
        minimum=processors,
        maximum=processors,
    )


def balanced(*processors: int, **parameters: str) -> World:
    world = World(*processors)
    for name, value in {"SchedulingMode": "Balanced", **parameters}.items():
        set_parameter(world, name, value)
    return world


def set_parameter(world: World, name: str, value: str) -> None:
    world.do(c.SetParameter(by=ROOT, name=name, value=value))


def held(world: World, *jobs: JobId) -> list[int]:
    """Return how many processors jobs hold."""
    runs = [world.record(job).run for job in jobs]
    return [0 if run is None else sum(map(len, run.allocation.values())) for run in runs]


def stop_all(world: World) -> int:
    """Let everything end that was told to stop, again and again; return how much that was."""
    stopped = 0
    while stopping := list(world.nodes.stopping()):
        for one in stopping:
            world.do(world.nodes.ended(one, world.clock.now(), kind="stopped"))
        stopped += len(stopping)
    return stopped


def test_two_sweeps_share_a_node_and_a_third_of_higher_priority_takes_its_share() -> None:
    world = balanced(8)
    first = world.submit(sweep())
    assert held(world, first) == [8]
    second = world.submit(sweep())
    assert stop_all(world) == 4
    assert held(world, first, second) == [4, 4]
    third = world.submit(sweep(), priority=HIGH)
    stop_all(world)
    assert held(world, first, second, third) == [2, 2, 4], "beyond their minimum 1, 1 and twice as much"
    world.check_replay()


@pytest.mark.parametrize(
    ("bias", "shares"),
    [("HighBias", [4, 31]), ("MediumBias", [12, 23]), ("LowBias", [17, 18]), ("NoBias", [17, 18])],
)
def test_the_bias_says_how_much_more_the_higher_priority_gets(bias: str, shares: list[int]) -> None:
    """Each has a minimum of 1; of the other 33, 3 and 30, 11 and 22, or the same."""
    world = balanced(35, PriorityBias=bias)
    jobs = [world.submit(sweep(), priority=priority) for priority in (NORMAL, HIGH)]
    stop_all(world)
    assert held(world, *jobs) == shares


def test_what_was_stopped_costs_no_retry_and_runs_again() -> None:
    world = balanced(2, TaskRetryCount="0", JobRetryCount="0")
    first = world.submit(sweep(2))
    second = world.submit(sweep(1))
    assert stop_all(world) == 1
    assert held(world, first, second) == [1, 1]
    world.end(second, 1)
    assert held(world, first) == [2], "growth needs no parameter"
    world.end(first, 1, 1)
    world.end(first, 1, 2)
    assert world.record(first).state is JobState.FINISHED
    world.check_replay()


def test_what_must_not_run_twice_is_never_stopped_for_others() -> None:
    world = balanced(4)
    first = world.submit(sweep(rerunnable=False))
    second = world.submit(sweep(rerunnable=False))
    assert stop_all(world) == 0
    assert held(world, first, second) == [4, 0]
    assert world.record(first).run.recalled == {"node1": 1}
    world.end(first, 1, 1)
    assert held(world, first, second) == [3, 1], "as its tasks end"
    world.end(first, 1, 2)
    assert held(world, first, second) == [2, 2]
    world.end(first, 1, 3)
    assert held(world, first, second) == [2, 2], "and no more than the share"


def test_gracefully_nothing_is_stopped() -> None:
    world = balanced(4, PreemptionBalancedMode="Graceful")
    first, second = world.submit(sweep()), world.submit(sweep())
    assert not list(world.nodes.stopping())
    assert held(world, first, second) == [4, 0]
    for instance in (1, 2):
        world.end(first, 1, instance)
    assert held(world, first, second) == [2, 2]


def test_a_job_that_is_not_preemptable_gives_up_as_its_tasks_end_only() -> None:
    world = balanced(4)
    first, second = world.submit(sweep(), preemptable=False), world.submit(sweep())
    assert stop_all(world) == 0
    world.end(first, 1, 1)
    assert held(world, first, second) == [3, 1]


def test_everybody_has_the_minimum_before_anybody_has_more() -> None:
    world = balanced(4)
    jobs = [world.submit(sweep()) for _ in range(4)]
    stop_all(world)
    assert held(world, *jobs) == [1, 1, 1, 1]
    late = world.submit(sweep(), priority=HIGH)
    assert stop_all(world) == 0, "nobody goes below the minimum, whoever waits"
    assert held(world, *jobs, late) == [1, 1, 1, 1, 0]
    wait = world.engine.last_plan.waits[world.cluster.request(world.record(late))]
    assert wait.reasons


def test_modes_change_while_jobs_run() -> None:
    world = World(4)
    first = world.submit(sweep())
    second = world.submit(sweep())
    assert held(world, first, second) == [4, 0]
    set_parameter(world, "SchedulingMode", "Balanced")
    stop_all(world)
    assert held(world, first, second) == [2, 2]
    third = world.submit(sweep())
    assert list(world.nodes.stopping()), "something is being given up"
    set_parameter(world, "SchedulingMode", "Queued")
    stop_all(world)
    assert sum(held(world, first, second, third)) == 4
    set_parameter(world, "SchedulingMode", "Balanced")
    stop_all(world)
    assert sorted(held(world, first, second, third)) == [1, 1, 2]
    world.check_replay()


def test_whole_nodes_change_hands_as_a_whole() -> None:
    world = balanced(2, 2, 2, 2)
    options = {"unit": UnitType.NODE, "minimum": 1, "maximum": 4}
    first = world.submit(sweep(), **options)
    assert held(world, first) == [8]
    second = world.submit(sweep(), **options)
    stop_all(world)
    assert held(world, first, second) == [4, 4]
    lone = world.submit(TaskSpec(command="x", minimum=2, maximum=2, rerunnable=True), exclusive=True)
    stop_all(world)
    assert held(world, lone) == [2]


def test_licences_of_a_running_job_go_with_its_processors() -> None:
    world = balanced(8, Licences="solver:4")
    first = world.submit(sweep(), licences=(Licence("solver", None),))
    assert held(world, first) == [4]
    second = world.submit(sweep(), licences=(Licence("solver", None),))
    stop_all(world)
    assert held(world, first, second) == [2, 2]


def test_a_job_that_runs_until_canceled_keeps_its_minimum() -> None:
    world = balanced(4)
    keeper = world.submit(minimum=2, maximum=4, run_until_canceled=True)
    assert held(world, keeper) == [2]
    other = world.submit(sweep())
    assert held(world, keeper, other) == [2, 2]


def test_nothing_happens_once_it_is_balanced() -> None:
    world = balanced(3, 5)
    for priority in (LOW, NORMAL, HIGH):
        world.submit(sweep(1000), priority=priority, minimum=1, maximum=6)
    stop_all(world)
    before = world.engine.number
    for _ in range(5):
        world.wait(10)
    assert world.engine.number == before


@pytest.mark.parametrize("seed", [*seeds(20), 80, 161, 171])
def test_whatever_happens_all_jobs_end_and_nothing_is_lost(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    dice = random.Random(seed)
    world = balanced(*(dice.choice((1, 2, 4)) for _ in range(dice.randint(1, 3))))
    set_parameter(world, "PreemptionBalancedMode", dice.choice(("Immediate", "Graceful")))
    jobs: list[JobId] = []
    for _ in range(40):
        deed = dice.random()
        if deed < 0.3 and len(jobs) < 8:
            jobs.append(
                world.submit(
                    sweep(dice.randint(1, 6), rerunnable=dice.random() < 0.7),
                    priority=dice.choice((LOW, NORMAL, HIGH)),
                    minimum=1,
                    maximum=dice.choice((1, 2, 6)),
                    exclusive=dice.random() < 0.2,
                )
            )
        elif deed < 0.4:
            set_parameter(world, "SchedulingMode", dice.choice(("Queued", "Balanced", "Balanced")))
        elif deed < 0.5:
            world.wait(dice.choice((1, 11)))
        elif (there := list(world.nodes.running())) and deed < 0.8:
            one = dice.choice(there)
            world.do(world.nodes.ended(one, world.clock.now(), kind="exited", exit_code=0))
        elif stopping := list(world.nodes.stopping()):
            world.do(world.nodes.ended(dice.choice(stopping), world.clock.now(), kind="stopped"))
    for _ in range(500):
        stop_all(world)
        there = list(world.nodes.running())
        if not there:
            break
        world.do(world.nodes.ended(there[0], world.clock.now(), kind="exited", exit_code=0))
    assert [world.record(job).state.value for job in jobs] == ["finished"] * len(jobs)
    world.check_replay()
    fixed = {job for job in jobs if not world.cluster.spec(world.record(job)).tasks[0].rerunnable}
    stopped = {event.job for _, event in world.journal.replay() if isinstance(event, e.InstancesStopping)}
    assert not stopped & fixed
    assert "stale" not in caplog.text
