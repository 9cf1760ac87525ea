"""Predicted starts of jobs of which some elements are held, or wait for those of another job."""

from test_foreseeing import HOUR, Foreseen
from worlds import ADA, ROOT

from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.hold import HoldTask, ReleaseTask


def array(world: Foreseen, last: int, *parents: JobId) -> JobId:
    """Submit an array for one processor, whose elements wait for those of the parents."""
    task = TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=last, rerunnable=True)
    options = {"minimum": 1, "maximum": 1, "run_time": HOUR, "after_corresponding": parents}
    return world.submit(task, by=ADA, **options)


def test_the_start_of_a_job_with_some_held_elements_is_that_of_the_others() -> None:
    """What is held wholly has no predicted start, and nothing behind it waits for it."""
    world = Foreseen(1)
    world.add()
    job = array(world, 3)
    behind = world.add()
    for held in (1, 2):
        world.do(HoldTask(by=ROOT, job=job, task=1, instance=held))
        world.look()
        assert world.expected_waits(job) == (HOUR, HOUR, HOUR)
        assert world.expected_waits(behind) == (2 * HOUR, 2 * HOUR, 2 * HOUR)
    world.do(HoldTask(by=ROOT, job=job, task=1, instance=3))
    world.look()
    assert world.foreseer.expected(job) is None
    assert world.expected_waits(behind) == (HOUR, HOUR, HOUR)
    world.do(ReleaseTask(by=ROOT, job=job, task=1, instance=2))
    world.look()
    assert world.expected_waits(job) == (HOUR, HOUR, HOUR)
    world.run_for(HOUR)
    assert world.dispatched(job) == [(1, 2)]


def test_a_job_whose_elements_wait_has_a_predicted_start_once_the_first_of_them_may_start() -> None:
    world = Foreseen(1)
    first = array(world, 2)
    second = array(world, 2, first)
    world.look()
    assert world.foreseer.expected(second) is None
    world.end(first, 1, 1)
    world.look()
    assert world.expected_waits(second) == (HOUR, HOUR, HOUR)
    world.end(first, 1, 2)
    assert world.dispatched(second) == [(1, 1)]
