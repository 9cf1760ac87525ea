"""How many processors or nodes a job and its tasks ask for, written.

Source: SSS 3.1.0, Tables 25-2 (NodeCount), 25-4 (Processors) and 25-5 (TaskCount).
"""

from typing import Any

from msgspec.structs import replace

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.formats.sss.meaning.wishes import Bounds
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.node_needs import ANY_NODE
from headnode.core.model.task import Distribution, TaskSpec, TaskType

Fields = dict[str, Any]


def sized(spec: JobSpec, tasks: tuple[TaskSpec, ...], findings: Findings, *, alone: bool) -> Fields:
    """Return the fields of `Wishes` for the size of a job, and tell what comes back otherwise.

    `alone` is whether its only task needs no task group of its own.
    """
    if spec.unit is UnitType.SOCKET:
        findings.add(Kind.APPROXIMATED, "job", "unit: sockets are written as processors")
    bounds = _bounds(spec, tasks, findings)
    if spec.unit is UnitType.NODE and not tasks and not bounds:
        findings.add(Kind.NOT_SUPPORTED, "job", "unit: nothing is counted in nodes, so it is not said")
    fields = _counted(spec, bounds) if bounds else {}
    spread = _nodes(spec, tasks[0]) if alone else 0
    if spread:
        fields = {"processors": bounds or (tasks[0].minimum, tasks[0].maximum), "nodes": (spread, spread)}
    apart = any(_nodes(spec, task) for task in tasks)
    if spec.single_node and apart:
        what = "single_node: what tasks say of nodes is written in its place"
        findings.add(Kind.APPROXIMATED, "job", what)
    elif spec.single_node and (spec.unit is UnitType.NODE or not (tasks or bounds)):
        what = "single_node: SSS says it of processors only, by NodeCount 1"
        findings.add(Kind.NOT_SUPPORTED, "job", what)
    elif spec.single_node:
        fields["nodes"] = (1, 1)
    if spec.minimum_processors_per_node is not None:
        what = "minimum_processors_per_node: SSS has no word for it; nodes may be smaller"
        findings.add(Kind.NOT_SUPPORTED, "job", what)
    return fields


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
        task.resource_limits,
    )
    if any(own) or task.needs != ANY_NODE or task.run_time != TaskSpec().run_time:
        return False
    if (spec.minimum, spec.maximum) == (task.minimum, task.maximum):
        return True
    open_ended = (spec.minimum, spec.maximum, task.minimum, task.maximum) == (None, None, 1, 1)
    return open_ended and spec.unit is not UnitType.NODE and not spec.single_node


def sized_by_task(spec: JobSpec, tasks: tuple[TaskSpec, ...]) -> JobSpec:
    """Return a job whose size, left to be calculated, is said: that of its only task."""
    if len(tasks) != 1 or tasks[0].kind is not TaskType.BASIC or (spec.minimum, spec.maximum) != (None, None):
        return spec
    return replace(spec, minimum=tasks[0].minimum, maximum=tasks[0].maximum)


def of_task(spec: JobSpec, task: TaskSpec) -> Fields:
    """Return the fields of `Wishes` for a task: what all of its instances take."""
    number = max(task.instances, 1)
    fields = _counted(spec, (task.minimum * number, task.maximum * number))
    spread = _nodes(spec, task)
    return fields | {"nodes": (spread, spread)} if spread else fields


def placed(spec: JobSpec, task: TaskSpec, where: str, findings: Findings) -> Distribution | None:
    """Return how a task is laid on nodes, as far as that comes back; tell what does not."""
    found = task.distribution
    if found is None:
        return None
    said = bool(found.per_node or found.geometry or found.nodes or found.round_robin)
    lost = ""
    if spec.unit is UnitType.NODE:
        lost = "whole nodes are counted"
    elif found.nodes > _processes(task):
        lost = f"there are only {_processes(task)} processes for {found.nodes} nodes"
    elif found.geometry and not found.draws(_processes(task)):
        lost = f"its geometry does not number {_processes(task)} processes"
    if lost and said:
        findings.add(Kind.NOT_SUPPORTED, where, f"distribution: {lost}")
        return None
    if not said or found.nodes == 1:
        what = "distribution: on one node is a single node, and anyhow is no distribution"
        for field in ("distribution", "single_node"):
            findings.add(Kind.TRANSLATED, where, f"{field}: {what}")
    return found


def _nodes(spec: JobSpec, task: TaskSpec) -> int:
    """Return over how many nodes a task is spread; 0 when that is not said."""
    nodes = task.distribution.nodes if task.distribution and spec.unit is not UnitType.NODE else 0
    return nodes if nodes <= _processes(task) else 0


def _processes(task: TaskSpec) -> int:
    return task.instances if task.instances > 1 else task.minimum


def _counted(spec: JobSpec, bounds: Bounds) -> Fields:
    return {"nodes" if spec.unit is UnitType.NODE else "processors": bounds}


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
