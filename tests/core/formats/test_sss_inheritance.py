"""Defaults are inherited property by property, the nearest wins, and what was written stays as it was."""

from headnode.core.formats.sss import (
    JobGroup,
    SssJob,
    SssVersion,
    TaskGroup,
    effective_job,
    effective_jobs,
    read_document,
    request_of,
    write_document,
)
from headnode.core.formats.sss.job_object import (
    EffectiveJob,
    EffectiveTaskGroup,
    JobRef,
    SssScope,
    Task,
    TaskGroupRef,
    TaskRef,
    with_overrides,
)
from headnode.core.formats.sss.properties import Environment


def group_of(text: str) -> JobGroup:
    (group,) = read_document(f"<JobGroup><Id>g</Id>{text}</JobGroup>")[0].entries
    assert isinstance(group, JobGroup)
    return group


def only(text: str) -> EffectiveJob:
    """The only job of a group, with its defaults."""
    (job,) = effective_jobs(group_of(text))
    assert isinstance(job, EffectiveJob)
    return job


def only_group(text: str) -> EffectiveTaskGroup:
    """The only task group of a job."""
    (found,) = only(f"<Job><Id>1</Id>{text}</Job>").task_groups
    assert isinstance(found, EffectiveTaskGroup)
    return found


def properties_of(part: SssScope) -> list[str]:
    """The properties of a part as words; those of Requested with an r, of Delivered with a d."""
    found = [f"{one.name}={one.value}" for one in part.properties]
    for mark, envelope in (("r", part.requested), ("d", part.delivered)):
        found += [f"{mark}.{one.name}={one.value}" for one in (envelope.properties if envelope else ())]
    return sorted(found)


def variables(part: SssScope) -> dict[str, str]:
    """All variables of a part, from its one environment."""
    found = [one for one in part.properties if isinstance(one, Environment)]
    assert len(found) == 1
    return {one.name: one.value for one in found[0].variables}


def test_a_job_overrides_its_defaults_property_by_property() -> None:
    job = only(
        "<JobDefaults><User>keith</User><Project>p</Project><Executable>a</Executable></JobDefaults>"
        "<Job><Id>1</Id><User>amy</User></Job>"
    )
    assert properties_of(job.job) == ["Executable=a", "Id=1", "Project=p", "User=amy"]
    assert properties_of(job.written) == ["Id=1", "User=amy"]


def test_every_job_of_a_group_inherits_and_references_stay_references() -> None:
    jobs = effective_jobs(
        group_of(
            "<JobDefaults><User>k</User></JobDefaults><Job>far</Job><Job><Id>1</Id></Job><Job><Id>2</Id></Job>"
        )
    )
    assert jobs[0] == JobRef(id="far")
    assert [properties_of(one.job) for one in jobs if isinstance(one, EffectiveJob)] == [
        ["Id=1", "User=k"],
        ["Id=2", "User=k"],
    ]


def test_a_group_without_defaults_gives_its_jobs_as_they_are() -> None:
    group = group_of("<Job><Id>1</Id></Job>")
    (found,) = effective_jobs(group)
    assert isinstance(found, EffectiveJob)
    assert found.job == group.jobs[0]


def test_requested_properties_are_overridden_one_by_one_inside_and_outside_of_requested() -> None:
    defaults = (
        "<JobDefaults><Processors>1</Processors><Queue>q</Queue>"
        "<Requested><Duration>60</Duration><Memory>1</Memory></Requested></JobDefaults>"
    )
    job = only(
        f"{defaults}<Job><Id>1</Id><Duration>5</Duration>"
        "<Requested><Processors op='GE'>4</Processors></Requested></Job>"
    )
    assert properties_of(job.job) == ["Duration=5.0", "Id=1", "Queue=q", "r.Memory=1.0", "r.Processors=4"]


