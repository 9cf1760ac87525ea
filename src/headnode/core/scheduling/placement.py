"""Where a job fits: the one piece of code that answers it, for starting, growing, reserving and explaining.

Exact for the minimum: if there is any way to give a job its minimum, one is found.  So a job that fits
still fits when more is free, and one that does not still does not when less is.  For gangs and for tasks
with nodes of their own see `gangs.laying`, `gangs.gang` and `covering`, which say where they have a bound.

Source: CCS, "Exclusive scheduling" and "Resource sorting"; HPC Pack job properties.
"""

from bisect import bisect_right
from collections.abc import Mapping
from math import inf

from headnode.core.model.held import NOTHING_HELD
from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.board import Board, Divided, Fit
from headnode.core.scheduling.covering import covered
from headnode.core.scheduling.decision import Shares, Start
from headnode.core.scheduling.gangs.gang import gang_on
from headnode.core.scheduling.lawful import may_not_have
from headnode.core.scheduling.need import Need, need_of, processors_for
from headnode.core.scheduling.terrain import Order, Terrain
from headnode.core.scheduling.thrift import Offer, thriftiest
from headnode.core.scheduling.view import NodeView

_NONE: Mapping[str, tuple[int, int]] = {}


def place(
    request: JobRequest, nodes: Mapping[str, NodeView], licences: Mapping[str, tuple[int, int]] = _NONE
) -> Shares | None:
    """Return where a job of this request would run now, or None; `explain` says why not.

    `licences` are (in all, free) by feature, as in a `View`.
    """
    terrain = Terrain(nodes)
    board = Board.now(terrain, nodes, {feature: free for feature, (_, free) in licences.items()})
    found = fit(need_of(request, terrain), board)
    return None if found is None else shares(found, terrain)


def start_now(
    job: JobId,
    request: JobRequest,
    nodes: Mapping[str, NodeView],
    licences: Mapping[str, tuple[int, int]] = _NONE,
) -> Start | None:
    """Return how a job would start now under the first of its options that fits, or None if none does.

    For a gang it says what is for which task.
    """
    terrain = Terrain(nodes)
    board = Board.now(terrain, nodes, {feature: free for feature, (_, free) in licences.items()})
    for option in range(len(request.others) + 1):
        found = fit(need_of(request.option(option), terrain), board)
        if found is not None:
            return Start(job, shares(found, terrain), None, option, part_shares(found, terrain))
    return None


def shares(found: Fit, terrain: Terrain) -> Shares:
    """Return a fit with the names of its nodes."""
    return tuple((terrain.names[number], processors) for number, processors in found)


def part_shares(found: Fit, terrain: Terrain) -> tuple[Shares, ...]:
    """Return what each part of a gang has of a fit, in the order of its tasks; nothing for other jobs."""
    return tuple(shares(part, terrain) for part in found.parts) if isinstance(found, Divided) else ()


def fit(need: Need, board: Board) -> Fit | None:
    """Return the nodes and processors to take: the most there is up to the maximum, or None.

    Of several alternatives (single nodes, uniform groups) the one that gives most wins, then the first.
    What a gang takes is `Divided`.
    """
    room = licence_room(need, board)
    if need.impossible or room < 1:
        return None
    if need.together:
        return _fit_gang(need, board, room)
    best: list[Offer] = []
    for order in need.alternatives:
        chosen = _on_one_node(need, board, order, room) if need.single else _choose(need, board, order, room)
        if chosen and _units(chosen) > _units(best):
            best = chosen
    return tuple((number, processors_for(need, number, units, board)) for number, units in best) or None


def fit_again(need: Need, board: Board, promised: Fit) -> Fit | None:
    """Return what fits, or else what was promised: a search with a bound may not find it a second time."""
    found = fit(need, board)
    if found is not None or not isinstance(promised, Divided):
        return found
    terrain = board.terrain
    wrong = may_not_have(need, shares(promised, terrain), board, part_shares(promised, terrain))
    return None if wrong else promised


def _fit_gang(need: Need, board: Board, room: float) -> Divided | None:
    for order in need.alternatives:
        there = offers(need, board, order)
        for some in [[offer] for offer in there] if need.single else [there]:
            found = gang_on(need, board, some, room)
            if found is not None:
                return found
    return None


def fewest(need: Need) -> Need:
    """Return the need of a job that will do with its minimum."""
    return need._replace(maximum=need.minimum)


