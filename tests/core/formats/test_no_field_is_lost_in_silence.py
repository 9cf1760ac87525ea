"""Every field of a job and of a task, through every writer: it comes back, or its loss is reported."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec.structs import asdict, replace

from headnode.core.formats.dialects import WRITTEN, read, write
from headnode.core.formats.fidelity import ReportItem
from headnode.core.model.dependency import Condition, JobDependency, NamedParent
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import (
    Alternative,
    GroupEdge,
    HeldAmounts,
    JobSpec,
    Licence,
    NodeGroupOp,
    OrderKey,
    TaskAlternative,
    UnitType,
)
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import Instant, Priority, Seconds
from headnode.core.model.task import Distribution, ResourceLimit, StagedFile, TaskSpec, TaskType

JOB_FIELDS: dict[str, Any] = {
    "name": "n", "description": "d", "job_group": "g", "project": "p", "template": "t",
    "priority": Priority(3000), "unit": UnitType.SOCKET, "minimum": 2, "maximum": 9, "exclusive": True,
    "processors_per_gpu": 8, "single_node": True, "run_time": Seconds(90.0), "run_until_canceled": True,
    "licences": (Licence("f", 2),), "node_groups": ("a", "b"), "node_group_op": NodeGroupOp.UNION,
    "requested_nodes": ("n1",), "excluded_nodes": ("n2",), "order_by": (OrderKey("memory"),),
    "minimum_memory": 100, "maximum_memory": 200, "minimum_processors_per_node": 2,
    "maximum_processors_per_node": 8, "process_memory": 50, "held": HeldAmounts(memory=20), "together": True,
    "needs": NodeNeeds(features=(("gpu",),)), "alternatives": (Alternative(minimum=1, maximum=1),),
    "fail_on_task_failure": True, "fail_dependent_tasks": True, "task_retry_limit": 2,
    "valid_exit_codes": ((0, 3),), "parents": (7,), "after_failure": (7,), "after_exit": (7,),
    "after_start": (7,), "after_corresponding": (7,),
    "named_parents": (NamedParent("mesh", condition=Condition.ON_EXIT),),
    "dependencies": (JobDependency(7, element=2),),
    "any_dependency": True,
    "singleton": True,
    "contiguous": True,
    "hold_until": Instant(2_000_000_000.0), "holds": ("user",), "end_by": Instant(2_000_000_000.0),
    "reservation": "r", "resource": "s", "suspendable": True, "preemptable": False, "interactive": True,
    "resource_limits": (ResourceLimit("nofile", 9, 9),), "notify_on_start": True, "signal": "USR1@30",
    "notify_on_completion": True, "email": "ann@example.org", "run_as": "ann", "environment": {"A": "1"},
    "group_edges": (GroupEdge(1, 2),), "properties": {"P": "1"}, "extensions": {"Odd": "1"},
    "storage_base": "https://h/d/", "transfer_attempts": 3, "credential": "store", "switches": 2,
    "switches_wait": Seconds(60.0), "minimum_run_time": Seconds(60.0),
}  # fmt: skip
TASK_FIELDS: dict[str, Any] = {
    "script": "#!/bin/sh\necho $1\n",
    "name": "n", "command": "/bin/other", "kind": TaskType.NODE_PREP, "minimum": 2, "maximum": 4,
    "run_time": Seconds(90.0), "exclusive": True, "rerunnable": True, "standard_input": "/i",
    "standard_output": "/o", "standard_error": "/e", "append_output": True, "append_error": True,
    "work_directory": "/w", "private_directory": True, "temporary_directory": True,
    "required_nodes": ("n1",), "node_group": "g",
    "needs": NodeNeeds(features=(("gpu",),)), "distribution": Distribution(per_node=1), "depends_on": ("b",),
    "group": 1, "start": 3, "end": 9, "increment": 2, "valid_exit_codes": ((0, 3),),
    "fail_job_on_failure": True, "fail_job_count": 2, "resource_limits": (ResourceLimit("nofile", 9, 9),),
    "environment": {"A": "1"}, "properties": {"P": "1"}, "extensions": {"Odd": "1"},
    "stage_in": (StagedFile("x", "https://h/x"),), "stage_out": (StagedFile("y/", "s3://b/y/"),),
    "storage_base": "https://h/d/", "transfer_attempts": 3, "credential": "store",
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


def round_trip(spec: JobSpec, dialect: str) -> tuple[JobSpec | None, set[str]]:
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


@pytest.mark.parametrize("dialect", WRITTEN)
@pytest.mark.parametrize(
    ("field", "task"), [*((field, False) for field in JOB_FIELDS), *((field, True) for field in TASK_FIELDS)]
)
def test_a_field_comes_back_or_its_loss_is_reported(field: str, task: bool, dialect: str) -> None:
    spec = of_task(field) if task else of_job(field)
    plain = replace(PLAIN, tasks=PLAIN.tasks)
    back, report = round_trip(spec, dialect)
    _, usual = round_trip(plain, dialect)
    assert back is None or comes_back(spec, back, field, task=task) or report - usual, dialect


def test_every_field_is_tried() -> None:
    differ = ({*JOB_FIELDS} | NEVER_THE_SAME) ^ set(JobSpec.__struct_fields__)
    differ |= {*TASK_FIELDS} ^ set(TaskSpec.__struct_fields__)
    assert not differ, (
        f"JOB_FIELDS or TASK_FIELDS of this file need a value other than the default of: {differ}"
    )


_NEEDS_INSIDE = tuple(
    NodeNeeds(**{field: value})
    for field, value in {
        "names": ("n1",), "excluded": ("n1",), "patterns": ("n.*",), "excluded_patterns": ("m.*",),
        "features": (("gpu",),), "feature_patterns": ("g.*",), "lacking": ("old",),
        "architectures": ("x86_64",), "systems": ("Linux",), "minimum_memory": 9, "minimum_disk": 9,
        "minimum_swap": 9, "minimum_virtual": 9, "minimum_speed": 9, "minimum_processors": 9,
        "minimum_sockets": 9, "minimum_cores_per_socket": 9, "minimum_threads_per_core": 9,
    }.items()
)  # fmt: skip
_TASK_ALTERNATIVES = tuple(
    TaskAlternative(**{field: value})
    for field, value in {
        "minimum": 1, "maximum": 1, "run_time": Seconds(60.0), "end": 7, "needs": _NEEDS_INSIDE[0],
        "distribution": Distribution(per_node=1),
    }.items()
)  # fmt: skip
_ALTERNATIVES = tuple(
    Alternative(**{field: value})
    for field, value in {
        "unit": UnitType.NODE, "minimum": 1, "maximum": 1, "run_time": Seconds(60.0), "exclusive": True,
        "processors_per_gpu": 8,
        "single_node": True, "licences": (Licence("f", 2),), "node_groups": ("a",), "requested_nodes": ("n",),
        "excluded_nodes": ("n",), "minimum_memory": 9, "maximum_memory": 9, "process_memory": 9,
        "held": HeldAmounts(memory=9), "needs": _NEEDS_INSIDE[0], "resource": "s",
    }.items()
)  # fmt: skip
JOB_PARTS: dict[str, tuple[Any, ...]] = {
    "needs": _NEEDS_INSIDE,
    "held": (HeldAmounts(memory=9), HeldAmounts(disk=9), HeldAmounts(swap=9)),
    "licences": ((Licence("f", 2),), (Licence("f", None),)),
    "order_by": ((OrderKey("speed"),), (OrderKey("memory", ascending=True),)),
    "alternatives": tuple(
        (one,) for one in (*_ALTERNATIVES, *(Alternative(tasks=(one, one)) for one in _TASK_ALTERNATIVES))
    ),
    "dependencies": (
        (JobDependency(7, Condition.ON_FAILURE, element=2),),
        (JobDependency(7, Condition.ON_START, delay=Seconds(300.0)),),
    ),
    "named_parents": (
        (NamedParent("mesh", by_id=True),),
        (NamedParent("mesh", condition=Condition.ON_EXIT),),
    ),
    "resource_limits": ((ResourceLimit("nofile", 9),), (ResourceLimit("nofile", None, 9),)),
    "group_edges": ((GroupEdge(1, 2),),),
}
_STAGED = (
    (StagedFile("x", "https://h/x", 0o755, 9, "md5:" + "0" * 32, "store"),),
    (StagedFile("x", "https://h/x", 0o755),),
    (StagedFile("x", "https://h/x", size=9),),
    (StagedFile("x", "https://h/x", credential="store"),),
)
TASK_PARTS: dict[str, tuple[Any, ...]] = {
    "stage_in": _STAGED,
    "stage_out": (*_STAGED, (StagedFile("y", "s3://b/y"), StagedFile("y", "s3://b/z"))),
    "needs": _NEEDS_INSIDE,
    "distribution": (
        Distribution(per_node=1),
        Distribution(nodes=1),
        Distribution(round_robin=True),
        Distribution(geometry=((1,), (2,))),
    ),
    "resource_limits": JOB_PARTS["resource_limits"],
}


def parts_of(value: Any) -> Iterator[msgspec.Struct]:
    """Yield the structs that a value is, or has inside, at any depth."""
    if isinstance(value, msgspec.Struct):
        yield value
        for field in value.__struct_fields__:
            yield from parts_of(getattr(value, field))
    elif isinstance(value, tuple):
        for one in value:
            yield from parts_of(one)


def with_part(field: str, value: Any, *, task: bool) -> JobSpec:
    if task:
        changed = {**BESIDE.get(field, {}), field: value}
        return replace(PLAIN, tasks=(replace(_TASKS[0], **changed), _TASKS[1]))
    return replace(of_job(field), **{field: value})


PARTS = [
    *((field, values, False) for field, values in JOB_PARTS.items()),
    *((field, values, True) for field, values in TASK_PARTS.items()),
]


@pytest.mark.parametrize("dialect", WRITTEN)
@pytest.mark.parametrize(("field", "values", "task"), PARTS)
def test_a_field_of_a_part_comes_back_or_its_loss_is_reported(
    field: str, values: tuple[Any, ...], task: bool, dialect: str
) -> None:
    _, usual = round_trip(PLAIN, dialect)
    for value in values:
        spec = with_part(field, value, task=task)
        back, report = round_trip(spec, dialect)
        assert back is None or comes_back(spec, back, field, task=task) or report - usual, value


def test_every_field_of_every_part_is_tried() -> None:
    tried: dict[type[msgspec.Struct], set[str]] = {}
    for _, values, _ in PARTS:
        for part in parts_of(values):
            defaults = dict(
                zip(reversed(part.__struct_fields__), reversed(part.__struct_defaults__), strict=False)
            )
            found = {name for name, own in asdict(part).items() if own != defaults.get(name, ...)}
            tried.setdefault(type(part), set()).update(found)
    held = [*JOB_FIELDS.values(), *TASK_FIELDS.values()]
    assert {type(part) for value in held for part in parts_of(value)} <= tried.keys()
    assert {kind: names for kind, names in tried.items() if names != {*kind.__struct_fields__}} == {}


NEW_FIELDS: dict[type, tuple[str, Any]] = {
    Alternative: ("preemptable", False),
    TaskAlternative: ("private_directory", True),
}
"""An alternative has only fields that its job or task has."""


def widened(value: Any) -> Iterator[Any]:
    """Yield a value as often as it has structs inside, each time one of them with a field that is new."""
    if isinstance(value, msgspec.Struct):
        name, new = NEW_FIELDS.get(type(value), ("colour", "red"))
        wider = msgspec.defstruct(
            "Wider", [(name, Any, None)], bases=(type(value),), frozen=True, kw_only=True
        )
        yield wider(**{field: getattr(value, field) for field in value.__struct_fields__}, **{name: new})
        for name in value.__struct_fields__:
            for inner in widened(getattr(value, name)):
                yield replace(value, **{name: inner})
    elif isinstance(value, tuple):
        for at, one in enumerate(value):
            for inner in widened(one):
                yield (*value[:at], inner, *value[at + 1 :])


@pytest.mark.parametrize("dialect", WRITTEN)
@pytest.mark.parametrize(("field", "values", "task"), PARTS)
def test_a_new_field_of_a_part_is_reported_by_every_writer(
    field: str, values: tuple[Any, ...], task: bool, dialect: str
) -> None:
    _, usual = round_trip(PLAIN, dialect)
    for value in values:
        _, known = round_trip(with_part(field, value, task=task), dialect)
        refused = known & {"refused"}
        whole = any(one.startswith("not-supported") for one in known - usual)
        for wider in widened(value):
            _, report = round_trip(with_part(field, wider, task=task), dialect)
            assert report - known or whole or refused, wider


class WiderJob(JobSpec, frozen=True, omit_defaults=True, kw_only=True):
    """A job with a field that no writer knows yet."""

    colour: str = ""


class WiderTask(TaskSpec, frozen=True, omit_defaults=True, kw_only=True):
    """A task with a field that no writer knows yet."""

    colour: str = ""


@pytest.mark.parametrize("dialect", [name for name in WRITTEN if name != "grid-task"])
def test_a_field_that_a_writer_does_not_know_is_reported_by_every_writer(dialect: str) -> None:
    task = WiderTask(name="a", command="/bin/a", colour="red")
    for spec in (WiderJob(name="j", tasks=_TASKS[:1], colour="red"), JobSpec(name="j", tasks=(task,))):
        assert any("colour" in item.what for item in write(spec, dialect)[1]), dialect
