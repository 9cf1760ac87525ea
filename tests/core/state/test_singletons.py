"""Singletons: jobs of one owner and name run one after another, whatever ends, is canceled or runs again."""

from collections.abc import Iterator
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import ADA, BOB, ROOT, World

from depth import thinned
from headnode.core.model.dependency import DependencyLink
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.state.groups import CreateJobs, SubmitJobs
from headnode.core.state.job_events import JobCreated, JobStarted
from headnode.core.state.modify import RequeueJob
from headnode.core.state.stop import StopJob
from headnode.core.state.submit import CreateJob

TASK = TaskSpec(command="x", rerunnable=True)
KINDS = list(product((ADA, BOB), ("a", "b"), (True, False)))
"""Owner, name, and whether the job is a singleton."""


def spec(name: str, *, singleton: bool) -> JobSpec:
    return JobSpec(name=name, tasks=(TASK,), singleton=singleton)


def submit(world: World, by: User, name: str, *, singleton: bool) -> JobId:
    events = world.do(CreateJob(by=by, spec=spec(name, singleton=singleton), submit=True))
    return next(event.job for event in events if isinstance(event, JobCreated))


def may_run(world: World, job: JobId) -> bool:
    """Return whether no job before it keeps it from running, by the rule alone."""
    own = world.record(job)
    written = world.cluster.written(own)
    return not written.singleton or not any(
        other.id < job
        and other.owner == own.owner
        and world.cluster.written(other).name == written.name
        and other.id in world.cluster.jobs
        for other in map(world.record, map(JobId, range(1, job)))
    )


def check(world: World, jobs: int) -> None:
    """Each job runs or waits as the rule says; the nodes have room for all."""
    for job in map(JobId, range(1, jobs + 1)):
        if job in world.cluster.jobs:
            assert (job in world.cluster.running) == may_run(world, job), job
    world.check_replay()


def test_every_three_jobs_run_as_the_rule_says_however_they_end() -> None:
    for kinds in thinned(product(KINDS, repeat=3)):
        world = World(8)
        for by, name, singleton in kinds:
            submit(world, by, name, singleton=singleton)
        check(world, 3)
        while world.cluster.running:
            job = max(world.cluster.running)
            world.end(job, 1, exit_code=job % 2)
            check(world, 3)
        assert not world.cluster.jobs


@given(st.lists(st.sampled_from([*KINDS, "end", "cancel"]), max_size=14), st.randoms(use_true_random=False))
def test_any_history_keeps_the_rule(steps: list[object], random: Random) -> None:
    world, jobs = World(16), 0
    for step in steps:
        if step == "end" and world.cluster.running:
            world.end(random.choice(sorted(world.cluster.running)), 1)
        elif step == "cancel" and world.cluster.jobs:
            job = random.choice(sorted(world.cluster.jobs))
            world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
            if job in world.cluster.running:
                world.end(job, 1, kind="stopped")
        elif isinstance(step, tuple):
            by, name, singleton = step
            jobs += 1
            submit(world, by, name, singleton=singleton)
        check(world, jobs)


def several(*names: str, submit: bool = True, links: tuple[DependencyLink, ...] = ()) -> CreateJobs:
    specs = tuple(spec(name, singleton=True) for name in names)
    return CreateJobs(by=ADA, specs=specs, submit=submit, links=links)


def one_by_one(world: World) -> Iterator[list[JobId]]:
    while world.cluster.running:
        yield sorted(world.cluster.running)
        world.end(max(world.cluster.running), 1)


@pytest.mark.parametrize("how", ["at once", "made before", "each for itself"])
def test_singletons_that_are_submitted_together_run_in_their_order(how: str) -> None:
    world = World(8)
    if how == "at once":
        world.do(several("a", "b", "a", "a"))
    elif how == "made before":
        world.do(several("a", "b", "a", "a", submit=False))
        world.do(SubmitJobs(by=ADA, jobs=tuple(map(JobId, (1, 2, 3, 4)))))
    else:
        world.do(*(CreateJob(by=ADA, spec=spec(name, singleton=True), submit=True) for name in "abaa"))
    assert list(one_by_one(world)) == [[1, 2], [1], [3], [4]]
    world.check_replay()


def test_jobs_of_a_group_that_would_wait_for_each_other_are_refused() -> None:
    world = World(8)
    with pytest.raises(BadRequest, match="jobs wait for each other") as refused:
        world.do(several("a", "a", links=(DependencyLink(0, 1),)))
    assert refused.value.code == "job-circle"
    assert not world.cluster.jobs


def test_one_that_runs_again_waits_for_those_that_started_meanwhile() -> None:
    world = World(8)
    first, second = (submit(world, ADA, "a", singleton=True) for _ in range(2))
    world.end(first, 1, exit_code=1)
    assert world.cluster.running == {second}
    archived = world.archived(first)
    world.do(RequeueJob(by=ADA, job=first, archived=archived))
    assert world.cluster.running == {second}
    assert world.record(first).waits_for == (second,)
    world.end(second, 1)
    assert world.cluster.running == {first}
    world.check_replay()


def test_one_that_is_requeued_while_it_runs_stays_before_the_others() -> None:
    world = World(8)
    first, second = (submit(world, ADA, "a", singleton=True) for _ in range(2))
    world.do(RequeueJob(by=ADA, job=first))
    world.end(first, 1, kind="stopped")
    assert world.cluster.running == {first}
    assert world.record(second).waits_for == (first,)
    world.check_replay()


def test_jobs_that_come_back_with_their_parent_are_singletons_again() -> None:
    world = World(8)
    parent = world.submit(TASK, by=ADA)
    child = JobSpec(name="a", tasks=(TASK,), singleton=True, parents=(parent,))
    for _ in range(2):
        world.do(CreateJob(by=ADA, spec=child, submit=True))
    world.end(parent, 1, exit_code=1)
    assert not world.cluster.jobs
    skipped = tuple(filter(None, map(world.archived, (JobId(2), JobId(3)))))
    world.do(RequeueJob(by=ADA, job=parent, archived=world.archived(parent), skipped=skipped))
    started = list(one_by_one(world))
    assert started == [[1], [2], [3]]
    world.check_replay()


def test_a_singleton_needs_a_name() -> None:
    with pytest.raises(BadRequest, match="a singleton has no name") as refused:
        World(8).do(CreateJob(by=ADA, spec=spec("", singleton=True), submit=True))
    assert refused.value.path == ("singleton",)


def test_starts_follow_the_ends_in_the_journal() -> None:
    world = World(8)
    for _ in range(3):
        submit(world, ADA, "a", singleton=True)
    list(one_by_one(world))
    kinds = [type(event).__name__ for _, event in world.journal.replay()]
    turns = [kind for kind in kinds if kind in (JobStarted.__name__, "JobEnded")]
    assert turns == ["JobStarted", "JobEnded"] * 3
