"""A job that the cluster refuses as it is now: the refusal has the path to the field of the job."""

from typing import Any

import pytest
from msgspec.structs import replace
from worlds import ADA, BOB, ROOT, World

from headnode.core.model.dependency import NamedParent
from headnode.core.model.errors import Path, Refused
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import Instant, JobId, Priority, Seconds
from headnode.core.model.reservation import NodeReservation
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.model.template import JobTemplate, TemplateRule
from headnode.core.model.user import User
from headnode.core.state.depend import ParentOutcome
from headnode.core.state.groups import CreateJobs
from headnode.core.state.modify import ModifyJob
from headnode.core.state.reservations import MakeReservation
from headnode.core.state.submit import CreateJob
from headnode.core.state.templates import SetTemplate
from headnode.core.state.transitions import JobState

TASK, PREPARING = TaskSpec(command="x"), TaskSpec(command="x", kind=TaskType.NODE_PREP)
OPERATOR = User(name="op", uid=1003, gid=1003, operator=True)


@pytest.fixture(scope="module")
def world() -> World:
    """A cluster with a template and reservations; job 1 runs, job 2 is not submitted."""
    world = World(4)
    now = world.clock.now()
    world.submit(TASK, by=ADA, run_time=Seconds(60.0))
    world.do(CreateJob(by=ADA, spec=JobSpec(tasks=(TASK,))))
    rule = TemplateRule(field="run_time", maximum=100)
    world.do(SetTemplate(by=ROOT, template=JobTemplate(name="short", rules=(rule,))))
    world.do(SetTemplate(by=ROOT, template=JobTemplate(name="bobs", users=("bob",))))
    for name, users in (("maintenance", ()), ("course", ("ada",))):
        begins = Instant(now + (1000.0 if users else 5000.0))
        asked = NodeReservation(
            name=name, start=begins, end=Instant(begins + 600.0), nodes=("node1",), users=users
        )
        world.do(MakeReservation(by=ROOT, reservation=asked))
    return world


@pytest.mark.parametrize(
    ("fields", "code", "path"),
    [
        ({"template": "nothing"}, "no-such-template", ("template",)),
        ({"template": "bobs"}, "template-user", ("template",)),
        ({"template": "short", "run_time": Seconds(200.0)}, "template", ("run_time",)),
        ({"reservation": "nothing"}, "no-such-reservation", ("reservation",)),
        ({"reservation": "maintenance"}, "reservation-closed", ("reservation",)),
        ({"reservation": "course", "run_time": Seconds(7200.0)}, "reservation-too-short", ("run_time",)),
        ({"run_as": "bob"}, "run-as", ("run_as",)),
        ({"priority": Priority(4000)}, "priority-privilege", ("priority",)),
        ({"holds": ("operator",)}, "hold-privilege", ("holds",)),
        ({"hold_until": Instant(1e9)}, "hold-until", ("hold_until",)),
        ({"end_by": Instant(1.0)}, "end-by", ("end_by",)),
        ({"parents": (1, 77)}, "no-such-parent", ("parents", 1)),
        ({"after_exit": (2,)}, "parent-not-submitted", ("after_exit", 0)),
        ({"named_parents": (NamedParent("a"),)}, "no-such-parent", ("named_parents", 0)),
    ],
)
def test_a_refusal_leads_to_the_field(world: World, fields: dict[str, Any], code: str, path: Path) -> None:
    spec = JobSpec(tasks=(TASK,), **fields)
    with pytest.raises(Refused) as refused:
        world.do(CreateJob(by=ADA, spec=spec, submit=True))
    assert (refused.value.code, refused.value.path) == (code, path)


def test_a_refusal_leads_to_one_of_several_jobs(world: World) -> None:
    specs = (JobSpec(tasks=(TASK,)), JobSpec(tasks=(TASK,), parents=(77,)))
    with pytest.raises(Refused) as refused:
        world.do(CreateJobs(by=ADA, specs=specs, submit=True))
    assert refused.value.path == ("jobs", 1, "parents", 0)


def test_a_parent_that_decided_against_a_job_is_named_by_its_condition(world: World) -> None:
    spec = JobSpec(tasks=(TASK,), after_exit=(50,), parents=(1, 50))
    with pytest.raises(Refused) as refused:
        world.do(CreateJob(by=ADA, spec=spec, submit=True, parents={50: ParentOutcome(JobState.FAILED)}))
    assert (refused.value.code, refused.value.path) == ("never-possible", ("parents", 1))


@pytest.mark.parametrize(
    ("by", "fields", "code", "path"),
    [
        (ADA, {"exclusive": True}, "not-modifiable", ("exclusive",)),
        (ROOT, {"run_as": "bob"}, "not-modifiable", ("run_as",)),
        (OPERATOR, {"environment": {"A": "1"}}, "not-owner", ("environment",)),
        (
            ADA,
            {"tasks": (TASK, TaskSpec(command="x", kind=TaskType.NODE_PREP))},
            "special-task",
            ("tasks", 1),
        ),
    ],
)
def test_a_refused_change_leads_to_the_field(
    world: World, by: User, fields: dict[str, Any], code: str, path: Path
) -> None:
    spec = replace(world.cluster.written(world.record(JobId(1))), **fields)
    known = {"bob": BOB}
    with pytest.raises(Refused) as refused:
        world.do(ModifyJob(by=by, job=JobId(1), spec=spec, fields=tuple(fields), users=known))
    assert (refused.value.code, refused.value.path) == (code, path)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"parents": (2,)}, "option 'parentjobids' of job 1 cannot"),
        ({"needs": NodeNeeds(features=(("gpu",),))}, "option 'feature' of job 1 cannot"),
        ({"minimum": 2, "maximum": 2}, "option 'numprocessors' of job 1 cannot"),
        (
            {"minimum": 2, "unit": UnitType.NODE, "exclusive": True},
            "options 'exclusive' and 'numnodes' of",
        ),
    ],
)
def test_a_refused_change_names_the_options(world: World, change: dict[str, Any], named: str) -> None:
    spec = replace(world.cluster.written(world.record(JobId(1))), **change)
    with pytest.raises(Refused) as refused:
        world.do(ModifyJob(by=ADA, job=JobId(1), spec=spec, fields=tuple(change)))
    assert refused.value.what.startswith(named)
    assert "endby, holduntil, jobname" in refused.value.fix


def test_what_an_operator_may_not_change_is_named_by_its_option(world: World) -> None:
    spec = replace(world.cluster.written(world.record(JobId(1))), environment={"A": "1"})
    with pytest.raises(Refused, match=r"job 1 belongs to .*: an operator may not change its jobenv"):
        world.do(ModifyJob(by=OPERATOR, job=JobId(1), spec=spec, fields=("environment",)))
