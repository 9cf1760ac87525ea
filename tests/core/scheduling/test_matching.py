"""Who gets how much of which node: against the theorem that says when everybody can have enough."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations, product

from headnode.core.scheduling.gang_search import match_claims

Case = tuple[tuple[int, ...], tuple[dict[int, int], ...], dict[int, int]]


def cases() -> Iterator[Case]:
    """Yield two or three claimants on two or three nodes."""
    for room in ((2, 3), (1, 2, 2), (4, 1, 1)):
        nodes = range(len(room))
        arcs = [_without_zeros(each) for each in product((0, 1, 3), repeat=len(room))]
        for demands, most in product(product((0, 1, 3), repeat=2), product(arcs, repeat=2)):
            yield demands, most, dict(zip(nodes, room, strict=True))
        for demands, most in product(((1, 2, 1), (2, 2, 1)), product(arcs[1::2], arcs[::3], arcs[2::4])):
            yield demands, most, dict(zip(nodes, room, strict=True))


def _without_zeros(most: Sequence[int]) -> dict[int, int]:
    return {node: count for node, count in enumerate(most) if count}


def can_all_have_enough(
    demands: Sequence[int], most: Sequence[Mapping[int, int]], room: Mapping[int, int]
) -> bool:
    """Return whether no group of claimants wants more than all that it may use (minimal cut)."""
    claimants = range(len(demands))
    groups = chain.from_iterable(combinations(claimants, size) for size in range(1, len(demands) + 1))
    return all(
        sum(demands[each] for each in group)
        <= sum(min(there, sum(most[each].get(node, 0) for each in group)) for node, there in room.items())
        for group in groups
    )


def test_everybody_gets_enough_exactly_when_that_is_possible() -> None:
    seen = {True: 0, False: 0}
    for demands, most, room in cases():
        possible = can_all_have_enough(demands, most, room)
        given = match_claims(demands, most, room)
        assert (given is not None) == possible, (demands, most, room)
        if given is not None:
            check(demands, most, room, given)
        seen[possible] += 1
    assert min(seen.values()) > 500


def check(
    demands: Sequence[int],
    most: Sequence[Mapping[int, int]],
    room: Mapping[int, int],
    given: Sequence[Mapping[int, int]],
) -> None:
    """Nobody has more than he may, nor a node more than it has."""
    assert [sum(mine.values()) for mine in given] == list(demands)
    for mine, may in zip(given, most, strict=True):
        assert all(0 < count <= may[node] for node, count in mine.items())
    assert all(sum(mine.get(node, 0) for mine in given) <= there for node, there in room.items())
