"""What is requested as the size of a job and of its tasks, their layout, and the nodes they may run on.

Where it can be met in several ways, the job has alternatives.
"""

import math
from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from headnode.core.formats.sss.constraints import Bounds
from headnode.core.formats.sss.conversion.extensions import ConversionFindings
from headnode.core.formats.sss.conversion.resource_table import RELATED, Request
from headnode.core.model.job import Alternative, HeldAmounts, JobSpec, TaskAlternative, UnitType
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.task import Distribution
from headnode.core.model.task import Distribution as Placed
from headnode.core.model.value_checks import MAX_CODE

MAX_OPTIONS = 16
"""Alternatives of one job, with what it asks for first."""

Fields = Mapping[str, Any]


class AlternativeChoices(NamedTuple):
    """Which way is taken of each scope, for each alternative, best first; and how many are left out."""

    choices: tuple[tuple[int, ...], ...]
    cut: int


def combined_alternatives(weights: Sequence[Sequence[int]]) -> AlternativeChoices:
    """Return the alternatives of several scopes, each with the weights of its ways, by their sums.

    Of too many the best are taken, and the one that is content with least.

    >>> combined_alternatives([[2, 1], [0, 0]]).choices
    ((0, 0), (0, 1), (1, 0), (1, 1))
    """
    if max(map(len, weights)) == 1:
        return AlternativeChoices(((0,) * len(weights),), 0)
    found: list[tuple[tuple[int, ...], int]] = [((), 0)]
    for ways in weights:
        more = [((*one, n), sum_ + weight) for one, sum_ in found for n, weight in enumerate(ways)]
        found = sorted(more, key=lambda each: -each[1])[:MAX_OPTIONS]
    cut = math.prod(len(ways) for ways in weights) - len(found)
    choices = [one for one, _ in found]
    last = tuple(len(ways) - 1 for ways in weights)
    if cut and last not in choices:
        choices[-1] = last
    return AlternativeChoices(tuple(choices), cut)


class AlternativeFields(NamedTuple):
    """What one alternative makes of the job and of each task: the fields of both."""

    job: Fields
    tasks: tuple[Fields, ...]


_OF_ALTERNATIVE = [name for name in Alternative.__struct_fields__ if name != "tasks"]
_OF_TASK_ALTERNATIVE = TaskAlternative.__struct_fields__
NO_MEMORY = 1
"""MB that every node has: an alternative says so where it does not ask for memory, and the job does."""

_NEUTRAL_VALUES = {
    "minimum_memory": NO_MEMORY,
    "maximum_memory": MAX_CODE,
    "needs": ANY_NODE,
    "distribution": Placed(),
}
"""What stands in an alternative that does not ask for what the job does."""


def difference(base: AlternativeFields, other: AlternativeFields) -> Alternative | None:
    """Return an alternative in which a job that means `base` means `other`; None when they are the same."""
    job = _different(base.job, other.job, _OF_ALTERNATIVE)
    tasks = tuple(
        TaskAlternative(**_different(one, another, _OF_TASK_ALTERNATIVE))
        for one, another in zip(base.tasks, other.tasks, strict=True)
    )
    if all(task == TaskAlternative() for task in tasks):
        return Alternative(**job) if job else None
    return Alternative(**job, tasks=tasks)


def _different(base: Fields, other: Fields, names: Sequence[str]) -> dict[str, Any]:
    found = {name: other.get(name) for name in names if other.get(name) != base.get(name)}
    return {name: _NEUTRAL_VALUES[name] if value is None else value for name, value in found.items()}


Counts = tuple[Bounds | None, Bounds | None]
"""Processors and nodes."""


