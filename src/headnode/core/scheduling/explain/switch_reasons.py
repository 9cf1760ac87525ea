"""Why a job waits that asks for nodes under few leaf switches, in words."""

from collections.abc import Iterator
from math import inf

from headnode.core.scheduling.free_resources import FreeResources
from headnode.core.scheduling.node_view import typed_span
from headnode.core.scheduling.placement import at_minimum, find_placement, node_offers
from headnode.core.scheduling.plan import Reason, Why
from headnode.core.scheduling.request import ResolvedRequest
from headnode.core.scheduling.switches import most_under, units_by_leaf


def too_many_switches(need: ResolvedRequest, resources: FreeResources) -> Iterator[Reason]:
    """Yield that the job would fit under more leaf switches than it asks for, and for how long it asks."""
    if find_placement(at_minimum(need._replace(switches=0)), resources) is None:
        return
    tree = resources.node_table.tree()
    most = max(
        most_under(units_by_leaf(tree, node_offers(need, resources, order)), need.switches)
        for order in need.alternatives
    )
    leaves = f"{need.switches} leaf switch" if need.switches == 1 else f"{need.switches} leaf switches"
    word = need.unit.word if need.minimum == 1 else f"{need.unit.word}s"
    needs = f"needs {need.minimum} {word} under at most {leaves}"
    there = f"at most {most} would fit now" if most else "none would fit now"
    until = "" if need.timeout == inf else f"; in {typed_span(need.timeout)} the job accepts any number"
    yield Reason(Why.SWITCHES, f"{needs}; {there}{until}")