def offers(need: Need, board: Board, order: Order) -> list[Offer]:
    """Return which nodes have something for this need now, and how many units of it."""
    if need.held:
        order = tuple([number for number in order if board.has(number, need.held)])
    if need.memory:
        return _offers_with_memory(need, board, order)
    free, jobs, owned, size = board.free, board.jobs, board.owned, board.terrain.processors
    if need.whole:
        whole = board.terrain.units[need.unit]
        return [(n, whole[n]) for n in order if free[n] == size[n] and not jobs[n] and not owned[n]]
    if need.unit is UnitType.SOCKET:
        sockets = board.terrain.sockets
        return [(n, units) for n in order if (units := free[n] * sockets[n] // size[n]) > 0 and not owned[n]]
    return [(n, units) for n in order if (units := free[n]) > 0 and not owned[n]]


def _offers_with_memory(need: Need, board: Board, order: Order) -> list[Offer]:
    """Return what nodes have processors and memory for; a whole node is only worth what its memory allows."""
    terrain, found = board.terrain, []
    units = terrain.units[need.unit]
    for number, _ in offers(need._replace(memory=0, held=NOTHING_HELD), board, order):
        size = terrain.processors[number]
        room = min(board.free[number], (board.memory[number] - need.held.memory) // need.memory)
        worth = min(room, 1) if need.unit is UnitType.NODE else room * units[number] // size
        if worth > 0:
            found.append((number, worth))
    return found


def licence_room(need: Need, board: Board) -> float:
    """Return how many processors the free licences allow; 0 if not even the fixed ones are free."""
    if not need.fixed and not need.each:
        return inf
    free = board.licences
    if any(free.get(feature, inf) < amount for feature, amount in need.fixed.items()):
        return 0
    return min((free[f] - need.fixed.get(f, 0) for f in need.each if f in free), default=inf)


def _on_one_node(need: Need, board: Board, order: Order, room: float) -> list[Offer] | None:
    """Choose the node that gives most; nodes too small for the minimum are not tried."""
    large = [offer for offer in offers(need, board, order) if offer[1] >= need.minimum]
    large.sort(key=lambda offer: -min(offer[1], need.maximum))
    best: list[Offer] = []
    for number, units in large:
        if min(units, need.maximum) <= _units(best):
            break
        chosen = _choose(need, board, (number,), room)
        if chosen and _units(chosen) > _units(best):
            best = chosen
    return best or None


def _choose(need: Need, board: Board, order: Order, room: float) -> list[Offer] | None:
    """Choose from one list of nodes, within the processors that licences allow."""
    there = offers(need, board, order)
    if _units(there) < need.minimum:
        return None
    chosen = _take(need, board, there)
    if chosen is None or room == inf or _processors(need, board, chosen) <= room:
        return chosen
    return _within(need, board, there, room)


def _within(need: Need, board: Board, there: list[Offer], room: float) -> list[Offer] | None:
    """Lower the maximum until the licences suffice; at the minimum, look for a cheaper set of nodes."""

    def cost(maximum: int) -> int:
        lower = _take(need._replace(maximum=maximum), board, there)
        return 0 if lower is None else _processors(need, board, lower)

    sizes = range(need.minimum, need.maximum)
    affordable = bisect_right(sizes, room, key=cost)
    if affordable:
        chosen = _take(need._replace(maximum=sizes[affordable - 1]), board, there)
        if chosen is not None:
            return chosen
    return thriftiest(need, board, there, room)


def _take(need: Need, board: Board, there: list[Offer]) -> list[Offer] | None:
    """Take units in the order offered until the maximum is reached.

    A whole node of which only some units are wanted is still held whole: `processors_for` sees to it.
    """
    if need.required or need.share or need.parts:
        return _take_obliged(need, board, there)
    left, chosen = need.maximum, []
    for number, units in there:
        taken = min(units, left)
        chosen.append((number, taken))
        left -= taken
        if left <= 0:
            break
    return chosen


def _take_obliged(need: Need, board: Board, there: list[Offer]) -> list[Offer] | None:
    """Take what the job must have, fill those nodes up, then go on in the order offered."""
    owed = _obligations(need, board, there)
    if owed is None:
        return None
    left, chosen = need.maximum - sum(owed.values()), []
    for number, units in sorted(there, key=lambda offer: offer[0] not in owed):
        more = units - owed.get(number, 0)
        taken = min(more, max(left, 0))
        left -= taken
        if owed.get(number, 0) + taken:
            chosen.append((number, owed.get(number, 0) + taken))
    return chosen


def _obligations(need: Need, board: Board, there: list[Offer]) -> dict[int, int] | None:
    """Return the units the job must have by node: something of required ones, all of those it owns."""
    offered = dict(there)
    if not need.required <= offered.keys():
        return None
    owed = {number: 1 for number in offered if number in need.required}
    share, all_of = need.share, board.terrain.units[need.unit]
    for number in sorted(offered, key=lambda number: number not in need.required):
        if share > 0 and board.is_idle(number) and offered[number] == all_of[number]:
            owed[number] = offered[number]
            share -= offered[number]
    if share > 0:
        return None
    return covered(need, board, there, owed) if need.parts else owed


def _units(chosen: list[Offer]) -> int:
    return sum([units for _, units in chosen])


def _processors(need: Need, board: Board, chosen: list[Offer]) -> int:
    return sum([processors_for(need, number, units, board) for number, units in chosen])
