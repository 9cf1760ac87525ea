"""What is wrong with a job is refused before any cluster is asked, each rule by its own code."""

import ast
import inspect
import math
from itertools import pairwise
from types import ModuleType
from typing import Any

import msgspec
import pytest

from headnode.core.model import job_checks, task_checks, value_checks
from headnode.core.model.errors import BadRequest, Path
from headnode.core.model.job import (
    Alternative,
    GroupEdge,
    HeldAmounts,
    JobSpec,
    Licence,
    UnitType,
)
from headnode.core.model.job_checks import check_job, check_runnable
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import Instant, Priority, Seconds
from headnode.core.model.task import Distribution, ResourceLimit, TaskSpec, TaskType
from headnode.core.model.value_checks import find_cycle

SWEEP, PREP, RELEASE, SERVICE = TaskType.SWEEP, TaskType.NODE_PREP, TaskType.NODE_RELEASE, TaskType.SERVICE


def job(*tasks: TaskSpec, **fields: object) -> JobSpec:
    return msgspec.structs.replace(JobSpec(tasks=tasks), **fields)


def task(name: str = "", after: str = "", **fields: object) -> TaskSpec:
    made = TaskSpec(name=name, command="x", depends_on=tuple(after.split()))
    return msgspec.structs.replace(made, **fields)


WRONG = [
    ("size", job(minimum=0)),
    ("size", job(maximum=-1)),
    ("size", job(task(minimum=0, maximum=0))),
    ("size", job(minimum_memory=0)),
    ("max-below-min", job(minimum=3, maximum=2)),
    ("max-below-min", job(task(minimum=3, maximum=2))),
    ("max-below-min", job(minimum_memory=3, maximum_memory=2)),
    ("max-below-min", job(minimum_processors_per_node=3, maximum_processors_per_node=2)),
    ("single-node", job(single_node=True, unit=UnitType.NODE, minimum=2, maximum=2)),
    ("task-min-above-job", job(task(minimum=2, maximum=2), minimum=1, maximum=2)),
    ("task-max-above-job", job(task(minimum=1, maximum=3), minimum=1, maximum=2)),
    ("run-time", job(run_time=Seconds(0))),
    ("run-time", job(run_time=Seconds(-1))),
    ("run-time", job(run_time=Seconds(math.nan))),
    ("run-time", job(task(run_time=Seconds(math.nan)))),
    ("task-run-time", job(task(run_time=Seconds(61)), run_time=Seconds(60))),
    ("priority", job(priority=Priority(4001))),
    ("priority", job(priority=Priority(-1))),
    ("task-retry-limit", job(task_retry_limit=-1)),
    ("hold-until", job(hold_until=Instant(math.inf))),
    ("hold-until", job(hold_until=Instant(-1))),
    ("run-until-canceled", job(run_until_canceled=True)),
    ("run-until-canceled", job(run_until_canceled=True, minimum=1)),
    ("no-nodes-left", job(requested_nodes=("a",), excluded_nodes=("a", "b"))),
    ("name", job(requested_nodes=("a,b",))),
    ("name", job(node_groups=("",))),
    ("name", job(task("a,b"))),
    ("name", job(task(required_nodes=(" ",)))),
    ("name", job(licences=(Licence("a,b", 1),))),
    ("licence", job(licences=(Licence("a", 1), Licence("a", 1)))),
    ("licence", job(licences=(Licence("a", 0),))),
    ("parents", job(parents=(0,))),
    ("environment-name", job(environment={"": "x"})),
    ("environment-name", job(environment={"A=B": "x"})),
    ("environment-name", job(task(environment={" A": "x"}))),
    ("nul", job(name="a\0")),
    ("nul", job(task(command="a\0"))),
    ("nul", job(task(environment={"A": "\0"}))),
    ("nul", job(environment={"A\0": ""})),
    ("nul", job(requested_nodes=("a\0",))),
    ("not-unicode", job(name="\ud800")),
    ("exit-codes", job(valid_exit_codes=((3, 2),))),
    ("exit-codes", job(task(valid_exit_codes=((0, 2**31),)))),
    ("too-many-sweeps", job(*[task(kind=SWEEP, end=1)] * 101)),
    ("empty-sweep", job(task(kind=SWEEP, start=2, end=1))),
    ("empty-sweep", job(task(kind=SWEEP, start=1, end=2, increment=0))),
    ("too-many-instances", job(task(kind=SWEEP, start=1, end=1_000_001))),
    ("special-task", job(task(kind=PREP), task(kind=PREP))),
    ("special-task", job(task(kind=SERVICE), task())),
    ("special-task", job(task("a"), task(kind=PREP, after="a"))),
    ("special-task", job(task(kind=RELEASE, minimum=2, maximum=2))),
    ("special-task", job(task(kind=PREP, required_nodes=("a",)))),
    ("exclusive-task", job(task(exclusive=True), minimum=1, maximum=1)),
    ("exclusive-task", job(task(exclusive=True), exclusive=True, maximum=1)),
    ("exclusive-task", job(task(exclusive=True), exclusive=True, unit=UnitType.GPU, minimum=1, maximum=1)),
    ("processors-per-gpu", job(processors_per_gpu=2)),
    ("processors-per-gpu", job(processors_per_gpu=0, unit=UnitType.GPU)),
    ("processors-per-gpu", job(processors_per_gpu=16_385, unit=UnitType.GPU)),
    ("required-nodes", job(task(required_nodes=("a", "b")), minimum=1, maximum=1)),
    ("required-nodes", job(task(required_nodes=("a",)), excluded_nodes=("a",))),
    ("required-nodes", job(task(required_nodes=("a",)), requested_nodes=("b",))),
    ("task-node-group", job(task(node_group="g"), node_groups=("h",))),
    ("task-node-group", job(task(node_group="g", required_nodes=("a",)))),
    ("fail-job-count", job(task(fail_job_count=0))),
    ("fail-job-count", job(task(fail_job_on_failure=True, fail_job_count=2))),
    ("dependency-unknown", job(task("a", after="b"))),
    ("dependency-on-itself", job(task("a", after="a"))),
    ("dependency-on-itself", job(task("a"), task("a", after="a"))),
    ("dependency-circle", job(task("a", after="b"), task("b", after="a"))),
    ("dependency-circle", job(task("z"), task("b", after="a"), task("a", after="b"))),
    ("dependency-kind", job(task("p", kind=PREP), task("a", after="p"))),
    ("group-unknown", job(task(group=1), group_edges=(GroupEdge(1, 2),))),
    ("group-unknown", job(task(group=1), group_edges=(GroupEdge(1, 1), GroupEdge(3, 1)))),
    ("group-circle", job(task(group=1), group_edges=(GroupEdge(1, 1),))),
    ("group-circle", job(task(group=1), task(group=2), group_edges=(GroupEdge(1, 2), GroupEdge(2, 1)))),
]


