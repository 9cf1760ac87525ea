"""The fields of a job and of its tasks as requested resources: sizes, layout, node requirements."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from headnode.core.formats.sss.constraints import Bounds, Words
from headnode.core.formats.sss.conversion.extensions import ConversionFindings, TextLosses
from headnode.core.formats.sss.conversion.resource_table import OF_NODES, RELATED, Item, Request
from headnode.core.formats.sss.conversion.simple_fields import span
from headnode.core.formats.sss.value_types import MAX_SECONDS
from headnode.core.model.job import HeldAmounts, JobSpec, NodeGroupOp, UnitType
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.patterns import matching
from headnode.core.model.quantities import FOREVER, Seconds
from headnode.core.model.task import Distribution, TaskSpec, TaskType

Fields = dict[str, Any]


def written_job_size(
    spec: JobSpec, tasks: tuple[TaskSpec, ...], findings: ConversionFindings, *, alone: bool
) -> Fields:
    """Return what is requested for the size of a job, and tell what comes back otherwise.

    `alone` is whether its only task needs no task group of its own.
    """
    if spec.unit is UnitType.SOCKET:
        findings.approximated("unit: sockets are written as processors")
    if spec.unit is UnitType.GPU:
        findings.lost("unit: not available in SSS for GPUs; the numbers are kept, and count processors")
    bounds = _bounds(spec, tasks, findings)
    if spec.unit is UnitType.NODE and not tasks and not bounds:
        findings.lost("unit: the job requests nothing in nodes, so it is left out")
    fields = _counted(spec, bounds) if bounds else {}
    spread = _nodes(spec, tasks[0]) if alone else 0
    if spread:
        fields = {"processors": bounds or (tasks[0].minimum, tasks[0].maximum), "nodes": (spread, spread)}
    apart = any(_nodes(spec, task) for task in tasks)
    if spec.single_node and apart:
        findings.approximated("single_node: the node requirements of the tasks are written instead")
    elif spec.single_node and (spec.unit is UnitType.NODE or not (tasks or bounds)):
        findings.lost("single_node: SSS can only request it for processors, with NodeCount 1")
    elif spec.single_node:
        fields["nodes"] = (1, 1)
    if spec.minimum_processors_per_node is not None:
        findings.lost("minimum_processors_per_node: not available in SSS; smaller nodes may be selected")
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


def written_task_size(spec: JobSpec, task: TaskSpec) -> Fields:
    """Return what is requested for a task: what all of its instances take."""
    number = max(task.instances, 1)
    fields = _counted(spec, (task.minimum * number, task.maximum * number))
    spread = _nodes(spec, task)
    return fields | {"nodes": (spread, spread)} if spread else fields


def written_layout(spec: JobSpec, task: TaskSpec, findings: ConversionFindings) -> Distribution | None:
    """Return the distribution of a task on nodes as far as SSS can express it; report the rest as lost."""
    found = task.distribution
    if found is None:
        return None
    is_set = bool(found.per_node or found.geometry or found.nodes or found.round_robin)
    lost = ""
    if spec.unit is UnitType.NODE:
        lost = "whole nodes are counted"
    elif found.nodes > _processes(task):
        lost = f"there are only {_processes(task)} processes for {found.nodes} nodes"
    elif found.geometry and not found.draws(_processes(task)):
        lost = f"its geometry does not number {_processes(task)} processes"
    if lost and is_set:
        findings.lost(f"distribution: {lost}")
        return None
    if not is_set or found.nodes == 1:
        what = "distribution: one node is written as a single node; any distribution is left out"
        for field in ("distribution", "single_node"):
            findings.translated(f"{field}: {what}")
    return found


def _nodes(spec: JobSpec, task: TaskSpec) -> int:
    """Return over how many nodes a task is spread; 0 when that is not said."""
    nodes = task.distribution.nodes if task.distribution and spec.unit is not UnitType.NODE else 0
    return nodes if nodes <= _processes(task) else 0


def _processes(task: TaskSpec) -> int:
    return task.instances if task.instances > 1 else task.minimum


def _counted(spec: JobSpec, bounds: Bounds) -> Fields:
    return {"nodes" if spec.unit is UnitType.NODE else "processors": bounds}


def _bounds(spec: JobSpec, tasks: tuple[TaskSpec, ...], findings: ConversionFindings) -> Bounds | None:
    """Return minimum and maximum as they are written; None when the tasks say them."""
    least = sum(task.minimum * task.instances for task in tasks)
    most = sum(task.maximum * task.instances for task in tasks)
    single = not tasks or (len(tasks) == 1 and tasks[0].instances == 1)
    if spec.minimum is None and spec.maximum is None:
        if not single:
            _report(findings, "minimum", f"its tasks start together, on {least} or more")
            _report(findings, "maximum", f"it is what all tasks can use, {most}")
        return None
    low = spec.minimum if spec.minimum is not None else max((task.minimum for task in tasks), default=1)
    high = spec.maximum if spec.maximum is not None else max(most, low)
    if spec.minimum is None or low < least:
        _report(findings, "minimum", f"its tasks start together, on {max(low, least)} or more")
    if spec.maximum is None or high < max(low, least):
        _report(findings, "maximum", f"it is {max(high, low, least)}")
    return low, high


def _report(findings: ConversionFindings, field: str, what: str) -> None:
    findings.approximated(f"{field}: {what}")


def requested_of_job(
    spec: JobSpec, tasks: tuple[TaskSpec, ...], findings: ConversionFindings, *, alone: bool
) -> tuple[Request, ...]:
    """Return what the job asks for, and then what each task does that has a task group of its own."""
    job = _of_job(spec, written_job_size(spec, tasks, findings, alone=alone), findings)
    own = [] if alone else [_of_task(spec, task, number, findings) for number, task in enumerate(tasks, 1)]
    job = _possible(_with_held(spec, job, own), findings)
    for name, fields in OF_NODES.items():
        if not job.keys().isdisjoint(fields) and not all(one.keys().isdisjoint(fields) for one in own):
            named = "requested_nodes" if name == "Node" and spec.requested_nodes else "needs"
            own = [_both(job, one, fields, named, findings) for one in own]
            job = {field: value for field, value in job.items() if field not in fields}
            for field in _FIELDS_OF.get(name, ()):
                findings.translated(
                    f"{field}: requests of job and tasks for {name} are written for each task"
                )
    found = (job, *(_possible(one, findings.at(f"task {number}")) for number, one in enumerate(own, 1)))
    _report_held(spec, found, findings)
    return found


_HELD = {name: f"minimum_{name}" for name in HeldAmounts.__struct_fields__}
"""What is requested of a node, by what a job holds of it."""


def _with_held(spec: JobSpec, job: Request, tasks: Sequence[Request]) -> Request:
    """Return what the job asks for with what it holds of a node, unless its tasks say what they need."""
    more = {
        field: getattr(spec.held, name)
        for name, field in _HELD.items()
        if getattr(spec.held, name) > job.get(field, 0) and not any(field in one for one in tasks)
    }
    return {**job, **more}


def _report_held(spec: JobSpec, requests: Sequence[Request], findings: ConversionFindings) -> None:
    """Tell what is held otherwise: in SSS all that is asked for of a node is held."""
    most = {name: max(one.get(field, 0) for one in requests) for name, field in _HELD.items()}
    if HeldAmounts(**most) != spec.held:
        findings.approximated("held: the job holds all memory, disk and swap that it requests of a node")
    moved = (
        ("minimum_memory", max(spec.minimum_memory or 0, spec.needs.minimum_memory) < spec.held.memory),
        ("needs", spec.needs.minimum_disk < spec.held.disk or spec.needs.minimum_swap < spec.held.swap),
    )
    for field, is_moved in moved:
        if is_moved:
            findings.translated(f"{field}: every node must have what the job holds of it")


def _possible(request: Request, findings: ConversionFindings) -> Request:
    """Return a request without what contradicts the rest: a document with it would be refused."""
    lost: set[str] = set()
    if "maximum_memory" in request and request["maximum_memory"] < request.get("minimum_memory", 0):
        findings.lost("maximum_memory: smaller than the minimum memory: left out")
        lost.add("maximum_memory")
    excluded, patterns = request.get("excluded_patterns", ()), request.get("patterns", ())
    names = request.get("names", ())
    if names and not any(
        name not in request.get("excluded", ())
        and (not patterns or any(matching(text, [name]) for text in patterns))
        and not any(matching(text, [name]) for text in excluded)
        for name in names
    ):
        findings.lost("needs: all nodes requested by name are excluded; only the names are written")
        lost |= {"excluded", "patterns", "excluded_patterns"}
    return {field: value for field, value in request.items() if field not in lost}


_FIELDS_OF = {
    "Memory": ("needs", "minimum_memory", "maximum_memory"),
    "Node": ("needs", "requested_nodes", "excluded_nodes"),
    "Feature": ("needs", "node_groups"),
    **dict.fromkeys(("Disk", "Swap", "Architecture", "OperatingSystem"), ("needs",)),
}


def _of_job(spec: JobSpec, size: Fields, findings: ConversionFindings) -> Request:
    texts = TextLosses(findings)
    for field in ("requested_nodes", "excluded_nodes", "node_groups"):
        texts.names(field, getattr(spec, field))
    texts.report("licences", [licence.feature for licence in spec.licences])
    if any(licence.amount is None for licence in spec.licences):
        findings.lost("licences: SSS cannot request one for each processor: left out")
    needs = _of_needs(spec.needs, findings)
    partition, features = _groups(spec, findings)
    moved = [field for field in ("names", "excluded", "minimum_memory") if getattr(spec.needs, field)]
    for field in ("needs", "requested_nodes", "excluded_nodes", "minimum_memory") if moved else ():
        findings.translated(f"{field}: {', '.join(moved)} of needs have fields of their own in a job")
    own = {
        "names": _narrowed(spec.requested_nodes, needs.get("names"), "requested_nodes", findings),
        "excluded": _once(spec.excluded_nodes + needs.get("excluded", ())),
        "features": _once(features + needs.get("features", ())),
        "minimum_memory": max(spec.minimum_memory or 0, spec.needs.minimum_memory),
        "partition": partition,
        "run_time": span("run_time", spec.run_time, findings),
        "minimum_run_time": _least_run_time(spec, findings),
        "licences": tuple(licence for licence in spec.licences if licence.amount is not None),
        "project": spec.project,
        "reservation": spec.reservation,
        "run_as": spec.run_as,
        "template": spec.template,
    }
    most = {} if spec.maximum_memory is None else {"maximum_memory": spec.maximum_memory}
    return {**needs, **size, **_stated(own), **most}


def _least_run_time(spec: JobSpec, findings: ConversionFindings) -> Seconds | None:
    if spec.minimum_run_time is None:
        return None
    if spec.alternatives or spec.run_time > MAX_SECONDS:
        findings.lost("minimum_run_time: not available in SSS for a job with alternatives or without a limit")
        return None
    return span("minimum_run_time", spec.minimum_run_time, findings)


def _stated(fields: Fields) -> Request:
    """Return the fields in which anything is said."""
    return {field: value for field, value in fields.items() if value and value != FOREVER}


def _groups(spec: JobSpec, findings: ConversionFindings) -> tuple[str, tuple[Words, ...]]:
    """Return the one node group as a partition, or several as features."""
    names = tuple(dict.fromkeys(spec.node_groups))
    if spec.node_group_op is not NodeGroupOp.INTERSECT:
        _report_group_op(spec, findings)
    if len(names) < 2:
        return "".join(names), ()
    for field in ("node_groups", "needs"):
        findings.translated(f"{field}: several node groups are written as features")
    either = spec.node_group_op is NodeGroupOp.UNION
    return "", (names,) if either else tuple((name,) for name in names)


def _report_group_op(spec: JobSpec, findings: ConversionFindings) -> None:
    if spec.node_group_op is NodeGroupOp.UNION and spec.node_groups:
        findings.translated("node_group_op: written as a request for one of several features")
    else:
        findings.lost("node_group_op: not available in SSS; every node must have all of the features")


_NO_WORD = (
    *("minimum_speed", "minimum_processors", "minimum_virtual"),
    *("minimum_sockets", "minimum_cores_per_socket", "minimum_threads_per_core"),
)


def _of_needs(needs: NodeNeeds, findings: ConversionFindings) -> Request:
    """Return what is needed of nodes; tell what has no word."""
    texts = TextLosses(findings)
    for words in (needs.names, needs.excluded, needs.lacking, needs.architectures, needs.systems):
        texts.names("needs", words)
    for words in needs.features:
        texts.names("needs", words)
    texts.names("needs", needs.patterns + needs.excluded_patterns + needs.feature_patterns)
    for field in _NO_WORD:
        if getattr(needs, field):
            findings.lost(f"needs: {field} is not available in SSS: any node may be selected")
    if () in needs.features:
        findings.lost("needs: one of no features cannot be written: any node may be selected")
    fields = {field: getattr(needs, field) for field in needs.__struct_fields__ if field in RELATED}
    once = {field: _once(words) for field, words in fields.items() if isinstance(words, tuple)}
    return _stated({**fields, **once, "features": _once(_once(words) for words in needs.features if words)})


def _of_task(spec: JobSpec, task: TaskSpec, number: int, findings: ConversionFindings) -> Request:
    findings = findings.at(f"task {number}")
    texts = TextLosses(findings)
    texts.report("required_nodes", task.required_nodes)
    texts.report("node_group", [task.node_group])
    if len(task.required_nodes) > 1:
        findings.lost("required_nodes: an SSS task group requests one of several nodes, not all of them")
    required = task.required_nodes if len(task.required_nodes) == 1 else ()
    for field, value in (("required_nodes", required), ("node_group", task.node_group)):
        for name in (field, "needs") if value else ():
            findings.translated(f"{name}: {field} is needed of the nodes of its task group")
    needs = _of_needs(task.needs, findings)
    group = ((task.node_group,),) if task.node_group else ()
    own = {
        **written_task_size(spec, task),
        "run_time": span("run_time", task.run_time, findings),
        "names": _narrowed(required, needs.get("names"), "required_nodes", findings),
        "features": _once(group + needs.get("features", ())),
    }
    return {**needs, **_stated(own)}


def _both(
    job: Request, task: Request, fields: Sequence[str], named: str, findings: ConversionFindings
) -> Request:
    """Return what a task asks for together with what its job does, of one property.

    `named` is the field in which the job says the names, of which it may lose some.
    """
    found = {field: job[field] for field in fields if field in job}
    for field in [field for field in found if field in task]:
        one, other = job[field], task[field]
        if field in ("names", "architectures", "systems"):
            found[field] = _narrowed(one, other, named, findings)
        elif field == "patterns" and one != other:
            findings.lost("needs: patterns of the job are left out where a task has its own")
            found[field] = other
        elif isinstance(one, tuple):
            found[field] = _once(one + other)
        else:
            found[field] = min(one, other) if field == "maximum_memory" else max(one, other)
    return {**task, **found}


def _once(words: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(dict.fromkeys(words))


def _narrowed(one: Words, other: Words | None, field: str, findings: ConversionFindings) -> Words:
    """Return the words that are in both lists; an empty one names none."""
    if not one or not other:
        return _once(one or other or ())
    found = tuple(word for word in _once(one) if word in other)
    if not found:
        findings.lost(f"{field}: no name is in both lists, so one of them is left out")
    return found or _once(other)
