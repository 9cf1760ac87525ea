"""When several amounts suffice, and the windows of a profile, against tables of every half second."""

from itertools import pairwise
from math import inf

from hypothesis import given
from hypothesis import strategies as some

from headnode.core.scheduling.profile import AmountDemand, Profile, first_instants

from .test_profile import PIECES, SIZE, filled

HALVES = [half / 2 for half in range(80)]
DURATIONS = some.integers(1, 12) | some.just(inf)


def least_by_stairs(profile: Profile, start: float, end: float) -> int:
    """Return the least height between two instants, looking at every stair."""
    stairs = [*profile.stairs(), (inf, 0)]
    return min(free for (begins, free), (ends, _) in pairwise(stairs) if begins < end and ends > start)


@given(PIECES, some.integers(0, 30), DURATIONS)
def test_the_least_is_the_lowest_stair_in_between(
    pieces: list[tuple[int, int, int]], start: int, duration: float
) -> None:
    profile, _ = filled(pieces)
    assert profile.least(start, start + duration) == least_by_stairs(profile, start, start + duration)


@given(PIECES, some.integers(0, 20), DURATIONS, some.integers(1, 30) | some.just(inf))
def test_windows_tell_the_least_for_every_instant(
    pieces: list[tuple[int, int, int]], after: int, duration: float, wait: float
) -> None:
    profile, _ = filled(pieces)
    until = after + wait
    found = profile.windows(duration, after, until)
    assert found[0][:2] == (after, False)
    for at in (half for half in HALVES if after <= half < until):
        known = [count for since, later, count in found if since < at or (since == at and not later)]
        assert known[-1] == least_by_stairs(profile, at, at + duration), (at, found)


def test_what_never_comes_back_makes_no_stair() -> None:
    profile = Profile.of_holders(0, 1, [(5, 2), (inf, 4)])
    assert list(profile.stairs()) == [(0, 1), (5, 3)]
    assert profile.windows(inf, 0) == [(0, False, 1), (5, False, 3)]


COURSES = some.lists(
    some.tuples(some.lists(PIECES, min_size=1, max_size=2), some.integers(1, SIZE + 2)),
    min_size=1,
    max_size=3,
)


@given(
    COURSES, some.integers(0, 10), some.integers(1, 30) | some.just(inf), some.integers(1, 9), some.booleans()
)
def test_the_first_instant_at_which_all_suffice_comes_first_and_every_other_after_a_gap(
    expected: list[tuple[list[list[tuple[int, int, int]]], int]],
    after: int,
    wait: float,
    duration: int,
    cut: bool,
) -> None:
    until = after + wait
    profiles = [([filled(pieces)[0] for pieces in amounts], needed) for amounts, needed in expected]
    courses = [
        AmountDemand([each.windows(duration, after, until if cut else inf) for each in amounts], needed)
        for amounts, needed in profiles
    ]

    def suffices(at: float) -> bool:
        return all(
            sum(least_by_stairs(each, at, at + duration) for each in amounts) >= needed
            for amounts, needed in profiles
        )

    found = list(first_instants(courses, after, until))
    instants = [half for half in HALVES if after <= half < until]
    good = {at for at in instants if suffices(at)}
    assert found == sorted(set(found))
    assert set(found) <= good
    begins = {at for at in good if at == after or at - 0.5 not in good}
    assert begins <= set(found), "where all suffice and did not before is an instant to try"
