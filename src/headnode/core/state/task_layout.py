"""The parts of a job, and where its processes are in them: instances of a gang, ranks of a host list."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from headnode.core.model.job import JobSpec, RequestPart, UnitType
from headnode.core.model.node_needs import ANY_NODE
from headnode.core.model.task import Distribution, TaskSpec, TaskType
from headnode.core.state.job_events import NodeCores

Lumps = tuple[tuple[int, int], ...]


def is_gang(spec: JobSpec) -> bool:
    """Tell whether every task is placed for itself and all start at once.

    That is what a job asks for, or one whose only task says how its processes lie on nodes.
    """
    laid_out = len(spec.tasks) == 1 and spec.tasks[0].distribution is not None
    return (spec.together or laid_out) and any(part.lumps for part in gang_parts(spec))


def gang_parts(spec: JobSpec) -> tuple[RequestPart, ...]:
    """Return one part for each task, in their order, to be held beside each other."""
    return tuple(_gang_part(spec, task) for task in spec.tasks)


def _gang_part(spec: JobSpec, task: TaskSpec) -> RequestPart:
    placed = RequestPart((), needs=task.needs, node_group=task.node_group, required_nodes=task.required_nodes)
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


def shared_parts(spec: JobSpec) -> tuple[RequestPart, ...]:
    """Return what an allocation must have room for when tasks share it, one after the other.

    One part for each kind of nodes that tasks ask for, as large as the largest of those tasks; and one for
    each task whose processes lie on nodes in a way of their own.  A task that requires nodes, and no more
    processors than it requires nodes, needs none: the job holds some of each.
    """
    laid = dict.fromkeys(_gang_part(spec, task) for task in spec.tasks if _is_laid_out(spec, task))
    largest: dict[RequestPart, int] = {}
    for part, units in _wanted(spec):
        largest[part] = max(units, largest.get(part, 0))
    return (*laid, *(replace(part, lumps=((1, units),)) for part, units in largest.items()))


def _is_laid_out(spec: JobSpec, task: TaskSpec) -> bool:
    """Tell whether the task says how many of its processes share a node; instances of a sweep run singly."""
    basic = task.kind is TaskType.BASIC and spec.unit is not UnitType.NODE
    return basic and bool(groups_of(task.distribution, task.minimum))


def _wanted(spec: JobSpec) -> Iterator[tuple[RequestPart, int]]:
    for task in spec.tasks:
        required = {node.casefold() for node in task.required_nodes}
        asks = task.needs != ANY_NODE or task.node_group or 0 < len(required) < task.minimum
        runs = bool(task.instances) or task.kind is TaskType.SERVICE
        if asks and runs and not _is_laid_out(spec, task):
            yield _shared_part(spec, task, tuple(sorted(required))), task.minimum


def _shared_part(spec: JobSpec, task: TaskSpec, required: tuple[str, ...]) -> RequestPart:
    """Return the request part with the node requirements of a task; it runs on no other nodes."""
    whole = task.exclusive and spec.unit is not UnitType.NODE
    group = task.node_group.casefold()
    return RequestPart((), whole=whole, needs=task.needs, node_group=group, required_nodes=required)


BLOCKS = Distribution()
"""Node by node, as many on each as there is room for."""


def rank_nodes(distribution: Distribution, room: Sequence[int], processes: int | None = None) -> list[int]:
    """Return for each process, in order, which of the nodes it is on; `room` is how many each node takes.

    Without a number of processes there are as many as the distribution allows.

    >>> rank_nodes(BLOCKS, (2, 2), 3), rank_nodes(Distribution(round_robin=True), (2, 2), 3)
    ([0, 0, 1], [0, 1, 0])
    >>> rank_nodes(Distribution(per_node=1), (4, 4)), rank_nodes(Distribution(nodes=2), (4, 4), 3)
    ([0, 1], [0, 0, 1])
    >>> rank_nodes(Distribution(geometry=((2,), (1, 3))), (2, 1))
    [0, 1, 0]
    """
    wanted = sum(room) if processes is None else processes
    if distribution.geometry:
        drawn = _drawn(distribution.geometry, room)
        if len(drawn) >= wanted or (processes is None and drawn):
            return drawn[:wanted]
    counts = _counts(distribution, room, wanted)
    if distribution.round_robin:
        return list(_in_turns(counts))
    return [node for node, count in enumerate(counts) for _ in range(count)]


def _drawn(geometry: tuple[tuple[int, ...], ...], room: Sequence[int]) -> list[int]:
    """Return the nodes as the geometry draws them, large groups where most room is; none if it cannot."""
    largest = sorted(range(len(room)), key=lambda node: -room[node])
    groups = sorted(geometry, key=lambda group: -len(group))
    pairs = list(zip(groups, largest, strict=False))
    if len(groups) > len(room) or any(len(group) > room[node] for group, node in pairs):
        return []
    node_of = {process: node for group, node in pairs for process in group}
    return [node_of[process] for process in sorted(node_of)]


def _counts(distribution: Distribution, room: Sequence[int], processes: int) -> list[int]:
    """Return how many processes each node gets."""
    most = [min(space, distribution.per_node or space) for space in room]
    if distribution.nodes or distribution.round_robin:
        counts = [0] * len(most)
        for node in islice(_in_turns(most), processes):
            counts[node] += 1
        return counts
    left, counts = processes, []
    for space in most:
        counts.append(min(space, left))
        left -= counts[-1]
    return counts


def _in_turns(counts: Sequence[int]) -> Iterator[int]:
    """Yield each node so many times, one of every node before the second of any."""
    for turn in range(max(counts, default=0)):
        yield from (node for node, count in enumerate(counts) if count > turn)


def instance_places(
    task: TaskSpec, unit: UnitType, part: NodeCores, sizes_on: Callable[[str, int], Sequence[int]]
) -> list[NodeCores]:
    """Return the place of each instance of a task within its part, in order; fewer where there is no room.

    `sizes_on` says into which numbers of processors, one for each instance, so many of a node are cut.
    A task of one instance takes all.
    """
    if task.kind is not TaskType.SWEEP:
        return [part]
    if unit is UnitType.NODE:
        size = max(1, task.minimum)
        return [part[at : at + size] for at in range(0, len(part) - size + 1, size)]
    there = [
        [((node, numbers),)] if task.exclusive else list(_cut(node, numbers, sizes_on(node, len(numbers))))
        for node, numbers in part
    ]
    wanted = min(task.instances, sum(map(len, there)))
    order = rank_nodes(task.distribution or BLOCKS, [len(found) for found in there], wanted)
    left = [iter(found) for found in there]
    return [next(left[node]) for node in order]


def _cut(node: str, numbers: tuple[int, ...], sizes: Iterable[int]) -> Iterator[NodeCores]:
    at = 0
    for size in sizes:
        yield ((node, numbers[at : at + size]),)
        at += size
