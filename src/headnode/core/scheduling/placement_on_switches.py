"""Where a job fits that asks for nodes under at most so many leaf switches.

Exact where units are counted: the switches with the most of them are tried.  A job whose tasks need nodes of
their own, whose licences or owned nodes count, or of a gang tries sets of leaf switches, with a bound.
"""

from collections.abc import Callable, Iterator

from headnode.core.scheduling.free_resources import FreeResources, Placement
from headnode.core.scheduling.node_table import NodeOrder
from headnode.core.scheduling.request import ResolvedRequest
from headnode.core.scheduling.switches import (
    Offers,
    fewest_leaves,
    leaves_used,
    most_under,
    sets_of_leaves,
    units_by_leaf,
)

Find = Callable[[ResolvedRequest, FreeResources], Placement | None]
Offer = Callable[[ResolvedRequest, FreeResources, NodeOrder], Offers]
"""What `placement` calls `find_placement` and `node_offers`."""


def find_under_switches(
    need: ResolvedRequest, resources: FreeResources, find: Find, offer: Offer
) -> Placement | None:
    """Return what `find_placement` finds on nodes under at most `need.switches` leaf switches, or None.

    Of several alternatives and sets of switches the one that gives most wins, then the first.
    """
    tree = resources.node_table.tree()
    free = need._replace(switches=0)
    best: Placement | None = None
    for order in need.alternatives:
        if leaves_used(tree, order) <= need.switches:
            orders: Iterator[NodeOrder] = iter((order,))
        else:
            orders = _restricted(need, resources, order, offer)
        for some in orders:
            found = find(free._replace(alternatives=(some,)), resources)
            if found is not None and (best is None or _size(found) > _size(best)):
                best = found
    return best


def _size(placement: Placement) -> int:
    return sum(processors for _, processors in placement)


def _restricted(
    need: ResolvedRequest, resources: FreeResources, order: NodeOrder, offer: Offer
) -> Iterator[NodeOrder]:
    """Yield the nodes of sets of leaf switches that may hold the need."""
    tree = resources.node_table.tree()
    units = units_by_leaf(tree, offer(need, resources, order))
    most = most_under(units, need.switches)
    if most < need.minimum:
        return
    plain = not (need.parts or need.share or need.required or need.each or need.timed or need.single)
    if plain and not need.together:
        chosen = fewest_leaves(tree, units, min(most, need.maximum))
        yield tuple(node for node in order if tree.leaf_of[node] in chosen)
        return
    for leaves in sets_of_leaves(tree, units, need.minimum, need.switches, need.required):
        yield tuple(node for node in order if tree.leaf_of[node] in leaves)
