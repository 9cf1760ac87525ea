"""Which nodes can serve a request at all, and in which order they are taken.

Source: CCS, "Resource sorting"; HPC Pack job properties (node groups, memory, cores per node, OrderBy).
"""

from collections.abc import Iterable
from typing import NamedTuple

from headnode.core.model.job import JobRequest, NodeGroupOp, OrderKey, Part
from headnode.core.model.node import NodeFacts
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.node_objections import objection as unmet
from headnode.core.scheduling.reserved_times import Access

RESOURCE_ORDER = (OrderKey("memory"), OrderKey("speed"))
"""The order of a cluster that says nothing else: memory, then processor speed, larger first."""


class Rules(NamedTuple):
    """What a request demands of each of its nodes.  Equal rules have the same candidates."""

    asked: frozenset[str]  # empty: any node
    excluded: frozenset[str]
    groups: tuple[str, ...]
    group_op: NodeGroupOp
    memory: tuple[int | None, int | None]
    processors: tuple[int | None, int | None]
    order: tuple[OrderKey, ...]
    needs: NodeNeeds = ANY_NODE
    lasts: float = 0.0  # seconds it may run, where nodes will close
    access: Access | None = None  # where nodes are reserved
    user: str = ""  # empty: it does not matter who it is


def fold(names: Iterable[str]) -> frozenset[str]:
    """Return names as they are compared: node names are alike whatever their case, as in Windows."""
    return frozenset(name.casefold() for name in names)


def rules_of(request: JobRequest) -> Rules:
    """Return what the request demands of each of its nodes."""
    return Rules(
        asked=fold(request.requested_nodes),
        excluded=fold(request.excluded_nodes),
        groups=tuple(dict.fromkeys(group.casefold() for group in request.node_groups)),
        group_op=request.node_group_op,
        memory=(request.minimum_memory, request.maximum_memory),
        processors=(request.minimum_processors_per_node, request.maximum_processors_per_node),
        order=request.order_by or RESOURCE_ORDER,
        needs=request.needs,
        user=request.user,
    )


def objection(rules: Rules, node: NodeFacts) -> str:
    """Return why the node can never serve such requests, or an empty string if it can."""
    name = node.name.casefold()
    if node.processors < 1:
        return "has no processors"
    if rules.asked and name not in rules.asked:
        return "is not among the requested nodes"
    if rules.user and node.serves not in ("", rules.user):
        return f"serves only user {node.serves!r}"
    if name in rules.excluded:
        return "is excluded by the job"
    return (
        _outside(rules.memory, node.memory, "MB of memory")
        or _outside(rules.processors, node.processors, "processors")
        or _outside_groups(rules, node)
        or unmet(rules.needs, node)
    )


def part_objection(part: Part, node: NodeFacts) -> str:
    """Return why the node can never serve this part of a job, or an empty string if it can."""
    if part.required_nodes and node.name.casefold() not in fold(part.required_nodes):
        return "is not among the nodes that the task requires"
    if part.node_group and part.node_group.casefold() not in fold(node.groups):
        return f"is not in node group {part.node_group!r}"
    return unmet(part.needs, node)


def names_matter(part: Part) -> bool:
    """Tell whether the part can tell nodes apart that are equal but for their names."""
    needs = part.needs
    named = needs.names or needs.excluded or needs.patterns or needs.excluded_patterns
    return bool(named or part.required_nodes)


def resource_key(order: tuple[OrderKey, ...], node: NodeFacts) -> tuple[int | str, ...]:
    """Return the key by which nodes are taken, smallest first; ties go by name."""
    amounts = {"memory": node.memory, "processors": node.processors, "speed": node.speed}
    return (*(amounts[key.by] if key.ascending else -amounts[key.by] for key in order), node.name)


def _outside(bounds: tuple[int | None, int | None], amount: int, noun: str) -> str:
    least, most = bounds
    if least is not None and amount < least:
        return f"has {amount} {noun}; the job needs at least {least}"
    if most is not None and amount > most:
        return f"has {amount} {noun}; the job accepts at most {most}"
    return ""


def _outside_groups(rules: Rules, node: NodeFacts) -> str:
    if not rules.groups:
        return ""
    missing = set(rules.groups) - fold(node.groups)
    if rules.group_op is NodeGroupOp.INTERSECT and missing:
        return f"is not in node group {', '.join(map(repr, sorted(missing)))}"
    if len(missing) == len(rules.groups):
        return f"is in none of the node groups {', '.join(map(repr, rules.groups))}"
    return ""
