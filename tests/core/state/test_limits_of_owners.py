"""Limits of users and projects: what counts as submitted, and what the jobs of the head take of them."""

import re

import pytest
from msgspec.structs import replace
from test_validating_jobs import filtering_world, validated
from worlds import ADA, BOB, ROOT, World

from headnode.core.model.errors import BadRequest, NotAllowed, Refused, Unavailable, WrongState
from headnode.core.model.job import JobRequest, JobSpec, UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.model.owner_limits import LimitScope
from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec
from headnode.core.model.template import JobTemplate, TemplateRule, stated_fields
from headnode.core.model.user import IdempotencyKey, User
from headnode.core.state.events import ParameterSet
from headnode.core.state.groups import CreateJobs, SubmitJobs
from headnode.core.state.hold import HoldJob
from headnode.core.state.job_events import JobCreated
from headnode.core.state.join import RegisterNode
from headnode.core.state.modify import ModifyJob, RequeueJob
from headnode.core.state.nodes import SetParameter
from headnode.core.state.stop import StopJob
from headnode.core.state.submit import CreateJob, SubmitJob
from headnode.core.state.suspend import ResumeJob, SuspendJob
from headnode.core.state.templates import SetTemplate
from headnode.core.state.transitions import JobState
from headnode.engine.recovery import recover, save

TASK = TaskSpec(command="x", rerunnable=True)


def limited(*processors: int, users: str = "", projects: str = "", world: World | None = None) -> World:
    """Return a world with limits."""
    world = world or World(*processors)
    set_limits(world, users, projects)
    return world


def set_limits(world: World, users: str = "", projects: str = "") -> None:
    for scope, value in ((LimitScope.USER, users), (LimitScope.PROJECT, projects)):
        world.do(SetParameter(by=ROOT, name=scope.parameter, value=value or None))


def state(world: World, job: JobId) -> JobState:
    return world.record(job).state


def refused(world: World, *commands: object) -> str:
    """Return the sentence with which the last command is refused for a limit."""
    with pytest.raises(WrongState) as no:
        world.do(*commands)
    assert (no.value.code, bool(no.value.fix)) == ("limit", True)
    (scope,) = re.findall(r"(user|project|group) '", no.value.what)
    assert no.value.path[-1] in (scope, "run_time")
    return no.value.what


def test_jobs_above_the_number_that_may_be_submitted_are_refused_until_some_end() -> None:
    world = limited(4, users="*:submitted=2", projects="wind:submitted=1")
    first = world.submit(TASK, by=ADA, project="wind")
    another = CreateJob(by=ADA, spec=JobSpec(tasks=(TASK,), project="wind"), submit=True)
    assert refused(world, another) == "project 'wind' may have 1 submitted job at once and has 1"
    world.submit(TASK, by=ADA)
    assert refused(world, CreateJob(by=ADA, spec=JobSpec(tasks=(TASK,)), submit=True)) == (
        "user 'ada' may have 2 submitted jobs at once and has 2"
    )
    world.submit(TASK, by=BOB)
    world.end(first, 1)
    world.submit(TASK, by=ADA, project="wind")
    world.check_replay()


def test_commands_of_one_batch_count_one_after_the_other() -> None:
    world = limited(4, users="*:submitted=3")
    one = CreateJob(by=ADA, spec=JobSpec(tasks=(TASK,)), submit=True)
    answers = world.engine.handle([one] * 5)
    assert [isinstance(each, Refused) for each in answers] == [False, False, False, True, True]


def test_several_jobs_are_counted_together_all_or_none() -> None:
    world = limited(4, users="*:submitted=3")
    world.submit(TASK, by=ADA)
    three = CreateJobs(by=ADA, specs=(JobSpec(tasks=(TASK,)),) * 3, submit=True)
    assert "has 1; the request has 3 more" in refused(world, three)
    made = world.do(replace(three, submit=False))
    jobs = tuple(event.job for event in made if isinstance(event, JobCreated))
    refused(world, SubmitJobs(by=ADA, jobs=jobs))
    assert {state(world, job) for job in jobs} == {JobState.CONFIGURING}
    world.do(SubmitJobs(by=ADA, jobs=jobs[:2]))
    refused(world, SubmitJob(by=ADA, job=jobs[2]))


