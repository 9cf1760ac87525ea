"""Arrays whose elements wait each for the element of its number in another array: aftercorr of Slurm."""

from collections.abc import Sequence
from itertools import permutations, product

import pytest
from worlds import ROOT, World

from depth import thinned
from headnode.core.model.errors import BadRequest, WrongState
from headnode.core.model.job import Alternative, JobSpec, TaskAlternative
from headnode.core.model.quantities import JobId, Priority
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.corresponding import awaiting, sweeps_of, waiting_in
from headnode.core.state.depend import ParentOutcome, SweepOutcome
from headnode.core.state.job_events import JobStarted
from headnode.core.state.job_record import JobRecord, spec_of
from headnode.core.state.modify import RequeueJob
from headnode.core.state.stop import StopJob
from headnode.core.state.submit import CreateJob
from headnode.core.state.transitions import JobState


def array(first: int, last: int, step: int = 1) -> TaskSpec:
    return TaskSpec(command="x", kind=TaskType.SWEEP, start=first, end=last, increment=step, rerunnable=True)


def outcomes(world: World, *jobs: JobId) -> dict[int, ParentOutcome]:
    """Return what became of jobs that are over, as the server passes it."""
    return {
        job: ParentOutcome(record.state, started=True, skipped=record.skipped, sweeps=sweeps_of(record))
        for job in jobs
        if (record := world.archived(job)) is not None
    }


def follow(world: World, task: TaskSpec, *parents: JobId) -> JobId:
    spec = JobSpec(tasks=(task,), after_corresponding=parents)
    events = world.do(CreateJob(by=ROOT, spec=spec, submit=True, parents=outcomes(world, *parents)))
    return events[0].job  # type: ignore[attr-defined]


def numbers(world: World, job: JobId) -> list[int]:
    """Return the numbers of the elements that nodes have."""
    tasks = spec_of(world.record(job)).tasks
    return sorted(tasks[task - 1].value(instance) for task, instance in world.dispatched(job))


def states(record: JobRecord) -> dict[str, list[int]]:
    run = record.run
    assert run is not None
    (task,), (progress,) = spec_of(record).tasks, run.tasks
    sets = {"finished": progress.finished, "failed": progress.failed, "canceled": progress.canceled}
    return {name: [task.value(i) for i in found] for name, found in sets.items() if found}


def test_an_element_starts_when_the_one_of_its_number_has_finished_in_every_order_and_with_every_end() -> (
    None
):
    for order, ends in thinned(product(permutations((1, 2, 3)), product((0, 1), repeat=3))):
        world = World(8)
        first = world.submit(array(1, 3))
        second = follow(world, array(1, 3), first)
        assert numbers(world, second) == []
        done: list[int] = []
        for number in order:
            world.end(first, 1, number, exit_code=ends[number - 1])
            done += [number] if ends[number - 1] == 0 else []
            assert numbers(world, second) == sorted(done), (order, ends)
            world.check_replay()
        for number in sorted(done):
            world.end(second, 1, number)
        failed = [number for number in (1, 2, 3) if ends[number - 1]]
        record = world.record(second)
        if not done:
            assert (record.state, record.skipped) == (JobState.CANCELED, True)
        else:
            assert states(record) == {
                name: found for name, found in (("finished", sorted(done)), ("failed", failed)) if found
            }
            assert record.state is (JobState.FAILED if failed else JobState.FINISHED)
        world.check_replay()


def test_a_job_whose_elements_all_wait_holds_no_processors() -> None:
    """It would keep them from the very elements that it waits for."""
    world = World(1)
    first = world.submit(array(1, 2))
    second = follow(world, array(1, 2), first)
    world.end(first, 1, 1)
    assert numbers(world, first) == [2]
    world.end(first, 1, 2)
    for number in (1, 2):
        assert numbers(world, second) == [number]
        world.end(second, 1, number)
    assert world.record(second).state is JobState.FINISHED