class SizedTask(msgspec.Struct, frozen=True):
    """A task to be: what its task group asks for all of its instances, or each of them.

    `own` is what it asks for itself; `request` has what its job asks for besides.
    `sharing` is how many instances share what the task group asks for: its own, or with others that differ.
    """

    findings: ConversionFindings
    request: Request
    own: Request
    instances: int = 1
    each: Bounds | None = None
    distribution: Distribution | None = None
    sharing: int = 1

    @property
    def beside(self) -> bool:
        """Whether tasks that differ from it are in its task group."""
        return self.sharing > self.instances


class SizeFields(NamedTuple):
    """The fields of the job, and those of each task: minimum, maximum, distribution."""

    job: dict[str, Any]
    tasks: tuple[dict[str, Any], ...]


_PLAIN = {"unit": UnitType.PROCESSOR, "single_node": False, "minimum": None, "maximum": None}


def sizes_of(job: Request, parts: Sequence[SizedTask], findings: ConversionFindings) -> SizeFields:
    """Return how large the job and its tasks are."""
    if not parts:
        return SizeFields(_PLAIN | _alone(job, findings), ())
    processors, nodes = job.get("processors"), job.get("nodes")
    counted = [
        (part.request.get("processors") or processors, part.request.get("nodes") or nodes) for part in parts
    ]
    if _on_one_node(job, parts) and all(processors for processors, _ in counted):
        found = _by_processors(parts, [(processors, None) for processors, _ in counted])
        return _sizes({"single_node": True}, processors, parts, found, findings)
    if all(_counts_nodes(part, *counts) for part, counts in zip(parts, counted, strict=True)):
        found = [_sized(_each(part, own), None) for part, (_, own) in zip(parts, counted, strict=True)]
        return _sizes({"unit": UnitType.NODE}, nodes, parts, found, findings)
    return _sizes({}, processors, parts, _by_processors(parts, counted), findings)


def _sizes(
    fields: dict[str, Any],
    bounds: Bounds | None,
    parts: Sequence[SizedTask],
    tasks: Sequence[dict[str, Any]],
    findings: ConversionFindings,
) -> SizeFields:
    by_node = fields.get("unit") is UnitType.NODE
    return SizeFields(
        _PLAIN | fields | _job_size(bounds, parts, tasks, findings, by_node=by_node), tuple(tasks)
    )


def _on_one_node(job: Request, parts: Sequence[SizedTask]) -> bool:
    """Whether all of the job shall be on one node."""
    own = [nodes for part in parts if (nodes := part.request.get("nodes"))]
    return (job.get("nodes") == (1, 1) and not own) or (own == [(1, 1)] and len(parts) == 1)


def _counts_nodes(part: SizedTask, processors: Bounds | None, nodes: Bounds | None) -> bool:
    """Whether a task group asks for whole nodes, at least one for each of its tasks."""
    if processors or part.each or part.distribution or nodes is None:
        return False
    return nodes[0] >= max(part.instances, part.sharing)


def _alone(job: Request, findings: ConversionFindings) -> dict[str, Any]:
    """Return the size of a job without tasks."""
    processors, nodes = job.get("processors"), job.get("nodes")
    if nodes and not processors:
        return {"unit": UnitType.NODE, **_bounds(nodes)}
    if nodes == (1, 1):
        return {"single_node": True, **_bounds(processors)}
    if nodes:
        what = "NodeCount beside Processors: without a task, the processors may be on any nodes"
        findings.approximated(what)
    return _bounds(processors)


def _bounds(bounds: Bounds | None) -> dict[str, Any]:
    return {"minimum": bounds[0], "maximum": bounds[1]} if bounds else {}


def _sized(bounds: Bounds, distribution: Distribution | None) -> dict[str, Any]:
    return {"minimum": bounds[0], "maximum": bounds[1], "distribution": distribution}


def _by_processors(parts: Sequence[SizedTask], counted: Sequence[Counts]) -> list[dict[str, Any]]:
    return [_of_part(part, *counts) for part, counts in zip(parts, counted, strict=True)]


