"""Whose a job is: an administrator makes jobs for others, nobody else does."""

import pytest
from msgspec.structs import replace
from worlds import ADA, BOB, ROOT, World

from headnode.core.model.errors import NotAllowed, NotFound, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.state import job_events as e
from headnode.core.state.groups import CreateJobs
from headnode.core.state.modify import ModifyJob
from headnode.core.state.stop import StopJob
from headnode.core.state.submit import CreateJob, SubmitJob

KNOWN = {"ada": ADA}
OPERATOR = replace(BOB, operator=True)


def spec(user: str) -> JobSpec:
    return JobSpec(tasks=(TaskSpec(command="true"),), run_as=user)


def make(world: World, by: User, user: str, *, submit: bool = False) -> JobId:
    events = world.do(CreateJob(by=by, spec=spec(user), users=KNOWN, submit=submit))
    return next(event.job for event in events if isinstance(event, e.JobCreated))


@pytest.mark.parametrize("written", ["ada", r"CORP\ada"])
@pytest.mark.parametrize("submit", [False, True])
def test_a_job_made_for_another_is_his(written: str, submit: bool) -> None:
    world = World(2)
    job = make(world, ROOT, written, submit=submit)
    record = world.record(job)
    assert (record.owner, record.uid, record.gid) == (ADA.name, ADA.uid, ADA.gid)
    created = next(event for event in world.journal.history(job, 10) if isinstance(event, e.JobCreated))
    assert created.by == ROOT.name
    world.do(StopJob(by=ADA, job=job, outcome="canceled"))
    world.check_replay()


@pytest.mark.parametrize("by", [BOB, OPERATOR])
def test_only_administrators_make_jobs_for_others(by: User) -> None:
    world = World(2)
    for command in (
        CreateJob(by=by, spec=spec("ada"), users=KNOWN),
        CreateJobs(by=by, specs=(spec(""), spec("ada")), users=KNOWN, submit=True),
    ):
        with pytest.raises(NotAllowed) as refused:
            world.do(command)
        assert refused.value.code == "run-as"
    assert not world.cluster.jobs


@pytest.mark.parametrize("written", ["", "bob", "BOB", r"CORP\bob"])
def test_whoever_names_himself_makes_a_job_of_his_own(written: str) -> None:
    world = World(2)
    assert world.record(make(world, BOB, written)).uid == BOB.uid


def test_a_user_whom_the_head_does_not_know_is_refused() -> None:
    with pytest.raises(NotFound) as refused:
        make(World(2), ROOT, "nobody-at-all")
    assert refused.value.code == "no-such-user"


def modify(world: World, by: User, job: JobId, user: str) -> None:
    world.do(ModifyJob(by=by, job=job, spec=spec(user), fields=("run_as",), users=KNOWN))


def test_a_job_that_was_not_submitted_can_be_given_to_another() -> None:
    world = World(2)
    job = make(world, ROOT, "")
    modify(world, ROOT, job, "ada")
    assert world.record(job).uid == ADA.uid
    world.do(SubmitJob(by=ADA, job=job))
    world.check_replay()


def test_a_job_that_was_submitted_stays_whose_it_is() -> None:
    world = World(2)
    job = make(world, BOB, "", submit=True)
    with pytest.raises(WrongState):
        modify(world, ROOT, job, "ada")
    assert world.record(job).uid == BOB.uid


def test_nobody_gives_his_job_to_another() -> None:
    world = World(2)
    job = make(world, BOB, "")
    for by in (BOB, OPERATOR):
        with pytest.raises(NotAllowed):
            modify(world, by, job, "ada")
    assert world.record(job).uid == BOB.uid
