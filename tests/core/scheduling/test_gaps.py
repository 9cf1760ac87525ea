"""Gaps tell the same as a look at what each node has free at every second."""

from math import inf
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as some

from headnode.core.scheduling.contiguous import NodeRows, rows_over_time
from headnode.core.scheduling.gaps import GapDemand, GapIndex, gaps_of, within_all
from headnode.core.scheduling.profile import Profile, Span
from headnode.core.scheduling.release_profile import NodeKind

SIZE, END = 4, 30
PIECES = some.lists(
    some.tuples(some.integers(0, 20), some.integers(1, 9), some.integers(1, SIZE)), max_size=7
)
FILLED = some.lists(PIECES, min_size=1, max_size=5)
SPANS = some.tuples(some.sampled_from([1, 2, 3, 7, 12, inf]), some.integers(0, 12), some.integers(1, 25))


class Scene(NamedTuple):
    """Nodes of which pieces are taken: in twos, and the last alone if it is odd; what is free each second."""

    profiles: list[Profile]
    tables: list[list[int]]

    def gap_index(self, shortest: float, grouped: frozenset[int]) -> GapIndex:
        """Return the gaps; kinds that are grouped have two nodes."""
        kinds = [NodeKind((0, 1) if n in grouped else (0,), SIZE, False) for n in range(len(self.profiles))]
        return GapIndex(self.profiles, kinds, [0] * len(kinds), shortest)

    def least(self, kind: int, start: int, duration: float) -> int:
        """Return what is free of a kind all the time; after the last second nothing changes."""
        table = self.tables[kind]
        return min(table[start:]) if duration == inf else min(table[start : start + int(duration)])


def scene_of(filled: list[list[tuple[int, int, int]]]) -> Scene:
    """Return kinds from which these pieces are taken, as far as they fit."""
    profiles, tables = [], []
    for pieces in filled:
        profile, table = Profile(SIZE), [SIZE] * (2 * END)
        for start, duration, count in pieces:
            if min(table[start : start + duration]) >= count:
                profile.take(start, start + duration, count)
                table[start : start + duration] = [free - count for free in table[start : start + duration]]
        profiles.append(profile)
        tables.append(table)
    return Scene(profiles, tables)


@given(PIECES, some.sampled_from([0, 2, 5]))
def test_a_gap_is_as_long_as_so_many_are_free_and_two_are_apart_or_one_within_the_other(
    pieces: list[tuple[int, int, int]], shortest: int
) -> None:
    scene = scene_of([pieces])
    table = scene.tables[0]
    wanted = set()
    for begin in range(END):
        for end in (*range(begin + 1, END), inf):
            height = scene.least(0, begin, end - begin)
            wider_left = begin > 0 and table[begin - 1] >= height
            wider_right = end < inf and table[int(end)] >= height
            if height and not wider_left and not wider_right and end - begin >= shortest:
                wanted.add((begin, height, end))
    assert gaps_of(scene.profiles[0], shortest) == sorted(wanted)


@given(FILLED, SPANS, some.integers(1, 12), some.booleans(), some.frozensets(some.integers(0, 4)))
def test_the_first_instant_is_the_first_second_at_which_enough_is_free_long_enough(
    filled: list[list[tuple[int, int, int]]],
    span: tuple[float, int, int],
    needed: int,
    idle_only: bool,
    grouped: frozenset[int],
) -> None:
    scene, (duration, after, until) = scene_of(filled), span

    def worth(count: int) -> int:
        return count // SIZE * SIZE if idle_only else count

    def units(at: int, kinds: list[int]) -> int:
        return sum(worth(scene.least(kind, at, duration)) for kind in kinds)

    every = list(range(len(filled)))
    index = scene.gap_index(within_all([duration]), grouped)
    for kinds in (None, every[::2]):
        enough = [at for at in range(after, until) if units(at, kinds or every) >= needed]
        demand = GapDemand(needed, [worth], kinds)
        found = [*index.instants(demand, Span(duration, after, until), {})]
        assert found[:1] == enough[:1]
        assert set(found) <= set(enough)
        useful = index.useful(demand, Span(duration, after, until))
        assert not enough or {*useful} >= {
            kind for kind in kinds or every if any(worth(scene.least(kind, at, duration)) for at in enough)
        }


