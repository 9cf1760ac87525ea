"""Why no node that suits a job accepts it now, however many of its processors are free."""

from headnode.core.model.job import JobRequest
from headnode.core.model.node import natural_order
from headnode.core.scheduling.node_table import NodeTable, node_objection, rules_of
from headnode.core.scheduling.request import ResolvedRequest


def why_none_accepts(need: ResolvedRequest, request: JobRequest, node_table: NodeTable) -> str:
    """Say that no suitable node accepts the job now, and why the first does not; "" if one does."""
    rules, why = rules_of(request), dict[int, str]()
    for number, facts in enumerate(node_table.facts):
        if not node_objection(rules, facts):
            why[number] = _shut_by(need, request, node_table, number)
            if not why[number]:
                return ""
    if not why:
        return ""
    first = min(why, key=lambda number: natural_order(node_table.names[number]))
    told = f"{node_table.names[first]} {why[first]}"
    if all(node_table.closed[number] for number in why):
        one, all_ = (
            "the only suitable node accepts no new jobs",
            "none of the {} suitable nodes accepts new jobs",
        )
    else:
        one, all_ = (
            "the only suitable node does not accept the job now",
            "none of the {} suitable nodes accepts the job now",
        )
    return f"{one}: {told}" if len(why) == 1 else f"{all_.format(len(why))}; {told}"


def _shut_by(need: ResolvedRequest, request: JobRequest, node_table: NodeTable, number: int) -> str:
    if node_table.closed[number]:
        return f"is {node_table.closed[number]}"
    if node_table.closes_too_soon(number, request.run_time):
        return "closes before the job would end"
    return "is reserved" if need.access is not None and node_table.kept_from(number, need.access) else ""
