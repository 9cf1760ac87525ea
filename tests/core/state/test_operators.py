"""An operator sees to everybody's jobs, but what runs as somebody else is not his to say."""

import pytest
from msgspec.structs import replace
from worlds import ADA, BOB, ROOT, World

from headnode.core.model.errors import NotAllowed
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import ANCHORS
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User, UserRole
from headnode.core.state.hold import HoldJob, ReleaseJob
from headnode.core.state.modify import ModifyJob, RequeueJob
from headnode.core.state.permissions import OPERATORS_CHANGE, may_read_output
from headnode.core.state.stop import StopJob
from headnode.core.state.submit import CreateJob
from headnode.core.state.transitions import JobState

OPERATOR = replace(BOB, operator=True)
TASK = TaskSpec(command="true", rerunnable=True)


def modify(world: World, by: User, job: int, **fields: object) -> None:
    record = world.record(job)
    spec = replace(world.cluster.written(record), **fields)
    world.do(ModifyJob(by=by, job=record.id, spec=spec, fields=tuple(fields)))


def test_roles_have_an_order() -> None:
    assert [user.role for user in (ADA, OPERATOR, replace(OPERATOR, administrator=True))] == list(UserRole)


def test_an_operator_ends_raises_holds_and_reruns_jobs_of_others() -> None:
    world = World(2)
    job = world.submit(TASK, by=ADA)
    world.do(RequeueJob(by=OPERATOR, job=job))
    waits = world.submit(TASK, by=ADA, minimum=2)
    modify(world, OPERATOR, waits, priority=ANCHORS["Highest"])
    world.do(HoldJob(by=OPERATOR, job=waits, name="operator"))
    world.do(ReleaseJob(by=OPERATOR, job=waits, name="operator"))
    world.do(StopJob(by=OPERATOR, job=waits, outcome="canceled"))
    assert world.record(waits).state is JobState.CANCELED


@pytest.mark.parametrize("field", sorted(set(JobSpec.__struct_fields__) - OPERATORS_CHANGE))
def test_an_operator_changes_nothing_of_what_runs_as_somebody_else(field: str) -> None:
    world = World(1)
    job = world.do(CreateJob(by=ADA, spec=JobSpec(tasks=(TASK,))))[0].job  # type: ignore[attr-defined]
    with pytest.raises(NotAllowed) as refused:
        world.do(ModifyJob(by=OPERATOR, job=job, spec=JobSpec(tasks=(TASK, TASK)), fields=(field,)))
    assert refused.value.path == (field,)


def test_what_an_operator_may_change_says_nothing_of_programs() -> None:
    assert set(JobSpec.__struct_fields__) >= OPERATORS_CHANGE
    assert not OPERATORS_CHANGE & {
        "tasks",
        "environment",
        "run_as",
        "alternatives",
        "holds",
        "resource_limits",
    }


def test_an_operator_does_as_he_likes_with_his_own_jobs() -> None:
    world = World(1)
    job = world.submit(TASK, by=OPERATOR, minimum=1, maximum=1)
    modify(world, OPERATOR, job, tasks=(TASK, TASK))


def test_output_is_for_its_owner_and_administrators() -> None:
    world = World(1)
    record = world.record(world.submit(TASK, by=ADA))
    may_read_output(ADA, record)
    may_read_output(ROOT, record)
    for other in (BOB, OPERATOR):
        with pytest.raises(NotAllowed):
            may_read_output(other, record)