@given(FILLED, SPANS, some.integers(1, 12), some.booleans(), some.permutations(range(5)))
def test_the_first_instant_on_nodes_beside_each_other_is_the_first_second_at_which_a_row_has_enough(
    filled: list[list[tuple[int, int, int]]],
    span: tuple[float, int, int],
    needed: int,
    idle_only: bool,
    order: list[int],
) -> None:
    scene, (duration, after, until) = scene_of(filled), span
    places = {kind: place for place, kind in enumerate(kind for kind in order if kind < len(filled))}
    in_row = sorted(places, key=places.__getitem__)

    def worth(count: int) -> int:
        return count // SIZE * SIZE if idle_only else count

    def has_row(at: int) -> bool:
        units = [worth(scene.least(kind, at, duration)) for kind in in_row]
        rows = (units[low:high] for low in range(len(units)) for high in range(low + 1, len(units) + 1))
        return any(all(row) and sum(row) >= needed for row in rows)

    enough = [at for at in range(after, until) if has_row(at)]
    wanted = Span(duration, after, until)
    demand = GapDemand(needed, [worth], None, NodeRows(needed, places, len(places)))
    found = [*scene.gap_index(within_all([duration]), frozenset()).instants(demand, wanted, {})]
    assert found[:1] == enough[:1]
    assert set(found) <= set(enough)
    courses = [
        (kind, [(at, above, worth(count)) for at, above, count in stairs.windows(*wanted)])
        for kind, stairs in enumerate(scene.profiles)
    ]
    shown = [
        (at, above, bool(row))
        for at, above, row in rows_over_time(NodeRows(needed, places, len(places)), courses)
    ]
    for at in range(after, until):
        assert [has for when, above, has in shown if (when, above) <= (at, False)][-1] == has_row(at)


@given(FILLED, some.integers(0, 12), some.integers(1, 12), some.frozensets(some.integers(0, 4)))
def test_what_lasts_is_the_least_that_is_free_also_after_a_change(
    filled: list[list[tuple[int, int, int]]], start: int, duration: int, grouped: frozenset[int]
) -> None:
    scene = scene_of(filled)
    for shortest in (1, 4):
        index = scene.gap_index(shortest, grouped)
        for _ in range(2):
            there = {kind: count for kind, count in index.lasting(start, start + duration) if count}
            least = {
                kind: stairs.least(start, start + duration) for kind, stairs in enumerate(scene.profiles)
            }
            assert there == {kind: count for kind, count in least.items() if count}
            if least[0]:
                scene.profiles[0].take(start, start + duration, 1)
                index.change(0)


@given(FILLED, some.integers(0, 9), some.integers(1, 9))
def test_what_a_job_holds_itself_is_not_in_its_way(
    filled: list[list[tuple[int, int, int]]], at: int, duration: int
) -> None:
    scene = scene_of(filled)
    own = scene.profiles[0].copy()
    own.give(at, at + duration, 1)
    demand, span = GapDemand(1, [lambda count: count], [0]), Span(duration, 0, END)
    alone = GapIndex([own], [NodeKind((0,), SIZE, False)], [0], 0)
    assert [*scene.gap_index(0, frozenset()).instants(demand, span, {0: own})] == [
        *alone.instants(demand, span, {})
    ]


def test_no_duration_is_shorter_than_what_is_within_all() -> None:
    assert within_all([90, 64, inf]) == 64
    assert within_all([63.9]) == 32
    assert within_all([inf]) == within_all([]) == within_all([0, 5]) == 0
