"""Why a job does not fit, in words.  Counts what the placement code was offered; decides nothing itself."""

from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from math import inf

from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.node_runs import as_counted, runs_of
from headnode.core.scheduling.board import Board
from headnode.core.scheduling.decision import Reason, Why
from headnode.core.scheduling.need import Need, at_some_time, need_of
from headnode.core.scheduling.placement import fewest, fit, offers
from headnode.core.scheduling.reasons_of_parts import parts_short, tasks_not_served
from headnode.core.scheduling.reserved_times import typed
from headnode.core.scheduling.suitability import objection, rules_of
from headnode.core.scheduling.terrain import Order, Terrain
from headnode.core.scheduling.view import NodeView

MOST_NODES_NAMED = 8
"""How many nodes the short reasons of a pass name one by one."""

_NONE: Mapping[str, tuple[int, int]] = {}
_TOGETHER = Reason(
    Why.PROCESSORS, "the eligible nodes together cannot meet all requirements of the job at once"
)


def never_fits(
    request: JobRequest, nodes: Mapping[str, NodeView], licences: Mapping[str, tuple[int, int]] = _NONE
) -> tuple[Reason, ...]:
    """Return why the job could not run even on the whole cluster when empty; nothing if it could.

    Closed nodes count, because they may open again; removed ones do not.
    """
    terrain = Terrain(nodes, reopened=True)
    board = Board.empty(terrain, {feature: total for feature, (total, _) in licences.items()})
    need = need_of(request, terrain)
    if fit(need, board) is not None:
        return ()
    reasons = (
        *_unknown_nodes(request, terrain),
        *_too_many_required(request, need),
        *_shortages(need, request, board, now=False),
    )
    return tuple(Reason(Why.NEVER_FITS, reason.text, reason.what) for reason in reasons or (_TOGETHER,))


def shortage(need: Need, request: JobRequest, board: Board) -> tuple[Reason, ...]:
    """Return the short reasons why a need does not fit on the board; never none."""
    return tuple(_shortages(need, request, board, now=True)) or (_TOGETHER,)


def _shortages(need: Need, request: JobRequest, board: Board, *, now: bool) -> Iterator[Reason]:
    kept = tuple(_reserved(need, request, board))
    if now and kept and fit(fewest(at_some_time(need, board.terrain)), board) is not None:
        yield from kept  # nothing else keeps it from starting
        kept = ()
    yield from _too_few(need, board, now=now)
    yield from parts_short(need, request, board, now=now)
    yield from _too_few_alone(need, board)
    yield from _licences(need, board)
    yield from kept
    yield from _nodes_named(need, request, board, now=now)


def node_by_node(need: Need, request: JobRequest, board: Board) -> tuple[Reason, ...]:
    """Return for every node that gives this need nothing, or nothing to some of its tasks, why."""
    outs = (
        (n, why_out(need, request, board, n) or tasks_not_served(need, request, board, n))
        for n in range(len(board.terrain.names))
    )
    return tuple(_node(board.terrain, number, text) for number, text in outs if text)


def why_out(need: Need, request: JobRequest, board: Board, number: int) -> str:
    """Return why a node gives this need nothing, or an empty string if it gives something."""
    terrain = board.terrain
    unsuitable = objection(rules_of(request), terrain.facts[number])
    if unsuitable or terrain.closed[number]:
        return unsuitable or f"accepts no new jobs: {terrain.closed[number]}"
    if terrain.closes_too_soon(number, request.run_time):
        return _closes(terrain.open_for[number], request.run_time)
    kept = "" if need.access is None else terrain.kept_from(number, need.access)
    if kept:
        return f"is {kept}"
    return "" if offers(need, board, (number,)) else _busy(need, board, number)


def _closes(left: float, lasts: float) -> str:
    limit = "has no run time limit" if lasts == inf else f"may run {typed(lasts)}"
    return f"closes in {typed(left // 60 * 60)}, and the job {limit}"


def counted(amount: int, unit: UnitType | str) -> str:
    """Return an amount with its unit, such as `1 processor` or `2 nodes`."""
    return f"{amount} {unit}" if amount == 1 else f"{amount} {unit}s"


def _too_few(need: Need, board: Board, *, now: bool) -> Iterator[Reason]:
    units, nodes = max((_given(need, board, order) for order in need.alternatives), default=(0, 0))
    if units >= need.minimum:
        return
    idle = "idle " if now and need.whole else ""
    there = f"at most {counted(units, need.unit)}"
    if need.unit is not UnitType.NODE:
        there += " on one node" if need.single else f" on {counted(nodes, idle + 'node')}"
    there = f"{there} would fit{' now' if now else ''}" if units else _nothing(need, now=now)
    yield Reason(Why.PROCESSORS, f"needs {counted(need.minimum, need.unit)}; {there}")


def _nothing(need: Need, *, now: bool) -> str:
    if not now:
        return "no node is eligible"
    return "no eligible node is idle" if need.whole else "no eligible node has a free one"


def _given(need: Need, board: Board, order: Order) -> tuple[int, int]:
    """Return the units this list of nodes could give, and on how many nodes."""
    units = [units for _, units in offers(need, board, order)]
    if need.single:
        return (max(units, default=0), 1)
    return (sum(units), len(units))


def _too_few_alone(need: Need, board: Board) -> Iterator[Reason]:
    alone = max(
        (
            sum(
                units
                for number, units in offers(need, board, order)
                if board.is_idle(number) and units == board.terrain.units[need.unit][number]
            )
            for order in need.alternatives
        ),
        default=0,
    )
    if alone < need.share:
        asked = f"an exclusive task needs {counted(need.share, need.unit)} on idle nodes"
        yield Reason(Why.PROCESSORS, f"{asked}; they have {alone or 'none'}")


