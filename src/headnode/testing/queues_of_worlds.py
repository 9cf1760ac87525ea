"""Queues of three jobs beside what may be running: what small worlds are made of."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import msgspec

from headnode.core.model.job import JobRequest
from headnode.core.scheduling.node_table import KnownNodes, NodeTable
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.view import RunningJob, View
from headnode.testing.scenes import INF, Queued, asks, limits_of, runs, scene, waiting


def worlds_of(
    nodes: Sequence[NodeView],
    running: Sequence[Sequence[RunningJob]],
    kinds: Sequence[JobRequest],
    licences: Mapping[str, tuple[int, int]] | None = None,
) -> Iterator[View]:
    """Yield each queue beside each that runs; what is worked out for nodes is shared, as in the engine."""
    queues = [(queue, waiting(queue)) for queue in _queues(kinds)]
    limiting = any(each.limits for kind in kinds for each in (kind, *kind.alternatives))
    for held in running:
        plain = scene(nodes, held, (), licences)
        ground = KnownNodes(plain.nodes, NodeTable(plain.nodes))
        for queue, classes in queues:
            amounts = {**limits_of(held, queue), **(licences or {})} if limiting else plain.licences
            yield msgspec.structs.replace(plain, queue=classes, licences=amounts, ground=ground)


def _queues(kinds: Sequence[JobRequest]) -> list[tuple[Queued, ...]]:
    """Return queues of three jobs; sometimes the last has the better turn."""
    return [
        ((11, first, 2000), (12, second, 2000), (13, third, 3000 if number % 5 == 0 else 2000))
        for number, (first, second, third) in enumerate(product(kinds, repeat=3))
    ]


def busy(ground: Sequence[NodeView]) -> list[list[RunningJob]]:
    """Return what may be running: nothing, a shared job, an owner, or two with different ends."""
    first, last = ground[0].facts, [each for each in ground if not each.closed][-1].facts
    found: list[list[RunningJob]] = [[]]
    for minutes in (1, INF):
        found.append([runs(1, asks(1), (first.name, 1), minutes_left=minutes)])
        owner = asks(1, exclusive=True)
        found.append([runs(1, owner, (first.name, first.processors), minutes_left=minutes)])
    if last.name != first.name:
        for one, other in ((1, 2), (2, INF), (INF, INF)):
            found.append(
                [
                    runs(1, asks(1), (first.name, 1), minutes_left=one),
                    runs(2, asks(1), (last.name, 1), minutes_left=other),
                ]
            )
    return found
