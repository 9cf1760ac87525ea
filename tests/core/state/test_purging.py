"""Jobs are purged when they are over, and nothing that is alive asks for them."""

import pytest
from worlds import ADA, ROOT, World

from headnode.core.model.errors import WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec
from headnode.core.state.depend import outcome_of
from headnode.core.state.events import JobsPurged
from headnode.core.state.job_end import PurgeJobs
from headnode.core.state.modify import RequeueJob
from headnode.core.state.stop import StopJob
from headnode.core.state.submit import CreateJob
from headnode.engine.recovery import save

TASK = TaskSpec(command="x", rerunnable=True)
A, B, C = JobId(1), JobId(2), JobId(3)


def submit(world: World) -> None:
    world.do(CreateJob(by=ADA, spec=JobSpec(tasks=(TASK,)), submit=True))


def purged(world: World, *jobs: JobId) -> tuple[JobId, ...]:
    (event,) = world.do(PurgeJobs(jobs=jobs))
    assert isinstance(event, JobsPurged)
    return event.jobs


def test_an_ended_job_is_purged_and_one_that_is_alive_is_not() -> None:
    world = World(1)
    for _ in range(3):
        submit(world)
    world.end(A, 1)
    assert purged(world, A, B, C) == (A,)
    with pytest.raises(WrongState, match="job-needed"):
        world.do(PurgeJobs(jobs=(B, C)))
    assert world.journal.ended_job(A) is None


def test_a_parent_stays_until_its_child_has_started() -> None:
    world = World(1)
    submit(world)
    world.end(A, 1)
    submit(world)  # it holds the only processor
    spec = JobSpec(tasks=(TASK,), parents=(A,))
    world.do(CreateJob(by=ADA, spec=spec, submit=True, parents={A: outcome_of(world.record(A))}))
    with pytest.raises(WrongState, match="job-needed"):
        world.do(PurgeJobs(jobs=(A,)))
    world.end(B, 1)
    assert purged(world, A, B) == (A, B)


def test_a_job_that_is_requeued_is_not_purged_any_more() -> None:
    world = World(1)
    submit(world)
    world.do(StopJob(by=ROOT, job=A, outcome="canceled"))
    world.end(A, 1, kind="stopped")
    world.do(RequeueJob(by=ADA, job=A, archived=world.record(A)))
    with pytest.raises(WrongState, match="job-needed"):
        world.do(PurgeJobs(jobs=(A,)))


def test_the_state_after_a_purge_is_the_state_before_and_is_recovered_from_two_snapshots() -> None:
    world = World(1)
    for job in (A, B):
        submit(world)
        world.end(job, 1)
    submit(world)
    before = save(world.cluster)
    purged(world, A, B)
    assert save(world.cluster) == before
    for _ in range(2):
        assert world.engine.snapshot_if_due(at_least=0)
    world.journal.purge(100)
    world.engine.recover()
    assert save(world.cluster) == before
    assert world.record(C).id == C