def test_a_job_that_an_administrator_submits_for_a_user_counts_for_the_user() -> None:
    world = limited(4, users="*:submitted=1;root:submitted=0")
    world.do(CreateJob(by=ROOT, spec=JobSpec(tasks=(TASK,), run_as="ada"), submit=True, users={"ada": ADA}))
    assert "'ada'" in refused(world, CreateJob(by=ADA, spec=JobSpec(tasks=(TASK,)), submit=True))
    made = world.do(CreateJob(by=ROOT, spec=JobSpec(tasks=(TASK,))))[0].job  # type: ignore[attr-defined]
    given = JobSpec(tasks=(TASK,), run_as="bob")
    world.do(ModifyJob(by=ROOT, job=made, spec=given, fields=("run_as",), users={"bob": BOB}))
    world.do(SubmitJob(by=ROOT, job=made))
    assert "'bob'" in refused(world, CreateJob(by=BOB, spec=JobSpec(tasks=(TASK,)), submit=True))


def test_a_request_that_is_repeated_is_not_refused_for_the_limit_that_it_met_itself() -> None:
    world = limited(4, users="*:submitted=1")
    once = replace(ADA, once=IdempotencyKey("k", b"0" * 16, "submit_job"))
    one = CreateJob(by=once, spec=JobSpec(tasks=(TASK,)), submit=True)
    world.do(one)
    with pytest.raises(WrongState, match="idempotency-repeated"):
        world.do(one)


def test_an_ended_job_that_comes_back_counts_again() -> None:
    world = limited(4, users="*:submitted=1")
    first = world.submit(TASK, by=ADA)
    world.end(first, 1, exit_code=1)
    second = world.submit(TASK, by=ADA)
    again = RequeueJob(by=ADA, job=first, archived=world.archived(first))
    assert "user 'ada' may have 1 submitted job" in refused(world, again)
    assert state(world, first) is JobState.FAILED
    world.end(second, 1)
    world.do(replace(again, archived=world.archived(first)))
    assert state(world, first) is JobState.RUNNING
    world.check_replay()


@pytest.mark.parametrize("change", [False, True])
def test_jobs_that_were_canceled_with_their_parent_count_again_when_they_come_back(change: bool) -> None:
    world = limited(4, users="*:submitted=2")
    parent = world.submit(TASK, by=ADA)
    child = world.submit(TASK, by=ADA, parents=(parent,))
    world.end(parent, 1, exit_code=1)
    assert state(world, child) is JobState.CANCELED
    there = [world.submit(TASK, by=ADA), world.submit(TASK, by=ADA)]
    archived, skipped = world.archived(parent), (world.archived(child),)
    assert archived is not None
    spec = replace(world.cluster.written(archived), name="n")
    again = (
        ModifyJob(by=ADA, job=parent, spec=spec, fields=("name",), archived=archived, skipped=skipped)
        if change
        else RequeueJob(by=ADA, job=parent, archived=archived, skipped=skipped)
    )
    refused(world, again)
    assert (state(world, parent), state(world, child)) == (JobState.FAILED, JobState.CANCELED)
    for job in there:
        world.end(job, 1)
    world.do(again)
    assert state(world, child) is JobState.QUEUED
    world.check_replay()


def test_a_running_job_that_is_requeued_counted_before() -> None:
    world = limited(4, users="*:submitted=1")
    job = world.submit(TASK, by=ADA)
    world.do(RequeueJob(by=ADA, job=job))
    assert state(world, job) is JobState.ENDING
    world.end(job, 1, kind="stopped")
    assert state(world, job) is JobState.RUNNING


def test_a_job_that_changes_its_project_needs_room_there() -> None:
    world = limited(1, projects="*:submitted=1")
    first, second = world.submit(TASK, by=ADA, project="sun"), world.submit(TASK, by=ADA, project="wind")
    assert (state(world, first), state(world, second)) == (JobState.RUNNING, JobState.QUEUED)
    for job, other in ((first, "wind"), (second, "sun")):
        there = JobSpec(tasks=(TASK,), project=other)
        assert repr(other) in refused(world, ModifyJob(by=ADA, job=job, spec=there, fields=("project",)))
    rain = JobSpec(tasks=(TASK,), project="rain")
    world.do(ModifyJob(by=ADA, job=first, spec=rain, fields=("project",)))
    world.do(ModifyJob(by=ADA, job=second, spec=replace(rain, project="sun"), fields=("project",)))
    world.submit(TASK, by=BOB, project="wind")
    world.check_replay()


