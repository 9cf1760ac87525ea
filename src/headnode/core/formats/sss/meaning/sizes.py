"""How many processors or nodes a job and its tasks get.

The tasks of an SSS job start together, so the job waits for as many as all of them need.
Source: SSS 3.1.0, Tables 25-2 (NodeCount), 25-4 (Processors) and 25-5 (TaskCount).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.sss.meaning.wishes import Bounds, Wishes
from headnode.core.model.job import UnitType

Tell = Callable[[Kind, str, str], None]


class Part(NamedTuple):
    """A task to be: what its task group asks for all of its instances, or each of them."""

    where: str
    asked: Wishes
    instances: int = 1
    each: Bounds | None = None


class Sizes(NamedTuple):
    """The fields of the job, and minimum and maximum of each task."""

    job: dict[str, Any]
    tasks: tuple[Bounds, ...]


def sizes_of(job: Wishes, parts: Sequence[Part], tell: Tell) -> Sizes:
    """Return how large the job and its tasks are."""
    if not parts:
        return Sizes(_own(job), ())
    counted = [(part.asked.processors or job.processors, part.asked.nodes or job.nodes) for part in parts]
    by_processors = all(processors for processors, _ in counted)
    if by_processors and _on_one_node(job, parts):
        tasks = tuple(_each(part, total, tell) for part, (total, _) in zip(parts, counted, strict=True))
        return Sizes({"single_node": True, **_job_size(job.processors, parts, tasks, tell)}, tasks)
    if all(nodes for _, nodes in counted):
        return _by_node(job, parts, counted, tell)
    totals = [_total(part, *asked, tell) for part, asked in zip(parts, counted, strict=True)]
    tasks = tuple(_each(part, total, tell) for part, total in zip(parts, totals, strict=True))
    return Sizes(_job_size(job.processors, parts, tasks, tell), tasks)


def _on_one_node(job: Wishes, parts: Sequence[Part]) -> bool:
    """Whether all of the job shall be on one node."""
    own = [part.asked.nodes for part in parts if part.asked.nodes]
    return (job.nodes == (1, 1) and not own) or (own == [(1, 1)] and len(parts) == 1)


def _own(job: Wishes) -> dict[str, Any]:
    """Return the size of a job without tasks."""
    if job.nodes and job.processors and job.nodes == (1, 1):
        return {"single_node": True, **_bounds(job.processors)}
    if job.nodes:
        each = _each_node(job.processors, job.nodes) if job.processors else None
        return {"unit": UnitType.NODE, **_bounds(job.nodes), "minimum_processors_per_node": each}
    return _bounds(job.processors)


def _bounds(bounds: Bounds | None) -> dict[str, Any]:
    return {"minimum": bounds[0], "maximum": bounds[1]} if bounds else {}


def _total(part: Part, processors: Bounds | None, nodes: Bounds | None, tell: Tell) -> Bounds | None:
    """Return how many processors a task group gets where not all of the job is counted in nodes."""
    if nodes:
        what = "NodeCount: not all task groups ask for nodes, so processors of any nodes are taken"
        tell(Kind.APPROXIMATED, part.where, what)
    return processors or nodes


def _by_node(
    job: Wishes, parts: Sequence[Part], counted: Sequence[tuple[Bounds | None, Bounds | None]], tell: Tell
) -> Sizes:
    """Return the sizes in whole nodes; processors that are asked for, too, say how large each must be."""
    tasks = tuple(
        _each(part._replace(each=None), nodes, tell) for part, (_, nodes) in zip(parts, counted, strict=True)
    )
    needed = [_each_node(processors, nodes) for processors, nodes in counted if processors and nodes]
    fields: dict[str, Any] = {"unit": UnitType.NODE, **_job_size(job.nodes, parts, tasks, tell, by_node=True)}
    if needed:
        fields["minimum_processors_per_node"] = max(needed)
        what = f"Processors beside NodeCount: whole nodes are taken, of {max(needed)} processors or more"
        tell(Kind.APPROXIMATED, parts[0].where, what)
    return Sizes(fields, tasks)


def _each_node(processors: Bounds, nodes: Bounds) -> int:
    return -(-processors[0] // nodes[0])


def _each(part: Part, total: Bounds | None, tell: Tell) -> Bounds:
    """Return the size of one instance: an equal share of what its group asks for."""
    if part.each:
        return part.each
    if total is None:
        return (1, 1)
    least, most = total
    share = -(-least // part.instances)
    if least % part.instances or most % part.instances:
        what = f"{least} to {most} for {part.instances} tasks: each gets {share} or more"
        tell(Kind.APPROXIMATED, part.where, what)
    return share, max(share, most // part.instances)


def _job_size(
    asked: Bounds | None, parts: Sequence[Part], tasks: Sequence[Bounds], tell: Tell, *, by_node: bool = False
) -> dict[str, Any]:
    """Return the size of the job: room for all tasks at once; nothing when its only task says it all."""
    least = sum(part.instances * low for part, (low, _) in zip(parts, tasks, strict=True))
    most = sum(part.instances * high for part, (_, high) in zip(parts, tasks, strict=True))
    if asked is None:
        single = len(parts) == 1 and parts[0].instances == 1
        return {} if single else _bounds((least, most))
    own = [part.asked.nodes if by_node else part.asked.processors or part.each for part in parts]
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
