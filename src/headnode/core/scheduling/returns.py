"""From what is free now and when running jobs give back the rest, to what is free from now on."""

from collections.abc import Iterable, Sequence

from headnode.core.scheduling.board import Board
from headnode.core.scheduling.future import Release
from headnode.core.scheduling.kinds import Kind, Kinds
from headnode.core.scheduling.profile import Profile

Returns = list[tuple[float, int]]
"""When how much comes back."""


def processors_or_nodes(now: float, board: Board, kinds: Kinds, releases: Sequence[Release]) -> list[Profile]:
    """Return for each kind what is free of it: idle nodes where those are counted, else processors."""
    returns = _by_node(board, releases)
    return [
        (_idle_nodes if kind.whole else _processors)(now, board, kind, [returns[node] for node in kind.nodes])
        for kind in kinds.all
    ]


def total(now: float, kinds: Kinds, profiles: Sequence[Profile]) -> Profile:
    """Return how many processors are free of all kinds together, as far as they are counted."""
    changes, free = [], 0
    for kind, profile in zip(kinds.all, profiles, strict=True):
        before, each = 0, kind.size if kind.whole else 1
        for at, count in profile.stairs():
            if at <= now:
                free += count * each
            else:
                changes.append((at, (count - before) * each))
            before = count
    return _rising(now, free, changes)


def amounts(
    now: float, board: Board, nodes: Iterable[int], releases: Sequence[Release]
) -> list[dict[int, Profile]]:
    """Return for memory, disk and swap what is free of each of the nodes, in MB."""
    returns: list[dict[int, Returns]] = [{node: [] for node in nodes} for _ in board.amounts]
    for at, _, _, piece in releases:
        for node, processors in piece.fit if piece.memory or piece.held else ():
            for back, amount in zip(returns, piece.of_node(processors), strict=True):
                if amount and node in back:
                    back[node].append((at, amount))
    return [
        {node: _rising(now, free[node], each) for node, each in back.items()}
        for free, back in zip(board.amounts, returns, strict=True)
    ]


def licences(now: float, board: Board, releases: Sequence[Release]) -> dict[str, Profile]:
    """Return for each licence that is counted how many are free."""
    returns: dict[str, Returns] = {feature: [] for feature in board.licences}
    for at, _, _, piece in releases:
        for feature, amount in piece.licences.items():
            if feature in returns:
                returns[feature].append((at, amount))
    return {feature: _rising(now, board.licences[feature], back) for feature, back in returns.items()}


def _by_node(board: Board, releases: Sequence[Release]) -> list[Returns]:
    """Return what comes back of each node; with its sole owner, all of it does."""
    returns: list[Returns] = [[] for _ in board.free]
    for at, _, _, piece in releases:
        for node, processors in piece.fit:
            returns[node].append((at, board.terrain.processors[node] if piece.exclusive else processors))
    return returns


def _free(board: Board, node: int) -> int:
    return 0 if board.owned[node] else board.free[node]


def _processors(now: float, board: Board, kind: Kind, returns: Sequence[Returns]) -> Profile:
    free = sum([_free(board, node) for node in kind.nodes])
    return _rising(now, free, [each for back in returns for each in back])


def _idle_nodes(now: float, board: Board, kind: Kind, returns: Sequence[Returns]) -> Profile:
    """Count nodes: each comes back with the last of its jobs, if the jobs that hold it are all known."""
    idle, back = 0, []
    for node, parts in zip(kind.nodes, returns, strict=True):
        if board.is_idle(node):
            idle += 1
        elif parts and _free(board, node) + sum(count for _, count in parts) >= kind.size:
            back.append((max(parts)[0], 1))
    return _rising(now, idle, back)


def _rising(now: float, free: int, returns: Returns) -> Profile:
    return Profile.of_holders(now, free, sorted(returns))