def test_what_was_delivered_is_overridden_apart_from_what_was_requested() -> None:
    job = only(
        "<JobDefaults><Delivered><Memory>1</Memory><NodeCount>2</NodeCount></Delivered></JobDefaults>"
        "<Job><Id>1</Id><Memory>9</Memory><Delivered><NodeCount>3</NodeCount></Delivered></Job>"
    )
    assert properties_of(job.job) == ["Id=1", "Memory=9.0", "d.Memory=1.0", "d.NodeCount=3"]


def test_requests_that_are_bound_together_are_overridden_together() -> None:
    defaults = (
        '<JobDefaults><Requested><User group="1">a</User><Group group="-1">b</Group>'
        '<User conj="Or" group="1">c</User><Group group="-1">d</Group><Queue>q</Queue>'
        '<Memory preference="2">2</Memory><Memory preference="1">1</Memory></Requested></JobDefaults>'
    )
    job = only(f"{defaults}<Job><Id>1</Id><Group>x</Group></Job>").job
    assert properties_of(job) == ["Group=x", "Id=1", "r.Memory=1.0", "r.Memory=2.0", "r.Queue=q"]
    assert len(request_of(job)) == 2
    job = only(f"{defaults}<Job><Id>1</Id><Memory>5</Memory></Job>").job
    assert "r.Memory=2.0" not in properties_of(job)
    assert "r.User=a" in properties_of(job)


def test_several_ranges_and_holds_are_overridden_as_one() -> None:
    job = only("<JobDefaults><Hold>a</Hold><Hold>b</Hold></JobDefaults><Job><Id>1</Id><Hold>c</Hold></Job>")
    assert properties_of(job.job) == ["Hold=c", "Id=1"]


def test_resources_limits_and_extensions_of_other_names_do_not_override_each_other() -> None:
    job = only(
        '<JobDefaults><Resource name="L" type="A">1</Resource><Resource name="L" type="B">2</Resource>'
        '<ResourceLimit name="CpuTime">1</ResourceLimit>'
        '<ResourceLimit name="CpuTime" type="Soft">2</ResourceLimit>'
        '<Extension name="a">1</Extension><Extension name="b">2</Extension></JobDefaults>'
        '<Job><Id>1</Id><Resource name="L" type="A">3</Resource>'
        '<ResourceLimit name="CPUTime">3</ResourceLimit>'
        '<Extension name="b">3</Extension></Job>'
    )
    assert properties_of(job.job) == [
        "Extension=1",
        "Extension=3",
        "Id=1",
        "Resource=2.0",
        "Resource=3.0",
        "ResourceLimit=2",
        "ResourceLimit=3",
    ]


def test_environments_are_merged_variable_by_variable() -> None:
    job = only(
        '<JobDefaults><Environment><Variable name="A">1</Variable><Variable name="B">2</Variable>'
        "</Environment></JobDefaults><Job><Id>1</Id>"
        '<Environment><Variable name="B">3</Variable></Environment></Job>'
    )
    assert variables(job.job) == {"A": "1", "B": "3"}


def test_a_job_without_task_groups_has_an_implicit_one_with_an_implicit_task() -> None:
    found = only_group("<Executable>a</Executable><User>u</User><Requested><Memory>1</Memory></Requested>")
    assert found.written is None
    assert properties_of(found.task_group) == []
    assert properties_of(found.within) == ["Executable=a", "r.Memory=1.0"]
    assert found.tasks == (Task(properties=found.within.properties, requested=found.within.requested),)
    assert found.count == 1


def test_a_task_group_inherits_its_defaults_and_what_its_job_says_for_all() -> None:
    found = only_group(
        "<Executable>job</Executable><Arguments>job</Arguments><Name>n</Name><Charge>3</Charge>"
        "<TaskGroupDefaults><Executable>default</Executable><TaskCount>3</TaskCount></TaskGroupDefaults>"
        "<TaskGroup><Name>workers</Name></TaskGroup>"
    )
    assert properties_of(found.task_group) == ["Executable=default", "Name=workers", "TaskCount=3"]
    assert properties_of(found.within) == [
        "Arguments=job",
        "Executable=default",
        "Name=workers",
        "TaskCount=3",
    ]
    assert found.count == 3
    assert found.written is not None
    assert properties_of(found.written) == ["Name=workers"]


