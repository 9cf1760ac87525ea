"""What a stranger's plan may give, against the specification: every allocation in every small world."""

from itertools import product

import pytest

from depth import every, thinned
from headnode.core.model.job import Licence, UnitType
from headnode.core.scheduling.free_resources import FreeResources
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.plan import Grow, Plan, Shares
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.request import resolve
from headnode.core.scheduling.verify_plan import allocation_violation, plan_violation
from headnode.testing import Arrival, History, live, random_history
from headnode.testing.checking import MANNERS
from headnode.testing.specification import allowed

from .scenes import asks, node, runs, scene, start
from .test_placement_is_exact import as_world, grounds, requests


def test_exactly_what_the_specification_allows_is_lawful() -> None:
    seen = {True: 0, False: 0}
    for number, (request, nodes) in enumerate(thinned(product(list(requests()), list(grounds())))):
        if number % 7:
            continue
        licences = {"x": 3} if request.licences else {}
        node_table = NodeTable(nodes)
        resources, need = FreeResources.now(node_table, nodes, licences), resolve(request, node_table)
        world = as_world(nodes, licences)
        for shares in every_allocation(nodes):
            lawful = not allocation_violation(need, shares, resources)
            assert lawful == allowed(request, world, shares), (request, world, shares)
            seen[lawful] += 1
    assert min(seen.values()) > 1000 / every()


def every_allocation(nodes: dict[str, NodeView]) -> list[Shares]:
    """Return everything up to one processor more than there is."""
    counts = product(*(range(each.facts.processors + 2) for each in nodes.values()))
    found = [tuple((name, n) for name, n in zip(nodes, some, strict=True) if n) for some in counts]
    return [shares for shares in found if shares]


@pytest.mark.parametrize("policy", POLICIES)
def test_everything_our_policies_give_is_lawful(policy: str) -> None:
    histories = [random_history(manner, seed) for manner in MANNERS for seed in range(3)]
    sockets = [node("a", 4, sockets=2), node("b", 3, sockets=2)]
    wants = [
        asks(2, 3, 5, unit=UnitType.SOCKET),
        asks(1, minutes=3, unit=UnitType.SOCKET),
        asks(2, minutes=2),
    ]
    histories.append(
        History(sockets, [Arrival(job, wants[job % 3], job / 2, 2, wants=1) for job in range(1, 20)])
    )
    for history in histories:
        for moment in live(history, POLICIES[policy]):
            assert plan_violation(moment.plan, moment.view) == ""


@pytest.mark.parametrize(
    ("starts", "grows", "text"),
    [
        ([start(2, ("a", 1)), start(2, ("a", 1))], [], "twice"),
        ([start(9, ("a", 1))], [], "waits for nothing"),
        ([start(1, ("a", 1))], [], "waits for nothing"),
        ([], [Grow(1, (("a", 1),))], "waits for nothing"),
        ([], [Grow(5, (("a", 2),))], "at most 1"),
        ([start(2, ("a", 1), ("A", 1))], [], "a node twice"),
        ([start(2, ("z", 1))], [], "does not exist"),
        ([start(2, ("c", 1))], [], "that is not eligible"),
        ([start(2, ("b", 1))], [], "'b' does not have that much"),
        ([start(3, ("a", 1))], [], "'a' does not have that much"),
        ([start(2, ("a", 3)), start(4, ("a", 1))], [], "at most 1"),
        ([start(2, ("a", 1)), start(4, ("a", 1))], [], "licences 'x'"),
    ],
)
def test_what_is_not_lawful_is_named(starts: list[object], grows: list[Grow], text: str) -> None:
    nodes = [node("a", 4, memory=8), node("b", 1), node("c", 2, closed="paused")]
    solver = (Licence("x", 1),)
    running = [runs(1, asks(1), ("b", 1)), runs(5, asks(1, 2), ("a", 1), wants=1)]
    queue = [(2, asks(1, licences=solver)), (3, asks(1, memory=16)), (4, asks(1, minutes=1, licences=solver))]
    view = scene(nodes, running, queue, {"x": (1, 1)})
    assert text in plan_violation(Plan(tuple(starts), tuple(grows), {}), view)
