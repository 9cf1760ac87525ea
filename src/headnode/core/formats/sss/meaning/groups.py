"""Which nodes a job and its tasks may run on.

What a task group says of a property counts for it in place of what its job says.  Where no task group says
anything, it is the job's; else each task has its own.
Source: SSS 3.1.0, "Node", "Feature", Tables 25-2 (Partition, Architecture, OperatingSystem) and 25-4.
"""

from collections.abc import Sequence, Set
from typing import Any, NamedTuple

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.sss.meaning.sizes import Part, Tell
from headnode.core.formats.sss.meaning.wishes import CONSUMED, NOTHING, OF_NODES, Said, Wishes
from headnode.core.model.held import NOTHING_HELD, Held
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds


class Grouped(NamedTuple):
    """The fields of the job, and what each task needs of its nodes."""

    job: dict[str, Any]
    tasks: tuple[NodeNeeds, ...]


_OF_NODES = frozenset(field for fields in OF_NODES.values() for field in fields)


def grouped(job: Said, parts: Sequence[Part], tell: Tell) -> Grouped:
    """Return where the job and its tasks may run."""
    apart = _OF_NODES.intersection(set().union(*[part.own.fields for part in parts]))
    tasks = [_needs_of(part.asked, apart) for part in parts] if apart else [ANY_NODE] * len(parts)
    fields = _of_job(job, apart)
    if job.wishes.partition:
        tell(Kind.TRANSLATED, "job", "Partition: a node group of that name must exist")
    if "most_memory" in apart:
        fields["maximum_memory"] = _most_memory(parts, tell)
    fields["held"] = _held(job.wishes, parts, apart, tell)
    return Grouped(fields, tuple(tasks))


_NEEDS = {
    "names": "names",
    "excluded": "excluded",
    "patterns": "patterns",
    "excluded_patterns": "excluded_patterns",
    "features": "features",
    "feature_patterns": "feature_patterns",
    "lacking": "lacking",
    "architectures": "architectures",
    "systems": "systems",
    "least_memory": "minimum_memory",
    "disk": "minimum_disk",
    "swap": "minimum_swap",
}
"""The fields of `NodeNeeds` that wishes become, by those of `Wishes`."""

_FIELDS = {
    "names": "requested_nodes",
    "excluded": "excluded_nodes",
    "least_memory": "minimum_memory",
    "most_memory": "maximum_memory",
}
"""What a job has fields of its own for, beside those for what is needed of nodes."""

_OTHER_NEEDS = frozenset(_NEEDS) - frozenset(_FIELDS)
_OF_NO_JOB = {to: getattr(NOTHING, field) for field, to in _FIELDS.items()}
"""The fields of a job that demands nothing of its nodes."""


def _needs_of(said: Said, fields: Set[str]) -> NodeNeeds:
    """Return what is demanded of every node in `fields`."""
    demands = {
        _NEEDS[field]: value
        for field in said.fields & fields & _NEEDS.keys()
        if (value := getattr(said.wishes, field))
    }
    return NodeNeeds(**demands) if demands else ANY_NODE


def _of_job(said: Said, apart: Set[str]) -> dict[str, Any]:
    """Return the fields of a job for what its task groups say nothing of."""
    alone, wishes = said.fields - apart, said.wishes
    own = {_FIELDS[field]: getattr(wishes, field) for field in alone & _FIELDS.keys()}
    return {
        **_OF_NO_JOB,
        **own,
        "node_groups": (wishes.partition,) if wishes.partition else (),
        "needs": _needs_of(said, _OTHER_NEEDS - apart),
    }


_CONSUMED = frozenset(CONSUMED.values())


def _held(job: Wishes, parts: Sequence[Part], apart: Set[str], tell: Tell) -> Held:
    """Return what the job holds of each node: the most that one of its task groups asks for."""
    if apart.isdisjoint(_CONSUMED):
        if not (job.least_memory or job.disk or job.swap):
            return NOTHING_HELD
        return Held(memory=job.least_memory or 0, disk=job.disk, swap=job.swap)
    amounts: dict[str, int] = {}
    for name, field in CONSUMED.items():
        asked = [part.asked.wishes for part in parts] if field in apart else [job]
        found = {getattr(wishes, field) or 0 for wishes in asked}
        amounts[name] = max(found, default=0)
        if len(found) > 1:
            most = f"{amounts[name]} MB of each node, the most that a task group asks for"
            what = f"{name.capitalize()}: the job holds {most}"
            tell(Kind.APPROXIMATED, "job", what)
    return Held(**amounts) if any(amounts.values()) else NOTHING_HELD


def _most_memory(parts: Sequence[Part], tell: Tell) -> int | None:
    """Return the upper bound of the memory of all nodes: the least that a task group names."""
    most = [part.asked.wishes.most_memory for part in parts if part.asked.wishes.most_memory is not None]
    least = max((part.asked.wishes.least_memory or 0 for part in parts), default=0)
    if not most:
        return None
    if min(most) < least:
        what = "Memory: no node suits all task groups, so the upper bound is left out"
        tell(Kind.APPROXIMATED, "job", what)
        return None
    if len(parts) > 1:
        what = f"Memory: no node of the job has more than {min(most)} MB, which one task group asks for"
        tell(Kind.APPROXIMATED, "job", what)
    return min(most)
