"""Whether what a plan gives is what its jobs may hold: for plans that our own placement code did not make."""

from collections.abc import Sequence

from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.board import Board, Fit
from headnode.core.scheduling.covering import is_bounded
from headnode.core.scheduling.decision import Grow, Plan, Shares, Start
from headnode.core.scheduling.lawful_parts import no_room_for_tasks, wrongly_divided
from headnode.core.scheduling.need import Need, growth_of, need_of
from headnode.core.scheduling.view import View

_Part = tuple[int, int]
"""A node's number and processors of it."""


def unlawful(plan: Plan, view: View) -> str:
    """Return the first thing given that may not be, or an empty string.

    Cost:  O(nodes + what is given).
    """
    terrain = view.terrain()
    board = Board.now(terrain, view.nodes, {name: free for name, (_, free) in view.licences.items()})
    running = {job.job: job for job in view.running}
    given: list[tuple[JobId, Start | Grow, Need | None]] = []
    for grow in plan.grows:
        job = running.pop(grow.job, None)
        given.append((grow.job, grow, None if job is None else growth_of(job, terrain)))
    waiting = {JobId(turn[2]): each.request for each in view.queue for turn in each.turns}
    for start in plan.starts:
        asked = _asked(waiting.pop(start.job, None), start.option)
        given.append((start.job, start, None if asked is None else need_of(asked, terrain)))
    for number, each, need in given:
        if need is None:
            return f"its plan gives something to job {number} twice, or the job waits for nothing"
        parts = each.parts if isinstance(each, Start) else ()
        wrong = may_not_have(need, each.allocation, board, parts)
        if wrong:
            return f"its plan gives job {number} {each.allocation!r}: {wrong}"
        board.put(need.piece(_parts(each.allocation, board)))
    return ""


def _asked(request: JobRequest | None, option: int) -> JobRequest | None:
    """Return what a waiting job asks for under an option; None when it has no such, or is not there."""
    if request is None or not 0 <= option <= len(request.others):
        return None
    return request.option(option)


def may_not_have(need: Need, shares: Shares, board: Board, divided: Sequence[Shares] = ()) -> str:
    """Return why these may not be held now, or an empty string if they may.

    `divided` says, for a gang, what of it is for each task.
    """
    known = board.terrain.numbers
    if not all(name.casefold() in known for each in (shares, *divided) for name, _ in each):
        return "a node that is not there"
    parts = _parts(shares, board)
    nodes = {number for number, _ in parts}
    if len(nodes) < len(parts):
        return "a node twice"
    if need.impossible or not any(nodes <= set(order) for order in need.alternatives):
        return "a node that is not eligible"
    for part in parts:
        if not _is_free(need, part, board):
            return f"{board.terrain.names[part[0]]!r} does not have that much free"
    return (
        _size(need, parts, board)
        or _for_tasks(need, parts, [_parts(each, board) for each in divided], board)
        or _licences(need, parts, board)
    )


def _for_tasks(need: Need, held: Fit, divided: Sequence[Fit], board: Board) -> str:
    if need.together or divided:
        return wrongly_divided(need, held, divided, board)
    units = {part[0]: _units(need, part, board) for part in held}
    return no_room_for_tasks(need, units, board) if need.parts else ""


def _parts(shares: Shares, board: Board) -> tuple[_Part, ...]:
    return tuple((board.terrain.numbers[name.casefold()], count) for name, count in shares)


def _is_free(need: Need, part: _Part, board: Board) -> bool:
    number, count = part
    if board.owned[number] or not 0 < count <= board.free[number] or not board.has(number, need.held):
        return False
    if need.whole:
        alone = count == board.terrain.processors[number] and board.is_idle(number)
        return alone and _units(need, part, board) > 0
    return count * need.memory <= board.memory[number] - need.held.memory


def _units(need: Need, part: _Part, board: Board) -> int:
    """Return what a part is worth; of a whole node, what its memory is enough for."""
    number, count = part
    room = count
    if need.memory:
        room = min(count, (board.memory[number] - need.held.memory) // need.memory)
    if need.unit is UnitType.NODE:
        return min(room, 1)
    if need.unit is UnitType.SOCKET:
        return room * board.terrain.sockets[number] // board.terrain.processors[number]
    return room


def _size(need: Need, parts: Sequence[_Part], board: Board) -> str:
    units = sum(_units(need, part, board) for part in parts)
    if units < need.minimum:
        return f"it needs at least {need.minimum}"
    if units > need.maximum and is_bounded(need):
        return f"it wants at most {need.maximum}"
    if need.single and len(parts) != 1:
        return "it wants one node"
    if not need.required <= {number for number, _ in parts}:
        return "it needs the nodes that its tasks name"
    alone = [
        part for part in parts if part[1] == board.terrain.processors[part[0]] and board.is_idle(part[0])
    ]
    if sum(_units(need, part, board) for part in alone) < need.share:
        return "too little of it is on nodes that it would have alone"
    return ""


def _licences(need: Need, parts: tuple[_Part, ...], board: Board) -> str:
    for feature, amount in need.licences(parts).items():
        if amount > board.licences.get(feature, amount):
            return f"too few licences {feature!r} are free"
    return ""