def test_a_job_gives_its_processors_back_until_the_next_element_may_start() -> None:
    world = World(2)
    first = world.submit(array(1, 2))
    second = follow(world, array(1, 2), first)
    world.end(first, 1, 1)
    assert numbers(world, second) == [1]
    world.end(second, 1, 1)
    assert world.record(second).state is JobState.QUEUED
    other = world.submit(TaskSpec(command="x"))
    assert world.dispatched(other) == [(1, 1)]
    world.end(first, 1, 2)
    assert numbers(world, second) == [2]
    world.end(second, 1, 2)
    assert world.record(second).state is JobState.FINISHED
    assert world.record(second).run.auto_requeues == 0
    world.check_replay()


@pytest.mark.parametrize("tasks", [((1, 9, 2), (3, 7, 2)), ((1, 9, 1), (2, 8, 3)), ((2, 8, 3), (1, 9, 1))])
def test_elements_are_paired_by_their_numbers_and_others_wait_for_all(
    tasks: tuple[Sequence[int], Sequence[int]],
) -> None:
    parent, child = (array(*each) for each in tasks)
    world = World(20)
    first = world.submit(parent)
    second = follow(world, child, first)
    there = {parent.value(i) for i in range(1, parent.instances + 1)}
    mine = [child.value(i) for i in range(1, child.instances + 1)]
    done: set[int] = set()
    for instance in range(1, parent.instances + 1):
        world.end(first, 1, instance)
        done.add(parent.value(instance))
        over = done == there
        assert numbers(world, second) == [n for n in mine if n in done or (over and n not in there)]
    assert numbers(world, second) == mine


def test_the_numbers_that_two_sweeps_share_are_found_without_a_look_at_each() -> None:
    tasks = [
        array(first, first + step * more, step)
        for first in (-5, 0, 3)
        for step in (1, 2, 3, 4, 6)
        for more in (0, 5, 8)
    ]
    for task, parent in thinned(product(tasks, tasks)):
        for done in ((), ((1, 1),), ((2, 3), (5, 6))):
            finished = tuple(span for span in done if span[1] <= parent.instances)
            sweep = SweepOutcome(parent.start, parent.increment, parent.instances, finished)
            of_parent = {
                parent.value(i): any(a <= i <= b for a, b in finished) for i in range(1, parent.instances + 1)
            }
            there = {i: of_parent.get(task.value(i)) for i in range(1, task.instances + 1)}
            for state, wait in ((JobState.RUNNING, (None, False)), (JobState.FINISHED, (False,))):
                found = waiting_in(task, ParentOutcome(state, sweeps=(sweep,)))
                assert list(found) == [i for i, over in there.items() if over in wait], (task, sweep)


def test_a_job_that_shares_too_many_single_numbers_with_another_is_refused() -> None:
    world = World(1)
    first = world.submit(array(1, 200_000, 2))
    with pytest.raises(BadRequest, match="more than 10,000 ranges"):
        follow(world, array(1, 200_000, 3), first)
    follow(world, array(1, 200_000, 2), first)
    follow(world, array(1, 60_000, 3), first)


def test_an_element_waits_for_that_of_each_job_and_for_each_range_of_an_array() -> None:
    world = World(20)
    one, two = world.submit(array(1, 2)), world.submit(array(1, 1), array(2, 2))
    both = follow(world, array(1, 2), one, two)
    world.end(one, 1, 1)
    world.end(two, 2, 1)
    assert numbers(world, both) == []
    world.end(two, 1, 1)
    assert numbers(world, both) == [1]
    world.end(one, 1, 2)
    assert numbers(world, both) == [1, 2]


def test_what_had_finished_before_is_not_waited_for_and_what_never_will_is_refused() -> None:
    world = World(4)
    half, none = world.submit(array(1, 2)), world.submit(array(1, 2))
    for job, codes in ((half, (0, 1)), (none, (1, 1))):
        for number, code in enumerate(codes, 1):
            world.end(job, 1, number, exit_code=code)
    with pytest.raises(WrongState, match="the job would never start"):
        follow(world, array(1, 2), none)
    second = follow(world, array(1, 2), half)
    assert numbers(world, second) == [1]
    world.end(second, 1, 1)
    assert states(world.record(second)) == {"finished": [1], "failed": [2]}
    world.check_replay()


