"""Every field of a job and of a task, through every writer: it comes back, or its loss is reported."""

from typing import Any

import pytest
from msgspec.structs import replace

from headnode.core.formats.dialects import DIALECTS, read, write
from headnode.core.formats.fidelity import ReportItem
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import (
    Alternative,
    Condition,
    GroupEdge,
    HeldAmounts,
    JobSpec,
    Licence,
    NamedParent,
    NodeGroupOp,
    OrderKey,
    UnitType,
)
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import Instant, Priority, Seconds
from headnode.core.model.task import Distribution, ResourceLimit, TaskSpec, TaskType

JOB_FIELDS: dict[str, Any] = {
    "name": "n", "description": "d", "job_group": "g", "project": "p", "template": "t",
    "priority": Priority(3000), "unit": UnitType.SOCKET, "minimum": 2, "maximum": 9, "exclusive": True,
    "single_node": True, "run_time": Seconds(90.0), "run_until_canceled": True,
    "licences": (Licence("f", 2),), "node_groups": ("a", "b"), "node_group_op": NodeGroupOp.UNION,
    "requested_nodes": ("n1",), "excluded_nodes": ("n2",), "order_by": (OrderKey("memory"),),
    "minimum_memory": 100, "maximum_memory": 200, "minimum_processors_per_node": 2,
    "maximum_processors_per_node": 8, "process_memory": 50, "held": HeldAmounts(memory=20), "together": True,
    "needs": NodeNeeds(features=(("gpu",),)), "alternatives": (Alternative(minimum=1, maximum=1),),
    "fail_on_task_failure": True, "fail_dependent_tasks": True, "task_retry_limit": 2,
    "valid_exit_codes": ((0, 3),), "parents": (7,), "after_failure": (7,), "after_exit": (7,),
    "after_start": (7,), "named_parents": (NamedParent("mesh", condition=Condition.ON_EXIT),),
    "hold_until": Instant(2_000_000_000.0), "holds": ("user",), "end_by": Instant(2_000_000_000.0),
    "reservation": "r", "suspendable": True, "preemptable": False, "interactive": True,
    "resource_limits": (ResourceLimit("nofile", 9, 9),), "notify_on_start": True,
    "notify_on_completion": True, "email": "ann@example.org", "run_as": "ann", "environment": {"A": "1"},
    "group_edges": (GroupEdge(1, 2),), "properties": {"P": "1"}, "extensions": {"Odd": "1"},
}  # fmt: skip
TASK_FIELDS: dict[str, Any] = {
    "name": "n", "command": "/bin/other", "kind": TaskType.NODE_PREP, "minimum": 2, "maximum": 4,
    "run_time": Seconds(90.0), "exclusive": True, "rerunnable": True, "standard_input": "/i",
    "standard_output": "/o", "standard_error": "/e", "append_output": True, "append_error": True,
    "work_directory": "/w", "private_directory": True, "required_nodes": ("n1",), "node_group": "g",
    "needs": NodeNeeds(features=(("gpu",),)), "distribution": Distribution(per_node=1), "depends_on": ("b",),
    "group": 1, "start": 3, "end": 9, "increment": 2, "valid_exit_codes": ((0, 3),),
    "fail_job_on_failure": True, "fail_job_count": 2, "resource_limits": (ResourceLimit("nofile", 9, 9),),
    "environment": {"A": "1"}, "properties": {"P": "1"}, "extensions": {"Odd": "1"},
}  # fmt: skip
BESIDE: dict[str, dict[str, Any]] = {
    "append_output": {"standard_output": "/o"},
    "append_error": {"standard_error": "/e"},
    "distribution": {"minimum": 2, "maximum": 2},
    "minimum": {"maximum": 2},
    "fail_job_count": {"fail_job_on_failure": True},
    **{field: {"kind": TaskType.SWEEP, "start": 1, "end": 9} for field in ("start", "end", "increment")},
}
"""What else must be said for a field to mean anything."""

_TASKS = (TaskSpec(name="a", command="/bin/a"), TaskSpec(name="b", command="/bin/b"))
PLAIN = JobSpec(name="j", tasks=_TASKS)
NEVER_THE_SAME = {"dialect", "tasks"}


def of_job(field: str) -> JobSpec:
    spec = replace(PLAIN, minimum=2) if field == "maximum" else PLAIN
    if field == "group_edges":
        spec = replace(PLAIN, tasks=tuple(replace(task, group=n) for n, task in enumerate(_TASKS, 1)))
    return replace(spec, **{field: JOB_FIELDS[field]})


def of_task(field: str) -> JobSpec:
    changed = {**BESIDE.get(field, {}), field: TASK_FIELDS[field]}
    return replace(PLAIN, tasks=(replace(_TASKS[0], **changed), _TASKS[1]))


def told(spec: JobSpec, dialect: str) -> tuple[JobSpec | None, set[str]]:
    """Return the job as it comes back, and what was reported; None when it was refused."""
    try:
        text, report = write(spec, dialect)
    except BadRequest:
        return None, {"refused"}
    return read(text).only_job(), {_said(item) for item in report}


def _said(item: ReportItem) -> str:
    return f"{item.kind} {item.what}"


def comes_back(spec: JobSpec, back: JobSpec, field: str, *, task: bool) -> bool:
    one, other = (spec.tasks[0], back.tasks[0]) if task and back.tasks else (spec, back)
    left, right = getattr(one, field), getattr(other, field)
    if field in ("properties", "extensions"):
        return all(right.get(key) == text for key, text in left.items())
    return bool(left == right)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("field", "task"), [*((field, False) for field in JOB_FIELDS), *((field, True) for field in TASK_FIELDS)]
)
def test_a_field_comes_back_or_its_loss_is_reported(field: str, task: bool, dialect: str) -> None:
    spec = of_task(field) if task else of_job(field)
    plain = replace(PLAIN, tasks=PLAIN.tasks)
    back, report = told(spec, dialect)
    _, usual = told(plain, dialect)
    assert back is None or comes_back(spec, back, field, task=task) or report - usual, dialect


def test_every_field_is_tried() -> None:
    assert {*JOB_FIELDS} | NEVER_THE_SAME == set(JobSpec.__struct_fields__)
    assert {*TASK_FIELDS} == set(TaskSpec.__struct_fields__)


class WiderJob(JobSpec, frozen=True, omit_defaults=True, kw_only=True):
    """A job with a field that no writer knows yet."""

    colour: str = ""


class WiderTask(TaskSpec, frozen=True, omit_defaults=True, kw_only=True):
    """A task with a field that no writer knows yet."""

    colour: str = ""


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "grid-task"])
def test_a_field_that_a_writer_does_not_know_is_reported_by_every_writer(dialect: str) -> None:
    task = WiderTask(name="a", command="/bin/a", colour="red")
    for spec in (WiderJob(name="j", tasks=_TASKS[:1], colour="red"), JobSpec(name="j", tasks=(task,))):
        assert any("colour" in item.what for item in write(spec, dialect)[1]), dialect
