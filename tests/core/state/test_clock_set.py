"""Somebody sets the head's clock while jobs run: their limits are over when they would have been."""

import pytest
from worlds import ROOT, World

from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.state import suspend as c
from headnode.core.state.transitions import JobState

TASK = TaskSpec(command="x", rerunnable=True)
DAY = 86_400.0


def set_clock(world: World, by: float) -> None:
    world.clock.jump(Instant(world.clock.now() + by))
    world.engine.tick()


def limited(world: World, seconds: float = 100.0, **more: object) -> JobId:
    return world.submit(TASK, run_time=Seconds(seconds), **more)


def state(world: World, job: JobId) -> JobState:
    return world.record(job).state


@pytest.mark.parametrize("by", [DAY, -DAY, 3.0, -99.0])
def test_a_limit_is_over_neither_earlier_nor_later(by: float) -> None:
    world = World(1)
    job = limited(world)
    world.wait(40)
    set_clock(world, by)
    assert state(world, job) is JobState.RUNNING
    world.wait(59)
    assert state(world, job) is JobState.RUNNING
    world.check_replay()
    world.wait(1)
    assert state(world, job) is JobState.ENDING
    world.do(*(world.nodes.ended(held, world.clock.now(), kind="stopped") for held in world.nodes.stopping()))
    assert world.record(job).run is not None
    assert world.record(job).run.usage.wall_time == pytest.approx(100)
    world.check_replay()


@pytest.mark.parametrize("by", [DAY, -DAY])
def test_a_suspended_job_has_left_what_it_had(by: float) -> None:
    world = World(1)
    job = limited(world, suspendable=True)
    world.wait(40)
    world.do(c.SuspendJob(by=ROOT, job=job))
    world.do(*world.nodes.stopped(job))
    world.wait(10)
    set_clock(world, by)
    world.wait(10)
    world.do(c.ResumeJob(by=ROOT, job=job))
    assert state(world, job) is JobState.RUNNING
    world.wait(59)
    assert state(world, job) is JobState.RUNNING
    world.wait(2)
    assert state(world, job) is JobState.ENDING
    world.check_replay()


def test_a_date_to_end_by_stays_that_date() -> None:
    world = World(1)
    end = Instant(world.clock.now() + 1000)
    job = limited(world, 500.0, end_by=end)
    set_clock(world, 990)
    assert state(world, job) is JobState.RUNNING
    world.wait(10)
    assert state(world, job) is JobState.ENDING


def test_a_job_that_starts_afterwards_has_its_whole_limit() -> None:
    world = World(1)
    first, second = limited(world), limited(world)
    set_clock(world, DAY)
    world.end(first, 1)
    world.wait(99)
    assert state(world, second) is JobState.RUNNING
    world.wait(1)
    assert state(world, second) is JobState.ENDING


def test_where_nothing_runs_nothing_is_written_down() -> None:
    world = World(1)
    before = world.engine.number
    set_clock(world, DAY)
    assert world.engine.number == before
