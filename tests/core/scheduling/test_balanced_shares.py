"""What is shared out in balanced mode: all of it, within bounds, more to higher priority, and steadily."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from headnode.core.model.priority_factors import queue_position
from headnode.core.scheduling.balanced.shares import ShareClaim, share_out, weight_of
from headnode.core.scheduling.view import Bias

BIASES = st.sampled_from(list(Bias))
PRIORITIES = st.sampled_from([0, 500, 1000, 1999, 2000, 3000, 4000])


@st.composite
def claims(draw: st.DrawFn, sizes: tuple[int, ...] = (1,)) -> list[ShareClaim]:
    bias = draw(BIASES)
    wanted = draw(st.lists(st.tuples(PRIORITIES, st.integers(0, 30), st.sampled_from(sizes)), max_size=8))
    turns = [queue_position(priority, number, number) for number, (priority, _, _) in enumerate(wanted)]
    return [
        ShareClaim(turn, most, size, weight_of(turn, bias))
        for turn, (_, most, size) in zip(turns, wanted, strict=True)
    ]


def one_at_a_time(wanted: list[ShareClaim], processors: int) -> list[int]:
    """Share out as the page says it: each next unit to whom it lifts least, until nobody can use any."""
    given = [0] * len(wanted)
    while True:
        left = processors - sum(n * each.size for n, each in zip(given, wanted, strict=True))
        able = [
            ((given[at] + 1) * each.size / each.weight, each.turn, at)
            for at, each in enumerate(wanted)
            if given[at] < each.most
        ]
        able.sort()
        # who cannot have the next unit, because what is left is smaller, leaves it to those behind
        fitting = [at for _, _, at in able if wanted[at].size <= left]
        if not fitting:
            return given
        given[fitting[0]] += 1


@given(claims(sizes=(1, 2, 4)), st.integers(0, 100))
def test_it_is_what_giving_units_one_at_a_time_comes_to(wanted: list[ShareClaim], processors: int) -> None:
    assert share_out(wanted, processors) == one_at_a_time(wanted, processors)


@given(claims(), st.integers(0, 100))
def test_everything_is_given_away_that_somebody_can_use(wanted: list[ShareClaim], processors: int) -> None:
    given = share_out(wanted, processors)
    assert all(0 <= units <= each.most for units, each in zip(given, wanted, strict=True))
    assert sum(given) == min(processors, sum(each.most for each in wanted))


@given(claims(), st.integers(0, 100))
def test_of_two_that_could_use_more_the_higher_priority_has_no_less(
    wanted: list[ShareClaim], processors: int
) -> None:
    given = share_out(wanted, processors)
    for units, each in zip(given, wanted, strict=True):
        for others, other in zip(given, wanted, strict=True):
            if each.turn.minus_priority < other.turn.minus_priority and units < each.most:
                assert units >= others


@given(claims(), st.integers(0, 100))
def test_extras_are_as_the_bias_says_within_one_unit(wanted: list[ShareClaim], processors: int) -> None:
    """Nobody could have one more without having more for its weight than another has now."""
    given = share_out(wanted, processors)
    for units, each in zip(given, wanted, strict=True):
        for others, other in zip(given, wanted, strict=True):
            if units < each.most and others:
                assert Fraction(units + 1) / Fraction(each.weight) >= Fraction(others) / Fraction(
                    other.weight
                )


@given(claims(), st.integers(0, 100))
def test_one_processor_more_takes_nothing_from_anybody(wanted: list[ShareClaim], processors: int) -> None:
    before, after = share_out(wanted, processors), share_out(wanted, processors + 1)
    assert all(now >= then for now, then in zip(after, before, strict=True))


@given(claims(), st.integers(0, 100), st.data())
def test_a_job_that_goes_takes_nothing_from_anybody(
    wanted: list[ShareClaim], processors: int, data: st.DataObject
) -> None:
    if not wanted:
        return
    gone = data.draw(st.integers(0, len(wanted) - 1))
    before = share_out(wanted, processors)
    after = share_out([*wanted[:gone], *wanted[gone + 1 :]], processors)
    assert all(now >= then for now, then in zip(after, [*before[:gone], *before[gone + 1 :]], strict=True))


def test_the_words_of_the_parameter() -> None:
    high, normal = queue_position(3000, 1, 1), queue_position(2000, 2, 2)
    for bias, times in ((Bias.HIGH, 10), (Bias.MEDIUM, 2), (Bias.LOW, 1), (Bias.NONE, 1)):
        wanted = [ShareClaim(turn, 1000, 1, weight_of(turn, bias)) for turn in (high, normal)]
        assert share_out(wanted, 66 * (times + 1)) == [66 * times, 66]
    halfway = [
        ShareClaim(turn, 1000, 1, weight_of(turn, Bias.MEDIUM))
        for turn in (queue_position(4000, 1, 1), normal)
    ]
    assert share_out(halfway, 50) == [40, 10]