def test_requests_of_the_job_hold_for_each_of_its_task_groups_unless_they_say_otherwise() -> None:
    job = only(
        "<Job><Id>1</Id><Requested><Processors>4</Processors><Memory>1</Memory><Queue>q</Queue></Requested>"
        "<TaskGroup><Memory>2</Memory></TaskGroup><TaskGroup><Name>b</Name></TaskGroup></Job>"
    )
    groups = [one.within for one in job.task_groups if isinstance(one, EffectiveTaskGroup)]
    assert [properties_of(one) for one in groups] == [
        ["Memory=2.0", "r.Processors=4"],
        ["Name=b", "r.Memory=1.0", "r.Processors=4"],
    ]


def test_a_task_inherits_its_defaults_and_its_task_group() -> None:
    found = only_group(
        "<TaskGroup><Executable>g</Executable><Name>n</Name><Task><Id>1</Id></Task>"
        "<Task><Id>2</Id><Arguments>own</Arguments></Task><Task>far</Task>"
        "<TaskDefaults><Arguments>d</Arguments></TaskDefaults></TaskGroup>"
    )
    first, second, far = found.tasks
    assert isinstance(first, Task)
    assert isinstance(second, Task)
    assert properties_of(first) == ["Arguments=d", "Executable=g", "Id=1"]
    assert properties_of(second) == ["Arguments=own", "Executable=g", "Id=2"]
    assert far == TaskRef(id="far")
    assert found.count == 3


def test_the_later_of_two_defaults_wins() -> None:
    found = only_group(
        "<TaskGroupDefaults><Executable>a</Executable><Shell>a</Shell></TaskGroupDefaults>"
        "<TaskGroupDefaults><Executable>b</Executable></TaskGroupDefaults><TaskGroup><Name>n</Name></TaskGroup>"
    )
    assert properties_of(found.task_group) == ["Executable=b", "Name=n", "Shell=a"]


def test_task_groups_of_the_defaults_serve_jobs_that_have_none() -> None:
    text = (
        "<JobDefaults><TaskGroupDefaults><Shell>s</Shell></TaskGroupDefaults>"
        "<TaskGroup><Name>d</Name></TaskGroup></JobDefaults>"
        "<Job><Id>1</Id></Job><Job><Id>2</Id><TaskGroup><Name>own</Name></TaskGroup><TaskGroup>far</TaskGroup></Job>"
    )
    first, second = effective_jobs(group_of(text))
    assert isinstance(first, EffectiveJob)
    assert isinstance(second, EffectiveJob)
    groups = [*first.task_groups, *second.task_groups]
    assert [properties_of(one.task_group) for one in groups if isinstance(one, EffectiveTaskGroup)] == [
        ["Name=d", "Shell=s"],
        ["Name=own", "Shell=s"],
    ]
    assert groups[-1] == TaskGroupRef(id="far")


def test_awareness_policies_are_inherited_from_defaults() -> None:
    job = only('<JobDefaults awarenessPolicy="Ignore"><User>u</User></JobDefaults><Job><Id>1</Id></Job>')
    assert job.job.awareness == "Ignore"


def test_what_overrides_nothing_changes_nothing() -> None:
    group = TaskGroup(tasks=(TaskRef(id="1"),))
    assert with_overrides(TaskGroup(), group) == group


def test_the_document_is_written_back_as_it_was_after_all_defaults_were_merged() -> None:
    text = "<JobGroup><Id>g</Id><JobDefaults><User>u</User></JobDefaults><Job><Id>1</Id></Job></JobGroup>"
    document, _ = read_document(text)
    before = write_document(document, SssVersion.V3_0)[0]
    (group,) = document.entries
    assert isinstance(group, JobGroup)
    (effective,) = effective_jobs(group)
    assert isinstance(effective, EffectiveJob)
    assert effective.written is group.jobs[0]
    assert write_document(document, SssVersion.V3_0)[0] == before


def test_a_job_alone_needs_no_defaults() -> None:
    assert effective_job(SssJob()).job == SssJob()
