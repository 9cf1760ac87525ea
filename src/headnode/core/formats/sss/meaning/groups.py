"""Which nodes a job and its tasks may run on.

What a task group says of a property counts for it in place of what its job says.  Where no task group says
anything, it is the job's; else each task has its own.
Source: SSS 3.1.0, "Node", "Feature", Tables 25-2 (Partition, Architecture, OperatingSystem) and 25-4.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.sss.meaning.sizes import Part, Tell
from headnode.core.formats.sss.meaning.wishes import NOTHING, OF_NODES, Wishes, says
from headnode.core.model.node_needs import NodeNeeds


class Grouped(NamedTuple):
    """The fields of the job, and what each task needs of its nodes."""

    job: dict[str, Any]
    tasks: tuple[NodeNeeds, ...]


def grouped(job: Wishes, parts: Sequence[Part], tell: Tell) -> Grouped:
    """Return where the job and its tasks may run."""
    apart = [fields for fields in OF_NODES.values() if any(says(part.own, fields) for part in parts)]
    own = {field for fields in apart for field in fields}
    tasks = tuple(needs_of(_only(part.asked, own)) for part in parts)
    fields = _of_job(_only(job, set(job.__struct_fields__) - own))
    if job.partition:
        tell(Kind.TRANSLATED, "job", "Partition: a node group of that name must exist")
    if "most_memory" in own:
        fields["maximum_memory"] = _most_memory(parts, tell)
    return Grouped(fields, tasks)


def _only(wishes: Wishes, names: set[str]) -> Wishes:
    fields = {name: getattr(wishes, name) for name in names}
    return Wishes(**{name: value for name, value in fields.items() if value != getattr(NOTHING, name)})


def needs_of(wishes: Wishes) -> NodeNeeds:
    """Return what `wishes` demand of every node."""
    return NodeNeeds(
        names=wishes.names,
        excluded=wishes.excluded,
        patterns=wishes.patterns,
        excluded_patterns=wishes.excluded_patterns,
        features=wishes.features,
        feature_patterns=wishes.feature_patterns,
        lacking=wishes.lacking,
        architectures=wishes.architectures,
        systems=wishes.systems,
        minimum_memory=wishes.least_memory or 0,
        minimum_disk=wishes.disk,
        minimum_swap=wishes.swap,
    )


_ELSEWHERE = {"names", "excluded", "least_memory", "most_memory"}
"""What a job has fields of its own for, beside those for what is needed of nodes."""


def _of_job(wishes: Wishes) -> dict[str, Any]:
    return {
        "requested_nodes": wishes.names,
        "excluded_nodes": wishes.excluded,
        "minimum_memory": wishes.least_memory,
        "maximum_memory": wishes.most_memory,
        "node_groups": (wishes.partition,) if wishes.partition else (),
        "needs": needs_of(_only(wishes, set(wishes.__struct_fields__) - _ELSEWHERE)),
    }


def _most_memory(parts: Sequence[Part], tell: Tell) -> int | None:
    """Return the upper bound of the memory of all nodes: the least that a task group names."""
    most = [part.asked.most_memory for part in parts if part.asked.most_memory is not None]
    least = max((part.asked.least_memory or 0 for part in parts), default=0)
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