def test_a_running_job_takes_no_more_into_another_project_than_there_is_room_for() -> None:
    world = limited(8, projects="wind:jobs=2,processors=4")
    first = world.submit(TASK, by=ADA, project="wind", minimum=3, maximum=3)
    second = world.submit(TASK, by=BOB, minimum=2, maximum=2, suspendable=True)
    third = world.submit(TASK, by=BOB, minimum=1, maximum=1)
    assert {state(world, job) for job in (first, second, third)} == {JobState.RUNNING}

    def to_wind(job: JobId) -> ModifyJob:
        spec = replace(world.cluster.written(world.record(job)), project="wind")
        return ModifyJob(by=ROOT, job=job, spec=spec, fields=("project",))

    assert refused(world, to_wind(second)) == (
        f"project 'wind' may have 4 processors at once and has 3; job {second} has 2"
    )
    world.do(to_wind(third))
    assert f"may have 2 running jobs at once and has 2; job {second} has 1" in refused(world, to_wind(second))
    world.do(SuspendJob(by=ROOT, job=second))
    world.do(*world.nodes.stopped(second))
    world.do(to_wind(second))  # it holds nothing, and waits for the limits when it is to go on
    world.do(ResumeJob(by=ROOT, job=second))
    assert state(world, second) is JobState.RESUMING
    world.end(first, 1)
    assert state(world, second) is JobState.RUNNING
    world.check_replay()


def test_a_suspended_job_keeps_its_gpus_and_what_its_limits_count_of_them() -> None:
    world = limited(users="*:jobs=2,gpus=2", projects="wind:gpus=2")
    world.do(RegisterNode(facts=NodeFacts(name="n1", processors=8, gpus=8), approved=True))
    gpus = {"by": ADA, "unit": UnitType.GPU, "minimum": 1, "maximum": 1, "suspendable": True}
    first, second, third = (world.submit(TASK, **gpus) for _ in range(3))
    assert [state(world, job) for job in (first, second, third)] == [
        JobState.RUNNING, JobState.RUNNING, JobState.QUEUED
    ]  # fmt: skip
    world.do(SuspendJob(by=ADA, job=first))
    world.do(*world.nodes.stopped(first))
    assert state(world, third) is JobState.QUEUED
    plain = world.submit(TASK, by=ADA)
    assert state(world, plain) is JobState.RUNNING
    two = world.submit(TASK, **{**gpus, "by": BOB, "minimum": 2, "maximum": 2, "project": "wind"})
    assert state(world, two) is JobState.RUNNING
    spec = replace(world.cluster.written(world.record(first)), project="wind")
    into = ModifyJob(by=ROOT, job=first, spec=spec, fields=("project",))
    assert f"may have 2 GPUs at once and has 2; job {first} has 1" in refused(world, into)
    world.do(ResumeJob(by=ADA, job=first))
    assert state(world, first) is JobState.RESUMING
    world.end(plain, 1)
    assert state(world, first) is JobState.RUNNING
    world.end(second, 1)
    assert state(world, third) is JobState.RUNNING
    world.check_replay()


def test_a_project_that_a_filter_or_a_template_gives_is_counted() -> None:
    world = limited(world=filtering_world(), projects="*:submitted=1")
    first, second = (world.submit(TASK, by=ADA) for _ in range(2))
    validated(world, first, project="wind")
    with pytest.raises(WrongState, match=r"project 'wind' may have 1 submitted job"):
        validated(world, second, project="wind")
    assert state(world, second) is JobState.VALIDATING
    validated(world, second, project="sun")
    plain = limited(4, projects="wind:submitted=1")
    rule = TemplateRule(field="project", default=stated_fields("project", "wind"))
    plain.do(SetTemplate(by=ROOT, template=JobTemplate(name="Wind", rules=(rule,))))
    plain.submit(TASK, by=ADA, template="Wind")
    one = CreateJob(by=ADA, spec=JobSpec(tasks=(TASK,), template="Wind"), submit=True)
    assert "'wind'" in refused(plain, one)


def test_a_job_in_validation_a_held_one_and_a_suspended_one_count_as_submitted() -> None:
    world = limited(world=filtering_world(), users="*:submitted=3")
    first, second, _ = (world.submit(TASK, by=ADA, suspendable=True) for _ in range(3))
    validated(world, first)
    validated(world, second, minimum=4, maximum=4)
    world.do(HoldJob(by=ADA, job=second, name="user"))
    world.do(SuspendJob(by=ADA, job=first))
    world.do(*world.nodes.stopped(first))
    assert state(world, first) is JobState.SUSPENDED
    refused(world, CreateJob(by=ADA, spec=JobSpec(tasks=(TASK,)), submit=True))
    world.do(StopJob(by=ADA, job=second, outcome="canceled", force=True))
    world.submit(TASK, by=ADA)


