"""The parts of a job: what each of its tasks needs of its own, in lumps that lie on one node each.

Source: SSS 3.1.0, "TaskGroup" and "TaskDistribution"; HPC Pack task properties (node group, exclusive).
"""

from collections import Counter
from collections.abc import Iterator

from msgspec.structs import replace

from headnode.core.model.job import JobSpec, Part, UnitType
from headnode.core.model.node_needs import ANY_NODE
from headnode.core.model.task import Distribution, TaskSpec, TaskType

Lumps = tuple[tuple[int, int], ...]


def is_gang(spec: JobSpec) -> bool:
    """Tell whether every task is placed for itself and all start at once.

    That is what a job asks for, or one whose only task says how its processes lie on nodes.
    """
    laid_out = len(spec.tasks) == 1 and spec.tasks[0].distribution is not None
    return (spec.together or laid_out) and any(part.lumps for part in gang_parts(spec))


def gang_parts(spec: JobSpec) -> tuple[Part, ...]:
    """Return one part for each task, in their order, to be held beside each other."""
    return tuple(_gang_part(spec, task) for task in spec.tasks)


def _gang_part(spec: JobSpec, task: TaskSpec) -> Part:
    placed = Part((), needs=task.needs, node_group=task.node_group, required_nodes=task.required_nodes)
    if not task.instances:
        return placed
    sweeps = task.kind is TaskType.SWEEP
    processes, size = (task.instances, task.minimum) if sweeps else (task.minimum, 1)
    if spec.unit is UnitType.NODE:
        return replace(placed, lumps=((1, processes * size),))
    groups, rule = groups_of(task.distribution, processes), task.distribution
    return replace(
        placed,
        lumps=tuple((size * count, nodes) for count, nodes in groups) if groups else ((size, processes),),
        apart=bool(groups) or (sweeps and task.exclusive),
        spread=rule is not None and rule.round_robin and not groups,
        whole=task.exclusive,
    )


def groups_of(rule: Distribution | None, processes: int) -> Lumps:
    """Return (processes on a node, how many such nodes), largest first; nothing if that is left open.

    They are counted, not listed: a job may ask for more than any cluster has.

    >>> groups_of(Distribution(per_node=2), 5), groups_of(Distribution(nodes=3), 7)
    (((2, 2), (1, 1)), ((3, 1), (2, 2)))
    >>> groups_of(Distribution(geometry=((1, 4), (2,), (3, 5))), 5)
    ((2, 2), (1, 1))
    """
    if rule is None:
        return ()
    groups: Counter[int] = Counter()
    if rule.geometry:
        groups.update(map(len, rule.geometry))
        groups[1] += max(0, processes - sum(map(len, rule.geometry)))
    elif rule.per_node:
        full, rest = divmod(processes, rule.per_node)
        groups[rule.per_node] += full
        groups[rest] += 1
    elif rule.nodes:
        each, more = divmod(processes, rule.nodes)
        groups[each + 1] += more
        groups[each] += rule.nodes - more
    found = [(size, times) for size, times in groups.items() if size and times]
    return tuple(sorted(found, reverse=True))


def shared_parts(spec: JobSpec) -> tuple[Part, ...]:
    """Return what an allocation must have room for when tasks share it, one after the other.

    One part for each kind of nodes that tasks ask for, as large as the largest of those tasks; and one for
    each task whose processes lie on nodes in a way of their own.  A task that requires nodes, and no more
    processors than it requires nodes, needs none: the job holds some of each.
    """
    laid = dict.fromkeys(_gang_part(spec, task) for task in spec.tasks if _is_laid_out(spec, task))
    largest: dict[Part, int] = {}
    for part, units in _wanted(spec):
        largest[part] = max(units, largest.get(part, 0))
    return (*laid, *(replace(part, lumps=((1, units),)) for part, units in largest.items()))


def _is_laid_out(spec: JobSpec, task: TaskSpec) -> bool:
    """Tell whether the task says how many of its processes share a node; instances of a sweep run singly."""
    basic = task.kind is TaskType.BASIC and spec.unit is not UnitType.NODE
    return basic and bool(groups_of(task.distribution, task.minimum))


def _wanted(spec: JobSpec) -> Iterator[tuple[Part, int]]:
    for task in spec.tasks:
        required = {node.casefold() for node in task.required_nodes}
        asks = task.needs != ANY_NODE or task.node_group or 0 < len(required) < task.minimum
        runs = bool(task.instances) or task.kind is TaskType.SERVICE
        if asks and runs and not _is_laid_out(spec, task):
            yield _shared_part(spec, task, tuple(sorted(required))), task.minimum


def _shared_part(spec: JobSpec, task: TaskSpec, required: tuple[str, ...]) -> Part:
    """Return the kind of nodes that a task asks for; it runs on no others than those it requires."""
    whole = task.exclusive and spec.unit is not UnitType.NODE
    group = task.node_group.casefold()
    return Part((), whole=whole, needs=task.needs, node_group=group, required_nodes=required)