def _of_part(part: SizedTask, processors: Bounds | None, nodes: Bounds | None) -> dict[str, Any]:
    """Return the size of a task that is counted in processors, on so many nodes if that is asked for."""
    if part.beside and (part.distribution or nodes):
        what = "TaskDistribution, NodeCount: the placement of different tasks beside each other is not kept"
        part.findings.approximated(what)
        part, nodes = replace(part, distribution=None), None
    wanted = part.distribution
    total = processors
    if total is None and part.each is None and part.instances == 1:
        total = _implied(wanted, nodes)
    if nodes and not (processors or part.each or wanted):
        what = f"NodeCount {nodes[0]}: processors on that many nodes are allocated, not whole nodes"
        part.findings.approximated(what)
        total = total or ((nodes[0], nodes[1]) if part.instances == 1 else None)
    each = _each(part, total)
    processes = part.instances if part.instances > 1 else each[0]
    return _sized(each, _distribution(part, nodes, processes))


def _implied(wanted: Distribution | None, nodes: Bounds | None) -> Bounds | None:
    """Return how many processors follow from how they shall lie on nodes."""
    count = 0
    if wanted and wanted.geometry:
        count = sum(map(len, wanted.geometry))
    elif wanted and wanted.per_node and nodes:
        count = wanted.per_node * nodes[0]
    elif wanted and nodes:
        count = nodes[0]
    return (count, count) if count else None


def _distribution(part: SizedTask, nodes: Bounds | None, processes: int) -> Distribution | None:
    """Return how so many processes lie on nodes: as their distribution says, else evenly over the nodes."""
    found = part.distribution
    if found and found.geometry and not _numbers(found.geometry, processes):
        what = f"TaskDistribution Geometry: it does not number {processes} tasks from 1: it is left out"
        part.findings.approximated(what)
        found = None
    if nodes is None:
        return found
    if found and (found.per_node or found.geometry):
        if _nodes_of(found, processes) != nodes[0]:
            what = (
                f"NodeCount {nodes[0]}: TaskDistribution needs {_nodes_of(found, processes)}, which are taken"
            )
            part.findings.approximated(what)
        return found
    if nodes[0] != nodes[1]:
        part.findings.approximated(f"NodeCount {nodes[0]} to {nodes[1]}: {nodes[0]} are taken")
    if nodes[0] > processes:
        what = f"NodeCount {nodes[0]}: there are only {processes} tasks or processors for them"
        part.findings.approximated(what)
    return replace(found or Distribution(), nodes=min(nodes[0], processes))


def _numbers(geometry: tuple[tuple[int, ...], ...], processes: int) -> bool:
    return Distribution(geometry=geometry).draws(processes)


