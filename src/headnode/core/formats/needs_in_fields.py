"""What is demanded of nodes, said by older fields of a job and a task, for languages that know only these.

Source: CCS and HPC Pack, requested and excluded nodes, node groups, memory and processors of nodes.
"""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import fields, replace

from headnode.core.formats.fidelity import Kind
from headnode.core.model.job import JobSpec, NodeGroupOp
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.task import TaskSpec

Tell = Callable[[Kind, str], None]
"""Takes a finding about what is rewritten."""


def with_plain_fields(spec: JobSpec, tell: Tell) -> JobSpec:
    """Return the job with what its needs say in other fields, where these say the same; the rest stays."""
    if spec.needs == ANY_NODE:
        return spec
    needs, changed = spec.needs, dict[str, Any]()
    names = tuple(name for name in spec.requested_nodes if name in needs.names)
    if needs.names and (names or not spec.requested_nodes):
        changed["requested_nodes"] = names or needs.names
        needs = replace(needs, names=())
    if needs.excluded:
        changed["excluded_nodes"] = tuple(dict.fromkeys([*spec.excluded_nodes, *needs.excluded]))
        needs = replace(needs, excluded=())
    if needs.minimum_memory:
        changed["minimum_memory"] = max(spec.minimum_memory or 0, needs.minimum_memory)
        needs = replace(needs, minimum_memory=0)
    if needs.minimum_processors:
        least = max(spec.minimum_processors_per_node or 0, needs.minimum_processors)
        changed["minimum_processors_per_node"] = least
        needs = replace(needs, minimum_processors=0)
    for field in changed:
        tell(Kind.TRANSLATED, f"{field}: it says what the needs of nodes say")
    changed |= _groups(spec, needs, tell)
    if "node_groups" in changed:
        needs = replace(needs, features=())
    return replace(spec, needs=needs, **changed)


def _groups(spec: JobSpec, needs: NodeNeeds, tell: Tell) -> dict[str, Any]:
    """Return features as node groups, all of which the nodes are in."""
    together = len(spec.node_groups) < 2 or spec.node_group_op is NodeGroupOp.INTERSECT
    if not needs.features or not together or any(len(choice) != 1 for choice in needs.features):
        return {}
    tell(Kind.APPROXIMATED, "features: nodes are of groups of these names there")
    groups = tuple(dict.fromkeys([*spec.node_groups, *(choice[0] for choice in needs.features)]))
    return {"node_groups": groups, "node_group_op": NodeGroupOp.INTERSECT}


def task_with_plain_fields(task: TaskSpec, tell: Tell) -> TaskSpec:
    """Return the task with what its needs say in other fields, where these say the same; the rest stays."""
    if task.needs == ANY_NODE:
        return task
    needs, changed = task.needs, dict[str, Any]()
    if len(needs.names) == 1 and task.required_nodes in ((), needs.names):
        changed["required_nodes"] = needs.names
        tell(Kind.TRANSLATED, "required_nodes: it says what the needs of nodes say")
        needs = replace(needs, names=())
    if len(needs.features) == 1 and len(needs.features[0]) == 1 and not task.node_group:
        changed["node_group"] = needs.features[0][0]
        tell(Kind.APPROXIMATED, "features: nodes are of a group of that name there")
        needs = replace(needs, features=())
    return replace(task, needs=needs, **changed)


def unsaid_needs(needs: NodeNeeds) -> Iterator[str]:
    """Yield the names of what is demanded of nodes."""
    if needs == ANY_NODE:
        return
    for field in fields(needs):
        if getattr(needs, field.name) != field.default:
            yield field.name
