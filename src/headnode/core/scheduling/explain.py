"""The full story of why a job waits, node by node.

Asks the same placement code as the pass did, on the board as the plan leaves it.
"""

from collections.abc import Iterator

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.board import Board, Piece
from headnode.core.scheduling.decision import Plan, Reason, Shares, Why
from headnode.core.scheduling.need import need_of
from headnode.core.scheduling.reasons import node_by_node
from headnode.core.scheduling.terrain import Terrain
from headnode.core.scheduling.view import View


def explain(view: View, plan: Plan, request: JobRequest) -> tuple[Reason, ...]:
    """Return every reason why jobs of this request wait; nothing if the plan lets none of them wait.

    `plan` must have been made from `view`.
    Cost:  O(nodes + starts).
    """
    wait = plan.waits.get(request)
    if wait is None:
        return ()
    board = _board_after(view, plan)
    told = tuple(reason for reason in wait.reasons if reason.why is not Why.NODE or not reason.what)
    return (*told, *node_by_node(need_of(request, board.terrain), request, board))


def _board_after(view: View, plan: Plan) -> Board:
    """Return the nodes as the plan leaves them; what licences remain, the pass itself has told."""
    terrain = Terrain(view.nodes)
    board = Board.now(terrain, view.nodes, {})
    for request, allocation in _given(view, plan):
        fit = tuple((terrain.numbers[name.casefold()], taken) for name, taken in allocation)
        board.put(Piece(fit, request.exclusive, {}))
    return board


def _given(view: View, plan: Plan) -> Iterator[tuple[JobRequest, Shares]]:
    started = {start.job: start.allocation for start in plan.starts}
    for waiting in view.queue:
        for turn in waiting.turns:
            if JobId(turn[2]) not in started:
                break  # the jobs of a class start in turn
            yield waiting.request, started[JobId(turn[2])]
    requests = {running.job: running.request for running in view.running}
    for grow in plan.grows:
        yield requests[grow.job], grow.allocation