def _nodes_of(found: Distribution, processes: int) -> int:
    return len(found.geometry) or -(-processes // found.per_node)


def _each(part: SizedTask, total: Bounds | None) -> Bounds:
    """Return the size of one instance: an equal share of what its group asks for."""
    if part.each:
        return part.each
    if total is None:
        return (1, 1)
    least, most = total
    tasks = max(part.instances, part.sharing)
    share = -(-least // tasks)
    if least % tasks or most % tasks:
        part.findings.approximated(f"{least} to {most} for {tasks} tasks: each gets {share} or more")
    return share, max(share, most // tasks)


def _job_size(
    bounds: Bounds | None,
    parts: Sequence[SizedTask],
    tasks: Sequence[dict[str, Any]],
    findings: ConversionFindings,
    *,
    by_node: bool,
) -> dict[str, Any]:
    """Return the size of the job: room for all tasks at once; nothing when its only task says it all."""
    least, most = total(parts, tasks)
    if bounds is None:
        single = len(parts) == 1 and parts[0].instances == 1
        return {} if single else _bounds((least, most))
    own = [
        part.request.get("nodes") if by_node else part.request.get("processors") or part.each
        for part in parts
    ]
    if len(parts) > 1 and not all(own):
        findings.translated("each task group without a size of its own gets the request of the job")
        return _bounds((least, most))
    if bounds[0] < least:
        findings.approximated(f"its tasks start together: it waits for {least}, not {bounds[0]}")
    low = max(bounds[0], least)
    return _bounds((low, max(bounds[1], low)))


def total(parts: Sequence[SizedTask], tasks: Sequence[dict[str, Any]]) -> Bounds:
    """Return what all instances of all tasks take together, at least and at most."""
    least = sum(part.instances * task["minimum"] for part, task in zip(parts, tasks, strict=True))
    most = sum(part.instances * task["maximum"] for part, task in zip(parts, tasks, strict=True))
    return least, most


class NodeFields(NamedTuple):
    """The fields of the job, and what each task needs of its nodes."""

    job: dict[str, Any]
    tasks: tuple[NodeNeeds, ...]


_HELD = {name: f"minimum_{name}" for name in HeldAmounts.__struct_fields__}
_NEEDED = RELATED.keys() & set(NodeNeeds.__struct_fields__)
_OF_JOB = {
    "names": "requested_nodes",
    "excluded": "excluded_nodes",
    "minimum_memory": "minimum_memory",
    "maximum_memory": "maximum_memory",
}
"""The fields of a job for what is requested, beside those for what it needs of nodes."""

_OF_NO_JOB = {field: getattr(JobSpec(), field) for field in _OF_JOB.values()}


def node_fields(job: Request, parts: Sequence[SizedTask], findings: ConversionFindings) -> NodeFields:
    """Return where the job and its tasks may run."""
    apart = {each for part in parts for field in part.own for each in RELATED.get(field, ())}
    tasks = [_needs_of(part.request, apart & _NEEDED) for part in parts] if apart else [ANY_NODE] * len(parts)
    partition = job.get("partition")
    if partition:
        findings.translated("Partition: a node group of that name must exist")
    fields = {
        **_OF_NO_JOB,
        **{to: job[field] for field, to in _OF_JOB.items() if field in job and field not in apart},
        "node_groups": (partition,) if partition else (),
        "needs": _needs_of(job, _NEEDED - _OF_JOB.keys() - apart),
    }
    if "maximum_memory" in apart:
        fields["maximum_memory"] = _most_memory(parts, findings)
    fields["held"] = _held(job, parts, apart, findings)
    return NodeFields(fields, tuple(tasks))


def _needs_of(request: Request, fields: Set[str]) -> NodeNeeds:
    """Return what is demanded of every node in `fields`."""
    demands = {field: value for field, value in request.items() if field in fields}
    return NodeNeeds(**demands) if demands else ANY_NODE


def _held(
    job: Request, parts: Sequence[SizedTask], apart: Set[str], findings: ConversionFindings
) -> HeldAmounts:
    """Return what the job holds of each node: the most that one of its task groups asks for."""
    amounts: dict[str, int] = {}
    for name, field in _HELD.items():
        if field not in apart:
            if field in job:
                amounts[name] = job[field]
            continue
        found = {part.request.get(field, 0) for part in parts}
        amounts[name] = max(found)
        if len(found) > 1:
            most = f"{amounts[name]} MB of each node, the most that a task group asks for"
            findings.approximated(f"{name.capitalize()}: the job holds {most}")
    return HeldAmounts(**amounts)


def _most_memory(parts: Sequence[SizedTask], findings: ConversionFindings) -> int | None:
    """Return the upper bound of the memory of all nodes: the least that a task group names."""
    most: list[int] = [part.request["maximum_memory"] for part in parts if "maximum_memory" in part.request]
    least = max(part.request.get("minimum_memory", 0) for part in parts)
    if not most:
        return None
    if min(most) < least:
        findings.approximated("Memory: no node suits all task groups, so the upper bound is left out")
        return None
    if len(parts) > 1:
        what = f"Memory: no node of the job has more than {min(most)} MB, which one task group asks for"
        findings.approximated(what)
    return min(most)
