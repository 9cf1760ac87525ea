"""How many processors or nodes a job and its tasks ask for, written.

Source: SSS 3.1.0, Tables 25-2 (NodeCount), 25-4 (Processors) and 25-5 (TaskCount).
"""

from typing import Any, NamedTuple

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.formats.sss.meaning.wishes import Bounds
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.task import TaskSpec, TaskType

Fields = dict[str, Any]


class Sized(NamedTuple):
    """The fields of `Wishes` for the job, and whether its only task needs no task group of its own."""

    job: Fields
    alone: bool


def sized(spec: JobSpec, tasks: tuple[TaskSpec, ...], findings: Findings) -> Sized:
    """Return the size of a job, and tell what comes back otherwise."""
    if spec.unit is UnitType.SOCKET:
        findings.add(Kind.APPROXIMATED, "job", "unit: sockets are written as processors")
    bounds = _bounds(spec, tasks, findings)
    if spec.unit is UnitType.NODE and not tasks and not bounds:
        findings.add(Kind.NOT_SUPPORTED, "job", "unit: nothing is counted in nodes, so it is not said")
    alone = is_plain(spec, tasks)
    each = says_each_node(spec, tasks, bounds)
    fields = _counted(spec, bounds, each=each and (alone or not tasks)) if bounds else {}
    _tell_single_node(spec, tasks, bounds, findings)
    if spec.single_node and spec.unit is not UnitType.NODE and (tasks or bounds):
        fields["nodes"] = (1, 1)
    _tell_each_node(spec, findings, is_said=each)
    return Sized(fields, alone)


def is_plain(spec: JobSpec, tasks: tuple[TaskSpec, ...]) -> bool:
    """Whether the job is one program that says nothing which the job does not say."""
    if len(tasks) != 1 or tasks[0].kind is not TaskType.BASIC or not tasks[0].command.strip():
        return False
    task = tasks[0]
    own = (
        task.name,
        task.environment,
        task.extensions,
        task.properties,
        task.required_nodes,
        task.node_group,
    )
    if any(own) or task.run_time != TaskSpec().run_time:
        return False
    if (spec.minimum, spec.maximum) == (task.minimum, task.maximum):
        return True
    open_ended = (spec.minimum, spec.maximum, task.minimum, task.maximum) == (None, None, 1, 1)
    return open_ended and spec.unit is not UnitType.NODE and not spec.single_node


def of_task(spec: JobSpec, task: TaskSpec) -> Fields:
    """Return the fields of `Wishes` for a task: what all of its instances take."""
    return _counted(spec, _total(task), each=says_each_node(spec, spec.tasks, None))


def says_each_node(spec: JobSpec, tasks: tuple[TaskSpec, ...], bounds: Bounds | None) -> bool:
    """Whether Processors beside NodeCount say how large each node is; of one node they say another thing."""
    if spec.unit is not UnitType.NODE or not spec.minimum_processors_per_node:
        return False
    counted: list[Bounds | None] = [_total(task) for task in tasks]
    return (counted or [bounds]) not in ([(1, 1)], [None])


def _total(task: TaskSpec) -> Bounds:
    number = max(task.instances, 1)
    return task.minimum * number, task.maximum * number


def _counted(spec: JobSpec, bounds: Bounds, *, each: bool) -> Fields:
    if spec.unit is not UnitType.NODE:
        return {"processors": bounds}
    fields: Fields = {"nodes": bounds}
    if each and spec.minimum_processors_per_node:
        needed = spec.minimum_processors_per_node * bounds[0]
        fields["processors"] = (needed, needed)
    return fields


def _bounds(spec: JobSpec, tasks: tuple[TaskSpec, ...], findings: Findings) -> Bounds | None:
    """Return minimum and maximum as they are written; None when the tasks say them."""
    least = sum(task.minimum * task.instances for task in tasks)
    most = sum(task.maximum * task.instances for task in tasks)
    single = not tasks or (len(tasks) == 1 and tasks[0].instances == 1)
    if spec.minimum is None and spec.maximum is None:
        if not single:
            _tell(findings, "minimum", f"its tasks start together, on {least} or more")
            _tell(findings, "maximum", f"it is what all tasks can use, {most}")
        return None
    low = spec.minimum if spec.minimum is not None else max((task.minimum for task in tasks), default=1)
    high = spec.maximum if spec.maximum is not None else max(most, low)
    if spec.minimum is None or low < least:
        _tell(findings, "minimum", f"its tasks start together, on {max(low, least)} or more")
    if spec.maximum is None or high < max(low, least):
        _tell(findings, "maximum", f"it is {max(high, low, least)}")
    return low, high


def _tell(findings: Findings, field: str, what: str) -> None:
    findings.add(Kind.APPROXIMATED, "job", f"{field}: {what}")


def _tell_single_node(
    spec: JobSpec, tasks: tuple[TaskSpec, ...], bounds: Bounds | None, findings: Findings
) -> None:
    if spec.single_node and (spec.unit is UnitType.NODE or not (tasks or bounds)):
        what = "single_node: SSS says it of processors only, by NodeCount 1"
        findings.add(Kind.NOT_SUPPORTED, "job", what)


def _tell_each_node(spec: JobSpec, findings: Findings, *, is_said: bool) -> None:
    if is_said:
        what = "minimum_processors_per_node: Processors beside NodeCount"
        findings.add(Kind.TRANSLATED, "job", what)
    elif spec.minimum_processors_per_node is not None:
        what = "minimum_processors_per_node: SSS says it of several whole nodes only"
        findings.add(Kind.NOT_SUPPORTED, "job", what)