def test_a_requeued_parent_brings_back_what_was_canceled_for_it_element_by_element() -> None:
    world = World(4)
    first = world.submit(array(1, 2))
    second = follow(world, array(1, 2), first)
    for number in (1, 2):
        world.end(first, 1, number, exit_code=1)
    skipped = world.archived(second)
    assert skipped is not None
    assert skipped.skipped
    archived = world.archived(first)
    world.do(RequeueJob(by=ROOT, job=first, archived=archived, skipped=(skipped,)))
    world.end(first, 1, 2)
    assert numbers(world, second) == [2]
    world.end(first, 1, 1)
    assert numbers(world, second) == [1, 2]
    world.check_replay()


def test_an_ended_follower_that_is_requeued_waits_again_for_what_has_not_finished() -> None:
    world = World(4)
    first = world.submit(array(1, 2))
    second = follow(world, array(1, 2), first)
    world.end(first, 1, 1)
    world.end(second, 1, 1, exit_code=1)
    world.do(StopJob(by=ROOT, job=second, outcome="canceled"))
    archived = world.archived(second)
    world.do(RequeueJob(by=ROOT, job=second, archived=archived, parents=outcomes(world, first)))
    assert numbers(world, second) == [1]
    world.end(first, 1, 2)
    assert numbers(world, second) == [1, 2]
    world.check_replay()


def test_a_running_job_loses_the_elements_whose_counterparts_never_finish() -> None:
    world = World(4)
    first = world.submit(array(1, 3))
    second = follow(world, array(1, 3), first)
    world.end(first, 1, 1)
    world.do(StopJob(by=ROOT, job=first, outcome="canceled"))
    for number in (2, 3):
        world.end(first, 1, number, kind="stopped")
    run = world.record(second).run
    assert run is not None
    assert (run.follows, list(run.tasks[0].failed)) == ((), [2, 3])
    assert "instance of its number in job 1" in str([event for _, event in world.journal.replay()])
    world.end(second, 1, 1)
    assert world.record(second).state is JobState.FAILED


def test_a_higher_job_goes_first_while_elements_wait() -> None:
    world = World(1)
    first = world.submit(array(1, 2))
    second = follow(world, array(1, 2), first)
    urgent = world.submit(TaskSpec(command="x"), priority=Priority(3000))
    world.end(first, 1, 1)
    world.end(first, 1, 2)
    assert world.dispatched(urgent) == [(1, 1)]
    assert numbers(world, second) == []


def test_a_million_elements_cost_no_more_than_their_ranges() -> None:
    """The event of the submission and the state have ranges, not elements."""
    task = array(1, 1_000_000)
    spec = JobSpec(tasks=(task,), after_corresponding=(1,))
    world = World(1)
    first = world.submit(task)
    waiting = awaiting(spec, {1: ParentOutcome(JobState.RUNNING, sweeps=sweeps_of(world.record(first)))})
    assert waiting == ((1, ((1, ((1, 1_000_000),)),)),)
    second = follow(world, task, first)
    world.end(first, 1, 1)
    run = world.record(second).run
    assert run is not None
    assert list(run.tasks[0].blocked.spans()) == [(2, 1_000_000)]


def test_jobs_that_cannot_start_one_by_one_are_refused() -> None:
    service = TaskSpec(command="x", kind=TaskType.SERVICE)
    other = Alternative(tasks=(TaskAlternative(end=5),))
    for spec in (
        JobSpec(tasks=(array(1, 2),), together=True, after_corresponding=(1,)),
        JobSpec(tasks=(service,), after_corresponding=(1,)),
        JobSpec(tasks=(array(1, 2),), alternatives=(other,), after_corresponding=(1,)),
    ):
        world = World(2)
        world.submit(array(1, 2))
        with pytest.raises(BadRequest, match="one by one"):
            world.do(CreateJob(by=ROOT, spec=spec, submit=True))


def tour_of_lost_elements(world: World) -> None:
    """Let a running job lose elements because those of another job failed."""
    first = world.submit(array(1, 2))
    second = follow(world, array(1, 2), first)
    world.end(first, 1, 1)
    world.end(first, 1, 2, exit_code=1)
    started = [event for _, event in world.journal.replay() if isinstance(event, JobStarted)]
    assert [event.job for event in started] == [first, second]
