"""The availability profile answers as a table of every second would."""

from itertools import pairwise
from math import inf

from hypothesis import given
from hypothesis import strategies as some

from headnode.core.scheduling.profile import Profile

SIZE, END = 6, 40
PIECES = some.lists(
    some.tuples(some.integers(0, 25), some.integers(1, 12), some.integers(1, SIZE)), max_size=12
)


def filled(pieces: list[tuple[int, int, int]]) -> tuple[Profile, list[int]]:
    """Return a profile that took the pieces that fit, (start, duration, processors), and its table."""
    profile, table = Profile(SIZE), [SIZE] * END
    for start, duration, processors in pieces:
        if min(table[start : start + duration]) >= processors:
            profile.take(start, start + duration, processors)
            for second in range(start, start + duration):
                table[second] -= processors
    return profile, table


def heights(profile: Profile) -> list[int]:
    stairs = [*profile.stairs(), (inf, 0)]
    return [free for at in range(END) for (a, free), (b, _) in pairwise(stairs) if a <= at < b]


@given(PIECES)
def test_taking_lowers_just_what_was_asked(pieces: list[tuple[int, int, int]]) -> None:
    profile, table = filled(pieces)
    assert heights(profile) == table


@given(PIECES)
def test_equal_neighbours_are_one_stair(pieces: list[tuple[int, int, int]]) -> None:
    stairs = list(filled(pieces)[0].stairs())
    assert all(a < b and high != low for (a, high), (b, low) in pairwise(stairs))


@given(PIECES, some.tuples(some.integers(0, 25), some.integers(1, 12), some.integers(1, 3)))
def test_giving_back_undoes_taking(pieces: list[tuple[int, int, int]], piece: tuple[int, int, int]) -> None:
    profile, _ = filled(pieces)
    before = list(profile.stairs())
    start, duration, processors = piece
    profile.take(start, start + duration, processors)
    profile.give(start, start + duration, processors)
    assert list(profile.stairs()) == before


@given(PIECES, some.integers(1, SIZE), some.integers(1, 12), some.integers(0, 20))
def test_the_first_place_is_found(
    pieces: list[tuple[int, int, int]], processors: int, duration: int, after: int
) -> None:
    profile, table = filled(pieces)
    table += [SIZE] * END
    by_table = next(at for at in range(after, END) if min(table[at : at + duration]) >= processors)
    assert profile.first_fit(processors, duration, after) == by_table


@given(PIECES, some.integers(1, SIZE), some.integers(1, 12), some.integers(0, 10), some.integers(0, 20))
def test_a_reservation_finds_the_earliest_place_it_could_move_to(
    pieces: list[tuple[int, int, int]], processors: int, duration: int, after: int, wait: int
) -> None:
    profile, table = filled(pieces)
    until = after + wait
    by_table = next(
        (at for at in range(after, until) if min(table[at : min(at + duration, until)]) >= processors), until
    )
    assert profile.first_fit(processors, duration, after, until) == by_table


@given(PIECES, some.integers(0, 30))
def test_what_is_forgotten_does_not_change_what_comes(pieces: list[tuple[int, int, int]], now: int) -> None:
    profile, table = filled(pieces)
    profile.forget(now)
    assert heights(profile) == table[now:]


def test_what_is_taken_for_ever_does_not_come_back() -> None:
    profile = Profile(4)
    profile.take(5, inf, 3)
    assert profile.first_fit(2, 5, after=0) == 0
    assert profile.first_fit(2, 6, after=0) == inf


@given(some.lists(some.tuples(some.integers(1, 9), some.integers(1, 3))))
def test_a_profile_of_holders_is_that_of_taking_each(held: list[tuple[int, int]]) -> None:
    total = 3 + sum(processors for _, processors in held)
    profile = Profile(total)
    for end, processors in held:
        profile.take(0, end, processors)
    assert list(Profile.of_holders(0, 3, sorted(held)).stairs()) == list(profile.stairs())
