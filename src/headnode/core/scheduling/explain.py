"""The full story of why a job waits, node by node.

Asks the same placement code as the pass did, on the nodes as the plan leaves them.
"""

from bisect import bisect_left
from collections.abc import Iterator

import msgspec

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.board import Board
from headnode.core.scheduling.decision import Plan, Reason, Shares, Why
from headnode.core.scheduling.need import held_with, need_of
from headnode.core.scheduling.reasons import node_by_node
from headnode.core.scheduling.terrain import Terrain
from headnode.core.scheduling.view import NodeView, Turn, View


def explain(view: View, plan: Plan, request: JobRequest) -> tuple[Reason, ...]:
    """Return every reason why jobs of this request wait; nothing if the plan lets none of them wait.

    `plan` must have been made from `view`.
    Cost:  O(nodes + starts).
    """
    wait = plan.waits.get(request)
    if wait is None:
        return ()
    nodes = _nodes_after(view, plan)
    terrain = Terrain(nodes)
    board = Board.now(terrain, nodes, {})  # what licences remain, the pass itself has told
    told = tuple(reason for reason in wait.reasons if reason.why is not Why.NODE or not reason.what)
    return (*told, *node_by_node(need_of(request, terrain), request, board))


def first_ahead(view: View, turn: Turn, most: int) -> tuple[list[Turn], int]:
    """Return the first `most` turns that queue before this one, and how many there are in all.

    Cost:  O(classes * (most + log(jobs of a class))).
    """
    count = 0
    first: list[Turn] = []
    for waiting in view.queue:
        ahead = bisect_left(waiting.turns, turn)
        count += ahead
        first += waiting.turns[: min(ahead, most)]
    return sorted(first)[:most], count


def _nodes_after(view: View, plan: Plan) -> dict[str, NodeView]:
    """Return the nodes as the plan leaves them."""
    nodes = dict(view.nodes)
    known = {name.casefold(): name for name in nodes}
    grown = {grow.job for grow in plan.grows}
    for job, request, allocation in _given(view, plan):
        for name, taken in allocation:
            own = known[name.casefold()]
            held = held_with(nodes[own], request, taken, first=job not in grown)
            nodes[own] = _held(held, job, request, taken)
    return nodes


def _held(node: NodeView, job: JobId, request: JobRequest, taken: int) -> NodeView:
    return msgspec.structs.replace(
        node,
        free=node.free - taken,
        jobs=node.jobs + 1,
        exclusive_to=job if request.exclusive else node.exclusive_to,
    )


def _given(view: View, plan: Plan) -> Iterator[tuple[JobId, JobRequest, Shares]]:
    started = {start.job: start for start in plan.starts}
    for waiting in view.queue:
        for turn in waiting.turns:
            job = JobId(turn[2])
            if job not in started:
                break  # the jobs of a class start in turn
            start = started[job]
            yield job, waiting.request.option(start.option), start.allocation
    requests = {running.job: running.request for running in view.running}
    for grow in plan.grows:
        yield grow.job, requests[grow.job], grow.allocation
