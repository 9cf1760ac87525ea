"""Job templates: what a job gets of them, what they refuse, and who may use them."""

from itertools import product
from typing import Any

import pytest
from worlds import BOB, ROOT, World

from headnode.core.model.errors import BadRequest, NotAllowed, NotFound, Refused
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.quantities import JobId, Priority, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.model.template import DEFAULT_TEMPLATE, JobTemplate, TemplateRule, stated_fields
from headnode.core.state.groups import CreateJobs
from headnode.core.state.job_events import JobCreated
from headnode.core.state.modify import ModifyJob
from headnode.core.state.submit import CreateJob, SubmitJob
from headnode.core.state.templates import RemoveTemplate, SetTemplate, templated_spec

TASK = (TaskSpec(command="true"),)


def template(*rules: TemplateRule, **more: Any) -> JobTemplate:
    return JobTemplate(name="Solver", rules=rules, **more)


def created(world: World, command: CreateJob) -> JobId:
    return next(event.job for event in world.do(command) if isinstance(event, JobCreated))


def made(spec: JobSpec, *templates: JobTemplate) -> JobSpec:
    return templated_spec({one.name.lower(): one for one in templates}, BOB, spec)


def test_a_job_gets_the_default_where_it_says_nothing_and_else_what_it_says() -> None:
    rule = TemplateRule(field="run_time", default=stated_fields("run_time", Seconds(60.0)))
    assert made(JobSpec(template="solver"), template(rule)).run_time == 60
    assert made(JobSpec(template="SOLVER", run_time=Seconds(5.0)), template(rule)).run_time == 5


def test_jobs_that_name_no_template_use_default_which_is_plain_until_it_is_set() -> None:
    other = template(TemplateRule(field="priority", maximum=0))
    assert made(JobSpec(), other) == JobSpec()
    own = JobTemplate(
        name=DEFAULT_TEMPLATE, rules=(TemplateRule(field="project", default=stated_fields("project", "p")),)
    )
    assert made(JobSpec(), other, own).project == "p"
    assert made(JobSpec(template="default"), own).project == "p"


def test_a_template_that_does_not_exist_is_refused_but_only_where_there_are_some() -> None:
    spec = JobSpec(template="LinuxNodes")
    assert made(spec) == spec
    with pytest.raises(NotFound, match="there is no job template 'LinuxNodes'"):
        made(spec, template())


@pytest.mark.parametrize(("least", "most", "value"), list(product((None, 2.0), (None, 4.0), (1, 2, 3, 4, 5))))
def test_numbers_stay_between_least_and_most(least: float | None, most: float | None, value: int) -> None:
    rule = TemplateRule(field="minimum", unit=UnitType.NODE, minimum=least, maximum=most)
    fits = (least is None or value >= least) and (most is None or value <= most)
    spec = JobSpec(template="solver", unit=UnitType.NODE, minimum=value, maximum=value)
    if fits:
        assert made(spec, template(rule)) == spec
    else:
        with pytest.raises(BadRequest, match=f"minimum of nodes is {value}"):
            made(spec, template(rule))
    counted = JobSpec(template="solver", minimum=value)  # counts processors
    assert made(counted, template(rule)) == counted


def test_a_size_that_is_left_to_us_is_judged_as_it_is_calculated() -> None:
    rule = TemplateRule(field="minimum", unit=UnitType.PROCESSOR, maximum=2)
    tasks = (TaskSpec(command="true", minimum=3, maximum=3),)
    with pytest.raises(BadRequest, match="minimum of processors is 3"):
        made(JobSpec(template="solver", tasks=tasks), template(rule))


def test_what_is_read_only_stays_as_it_is() -> None:
    fixed = TemplateRule(field="priority", default=stated_fields("priority", Priority(1000)), read_only=True)
    assert made(JobSpec(template="solver"), template(fixed)).priority == 1000
    assert made(JobSpec(template="solver", priority=Priority(1000)), template(fixed)).priority == 1000
    with pytest.raises(BadRequest, match="priority is always BelowNormal"):
        made(JobSpec(template="solver", priority=Priority(0)), template(fixed))
    with pytest.raises(BadRequest, match="exclusive is always no"):
        made(
            JobSpec(template="solver", exclusive=True),
            template(TemplateRule(field="exclusive", read_only=True)),
        )


