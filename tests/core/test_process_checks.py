"""Gangs, distributions, needs of nodes and limits that cannot be are refused by name."""

import pytest

from headnode.core.model.errors import BadRequest
from headnode.core.model.job import GroupEdge, JobSpec, UnitType
from headnode.core.model.job_checks import check_job
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.task import LIMITS, Distribution, ResourceLimit, TaskSpec, TaskType

ONE = TaskSpec(name="a", command="x")
AFTER = TaskSpec(name="b", command="x", depends_on=("a",))


def three(**more: object) -> TaskSpec:
    return TaskSpec(command="x", minimum=3, maximum=3, **more)


def laid(**distribution: object) -> TaskSpec:
    return three(distribution=Distribution(**distribution))


SWEEP = TaskSpec(
    command="x", kind=TaskType.SWEEP, start=1, end=2, distribution=Distribution(geometry=((1,), (2,)))
)


@pytest.mark.parametrize(
    "spec",
    [
        JobSpec(resource_limits=tuple(ResourceLimit(name, 1, -1) for name in LIMITS)),
        JobSpec(tasks=(three(resource_limits=(ResourceLimit("cpu", 5, 5), ResourceLimit("core", None, 0))),)),
        JobSpec(tasks=(laid(per_node=2), laid(nodes=3), laid(geometry=((3, 1), (2,))))),
        JobSpec(tasks=(laid(round_robin=True, per_node=1),)),
        JobSpec(tasks=(SWEEP,)),
        JobSpec(tasks=(SWEEP, ONE), together=True),
        JobSpec(tasks=(ONE, AFTER)),
        JobSpec(needs=NodeNeeds(patterns=("n[0-9]+",), minimum_memory=10)),
    ],
)
def test_what_can_be_done_is_kept(spec: JobSpec) -> None:
    check_job(spec)


@pytest.mark.parametrize(
    ("spec", "code", "words"),
    [
        (JobSpec(resource_limits=(ResourceLimit("cpus", 1),)), "resource-limit", "'cpus'"),
        (
            JobSpec(resource_limits=(ResourceLimit("cpu", 3, 2),)),
            "resource-limit",
            "3, is above the hard one, 2",
        ),
        (JobSpec(resource_limits=(ResourceLimit("cpu", -1, 2),)), "resource-limit", "-1, is above"),
        (JobSpec(resource_limits=(ResourceLimit("cpu", -2),)), "resource-limit", "is -2"),
        (JobSpec(resource_limits=(ResourceLimit("cpu", None, 2**63),)), "resource-limit", "the hard limit"),
        (JobSpec(resource_limits=(ResourceLimit("cpu"),)), "resource-limit", "has no value"),
        (
            JobSpec(resource_limits=(ResourceLimit("cpu", 1),) * 2),
            "resource-limit",
            "the limit 'cpu' 2 times",
        ),
        (JobSpec(tasks=(three(resource_limits=(ResourceLimit("x", 1),)),)), "resource-limit", "task 1"),
        (JobSpec(tasks=(ONE, AFTER), together=True), "gang-dependency", "task 2 ('b') waits for 'a'"),
        (
            JobSpec(tasks=(three(group=1), three(group=2)), together=True, group_edges=(GroupEdge(1, 2),)),
            "gang-dependency",
            "group",
        ),
        (JobSpec(tasks=(laid(per_node=1, nodes=2),)), "distribution", "more than one"),
        (JobSpec(tasks=(laid(nodes=4),)), "distribution", "3 processes for 4 nodes"),
        (JobSpec(tasks=(laid(nodes=-1),)), "distribution", "is below 1"),
        (JobSpec(tasks=(laid(geometry=((1, 2),)),)), "distribution", "each number from 1 to 3 once"),
        (JobSpec(tasks=(laid(geometry=((1, 2), (2, 3))),)), "distribution", "each number"),
        (JobSpec(tasks=(laid(geometry=((1, 2, 3), ())),)), "distribution", "each number"),
        (JobSpec(tasks=(laid(geometry=((1, 2, 3),)),), unit=UnitType.NODE), "distribution", "counts nodes"),
        (JobSpec(tasks=(SWEEP, ONE)), "distribution", "a sweep with a geometry"),
        (JobSpec(needs=NodeNeeds(patterns=("(",))), "pattern", "("),
        (JobSpec(tasks=(three(needs=NodeNeeds(feature_patterns=("[",))),)), "pattern", "["),
        (JobSpec(needs=NodeNeeds(minimum_disk=-1)), "size", "minimum disk"),
    ],
)
def test_what_cannot_be_is_refused_by_its_rule(spec: JobSpec, code: str, words: str) -> None:
    with pytest.raises(BadRequest) as refused:
        check_job(spec)
    assert refused.value.code == code
    assert words in refused.value.what
    assert refused.value.fix


def test_a_task_has_its_own_limit_in_place_of_the_jobs_of_that_name() -> None:
    job = (ResourceLimit("cpu", 1, 2), ResourceLimit("core", 0))
    task = TaskSpec(resource_limits=(ResourceLimit("cpu", 5),))
    assert task.process_limits(job) == (ResourceLimit("cpu", 5), job[1])