def test_a_limit_that_is_set_counts_what_is_there_and_stops_nothing() -> None:
    world = World(2)
    running = [world.submit(TASK, by=ADA) for _ in range(2)]
    queued = world.submit(TASK, by=ADA)
    set_limits(world, "*:jobs=1,submitted=1")
    assert [state(world, job) for job in running] == [JobState.RUNNING] * 2
    refused(world, CreateJob(by=ADA, spec=JobSpec(tasks=(TASK,)), submit=True))
    world.end(running[0], 1)
    assert state(world, queued) is JobState.QUEUED
    set_limits(world, "*:jobs=2")
    assert state(world, queued) is JobState.RUNNING
    world.check_replay()


def test_requests_follow_the_limits_that_are_set_and_equal_ones_become_one_class_again() -> None:
    world = World(1)
    blocker = world.submit(TASK, by=ROOT)
    jobs = [world.submit(TASK, by=by) for by in (ADA, BOB, ADA)]
    assert len(world.cluster.queue.by_request) == 1

    def shares(job: JobId) -> dict[str, int]:
        request: JobRequest = world.cluster.request(world.record(job))
        return {share.key: share.limit for share in request.limits}

    set_limits(world, "*:jobs=1;bob:jobs=5")
    assert len(world.cluster.queue.by_request) == 2
    assert [shares(job) for job in (*jobs, blocker)] == [
        {"user,jobs,ada": 1}, {"user,jobs,bob": 5}, {"user,jobs,ada": 1}, {"user,jobs,root": 1}
    ]  # fmt: skip
    world.check_replay()
    set_limits(world)
    assert len(world.cluster.queue.by_request) == 1
    assert shares(blocker) == {}


def test_a_job_that_resumes_does_not_wait_for_itself() -> None:
    world = limited(4, users="ada:jobs=1,processors=4")
    job = world.submit(TASK, by=ADA, minimum=4, maximum=4, suspendable=True)
    world.do(SuspendJob(by=ADA, job=job))
    world.do(*world.nodes.stopped(job))
    other = world.submit(TASK, by=ADA)
    assert state(world, other) is JobState.RUNNING
    world.do(ResumeJob(by=ADA, job=job))
    assert state(world, job) is JobState.RESUMING
    world.end(other, 1)
    assert state(world, job) is JobState.RUNNING


def test_projects_may_have_commas_and_any_case() -> None:
    world = limited(4, projects="a,jobs,b:jobs=1;A:jobs=1")
    first, second = (world.submit(TASK, by=ADA, project="a,jobs,b") for _ in range(2))
    third, fourth = (world.submit(TASK, by=ADA, project="a") for _ in range(2))
    assert [state(world, job) for job in (first, second, third, fourth)] == [
        JobState.RUNNING, JobState.QUEUED, JobState.RUNNING, JobState.RUNNING
    ]  # fmt: skip


def test_only_administrators_set_limits_and_wrong_text_is_never_recorded() -> None:
    world = World(1)
    operator = User(name="olga", uid=1003, gid=1003, operator=True)
    for by in (ADA, operator):
        with pytest.raises(NotAllowed, match="not-administrator"):
            world.do(SetParameter(by=by, name="UserLimits", value="*:jobs=1"))
    with pytest.raises(BadRequest, match="limits"):
        world.do(SetParameter(by=ROOT, name="ProjectLimits", value="*:cores=1"))
    assert not world.cluster.parameters
    world.check_replay()


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_head_does_not_start_without_limits_that_only_a_newer_one_knows(snapshot: bool) -> None:
    world = World(1)
    newer = ParameterSet(at=world.clock.now(), name="UserLimits", value="*:memory=1", by="root")
    if snapshot:
        world.cluster.parameters["UserLimits"] = "*:memory=1"
        world.journal.keep_snapshot(world.journal.append([]), save(world.cluster))
    else:
        world.journal.append([newer])
    with pytest.raises(Unavailable, match=r"UserLimits.*memory=1.*journal-unknown"):
        recover(world.journal)