def _licences(need: Need, board: Board) -> Iterator[Reason]:
    for feature in sorted({*need.fixed, *need.each}):
        asked = need.fixed.get(feature, 0) + (need.minimum if feature in need.each else 0)
        free = board.licences.get(feature, inf)
        if asked > free:
            yield Reason(Why.LICENCES, f"needs {asked} of licence {feature!r}; {free} available", feature)


def _reserved(need: Need, request: JobRequest, board: Board) -> Iterator[Reason]:
    """Yield each reservation that keeps nodes from the job which would serve it otherwise."""
    terrain, access = board.terrain, need.access
    if access is None:
        return
    known = {each.name for times in terrain.reserved for each in times}
    if access.reservation and access.reservation not in known:
        what = f"the job runs only in reservation {access.reservation!r}, which does not exist"
        yield Reason(Why.RESERVED, what, access.reservation)
        return
    rules, kept = rules_of(request), dict[str, list[str]]()
    for number in sorted(range(len(terrain.names)), key=terrain.names.__getitem__):
        if not terrain.closed[number] and not objection(rules, terrain.facts[number]):
            text = terrain.kept_from(number, access)
            if text:
                kept.setdefault(text, []).append(terrain.names[number])
    for text, names in kept.items():
        yield Reason(Why.RESERVED, f"{_together(names)} {'is' if len(names) == 1 else 'are'} {text}")


def _nodes_named(need: Need, request: JobRequest, board: Board, *, now: bool) -> Iterator[Reason]:
    """Yield required nodes that give nothing, closed ones that would serve, and all if none can serve.

    Not `now` but for ever, all that give nothing are told: it must be seen which wish leaves too few.
    """
    if not now:
        yield from _alike(need, request, board)
        return
    terrain, rules = board.terrain, rules_of(request)
    among = sorted(need.required) if any(need.alternatives) else range(len(terrain.names))
    missing = [n for n in among if why_out(need, request, board, n)]
    closed = [
        n
        for n, why in enumerate(terrain.closed)
        if (why or terrain.closes_too_soon(n, request.run_time)) and not objection(rules, terrain.facts[n])
    ]
    outs = list(dict.fromkeys((*missing, *closed)))
    for number in nsmallest(MOST_NODES_NAMED, outs, terrain.names.__getitem__):
        yield _node(terrain, number, why_out(need, request, board, number))
    if len(outs) > MOST_NODES_NAMED:
        yield Reason(Why.NODE, f"{len(outs) - MOST_NODES_NAMED} more nodes are not available")


def _alike(need: Need, request: JobRequest, board: Board) -> Iterator[Reason]:
    """Yield why nodes give nothing, those together of which the same is true; not what reservations take.

    Those are told by `_reserved`.
    """
    terrain, alike = board.terrain, dict[str, list[str]]()
    for number in sorted(range(len(terrain.names)), key=terrain.names.__getitem__):
        text = why_out(need, request, board, number)
        kept = "" if need.access is None else terrain.kept_from(number, need.access)
        if text and text != f"is {kept}":
            alike.setdefault(text, []).append(terrain.names[number])
    for text, names in list(alike.items())[:MOST_NODES_NAMED]:
        who = f"node {names[0]!r}" if len(names) == 1 else f"each of {_together(names)}"
        yield Reason(Why.NODE, f"{who} {text}", names[0] if len(names) == 1 else "")
    untold = sum(map(len, list(alike.values())[MOST_NODES_NAMED:]))
    if untold:
        yield Reason(Why.NODE, f"{untold} more nodes are not available")


def _together(names: Iterable[str]) -> str:
    return ", ".join(runs_of(sorted(names, key=as_counted)))


def _busy(need: Need, board: Board, number: int) -> str:
    if board.owned[number]:
        return "is used exclusively by one job"
    if need.whole and board.jobs[number]:
        return f"has {counted(board.jobs[number], 'job')} running, and this job needs exclusive nodes"
    if need.memory and 0 <= board.memory[number] < need.memory:
        free = board.memory[number]
        return f"has {free} MB of memory free; the job needs {need.memory} MB for each processor"
    lacking = _lacking(need, board, number)
    if lacking:
        return lacking
    if board.free[number] > 0:
        return f"has {counted(board.free[number], 'processor')} free, which is not a whole {need.unit}"
    processors = board.terrain.processors[number]
    return f"has {'its 1 processor' if processors == 1 else f'all {processors} processors'} in use"


def _lacking(need: Need, board: Board, number: int) -> str:
    """Return of what a node has too little free, among what the job would hold of it; "" when of nothing."""
    held = need.held
    for what, free, wanted in zip(
        ("memory", "disk", "swap"), board.amounts, (held.memory, held.disk, held.swap), strict=True
    ):
        if free[number] < wanted:
            left = max(0, free[number])
            return f"has {left} MB of {what} that no job holds; the job holds {wanted} MB of each node"
    return ""


def _node(terrain: Terrain, number: int, text: str) -> Reason:
    return Reason(Why.NODE, f"node {terrain.names[number]!r} {text}", terrain.names[number])


def _unknown_nodes(request: JobRequest, terrain: Terrain) -> Iterator[Reason]:
    for name in dict.fromkeys((*request.required_nodes, *request.requested_nodes)):
        if name.casefold() not in terrain.numbers:
            yield Reason(Why.NODE, f"there is no node {name!r}", name)


def _too_many_required(request: JobRequest, need: Need) -> Iterator[Reason]:
    required = len({name.casefold() for name in request.required_nodes})
    if required > need.maximum:
        wanted = f"its tasks require {counted(required, 'node')}"
        yield Reason(Why.NODE, f"{wanted}, but its maximum is {counted(need.maximum, need.unit)}")
