"""Jobs that wait for one element of an array, for some time after a start, or for any one of several jobs."""

import sys
from collections.abc import Callable
from itertools import permutations, product
from types import FrameType

import pytest
from worlds import ROOT, World

from depth import thinned
from headnode.core.model.dependency import Condition, JobDependency
from headnode.core.model.errors import BadRequest, NotFound, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId, Seconds
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.depend import ParentOutcome, elements_of, outcome_of
from headnode.core.state.hold import HoldJob, HoldTask, ReleaseTask
from headnode.core.state.job_end import purgeable
from headnode.core.state.job_events import JobStarted
from headnode.core.state.modify import ModifyJob, RequeueJob
from headnode.core.state.stop import RequeueTask, StopJob
from headnode.core.state.submit import CreateJob
from headnode.core.state.transitions import JobState

SUCCESS, FAILURE, EXIT, START = (
    Condition.ON_SUCCESS,
    Condition.ON_FAILURE,
    Condition.ON_EXIT,
    Condition.ON_START,
)
TASK = TaskSpec(command="x", rerunnable=True)


def array(last: int) -> TaskSpec:
    return TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=last, rerunnable=True)


def outcomes(world: World, spec: JobSpec, *jobs: JobId) -> dict[int, ParentOutcome]:
    """Return what became of jobs that are over, as the server passes it."""
    over = {job: world.archived(job) for job in jobs}
    return {job: outcome_of(one, elements_of(spec, job)) for job, one in over.items() if one is not None}


def depend(world: World, *ones: JobDependency, **options: object) -> JobId:
    spec = JobSpec(tasks=(TASK,), dependencies=ones, **options)
    parents = outcomes(world, spec, *(JobId(one.job) for one in ones))
    events = world.do(CreateJob(by=ROOT, spec=spec, submit=True, parents=parents))
    return events[0].job  # type: ignore[attr-defined]


def starts(world: World) -> list[int]:
    return [event.job for _, event in world.journal.replay() if isinstance(event, JobStarted)]


def test_the_end_of_an_element_decides_while_the_others_go_on_or_at_the_latest_the_end_of_its_array() -> None:
    """Each condition, each end of the element, before and after the end of another element."""
    for condition, exit_code, order in thinned(
        product((SUCCESS, FAILURE, EXIT), (0, 1), permutations((1, 2)))
    ):
        world = World(4)
        parent = world.submit(array(2))
        child = depend(world, JobDependency(parent, condition, element=2))
        right = condition is EXIT or (condition is SUCCESS) == (exit_code == 0)
        for number in order:
            started_before = child in starts(world)
            world.end(parent, 1, number, exit_code=exit_code if number == 2 else 0)
            assert (child in starts(world)) == (started_before or (right and number == 2))
        state = JobState.RUNNING if right else JobState.CANCELED
        assert world.record(child).state is state, (condition, exit_code, order)
        if not right:
            message = world.record(child).message
            assert f"waits for element 2 of job {parent} to" in message
            assert f"element 2 of job {parent} {'failed' if exit_code else 'finished'}" in message
        world.check_replay()


def test_a_child_starts_when_the_element_starts_and_not_with_the_job() -> None:
    world = World(1)
    parent = world.submit(array(2))
    child = depend(world, JobDependency(parent, START, element=2))
    assert world.record(child).waits_for == (parent,)
    world.end(parent, 1, 1)
    (held,) = world.nodes.running()
    world.do(world.nodes.started(held, world.clock.now()))
    assert world.record(child).waits_for == ()
    world.check_replay()


def test_an_element_that_runs_again_is_waited_for_again() -> None:
    """The child is held, so that it has not started when the element is requeued."""
    world = World(4)
    parent = world.submit(array(2))
    child = depend(world, JobDependency(parent, FAILURE, element=2))
    world.do(HoldJob(by=ROOT, job=child, name="user"))
    world.end(parent, 1, 2, exit_code=1)
    assert world.record(child).satisfied == (parent,)
    world.do(RequeueTask(by=ROOT, job=parent, task=1, instance=2))
    assert world.record(child).waits_for == (parent,)
    world.end(parent, 1, 2)
    world.end(parent, 1, 1)
    assert world.record(child).state is JobState.CANCELED
    world.check_replay()


def test_a_held_element_keeps_its_child_waiting() -> None:
    world = World(1)
    parent = world.submit(array(2))
    child = depend(world, JobDependency(parent, element=2))
    world.do(HoldTask(by=ROOT, job=parent, task=1, instance=2))
    world.end(parent, 1, 1)
    assert world.record(child).waits_for == (parent,)
    world.do(ReleaseTask(by=ROOT, job=parent, task=1, instance=2))
    world.end(parent, 1, 2)
    assert world.record(child).state is JobState.RUNNING