@pytest.mark.parametrize("requested", [(), ("a",), ("b", "a"), ("c",), ("a", "c")])
def test_of_several_values_all_are_allowed_ones_and_the_required_are_there(
    requested: tuple[str, ...],
) -> None:
    groups = stated_fields("node_groups", ("a",)), stated_fields("node_groups", ("b",))
    spec = JobSpec(template="solver", node_groups=requested)
    allowed = template(TemplateRule(field="node_groups", allowed=groups))
    required = template(TemplateRule(field="node_groups", required=stated_fields("node_groups", ("a",))))
    for rules, fits in ((allowed, "c" not in requested), (required, "a" in requested)):
        if fits:
            assert made(spec, rules) == spec
        else:
            with pytest.raises(BadRequest, match="node groups"):
                made(spec, rules)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    rules = (
        TemplateRule(field="priority", maximum=10),
        TemplateRule(field="project", allowed=(stated_fields("project", "p"),)),
    )
    with pytest.raises(BadRequest) as wrong:
        made(JobSpec(template="solver", priority=Priority(11)), template(*rules))
    assert "priority is Lowest+11, at most Lowest+10 is allowed" in wrong.value.what
    assert "project must be given: p" in wrong.value.what


def test_only_those_it_is_for_may_use_it() -> None:
    spec = JobSpec(template="solver")
    for allowed in ({"users": (BOB.name,)}, {"groups": ("staff",)}, {}):
        by = BOB if "groups" not in allowed else type(BOB)(BOB.name, BOB.uid, BOB.gid, groups=("x", "staff"))
        assert templated_spec({"solver": template(**allowed)}, by, spec) == spec
    with pytest.raises(NotAllowed, match="may not use the job template 'Solver'"):
        templated_spec({"solver": template(users=("eve",), groups=("staff",))}, BOB, spec)
    assert templated_spec({"solver": template(users=("eve",))}, ROOT, spec) == spec


def test_a_submitted_job_has_what_its_template_gave_it_however_it_was_made() -> None:
    world = World()
    rule = TemplateRule(field="run_time", default=stated_fields("run_time", Seconds(60.0)), maximum=100)
    world.do(SetTemplate(by=ROOT, template=JobTemplate(name=DEFAULT_TEMPLATE, rules=(rule,))))
    spec = JobSpec(tasks=TASK)
    at_once = created(world, CreateJob(by=BOB, spec=spec, submit=True))
    later = created(world, CreateJob(by=BOB, spec=spec))
    assert (
        world.cluster.written(world.record(later)).run_time != 60
    )  # it may be changed until it is submitted
    world.do(SubmitJob(by=BOB, job=later))
    world.do(CreateJobs(by=BOB, specs=(spec, spec), submit=True))
    for job in (at_once, later, *sorted(world.cluster.jobs)[-2:]):
        assert world.cluster.written(world.record(job)).run_time == 60
    longer = JobSpec(tasks=TASK, run_time=Seconds(200.0))
    for refused in (
        CreateJob(by=BOB, spec=longer, submit=True),
        CreateJobs(by=BOB, specs=(spec, longer), submit=True),
        ModifyJob(by=BOB, job=at_once, spec=longer, fields=("run_time",)),
    ):
        with pytest.raises(BadRequest, match="run time is 3m20s, at most 1m40s is allowed"):
            world.do(refused)
    world.do(ModifyJob(by=ROOT, job=at_once, spec=longer, fields=("run_time",)))


def test_templates_survive_a_restart_and_go_when_they_are_removed() -> None:
    world = World()
    rule = TemplateRule(field="run_time", default=stated_fields("run_time", Seconds(60.0)))
    world.do(SetTemplate(by=ROOT, template=template(rule, users=("ann",))))
    assert world.replayed().templates["solver"].rules == (rule,)
    world.engine.snapshot_if_due(at_least=1)
    assert world.replayed().templates["solver"].rules == (rule,)
    world.do(RemoveTemplate(by=ROOT, name="SOLVER"))
    assert world.cluster.templates == {}
    for gone in ("Solver", DEFAULT_TEMPLATE):
        with pytest.raises(NotFound):
            world.do(RemoveTemplate(by=ROOT, name=gone))


@pytest.mark.parametrize(
    "wrong",
    [
        JobTemplate(name=" "),
        JobTemplate(name="a\nb"),
        template(
            TemplateRule(field="run_time", default=stated_fields("run_time", Seconds(60.0)), maximum=10)
        ),
    ],
)
def test_a_template_that_nobody_could_use_is_refused(wrong: JobTemplate) -> None:
    with pytest.raises(BadRequest):
        World().do(SetTemplate(by=ROOT, template=wrong))


def test_only_administrators_change_templates() -> None:
    for command in (SetTemplate(by=BOB, template=template()), RemoveTemplate(by=BOB, name="x")):
        with pytest.raises(Refused, match="may not change job templates"):
            World().do(command)
