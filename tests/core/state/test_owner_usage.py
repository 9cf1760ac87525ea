"""What owners have used is known at any time: processors times seconds; older usage counts less."""

from math import exp2, log

import pytest
from msgspec.structs import replace
from worlds import ADA, BOB, ROOT, World

from headnode.core.model.quantities import Instant
from headnode.core.model.task import TaskSpec
from headnode.core.state import owner_usage
from headnode.core.state.modify import ModifyJob
from headnode.core.state.nodes import SetParameter
from headnode.core.state.suspend import ResumeJob, SuspendJob

WEEK = 7 * 86_400.0
TASK = TaskSpec(command="x")


def used(world: World) -> dict[tuple[str, str], float]:
    return world.cluster.usage.used(world.clock.now())


def integral(processors: int, seconds: float, half_life: float = WEEK) -> float:
    """Return what holding processors for so long comes to at its end."""
    return processors * half_life / log(2) * (1 - exp2(-seconds / half_life))


def test_a_running_job_counts_while_it_runs_and_decays_afterwards() -> None:
    world = World(4)
    job = world.submit(TASK, by=ADA, minimum=3, maximum=3, project="mesh")
    assert used(world) == {("ada", "mesh"): 0.0}
    world.wait(100)
    assert used(world)["ada", "mesh"] == pytest.approx(300, rel=1e-3)
    assert used(world)["ada", "mesh"] == pytest.approx(integral(3, 100))
    world.end(job, 1)
    world.wait(WEEK)
    assert used(world)["ada", "mesh"] == pytest.approx(integral(3, 100) / 2)
    world.check_replay()


def test_jobs_of_an_owner_add_up_and_those_of_others_do_not() -> None:
    world = World(8)
    world.submit(TASK, by=ADA, minimum=3, maximum=3)
    world.wait(50)
    world.submit(TASK, by=ADA, minimum=2, maximum=2)
    world.submit(TASK, by=BOB, minimum=1, maximum=1)
    world.wait(50)
    assert used(world)["ada", ""] == pytest.approx(integral(3, 100) + integral(2, 50))
    assert used(world)["bob", ""] == pytest.approx(integral(1, 50))
    world.check_replay()


def test_a_job_that_is_suspended_or_waits_uses_nothing() -> None:
    world = World(4)
    job = world.submit(TASK, by=ADA, minimum=4, maximum=4, suspendable=True)
    waiting = world.submit(TASK, by=BOB, minimum=4, maximum=4, holds=("budget",))
    world.wait(10)
    world.do(SuspendJob(by=ROOT, job=job))
    for report in world.nodes.stopped(job):
        world.do(report)
    before = used(world)["ada", ""]
    assert before == pytest.approx(integral(4, 10))
    world.wait(20)
    assert used(world)["ada", ""] < before, "it only decays"
    world.do(ResumeJob(by=ROOT, job=job))
    world.wait(10)
    assert used(world)["ada", ""] == pytest.approx(integral(4, 10) * exp2(-30 / WEEK) + integral(4, 10))
    assert ("bob", "") not in used(world), f"job {waiting} has had nothing"
    world.check_replay()


def test_a_running_job_that_changes_its_project_counts_for_the_new_one_from_then_on() -> None:
    world = World(2)
    job = world.submit(TASK, by=ADA, minimum=2, maximum=2, project="old")
    world.wait(10)
    spec = world.cluster.written(world.record(job))
    world.do(ModifyJob(by=ADA, job=job, spec=replace(spec, project="new"), fields=("project",)))
    world.wait(30)
    assert used(world)["ada", "new"] == pytest.approx(integral(2, 30))
    assert used(world)["ada", "old"] == pytest.approx(integral(2, 10) * exp2(-30 / WEEK))
    world.check_replay()


def test_a_new_half_life_counts_from_the_time_when_it_is_set() -> None:
    world = World(1)
    job = world.submit(TASK, by=ADA)
    world.wait(1000)
    world.end(job, 1)
    world.do(SetParameter(by=ROOT, name="UsageHalfLife", value="60"))
    world.wait(120)
    assert used(world)["ada", ""] == pytest.approx(integral(1, 1000) / 4)
    world.do(SetParameter(by=ROOT, name="UsageHalfLife", value=None))
    world.wait(WEEK)
    assert used(world)["ada", ""] == pytest.approx(integral(1, 1000) / 8)
    world.check_replay()


@pytest.mark.parametrize("by", [3600.0, -3600.0])
def test_a_clock_that_is_set_adds_and_removes_no_usage(by: float) -> None:
    world = World(1)
    world.submit(TASK, by=ADA)
    world.wait(100)
    world.clock.jump(Instant(world.clock.now() + by))
    world.wait(50)
    assert used(world)["ada", ""] == pytest.approx(integral(1, 150))
    world.check_replay()


def test_a_snapshot_between_start_and_end_loses_nothing() -> None:
    world = World(4)
    job = world.submit(TASK, by=ADA, minimum=2, maximum=2)
    world.wait(100)
    world.submit(TASK, by=BOB, minimum=1, maximum=1)
    world.engine.snapshot_if_due(1)
    assert world.replayed().usage.used(world.clock.now()) == used(world)
    world.wait(100)
    world.end(job, 1)
    world.check_replay()
    assert world.replayed().usage.used(world.clock.now()) == used(world)


def test_names_of_projects_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_usage, "MAX_ACCOUNTS", 10)
    world = World(4)
    for number in range(25):
        job = world.submit(TASK, by=ADA, minimum=4, maximum=4, project=f"p{number}")
        world.wait(10 + number)
        world.end(job, 1)
    assert len(used(world)) <= 10
    assert ("ada", "p24") in used(world)
    world.check_replay()


def test_an_owner_does_not_lose_its_usage_by_new_names_of_projects(monkeypatch: pytest.MonkeyPatch) -> None:
    def total_of_ada(most: int) -> float:
        monkeypatch.setattr(owner_usage, "MAX_ACCOUNTS", most)
        world = World(4)
        for number in range(40):
            job = world.submit(TASK, by=ADA, minimum=4, maximum=4, project=f"p{number}")
            world.wait(10)
            world.end(job, 1)
        assert len(used(world)) <= most
        weighted = world.cluster.usage.weighted(world.clock.now()).values()
        assert sum(weighted) == pytest.approx(world.cluster.usage.used_by_owner("ada", world.clock.now()))
        return world.cluster.usage.used_by_owner("ada", world.clock.now())

    assert total_of_ada(10) == pytest.approx(total_of_ada(1000)) == pytest.approx(1600, rel=0.01)