def test_a_child_comes_back_with_the_array_whose_element_failed() -> None:
    world = World(2)
    parent = world.submit(array(2))
    child = depend(world, JobDependency(parent, element=2))
    world.end(parent, 1, 1)
    world.end(parent, 1, 2, exit_code=1)
    skipped = world.archived(child)
    assert skipped is not None
    assert skipped.skipped
    assert purgeable(world.cluster, [parent]) == (parent,)
    record = world.archived(parent)
    world.do(RequeueJob(by=ROOT, job=parent, archived=record, skipped=(skipped,)))
    assert world.record(child).waits_for == (parent,)
    assert purgeable(world.cluster, [parent]) == ()
    world.end(parent, 1, 2)
    assert world.record(child).state is JobState.RUNNING
    world.check_replay()


def test_elements_of_arrays_that_are_over_decide_at_once_and_unknown_ones_are_refused() -> None:
    world = World(2)
    parent = world.submit(array(2))
    world.end(parent, 1, 1)
    world.end(parent, 1, 2, exit_code=1)
    for condition, element, starts_now in product((SUCCESS, FAILURE, EXIT, START), (1, 2), (True,)):
        right = condition in (EXIT, START) or (condition is SUCCESS) == (element == 1)
        if right is starts_now:
            assert world.record(depend(world, JobDependency(parent, condition, element))).waits_for == ()
        else:
            with pytest.raises(WrongState, match=f"element {element} of job 1 .* would never start"):
                depend(world, JobDependency(parent, condition, element))
    with pytest.raises(NotFound, match="no sweep of job 1 has this number"):
        depend(world, JobDependency(parent, element=3))


def calls_of(module: str, work: Callable[[], object]) -> int:
    """Return how many functions of a module are called."""
    found = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal found
        found += event == "call" and frame.f_code.co_filename.endswith(module)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def test_the_children_of_an_element_are_looked_at_when_it_ends_and_not_before() -> None:
    world = World(1)
    parent = world.submit(array(50))
    for _ in range(100):
        depend(world, JobDependency(parent, element=2))
    assert calls_of("children.py", lambda: world.end(parent, 1, 1)) == 0
    assert calls_of("children.py", lambda: world.end(parent, 1, 2)) >= 100


def test_a_delay_counts_from_the_start_of_the_job() -> None:
    world = World(2)
    parent = world.submit(TASK, minimum=1, maximum=1)
    child = depend(world, JobDependency(parent, START, delay=Seconds(300.0)), minimum=1, maximum=1)
    assert world.record(child).waits_for == ()
    assert world.cluster.queue.held[child] == world.clock.now() + 300
    world.wait(299)
    assert child not in starts(world)
    world.replayed()
    world.wait(1)
    assert child in starts(world)
    late = depend(world, JobDependency(parent, START, delay=Seconds(300.0)), minimum=1, maximum=1)
    world.end(parent, 1)
    assert late in starts(world)


def test_a_delay_begins_when_a_waiting_job_starts_and_a_hold_may_last_longer() -> None:
    world = World(1)
    first = world.submit(TASK)
    parent = world.submit(TASK)
    hold = world.clock.now() + 1000
    child = depend(world, JobDependency(parent, START, delay=Seconds(60.0)))
    other = depend(world, JobDependency(parent, START, delay=Seconds(60.0)), hold_until=hold)
    world.wait(100)
    assert world.record(child).waits_for == (parent,)
    world.end(first, 1)
    assert world.cluster.queue.held[child] == world.clock.now() + 60
    assert world.cluster.queue.held[other] == hold
    world.end(parent, 1)
    assert child not in starts(world)
    world.wait(60)
    assert child in starts(world)
    world.check_replay()


def test_a_delay_after_a_job_that_never_started_is_in_vain() -> None:
    world = World(1)
    world.submit(TASK)
    parent = world.submit(TASK)
    child = depend(world, JobDependency(parent, START, delay=Seconds(60.0)))
    world.do(StopJob(by=ROOT, job=parent, outcome="canceled"))
    assert world.record(child).state is JobState.CANCELED


def test_any_dependency_is_enough_and_only_when_all_have_failed_the_job_is_canceled() -> None:
    """Three parents end in every order with every result; the job starts with the first that satisfies it."""
    for order, ends in thinned(product(permutations((0, 1, 2)), product((0, 1), repeat=3))):
        world = World(4)
        parents = [world.submit(TASK, minimum=1, maximum=1) for _ in range(3)]
        child = depend(
            world, parents=tuple(parents[:2]), after_failure=tuple(parents[2:]), any_dependency=True,
            minimum=1, maximum=1,
        )  # fmt: skip
        satisfied = False
        for number in order:
            world.end(parents[number], 1, exit_code=ends[number])
            satisfied |= ends[number] == (1 if number == 2 else 0)
            assert (child in starts(world)) == satisfied, (order, ends)
        assert (world.record(child).state is JobState.CANCELED) is not satisfied
        if not satisfied:
            last = parents[order[-1]]
            assert "none of its dependencies can be satisfied any more" in world.record(child).message
            assert f"job {last}" in world.record(child).message
        world.check_replay()


