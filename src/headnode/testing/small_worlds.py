"""Every small world of a kind: a few nodes, a few running jobs, two or three queued ones."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from types import MappingProxyType

from headnode.core.model.job import HeldAmounts, Licence, UnitType
from headnode.core.model.quantities import Seconds
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.view import RunningJob, View
from headnode.testing.queues_of_worlds import busy, worlds_of
from headnode.testing.scenes import (
    INF,
    MINUTE,
    asks,
    gang,
    limited,
    node,
    on_gpus,
    part,
    runs,
)

Worlds = Callable[[], Iterator[View]]


def shared_and_exclusive() -> Iterator[View]:
    """Yield jobs of all lengths, parts of nodes and whole ones, on nodes of several sizes."""
    kinds = [
        asks(1, minutes=1),
        asks(1),
        asks(2, minutes=2),
        asks(2),
        asks(4, minutes=1),
        asks(2, minutes=2, exclusive=True),
    ]
    grounds: list[Sequence[NodeView]] = [
        [node("a", 3)],
        [node("a", 2), node("b", 1)],
        [node("a", 2), node("b", 2), node("c", 2, closed="paused")],
    ]
    for nodes in grounds:
        yield from worlds_of(nodes, busy(nodes), kinds)


def growing() -> Iterator[View]:
    """Yield minimum and maximum, and running jobs that would like more, ahead and behind."""
    kinds = [asks(1, 3, 1), asks(1, 2), asks(2, 4, 2), asks(3, 3, 2), asks(2, 2, 1, exclusive=True)]
    running = [
        [runs(job, request, ("a", request.minimum), minutes_left=minutes, wants=wants)]
        for job, minutes, wants in product((1, 20), (1, INF), (0, 2))
        for request in (asks(1, 3), asks(2, 4, exclusive=True))
    ]
    return worlds_of([node("a", 2), node("b", 2)], running, kinds)


def licensed() -> Iterator[View]:
    """Yield jobs that need licences, one for the job or one for each processor."""
    kinds = [
        asks(1, minutes=minutes, licences=licences)
        for minutes, licences in product((1, INF), ((), (Licence("x", 1),), (Licence("x", 2),)))
    ]
    kinds.append(asks(1, 3, 2, licences=(Licence("x", None),)))
    request = asks(1, licences=(Licence("x", 1),))
    for minutes, total in product((1, INF), (2, 3)):
        running = [runs(1, request, ("a", 1), minutes_left=minutes)]
        yield from worlds_of([node("a", 3)], [running], kinds, {"x": (total, total - 1)})


def limiting() -> Iterator[View]:
    """Yield jobs of two users with limits, some of whole nodes, which come in two sizes."""
    ann, bob = {"jobs": 2, "processors": 3}, {"jobs": 1}
    kinds = [
        limited(asks(1, minutes=1), "ann", **ann),
        limited(asks(2, 3, 3), "ann", **ann),
        limited(asks(1, minutes=2, exclusive=True), "ann", **ann),
        limited(asks(3, minutes=2, alternatives=(asks(1, minutes=4),)), "ann", **ann),
        limited(asks(1, minutes=2), "bob", **bob),
        limited(asks(3), "bob", **bob),
    ]
    running = [
        [runs(1, kinds[1], ("a", 2), minutes_left=1, wants=1)],
        [runs(1, kinds[0], ("a", 1), minutes_left=2), runs(2, kinds[0], ("b", 1), minutes_left=1)],
        [runs(1, kinds[4], ("a", 1), minutes_left=2), runs(2, kinds[2], ("b", 1), minutes_left=INF)],
    ]
    return worlds_of([node("a", 3), node("b", 1)], [[], *running], kinds)


def timed() -> Iterator[View]:
    """Yield jobs of two users whose limits are of processor-minutes, of all their jobs and of each."""
    ann, bob = {"processor_minutes": 6}, {"processor_minutes": 9, "processor_minutes_per_job": 4}
    kinds = [
        limited(asks(1, minutes=1), "ann", **ann),
        limited(asks(2, minutes=3), "ann", **ann),
        limited(asks(3, minutes=2, alternatives=(asks(1, minutes=4),)), "ann", **ann),
        limited(asks(1, 3, 2), "ann", **ann),
        limited(asks(1, 3, 2), "bob", **bob),
        limited(asks(1, minutes=1, exclusive=True), "bob", **bob),
        asks(4, minutes=5),
    ]
    running = [
        [runs(1, kinds[0], ("a", 1), minutes_left=1)],
        [runs(1, kinds[3], ("a", 1), minutes_left=2, wants=2)],
        [runs(1, kinds[4], ("b", 1), minutes_left=1), runs(2, asks(2), ("a", 2), minutes_left=3)],
    ]
    return worlds_of([node("a", 3), node("b", 1)], [[], *running], kinds)


def timed_on_graphics() -> Iterator[View]:
    """Yield jobs of two users whose limits are of GPU-minutes, of all their jobs, running ones and each."""
    ann = {"gpu_minutes": 6, "processor_minutes": 9}
    bob = {"gpu_minutes": 7, "gpu_minutes_per_job": 4, "gpu_minutes_running": 5}
    kinds = [
        limited(asks(1, minutes=2), "ann", **ann),
        limited(on_gpus(1, minutes=3), "ann", **ann),
        limited(on_gpus(2, minutes=2, alternatives=(on_gpus(1, minutes=4),)), "ann", **ann),
        limited(on_gpus(1, 2, 2, each=2), "bob", **bob),
        limited(on_gpus(2, minutes=1, exclusive=True), "bob", **bob),
        on_gpus(1, minutes=5),
    ]
    running = [
        [runs(1, kinds[1], ("a", 1), minutes_left=2)],
        [runs(1, kinds[3], ("a", 2), minutes_left=1, wants=1)],
        [runs(1, kinds[4], ("b", 2), minutes_left=1), runs(2, kinds[3], ("a", 2), minutes_left=2, wants=1)],
    ]
    nodes = [node("a", 4, gpus=2), node("b", 2, gpus=1), node("c", 1)]
    return worlds_of(nodes, [[], *running], kinds)


def remembering() -> Iterator[View]:
    """Yield jobs that hold memory with each processor, on nodes where it is short."""
    kinds = [
        asks(1, minutes=1),
        asks(2, minutes=2, memory=4),
        asks(1, minutes=3, memory=8),
        asks(1, minutes=INF, memory=4),
        asks(2, minutes=1, memory=4, single_node=True),
        asks(2, minutes=2, memory=4, exclusive=True),
    ]
    nodes = [node("a", 2, memory=8), node("b", 2, memory=12)]
    running = [
        [runs(1, asks(1, memory=held), ("a", 1), minutes_left=minutes)]
        for held, minutes in product((4, 8), (1, INF))
    ]
    return worlds_of(nodes, [[], *running], kinds)


def holding_of_nodes() -> Iterator[View]:
    """Yield jobs that hold memory, disk or swap of each of their nodes, where it is short."""
    kinds = [
        asks(1, minutes=1),
        asks(1, 2, minutes=2, held=HeldAmounts(memory=8)),
        asks(2, minutes=1, held=HeldAmounts(disk=4)),
        asks(1, minutes=INF, held=HeldAmounts(memory=4, swap=2)),
        asks(2, minutes=3, memory=2, held=HeldAmounts(memory=4)),
        asks(2, minutes=1, held=HeldAmounts(memory=8), exclusive=True),
    ]
    nodes = [node("a", 2, memory=12, disk=6, swap=2), node("b", 2, memory=8, disk=4)]
    running = [
        [runs(1, asks(1, 2, held=held), ("a", 1), minutes_left=minutes, wants=wants)]
        for held, minutes, wants in product(
            (HeldAmounts(memory=8), HeldAmounts(disk=4, swap=2)), (1, INF), (0, 1)
        )
    ]
    return worlds_of(nodes, [[], *running], kinds)


def lowering() -> Iterator[View]:
    """Yield jobs that may start with a lower run time limit, beside jobs that may not."""
    kinds = [
        asks(1, minutes=1),
        asks(2, minutes=2),
        asks(1, minutes=INF),
        asks(1, minutes=4, minimum_run_time=Seconds(MINUTE)),
        asks(1, 2, minutes=INF, minimum_run_time=Seconds(2 * MINUTE)),
        asks(3, minutes=3, minimum_run_time=Seconds(2 * MINUTE)),
        asks(2, minutes=3, exclusive=True, minimum_run_time=Seconds(MINUTE)),
        asks(
            2,
            minutes=9,
            minimum_run_time=Seconds(3 * MINUTE),
            alternatives=(asks(1, minutes=9, minimum_run_time=Seconds(2 * MINUTE)),),
        ),
    ]
    nodes = [node("a", 2), node("b", 2)]
    running = [[runs(1, asks(1), ("a", 1), minutes_left=minutes)] for minutes in (1, 2.5, 3, INF)]
    return worlds_of(nodes, [[], *running], kinds)


def on_graphics() -> Iterator[View]:
    """Yield jobs that count GPUs, with few processors each or many, beside jobs for processors."""
    kinds = [
        asks(2, minutes=2),
        on_gpus(1, minutes=1),
        on_gpus(2, minutes=2),
        on_gpus(1, 2, 3, each=2),
        on_gpus(2, minutes=1, each=2, single_node=True),
        on_gpus(2, exclusive=True),
    ]
    nodes = [node("a", 4, gpus=2), node("b", 2, gpus=1), node("c", 2)]
    running = [
        [runs(1, on_gpus(held, each=each), ("a", held * each), minutes_left=minutes)]
        for held, each, minutes in ((1, 1, 1), (1, 2, INF), (2, 1, 2))
    ]
    return worlds_of(nodes, [[], *running], kinds)


def particular() -> Iterator[View]:
    """Yield jobs that want one node, nodes by name or only some of them, among others that want any."""
    kinds = [
        asks(2, minutes=2),
        asks(3, minutes=1),
        asks(2, minutes=1, single_node=True),
        asks(1, minutes=2, unit=UnitType.NODE),
        asks(1, minutes=3, required_nodes=("a",)),
        asks(2, minutes=1, requested_nodes=("b", "c")),
    ]
    nodes = [node("a", 2), node("b", 2), node("c", 1)]
    running = [
        [],
        [runs(1, asks(1), ("a", 1), minutes_left=1), runs(2, asks(1), ("b", 1), minutes_left=2)],
        [runs(1, asks(2, exclusive=True), ("b", 2), minutes_left=1)],
    ]
    return worlds_of(nodes, running, kinds)


def choosing() -> Iterator[View]:
    """Yield jobs that would do with less, or with something else, and for how long; beside others."""
    kinds = [
        asks(3, minutes=1, alternatives=(asks(1, minutes=3),)),
        asks(2, minutes=2, alternatives=(asks(1),)),
        asks(2, alternatives=(asks(1, minutes=2),)),
        asks(4, minutes=1, alternatives=(asks(2, minutes=2, exclusive=True), asks(1, minutes=4))),
        asks(5, minutes=1, alternatives=(asks(3, minutes=2),)),
        asks(1, minutes=2),
    ]
    grounds: list[Sequence[NodeView]] = [
        [node("a", 3)],
        [node("a", 2), node("b", 2), node("c", 1, closed="paused")],
    ]
    for nodes in grounds:
        yield from worlds_of(nodes, busy(nodes), kinds)


def choosing_alike() -> Iterator[View]:
    """Yield jobs that would do with other numbers of processors, where only these count."""
    kinds = [
        asks(3, minutes=1, alternatives=(asks(1, minutes=3),)),
        asks(2, minutes=2, alternatives=(asks(2, minutes=1), asks(1, minutes=1))),
        asks(1, minutes=4, alternatives=(asks(4, minutes=1),)),
        asks(5, minutes=1, alternatives=(asks(4, minutes=2),)),
        asks(2, minutes=3),
    ]
    nodes = [node("a", 2), node("b", 2)]
    return worlds_of(
        nodes, [held for held in busy(nodes) if all(not job.request.exclusive for job in held)], kinds
    )


def under_switches() -> Iterator[View]:
    """Yield jobs that ask for nodes under few leaf switches, among others."""
    kinds = [
        asks(2, minutes=2),
        asks(2, 3, minutes=1),
        asks(2, minutes=2, unit=UnitType.NODE),
        asks(2, minutes=3, unit=UnitType.NODE, switches=1),
        asks(3, 4, minutes=2, switches=1),
        asks(3, minutes=1, switches=2, required_nodes=("b",)),
        gang(part(1, 2, apart=True), minutes=1, switches=1),
    ]
    nodes = [
        node("a", 2, switches="left top"),
        node("b", 2, switches="right top"),
        node("c", 2, switches="left top"),
        node("d", 1),
    ]
    running = [
        [],
        [runs(1, asks(1), ("a", 1), minutes_left=1), runs(2, asks(1), ("b", 1), minutes_left=2)],
        [runs(1, kinds[4], ("a", 2), ("c", 1), minutes_left=2, wants=1)],
    ]
    return worlds_of(nodes, running, kinds)


def contiguous() -> Iterator[View]:
    """Yield jobs that ask for nodes beside each other, among others."""
    kinds = [
        asks(2, minutes=2),
        asks(3, 4, minutes=2, contiguous=True),
        asks(2, minutes=3, unit=UnitType.NODE, contiguous=True),
        asks(3, minutes=1, contiguous=True, required_nodes=("b",)),
        gang(part(1, 2, apart=True), minutes=1, contiguous=True),
        asks(3, minutes=1, exclusive=True, contiguous=True),
    ]
    nodes = [node("d", 2), node("b", 1), node("c", 1), node("a", 2)]
    running = [
        [],
        [runs(1, asks(1), ("b", 1), minutes_left=1)],
        [runs(1, asks(1), ("c", 1), minutes_left=2), runs(2, asks(1), ("a", 1), minutes_left=1)],
        [runs(1, kinds[1], ("a", 2), ("b", 1), minutes_left=2, wants=1)],
    ]
    return worlds_of(nodes, running, kinds)


def gangs() -> Iterator[View]:
    """Yield jobs all of whose tasks start at once, on nodes that each asks for, among others."""
    kinds = [
        asks(2, minutes=2),
        asks(1, minutes=1),
        gang(part(1, features=(("big",),)), part(2), minutes=2),
        gang(part(1, 2, apart=True), part(1), minutes=1),
        gang(part(2), part(1, 1, excluded=("a",)), minutes=3, exclusive=True),
        gang(part(1, 3, spread=True)),
    ]
    return worlds_of(_big_and_small(), _on_big_and_small(), kinds)


def tasks_with_nodes_of_their_own() -> Iterator[View]:
    """Yield jobs whose tasks share what they hold, though not every task may use all nodes."""
    kinds = [
        asks(2, minutes=2),
        asks(1, 3, 1),
        asks(1, 3, 2, parts=(part(1, 1, features=(("big",),)),)),
        asks(2, 3, 1, parts=(part(1, 2, features=(("big",),)), part(1, 1, names=("c",)))),
        asks(2, minutes=3, parts=(part(1, 2, apart=True),)),
        asks(1, minutes=INF, exclusive=True, parts=(part(1, 1, lacking=("big",)),)),
    ]
    return worlds_of(_big_and_small(), _on_big_and_small(), kinds)


def _big_and_small() -> Sequence[NodeView]:
    return [node("a", 2, features=("Big",)), node("b", 2, features=("big",)), node("c", 1)]


def _on_big_and_small() -> Sequence[Sequence[RunningJob]]:
    return [
        [],
        [runs(1, asks(1), ("a", 1), minutes_left=1), runs(2, asks(1), ("b", 1), minutes_left=2)],
        [runs(1, gang(part(1), part(1)), ("b", 1), ("c", 1), minutes_left=2, wants=1)],
    ]


SMALL_WORLDS: Mapping[str, Worlds] = MappingProxyType(
    {
        "shared and exclusive": shared_and_exclusive,
        "growing": growing,
        "licensed": licensed,
        "limits of users": limiting,
        "limits of processor-minutes": timed,
        "limits of GPU-minutes": timed_on_graphics,
        "memory": remembering,
        "memory, disk and swap of nodes": holding_of_nodes,
        "GPUs": on_graphics,
        "particular nodes": particular,
        "gangs": gangs,
        "switches": under_switches,
        "contiguous": contiguous,
        "tasks with nodes of their own": tasks_with_nodes_of_their_own,
        "lower limits": lowering,
        "other requests": choosing,
        "other numbers of processors": choosing_alike,
    }
)