@pytest.mark.parametrize(("code", "spec"), WRONG, ids=[f"{code}-{n}" for n, (code, _) in enumerate(WRONG)])
def test_a_wrong_job_is_refused_with_code_reason_and_way_out(code: str, spec: JobSpec) -> None:
    with pytest.raises(BadRequest) as caught:
        check_job(spec)
    assert caught.value.code == code
    assert caught.value.what
    assert caught.value.fix
    assert value_at(spec, caught.value.path) is not spec


def value_at(spec: Any, path: Path) -> Any:
    """Return what a path leads to; fails where there is nothing."""
    for step in path:
        spec = getattr(spec, step) if hasattr(spec, "__struct_fields__") else spec[step]
    return spec


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (job(task(), task(minimum=3, maximum=2)), ("tasks", 1, "maximum")),
        (job(task("a"), task("b", after="a zz")), ("tasks", 1, "depends_on", 1)),
        (job(task(required_nodes=("a", "b")), excluded_nodes=("b",)), ("tasks", 0, "required_nodes", 1)),
        (job(task(environment={"A": "b", "C=": "d"})), ("tasks", 0, "environment", "C=")),
        (job(task(command="a\0")), ("tasks", 0, "command")),
        (job(licences=(Licence("a", 1), Licence("b", 0))), ("licences", 1, "amount")),
        (job(group_edges=(GroupEdge(1, 1), GroupEdge(1, 3))), ("group_edges", 1, "child")),
        (job(parents=(1, 0)), ("parents", 1)),
        (job(holds=("a", "")), ("holds", 1)),
        (job(held=HeldAmounts(disk=-1)), ("held", "disk")),
        (job(task(needs=NodeNeeds(patterns=("a", "(")))), ("tasks", 0, "needs", "patterns", 1)),
        (
            job(task(needs=NodeNeeds(features=(("a",), ("b" * 300,))))),
            ("tasks", 0, "needs", "features", 1, 0),
        ),
        (job(task(distribution=Distribution(nodes=-1))), ("tasks", 0, "distribution", "nodes")),
        (job(resource_limits=(ResourceLimit("cpu", 3, 2),)), ("resource_limits", 0, "soft")),
        (job(alternatives=(Alternative(), Alternative(minimum=0))), ("alternatives", 1, "minimum")),
    ],
)
def test_a_refusal_leads_to_the_wrong_field(spec: JobSpec, path: Path) -> None:
    with pytest.raises(BadRequest) as caught:
        check_job(spec)
    assert caught.value.path == path
    value_at(spec, path)


