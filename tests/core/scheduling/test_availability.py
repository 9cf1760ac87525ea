"""The first slot of a request, against a search through every allocation at every instant something ends."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from math import inf
from typing import Any

import pytest

from depth import every, thinned
from headnode.core.model.job import HeldAmounts as OfNodes
from headnode.core.model.job import JobRequest, Licence, NodeGroupOp, UnitType
from headnode.core.model.quantities import Instant
from headnode.core.scheduling.availability import Availability
from headnode.core.scheduling.free_resources import FreeResources
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.placement import at_minimum, find_placement, shares
from headnode.core.scheduling.plan import Shares
from headnode.core.scheduling.release_profile import kinds_of
from headnode.core.scheduling.request import resolve
from headnode.core.scheduling.shadow_reservation import release_of
from headnode.core.scheduling.view import RunningJob, View
from headnode.testing import gang, part
from headnode.testing.held_shares import HeldShares, held_by_running, world
from headnode.testing.specification import FreeNode, World, allowed, ways

from .scenes import MINUTE, NOW, asks, node, on_gpus, runs, scene

Booked = tuple[JobRequest, float, Shares]
"""A reservation: what, in how many minutes, and where."""

REQUESTS = [
    *(asks(size, minutes=minutes) for size, minutes in product((1, 3, 5), (1, 3, inf))),
    asks(1, minutes=2, exclusive=True),
    asks(3, minutes=2, exclusive=True),
    asks(2, minutes=3, unit=UnitType.NODE),
    asks(3, minutes=1, unit=UnitType.NODE),
    asks(2, minutes=2, single_node=True),
    asks(2, minutes=2, single_node=True, memory=6),
    asks(3, minutes=2, memory=4),
    asks(1, minutes=2, memory=8),
    asks(2, minutes=2, memory=4, exclusive=True),
    asks(2, minutes=2, held=OfNodes(memory=6, disk=2)),
    asks(3, minutes=1, memory=2, held=OfNodes(disk=3)),
    asks(2, minutes=2, required_nodes=("b",)),
    asks(2, minutes=2, required_nodes=("a", "c")),
    asks(2, minutes=2, requested_nodes=("b", "c")),
    asks(3, minutes=2, node_share=2),
    asks(3, minutes=2, node_share=2, requested_nodes=("a", "b")),
    asks(1, minutes=2, licences=(Licence("x", 2),)),
    asks(2, minutes=2, licences=(Licence("x", None),)),
    asks(2, minutes=2, node_groups=("g", "h"), node_group_op=NodeGroupOp.UNIFORM),
    asks(3, minutes=2, node_groups=("h", "g"), node_group_op=NodeGroupOp.UNIFORM),
    asks(2, 4, 2),
    asks(2, 4, 2, start_at_maximum=True),
    gang(part(1), part(2), minutes=2),
    gang(part(1, 2, apart=True), part(1, excluded=("b",)), minutes=2),
    gang(part(1, 2), part(1, group="g"), minutes=3),
    gang(part(2), part(1), minutes=2, exclusive=True),
    gang(part(1, 2), part(1), minutes=2, unit=UnitType.NODE),
    gang(part(2), minutes=2, memory=4, licences=(Licence("x", 1),)),
    gang(part(1, required_nodes=("b",)), part(1, whole=True), minutes=2),
    asks(2, 4, 2, parts=(part(1, 2, group="g"), part(1, names=("b",)))),
    asks(1, 3, 2, parts=(part(1, 2, apart=True),)),
    on_gpus(1, minutes=2, each=2),
    on_gpus(2, minutes=3),
    on_gpus(1, 2, 1, memory=6),
    on_gpus(1, minutes=2, single_node=True),
    on_gpus(2, minutes=2, exclusive=True),
    gang(part(1, 2), minutes=2, unit=UnitType.GPU, processors_per_gpu=1),
    asks(3, minutes=1, contiguous=True),
    asks(2, minutes=3, unit=UnitType.NODE, contiguous=True),
    asks(2, minutes=2, contiguous=True, requested_nodes=("a", "c")),
    asks(3, minutes=2, contiguous=True, memory=2),
    asks(2, minutes=2, contiguous=True, held=OfNodes(disk=3)),
    asks(3, minutes=1, contiguous=True, licences=(Licence("x", None),)),
    asks(2, minutes=1, contiguous=True, required_nodes=("b",)),
    asks(3, minutes=1, contiguous=True, node_groups=("g", "h"), node_group_op=NodeGroupOp.UNIFORM),
    gang(part(1, 2, apart=True), minutes=1, contiguous=True),
    on_gpus(3, minutes=2, contiguous=True),
]
NODES = [
    node("a", 2, memory=8, disk=4, groups=("g",), gpus=1),
    node("b", 2, memory=12, disk=3, groups=("h",), gpus=2),
    node("c", 1, memory=4, groups=("g", "h")),
]
ALIKE = [node(name, 2, memory=8, disk=4, gpus=1) for name in "abc"]


def worlds(nodes: Sequence[NodeView]) -> Iterator[tuple[View, list[Booked]]]:
    """Yield what runs and what is reserved."""
    first = asks(1, memory=4, licences=(Licence("x", 1),))
    last = nodes[-1].facts
    running: list[list[RunningJob]] = [
        [],
        [runs(1, first, ("a", 1), minutes_left=2)],
        [
            runs(1, first, ("a", 1), minutes_left=1),
            runs(2, asks(2, exclusive=True), ("b", 2), minutes_left=2),
        ],
        [runs(1, first, ("a", 1)), runs(2, asks(1), ("b", 1), minutes_left=3)],
        [
            runs(1, asks(2), ("a", 1), ("b", 1), minutes_left=0),
            runs(2, asks(1), (last.name, 1), minutes_left=2),
        ],
    ]
    running.append([runs(1, asks(1, exclusive=True), ("a", 1), minutes_left=2), runs(2, asks(1), ("b", 1))])
    in_parts = [runs(1, asks(1), ("b", 1), minutes_left=1), runs(2, asks(1), ("b", 1), minutes_left=4)]
    on_a_gpu = runs(1, on_gpus(1), ("b", 1), minutes_left=3)
    running += [[on_a_gpu], [on_a_gpu, runs(2, on_gpus(1), ("a", 1))]]
    running += [in_parts, [*in_parts, runs(3, asks(1), (last.name, 1), minutes_left=4)]]
    booked: list[list[Booked]] = [
        [],
        [(asks(1, minutes=2), 3, (("a", 1),))],
        [
            (asks(2, minutes=1, exclusive=True), 4, (("b", 2),)),
            (asks(2, minutes=2, memory=4), 6, (("a", 2),)),
        ],
        [(asks(1, minutes=3, licences=(Licence("x", 2),)), 3, (("b", 1),))],
        [(asks(1, minutes=inf), 5, (("a", 1),))],
        [(on_gpus(1, minutes=2), 4, (("a", 1),))],
        [(asks(1, minutes=2), 2, (("a", 1),))],
    ]
    for held, wanted in product(running, booked):
        view = scene(nodes, held, (), {"x": (2, 2 - sum(len(job.request.licences) for job in held))})
        reserved: list[Booked] = []
        for each in wanted:
            if fits(view, reserved, each[0], NOW + each[1] * MINUTE, each[2]):
                reserved.append(each)
        yield view, reserved


@pytest.mark.parametrize("nodes", [NODES, ALIKE], ids=["nodes of several sizes", "equal nodes"])
def test_the_first_slot_is_the_earliest_there_is(nodes: list[NodeView]) -> None:
    """All kinds are told apart here, by somebody who wants one node; so names are never examples."""
    later = 0
    for (view, reserved), request in thinned(product(list(worlds(nodes)), REQUESTS)):
        availability = booked_out(view, reserved, [request, asks(1, single_node=True)])
        need = resolve(request, view.node_table())
        slot = availability.first_fit(need, request.run_time, NOW)
        at = earliest(view, reserved, request)
        assert (None if slot is None else slot.at) == at, (request, view, reserved)
        if slot is not None:
            where = shares(slot.fit, view.node_table())
            assert fits(view, reserved, request, slot.at, where), (request, view, reserved, where)
            later += slot.at > NOW
    assert later > 100 / every()


@pytest.mark.parametrize("nodes", [NODES, ALIKE], ids=["nodes of several sizes", "equal nodes"])
def test_no_slot_is_found_where_it_is_not_wanted(nodes: list[NodeView]) -> None:
    for (view, reserved), request in thinned(product(list(worlds(nodes)), REQUESTS[::3])):
        availability = booked_out(view, reserved, [request, asks(1, single_node=True)])
        need = resolve(request, view.node_table())
        at = earliest(view, reserved, request)
        if at is not None:
            assert availability.first_fit(need, request.run_time, NOW, until=at) is None
            assert availability.first_fit(need, request.run_time, NOW, until=at + 1) is not None
            after = availability.first_fit(need, request.run_time, NOW + 2 * MINUTE)
            assert after is None or after.at >= NOW + 2 * MINUTE


def test_a_slot_that_cannot_be_earlier_by_counts_has_no_earlier_one() -> None:
    """Something was in the way when the slot was found, and is given back after it."""
    found = {True: 0, False: 0}
    for (view, reserved), request in thinned(product(list(worlds(NODES)), REQUESTS)):
        if not reserved or request.unit is UnitType.NODE:
            continue
        availability = booked_out(view, reserved, [request, asks(1, single_node=True)])
        need = resolve(request, view.node_table())
        slot = availability.first_fit(need, request.run_time, NOW)
        if slot is None:
            continue
        piece = need.piece(slot.fit)
        availability.take(piece, slot.at, slot.at + request.run_time)
        for other, minutes, where in reserved:
            start = NOW + minutes * MINUTE
            availability.give(piece_of(view, other, where), start, start + other.run_time)
        may_be = availability.may_be_earlier(need, request.run_time, slot)
        availability.give(piece, slot.at, slot.at + request.run_time)
        earlier = availability.first_fit(need, request.run_time, NOW, slot.at)
        assert may_be or earlier is None, (request, view, reserved)
        found[may_be] += 1
    assert min(found.values()) > 20 / every(), found


MANY = [node(f"n{number:02}", 2, memory=8, disk=4, gpus=2) for number in range(20)]
"""So many that counts of all kinds are asked first."""


def _asks_beside(dice: random.Random, takes: str) -> dict[str, Any]:
    """Return what a request asks beside processors, of which counts tell whether it fits."""
    if takes == "GPUs":
        return {"unit": UnitType.GPU, "processors_per_gpu": dice.choice((1, 2))}
    if takes == "memory":
        held = dice.choice((OfNodes(), OfNodes(memory=2, disk=3)))
        return {"memory": dice.choice((2, 4, 6)), "held": held, "unit": dice.choice(list(UnitType)[:2])}
    return {"unit": dice.choice(list(UnitType)[:3]), "exclusive": dice.random() < 0.2}


@pytest.mark.parametrize("takes", ["processors", "memory", "GPUs"])
@pytest.mark.parametrize("contiguous", [False, True])
def test_counts_that_refuse_a_request_are_right_on_many_nodes(takes: str, *, contiguous: bool) -> None:
    """Jobs behind those with reservations ask for now, those with a slot whether there is an earlier one."""
    found = Counter[str]()
    for seed in range(400 // every()):
        dice = random.Random(seed)
        busy = dice.sample(range(20), dice.randint(12, 20))
        running = [
            runs(job, holds, (f"n{at:02}", size), minutes_left=dice.choice((1, 2, 4, 6, inf)))
            for job, at in enumerate(busy)
            for size in [dice.randint(1, 2)]
            for holds in [on_gpus(size) if takes == "GPUs" else asks(size, memory=dice.choice((0, 2, 4)))]
        ]
        more = _asks_beside(dice, takes)
        request = asks(dice.randint(1, 8), minutes=dice.choice((1, 2, 5)), contiguous=contiguous, **more)
        view = scene(MANY, running)
        availability = booked_out(view, [], [request, asks(1, single_node=True)])
        need, run_time = resolve(request, view.node_table()), request.run_time
        free = availability.resources(need, NOW, NOW + run_time)
        lasts = find_placement(at_minimum(need), free) is not None
        assert availability.may_last(need, NOW + run_time) == lasts, seed
        slot = availability.first_fit(need, run_time, Instant(NOW + dice.randint(0, 5) * MINUTE))
        found[f"lasts: {lasts}"] += 1
        if slot is None or slot.at == NOW:
            continue
        availability.take(need.piece(slot.fit), slot.at, slot.at + run_time)
        may = availability.fits_earlier(need, run_time, NOW, slot)
        availability.give(need.piece(slot.fit), slot.at, slot.at + run_time)
        assert may == (availability.first_fit(need, run_time, NOW, slot.at) is not None), seed
        found[f"earlier: {may}"] += 1
    assert len(found) == 4, found
    assert min(found.values()) > 5 / every(), found


def test_a_slot_on_equal_nodes_names_those_that_the_placement_would_choose() -> None:
    later = 0
    wanted = [*REQUESTS[:11], asks(2, minutes=3, unit=UnitType.NODE)]
    for (view, reserved), request in thinned(product(list(worlds(ALIKE)), wanted)):
        availability = booked_out(view, reserved, [request])
        need = resolve(request, view.node_table())
        slot = availability.first_fit(need, request.run_time, NOW)
        if slot is not None and slot.at > NOW:
            free = availability.resources(need, slot.at, slot.at + request.run_time)
            assert slot.fit == find_placement(at_minimum(need), free), (request, view, reserved)
            later += 1
    assert later > 100 / every()


def test_a_slot_moves_up_to_where_it_would_be_found_anew() -> None:
    """Reservations were in the way when it was found, and are given back."""
    shown: Counter[str] = Counter()
    for (view, reserved), request in product(list(worlds(ALIKE)), REQUESTS[:9]):
        one, two = (booked_out(view, reserved, [request]) for _ in range(2))
        need, run_time = resolve(request, view.node_table()), request.run_time
        slot = one.first_fit(need, run_time, NOW)
        if slot is None or slot.at == NOW:
            continue
        for each in (one, two):
            each.take(need.piece(slot.fit), slot.at, slot.at + run_time)
            for other, minutes, where in reserved:
                start = NOW + minutes * MINUTE
                each.give(piece_of(view, other, where), start, start + other.run_time)
        moved = one.move_up(need, run_time, slot)
        two.give(need.piece(slot.fit), slot.at, slot.at + run_time)
        found = two.first_fit(need, run_time, NOW, slot.at) or slot
        apart = any(other.exclusive or other.memory or other.processors_per_gpu for other, _, _ in reserved)
        assert (moved is None) == (found.at == NOW or run_time == inf or apart), (request, view, reserved)
        assert moved in (None, found), (request, view, reserved)
        found = moved or slot
        two.take(need.piece(found.fit), found.at, found.at + run_time)
        for start, end in product((0, 30, 90, 180, 400), (30, 200, inf)):
            free = [each.resources(need, NOW + start, NOW + start + end).free for each in (one, two)]
            assert free[0] == free[1], (request, view, reserved)
        shown["none" if moved is None else "stays" if moved == slot else "moves"] += 1
    assert min(shown.values()) > 5, shown


def test_what_was_taken_and_given_back_leaves_no_trace() -> None:
    for view, reserved in worlds(NODES):
        plain = booked_out(view, [], REQUESTS)
        other = booked_out(view, reserved, REQUESTS)
        for request, minutes, where in reserved:
            start, piece = NOW + minutes * MINUTE, piece_of(view, request, where)
            other.give(piece, start, start + request.run_time)
        needs = [resolve(request, view.node_table()) for request in REQUESTS]
        for start, end, need in product((0, 90, 180, 400), (30, 200, inf), needs):
            one, two = (
                plain.resources(need, NOW + start, NOW + start + end),
                other.resources(need, NOW + start, NOW + start + end),
            )
            assert (one.free, one.amounts, one.licences) == (two.free, two.amounts, two.licences)


def test_a_job_over_its_limit_is_expected_to_end_soon_but_not_now() -> None:
    view = scene([node("a", 2)], [runs(1, asks(2), ("a", 2), minutes_left=-5)])
    slot = booked_out(view, [], [asks(1)]).first_fit(resolve(asks(1), view.node_table()), 60, NOW)
    assert slot is not None
    assert NOW < slot.at <= NOW + 1


def test_memory_that_comes_back_when_a_reservation_takes_the_processor_is_seen() -> None:
    running = runs(1, asks(1, memory=8), ("a", 1), minutes_left=1)
    view = scene([node("a", 2, memory=8)], [running])
    wanted = asks(1, minutes=1, memory=4)
    availability = booked_out(view, [(asks(1, minutes=2), 1, (("a", 1),))], [wanted])
    slot = availability.first_fit(resolve(wanted, view.node_table()), wanted.run_time, NOW)
    assert slot is not None
    assert slot.at == NOW + MINUTE


def booked_out(view: View, reserved: Sequence[Booked], requests: Sequence[JobRequest]) -> Availability:
    """Return what is free with these reservations taken out."""
    node_table = view.node_table()
    needs = [resolve(each, node_table) for each in [*requests, *(request for request, _, _ in reserved)]]
    resources = FreeResources.now(
        node_table, view.nodes, {name: free for name, (_, free) in view.licences.items()}
    )
    releases = [release_of(job, view.now, node_table) for job in view.running]
    availability = Availability(view.now, resources, kinds_of(node_table, needs), releases, amounts=True)
    for request, minutes, where in reserved:
        start, piece = NOW + minutes * MINUTE, piece_of(view, request, where)
        assert availability.has_room(piece, start, start + request.run_time)
        availability.take(piece, start, start + request.run_time)
    return availability


def piece_of(view: View, request: JobRequest, where: Shares):
    """Return what a reservation takes."""
    node_table = view.node_table()
    return resolve(request, node_table).piece(tuple((node_table.numbers[name], n) for name, n in where))


def earliest(view: View, reserved: Sequence[Booked], request: JobRequest) -> float | None:
    """Return the first instant with a way to hold the minimum all the time."""
    ends = [job.end for job in view.running] + [
        NOW + minutes * MINUTE + what.run_time for what, minutes, _ in reserved
    ]
    instants = sorted({NOW, *(end if end > NOW else NOW + 1.0 for end in ends if end < inf)})
    for at in instants:
        if any(
            fits(view, reserved, request, at, way) for way in ways(request, at_instant(view, reserved, at))
        ):
            return at
    return None


def fits(view: View, reserved: Sequence[Booked], request: JobRequest, at: float, where: Shares) -> bool:
    """Return whether this can be held from an instant until the request's limit."""
    starts = [NOW + minutes * MINUTE for _, minutes, _ in reserved]
    instants = [at, *(start for start in starts if at < start < at + request.run_time)]
    return all(allowed(request, at_instant(view, reserved, instant), where) for instant in instants)


def at_instant(view: View, reserved: Sequence[Booked], at: float) -> World:
    """Return the nodes as they are expected to be then."""
    held = [each for each in held_by_running(view) if (each.end if each.end > NOW else NOW + 1.0) > at]
    for job, (request, minutes, where) in enumerate(reserved, start=100):
        start = NOW + minutes * MINUTE
        if start <= at < start + request.run_time:
            held.append(HeldShares(start, 0, job, request, where))
    grounds, licences = world(
        view, [each._replace(processors=sum(n for _, n in each.shares)) for each in held]
    )
    return tuple(FreeNode(*each) for each in grounds), licences