def test_a_parent_that_runs_again_closes_the_way_only_if_no_other_is_satisfied() -> None:
    world = World(1)
    first, second = world.submit(TASK), world.submit(TASK)
    child = depend(world, parents=(first,), after_failure=(second,), any_dependency=True)
    world.do(HoldJob(by=ROOT, job=child, name="user"))
    world.do(StopJob(by=ROOT, job=second, outcome="canceled"))
    record = world.record(child)
    assert (record.waits_for, record.satisfied, record.spare) == ((), (second,), (first,))
    world.do(RequeueJob(by=ROOT, job=second, archived=world.archived(second)))
    record = world.record(child)
    assert (record.waits_for, record.satisfied, record.spare) == ((first, second), (), ())
    world.end(first, 1, exit_code=1)
    record = world.record(child)
    assert (record.waits_for, record.satisfied, record.spare) == ((second,), (), (first,))
    world.do(RequeueJob(by=ROOT, job=first, archived=world.archived(first)))
    assert world.record(child).waits_for == (first, second)
    world.check_replay()


def test_any_of_elements_and_delays_takes_the_earliest() -> None:
    world = World(2)
    parent = world.submit(array(2))
    slow, fast = Seconds(600.0), Seconds(60.0)
    child = depend(
        world, JobDependency(parent, element=2), JobDependency(parent, START, delay=slow),
        JobDependency(parent, START, delay=fast), any_dependency=True,
    )  # fmt: skip
    assert world.cluster.queue.held[child] == world.clock.now() + 60
    world.end(parent, 1, 2)
    assert child not in world.cluster.queue.held
    world.check_replay()


def test_what_was_past_hope_at_the_submission_is_refused_only_if_all_are() -> None:
    world = World(4)
    failed, running = world.submit(TASK), world.submit(TASK)
    world.end(failed, 1, exit_code=1)
    gone = {failed: outcome_of(world.record(failed))}
    wish = JobSpec(tasks=(TASK,), parents=(failed, running), any_dependency=True)
    (made, *_) = world.do(CreateJob(by=ROOT, spec=wish, submit=True, parents=gone))
    record = world.record(made.job)  # type: ignore[attr-defined]
    assert (record.waits_for, record.spare) == ((running,), (failed,))
    alone = JobSpec(tasks=(TASK,), parents=(failed, failed), any_dependency=True)
    with pytest.raises(WrongState, match="would never start"):
        world.do(CreateJob(by=ROOT, spec=alone, submit=True, parents=gone))


def test_dependencies_that_mean_nothing_are_refused() -> None:
    world = World(1)
    parent = world.submit(array(2))
    minute = Seconds(60.0)
    for one, what in (
        (JobDependency(parent), r"neither an element nor a delay"),
        (JobDependency(parent, element=2, condition=Condition.ON_CORRESPONDING), "whole jobs"),
        (JobDependency(parent, SUCCESS, delay=minute), "no start to count from"),
        (JobDependency(parent, START, element=2, delay=minute), "start of a whole job"),
        (JobDependency(parent, START, delay=Seconds(-1.0)), "not possible"),
        (JobDependency(parent, START, delay=Seconds(float("nan"))), "not possible|not a"),
        (JobDependency(0, START, delay=minute), "not valid"),
    ):
        with pytest.raises(BadRequest, match=what):
            depend(world, one)
    for options in ({"singleton": True, "name": "a"}, {"after_corresponding": (parent,)}):
        with pytest.raises(BadRequest, match="any one of its dependencies"):
            depend(world, parents=(parent,), any_dependency=True, **options)


def test_the_dependencies_of_a_waiting_job_change_and_a_circle_is_refused() -> None:
    world = World(1)
    array_job, other = world.submit(array(2)), world.submit(TASK)
    child = depend(world, parents=(array_job,))
    grandchild = depend(world, parents=(child,))

    def change(job: JobId, **options: object) -> None:
        spec = JobSpec(tasks=(TASK,), **options)
        gone = outcomes(world, spec, array_job, other)
        world.do(ModifyJob(by=ROOT, job=job, spec=spec, fields=tuple(options), parents=gone))

    change(child, parents=(), dependencies=(JobDependency(array_job, element=1),))
    world.check_replay()
    world.end(array_job, 1, 1)
    assert world.record(child).waits_for == ()
    change(child, dependencies=(JobDependency(array_job, element=2),))
    assert world.record(child).waits_for == (array_job,)
    with pytest.raises(BadRequest, match=f"{child} -> {grandchild}|{grandchild} -> {child}"):
        change(child, parents=(grandchild,))
    change(child, parents=(other,), any_dependency=True)
    assert (world.record(child).waits_for, world.record(child).elements) == ((other, 1), ((1, 2),))
    world.end(array_job, 1, 2, exit_code=1)
    assert (world.record(child).waits_for, world.record(child).spare) == ((other,), (array_job,))
    with pytest.raises(WrongState, match="would never start"):
        change(child, dependencies=(), parents=(array_job,))
    world.end(other, 1)
    assert world.record(child).state is JobState.RUNNING
    with pytest.raises(WrongState, match="cannot change while it is running"):
        change(child, parents=())
    world.check_replay()