@pytest.mark.parametrize("rules", [job_checks, task_checks, value_checks])
def test_every_rule_refuses_with_a_path(rules: ModuleType) -> None:
    """A rule refuses by `JobPart.refuse`; the job as a whole never without the field."""
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(rules))) if isinstance(node, ast.Call)]
    names = [ast.unparse(call.func) for call in calls]
    assert names.count("BadRequest") == (rules is value_checks)
    refusals = [call for call, name in zip(calls, names, strict=True) if name == "THE_JOB.refuse"]
    assert refusals
    assert [ast.unparse(call) for call in refusals if len(call.args) < 4] == []


RIGHT = [
    job(),
    job(task(minimum=5, maximum=9)),
    job(task(minimum=2, maximum=2), minimum=2, maximum=2),
    job(task(minimum=2, maximum=9), minimum=2),
    job(task(run_time=Seconds(60)), task(), run_time=Seconds(60)),
    job(priority=Priority(0)),
    job(priority=Priority(4000)),
    job(run_until_canceled=True, minimum=1, maximum=1),
    job(task(exclusive=True), exclusive=True, minimum=1, maximum=1),
    job(*[task(kind=SWEEP, end=1)] * 100),
    job(task(kind=SWEEP, start=1, end=1_000_000)),
    job(task(kind=SWEEP, start=5, end=5, increment=9)),
    job(task(kind=SWEEP, end=9, fail_job_on_failure=True, fail_job_count=3)),
    job(task(kind=PREP), task(kind=RELEASE), task()),
    job(task(kind=SERVICE), task(kind=PREP)),
    job(task("a"), task("a"), task("b", after="a"), task(after="a b")),
    job(task(required_nodes=("a", "a")), minimum=1, maximum=1, requested_nodes=("a", "b")),
    job(task(group=2), group_edges=(GroupEdge(49, 2),)),
    job(task(command="\\u0000")),
    job(valid_exit_codes=((-(2**31), 2**31 - 1),)),
]


@pytest.mark.parametrize("spec", RIGHT, ids=range(len(RIGHT)))
def test_a_right_job_passes(spec: JobSpec) -> None:
    check_job(spec)


def test_the_circle_is_named() -> None:
    spec = job(task("start"), task("a", after="c start"), task("b", after="a"), task("c", after="b"))
    with pytest.raises(BadRequest) as caught:
        check_job(spec)
    assert "'a' -> 'c' -> 'b' -> 'a'" in caught.value.what


def test_a_chain_of_very_many_tasks_is_no_circle_and_no_deep_recursion() -> None:
    tasks = [task(str(number), after=str(number - 1) if number else "") for number in range(20_000)]
    check_job(job(*tasks))
    with pytest.raises(BadRequest, match=r"\.\.\."):
        check_job(job(msgspec.structs.replace(tasks[0], depends_on=("19999",)), *tasks[1:]))


def test_a_circle_is_found_in_every_small_graph_that_has_one() -> None:
    pairs = [(a, b) for a in range(3) for b in range(3)]
    for choice in range(2 ** len(pairs)):
        edges = {pair for number, pair in enumerate(pairs) if choice >> number & 1}
        found = find_cycle({node: [b for a, b in sorted(edges) if a == node] for node in range(3)})
        assert bool(found) == has_circle(edges)
        assert all(step in edges for step in pairwise(found))
        assert not found or found[0] == found[-1]


def has_circle(edges: set[tuple[int, int]]) -> bool:
    """Say so by taking away, again and again, what nothing leads out of."""
    left = set(edges)
    while any(b not in {start for start, _ in left} for _, b in left):
        left = {(a, b) for a, b in left if b in {start for start, _ in left}}
    return bool(left)


def test_a_job_can_be_kept_but_not_run_without_a_command() -> None:
    check_job(job(TaskSpec()))
    check_runnable(job(task()))
    with pytest.raises(BadRequest, match="task 2 has no command line"):
        check_runnable(job(task(), TaskSpec()))


def test_a_dependency_where_no_task_has_a_name_is_refused_with_the_advice_to_give_one() -> None:
    with pytest.raises(BadRequest, match="give that name to the parent task"):
        check_job(JobSpec(tasks=(TaskSpec(command="x", depends_on=("b",)),)))
