"""Where the processes of a task sit: its instances on its part of a gang, or its ranks in the list of hosts.

A seat is what one process needs, all on one node.  Both sides ask here, so a program finds in its list of
hosts what the scheduler meant.
Source: SSS 3.1.0, "TaskDistribution" (TasksPerNode, Rule, Geometry).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from headnode.core.lifecycle.events import Place
from headnode.core.model.job import UnitType
from headnode.core.model.task import Distribution, TaskSpec, TaskType

BLOCKS = Distribution()
"""Node by node, as many on each as there is room for."""


def nodes_of(distribution: Distribution, room: Sequence[int], processes: int | None = None) -> list[int]:
    """Return for each process, in order, which of the nodes it is on; `room` is how many each node takes.

    Without a number of processes there are as many as the distribution allows.

    >>> nodes_of(BLOCKS, (2, 2), 3), nodes_of(Distribution(round_robin=True), (2, 2), 3)
    ([0, 0, 1], [0, 1, 0])
    >>> nodes_of(Distribution(per_node=1), (4, 4)), nodes_of(Distribution(nodes=2), (4, 4), 3)
    ([0, 1], [0, 0, 1])
    >>> nodes_of(Distribution(geometry=((2,), (1, 3))), (2, 1))
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


def seats(
    task: TaskSpec, unit: UnitType, part: Place, sizes_on: Callable[[str, int], Sequence[int]]
) -> list[Place]:
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
    order = nodes_of(task.distribution or BLOCKS, [len(found) for found in there], wanted)
    left = [iter(found) for found in there]
    return [next(left[node]) for node in order]


def _cut(node: str, numbers: tuple[int, ...], sizes: Iterable[int]) -> Iterator[Place]:
    at = 0
    for size in sizes:
        yield ((node, numbers[at : at + size]),)
        at += size
