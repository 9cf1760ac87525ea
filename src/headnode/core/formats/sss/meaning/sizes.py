"""How many processors or nodes a job and its tasks get, and how they lie on nodes.

The tasks of an SSS job start together, so the job waits for as many as all of them need.
Source: SSS 3.1.0, Tables 25-2 (NodeCount), 25-4 (Processors) and 25-5 (TaskCount), "TaskDistribution".
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.sss.meaning.wishes import Bounds, Said, Wishes
from headnode.core.model.job import UnitType
from headnode.core.model.task import Distribution

Tell = Callable[[Kind, str, str], None]
Counts = tuple[Bounds | None, Bounds | None]
"""Processors and nodes."""


class Part(msgspec.Struct, frozen=True):
    """A task to be: what its task group asks for all of its instances, or each of them.

    `own` is what it asks for itself; `asked` has what its job asks for besides.
    `sharing` is how many instances share what the task group asks for: its own, or with others that differ.
    """

    where: str
    asked: Said
    own: Said
    instances: int = 1
    each: Bounds | None = None
    distribution: Distribution | None = None
    sharing: int = 1

    @property
    def beside(self) -> bool:
        """Whether tasks that differ from it are in its task group."""
        return self.sharing > self.instances


class Sizes(NamedTuple):
    """The fields of the job, and those of each task: minimum, maximum, distribution."""

    job: dict[str, Any]
    tasks: tuple[dict[str, Any], ...]


_PLAIN = {"unit": UnitType.PROCESSOR, "single_node": False, "minimum": None, "maximum": None}


def sizes_of(job: Wishes, parts: Sequence[Part], tell: Tell) -> Sizes:
    """Return how large the job and its tasks are."""
    if not parts:
        return Sizes(_PLAIN | _alone(job, tell), ())
    counted = [
        (part.asked.wishes.processors or job.processors, part.asked.wishes.nodes or job.nodes)
        for part in parts
    ]
    if _on_one_node(job, parts) and all(processors for processors, _ in counted):
        found = _by_processors(parts, [(processors, None) for processors, _ in counted], tell)
        return _sizes({"single_node": True}, job.processors, parts, found, tell)
    if all(_counts_nodes(part, *counts) for part, counts in zip(parts, counted, strict=True)):
        found = [
            _sized(_each(part, nodes, tell), None) for part, (_, nodes) in zip(parts, counted, strict=True)
        ]
        return _sizes({"unit": UnitType.NODE}, job.nodes, parts, found, tell)
    return _sizes({}, job.processors, parts, _by_processors(parts, counted, tell), tell)


def _sizes(
    fields: dict[str, Any],
    asked: Bounds | None,
    parts: Sequence[Part],
    tasks: Sequence[dict[str, Any]],
    tell: Tell,
) -> Sizes:
    by_node = fields.get("unit") is UnitType.NODE
    return Sizes(_PLAIN | fields | _job_size(asked, parts, tasks, tell, by_node=by_node), tuple(tasks))


def _on_one_node(job: Wishes, parts: Sequence[Part]) -> bool:
    """Whether all of the job shall be on one node."""
    own = [part.asked.wishes.nodes for part in parts if part.asked.wishes.nodes]
    return (job.nodes == (1, 1) and not own) or (own == [(1, 1)] and len(parts) == 1)


def _counts_nodes(part: Part, processors: Bounds | None, nodes: Bounds | None) -> bool:
    """Whether a task group asks for whole nodes, at least one for each of its tasks."""
    if processors or part.each or part.distribution or nodes is None:
        return False
    return nodes[0] >= max(part.instances, part.sharing)


def _alone(job: Wishes, tell: Tell) -> dict[str, Any]:
    """Return the size of a job without tasks."""
    if job.nodes and job.processors:
        if job.nodes == (1, 1):
            return {"single_node": True, **_bounds(job.processors)}
        what = "NodeCount beside Processors: without a task, the processors may be of any nodes"
        tell(Kind.APPROXIMATED, "job", what)
        return _bounds(job.processors)
    return {"unit": UnitType.NODE, **_bounds(job.nodes)} if job.nodes else _bounds(job.processors)


def _bounds(bounds: Bounds | None) -> dict[str, Any]:
    return {"minimum": bounds[0], "maximum": bounds[1]} if bounds else {}


def _sized(bounds: Bounds, distribution: Distribution | None) -> dict[str, Any]:
    return {"minimum": bounds[0], "maximum": bounds[1], "distribution": distribution}


def _by_processors(parts: Sequence[Part], counted: Sequence[Counts], tell: Tell) -> list[dict[str, Any]]:
    return [_of_part(part, *counts, tell) for part, counts in zip(parts, counted, strict=True)]


def _of_part(part: Part, processors: Bounds | None, nodes: Bounds | None, tell: Tell) -> dict[str, Any]:
    """Return the size of a task that is counted in processors, on so many nodes if that is asked for."""
    if part.beside and (part.distribution or nodes):
        what = "TaskDistribution, NodeCount: how tasks that differ lie beside each other is not kept"
        tell(Kind.APPROXIMATED, part.where, what)
        part, nodes = replace(part, distribution=None), None
    wanted = part.distribution
    total = processors
    if total is None and part.each is None and part.instances == 1:
        total = _implied(wanted, nodes)
    if nodes and not (processors or part.each or wanted):
        what = f"NodeCount {nodes[0]}: processors on so many nodes are taken, not whole nodes"
        tell(Kind.APPROXIMATED, part.where, what)
        total = total or ((nodes[0], nodes[1]) if part.instances == 1 else None)
    each = _each(part, total, tell)
    processes = part.instances if part.instances > 1 else each[0]
    return _sized(each, _distribution(part, nodes, processes, tell))


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


def _distribution(part: Part, nodes: Bounds | None, processes: int, tell: Tell) -> Distribution | None:
    """Return how so many processes lie on nodes: as their distribution says, else evenly over the nodes."""
    found = part.distribution
    if found and found.geometry and not _numbers(found.geometry, processes):
        what = f"TaskDistribution Geometry: it does not number {processes} tasks from 1: it is left out"
        tell(Kind.APPROXIMATED, part.where, what)
        found = None
    if nodes is None:
        return found
    if found and (found.per_node or found.geometry):
        if _nodes_of(found, processes) != nodes[0]:
            what = (
                f"NodeCount {nodes[0]}: TaskDistribution needs {_nodes_of(found, processes)}, which are taken"
            )
            tell(Kind.APPROXIMATED, part.where, what)
        return found
    if nodes[0] != nodes[1]:
        tell(Kind.APPROXIMATED, part.where, f"NodeCount {nodes[0]} to {nodes[1]}: {nodes[0]} are taken")
    if nodes[0] > processes:
        what = f"NodeCount {nodes[0]}: there are only {processes} tasks or processors for them"
        tell(Kind.APPROXIMATED, part.where, what)
    return replace(found or Distribution(), nodes=min(nodes[0], processes))


def _numbers(geometry: tuple[tuple[int, ...], ...], processes: int) -> bool:
    return Distribution(geometry=geometry).draws(processes)


def _nodes_of(found: Distribution, processes: int) -> int:
    return len(found.geometry) or -(-processes // found.per_node)


def _each(part: Part, total: Bounds | None, tell: Tell) -> Bounds:
    """Return the size of one instance: an equal share of what its group asks for."""
    if part.each:
        return part.each
    if total is None:
        return (1, 1)
    least, most = total
    tasks = max(part.instances, part.sharing)
    share = -(-least // tasks)
    if least % tasks or most % tasks:
        what = f"{least} to {most} for {tasks} tasks: each gets {share} or more"
        tell(Kind.APPROXIMATED, part.where, what)
    return share, max(share, most // tasks)


def _job_size(
    asked: Bounds | None,
    parts: Sequence[Part],
    tasks: Sequence[dict[str, Any]],
    tell: Tell,
    *,
    by_node: bool,
) -> dict[str, Any]:
    """Return the size of the job: room for all tasks at once; nothing when its only task says it all."""
    least, most = total(parts, tasks)
    if asked is None:
        single = len(parts) == 1 and parts[0].instances == 1
        return {} if single else _bounds((least, most))
    own = [
        part.asked.wishes.nodes if by_node else part.asked.wishes.processors or part.each for part in parts
    ]
    if len(parts) > 1 and not all(own):
        tell(
            Kind.TRANSLATED,
            "job",
            "what the job asks for, each task group without a size of its own asks for",
        )
        return _bounds((least, most))
    if asked[0] < least:
        what = f"its tasks start together: it waits for {least}, not {asked[0]}"
        tell(Kind.APPROXIMATED, "job", what)
    low = max(asked[0], least)
    return _bounds((low, max(asked[1], low)))


def total(parts: Sequence[Part], tasks: Sequence[dict[str, Any]]) -> Bounds:
    """Return what all instances of all tasks take together, at least and at most."""
    least = sum(part.instances * task["minimum"] for part, task in zip(parts, tasks, strict=True))
    most = sum(part.instances * task["maximum"] for part, task in zip(parts, tasks, strict=True))
    return least, most
