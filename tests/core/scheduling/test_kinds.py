"""Which nodes a plan need not tell apart."""

import pytest

from headnode.core.model.job import JobRequest, Licence, NodeGroupOp, UnitType
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.release_profile import kinds_of
from headnode.core.scheduling.request import resolve
from headnode.testing import gang, part

from .scenes import asks, node

WHOLE, PARTS = asks(1, exclusive=True), asks(1)


def kinds(*requests: JobRequest) -> list[tuple[str, bool]]:
    """Return the kinds of three equal nodes and a larger one, and which are counted in whole nodes."""
    nodes = [*(node(name, 4, sockets=2, groups=("g", "h")) for name in "abc"), node("d", 8)]
    node_table = NodeTable({each.facts.name: each for each in nodes})
    found = kinds_of(node_table, [resolve(each, node_table) for each in requests])
    assert [found.all[found.of[number]].nodes.count(number) for number in range(4)] == [1, 1, 1, 1]
    return [("".join(node_table.names[number] for number in kind.nodes), kind.whole) for kind in found.all]


@pytest.mark.parametrize(
    ("requests", "texts"),
    [
        ([], [("abc", False), ("d", False)]),
        ([PARTS, asks(7, 9, 5)], [("abc", False), ("d", False)]),
        ([WHOLE, asks(2, unit=UnitType.NODE)], [("abc", True), ("d", False)]),
        ([asks(1, licences=(Licence("x", 1),))], [("abc", False), ("d", False)]),
        ([asks(1, exclusive=True, memory=4)], [("abc", True), ("d", False)]),
        ([asks(1, requested_nodes=("a", "b", "c"))], [("abc", False), ("d", False)]),
        ([asks(1, requested_nodes=("d",)), WHOLE], [("abc", True), ("d", False)]),
        ([gang(part(1, 3), part(1, 2, group="g"))], [("abc", False), ("d", False)]),
        ([gang(part(2, 3), part(1), exclusive=True)], [("abc", True), ("d", False)]),
        ([asks(1, 9, parts=(part(1, 3, lacking=("x",)),))], [("abc", False), ("d", False)]),
        ([gang(part(1, 3, names=("a", "b", "c")))], [("abc", False), ("d", False)]),
    ],
)
def test_equal_nodes_are_counted_where_only_their_number_matters(
    requests: list[JobRequest], texts: list[tuple[str, bool]]
) -> None:
    assert kinds(*requests) == texts


@pytest.mark.parametrize(
    "request_",
    [
        asks(1, single_node=True),
        asks(1, node_share=1),
        asks(1, required_nodes=("a",)),
        asks(1, required_nodes=("d",)),
        asks(1, memory=4),
        asks(1, unit=UnitType.SOCKET),
        asks(1, requested_nodes=("a", "b")),
        asks(1, excluded_nodes=("c",)),
        asks(1, node_groups=("g", "h"), node_group_op=NodeGroupOp.UNIFORM),
        gang(part(2)),
        gang(part(1, 2, apart=True)),
        gang(part(1, whole=True)),
        gang(part(1), part(1, excluded=("a",))),
        gang(part(1, names=("a",)), part(1), exclusive=True),
        asks(1, 9, parts=(part(1, 2, patterns=("[ab]",)),)),
    ],
)
@pytest.mark.parametrize("beside", [[], [PARTS]])
def test_they_are_told_apart_where_it_matters_which(request_: JobRequest, beside: list[JobRequest]) -> None:
    assert kinds(*beside, request_)[:3] == [("a", False), ("b", False), ("c", False)]
    assert kinds(request_, *beside)[:3] == [("a", False), ("b", False), ("c", False)]


def test_they_are_told_apart_where_wholes_and_parts_meet() -> None:
    assert kinds(WHOLE, PARTS) == [("a", False), ("b", False), ("c", False), ("d", False)]
