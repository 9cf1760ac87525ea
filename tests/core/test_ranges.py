"""Ranges are a set of numbers, whatever is done to them in whatever order."""

from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from depth import share_of
from headnode.core.model.ranges import Ranges

numbers = st.integers(-3, 12)


class RangesBesideASet(RuleBasedStateMachine):
    """Does the same to both."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges, self.model = Ranges(), set[int]()

    @rule(number=numbers)
    def add(self, number: int) -> None:
        self.ranges.add(number)
        self.model.add(number)

    @rule(first=numbers, last=numbers)
    def add_span(self, first: int, last: int) -> None:
        self.ranges.add_span(first, last)
        self.model |= set(range(first, last + 1))

    @rule(number=numbers)
    def discard(self, number: int) -> None:
        self.ranges.discard(number)
        self.model.discard(number)

    @rule()
    def clear(self) -> None:
        self.ranges.clear()
        self.model.clear()

    @invariant()
    def they_are_equal(self) -> None:
        assert list(self.ranges) == sorted(self.model)
        assert len(self.ranges) == len(self.model)
        assert [number in self.ranges for number in range(-4, 14)] == [n in self.model for n in range(-4, 14)]

    @invariant()
    def intervals_are_sorted_apart_and_not_empty(self) -> None:
        spans = list(self.ranges.spans())
        assert all(first <= last for first, last in spans)
        assert all(before[1] + 1 < after[0] for before, after in pairwise(spans))


TestRangesBesideASet = RangesBesideASet.TestCase
TestRangesBesideASet.settings = settings(max_examples=share_of(200), stateful_step_count=30, deadline=None)


def test_every_three_spans_of_a_small_world_are_their_union() -> None:
    spans = [(first, last) for first in range(5) for last in range(first, 5)]
    for one in spans:
        for two in spans:
            for three in spans:
                ranges = Ranges()
                for first, last in (one, two, three):
                    ranges.add_span(first, last)
                union = {n for first, last in (one, two, three) for n in range(first, last + 1)}
                assert (list(ranges), len(ranges)) == (sorted(union), len(union))


def test_two_ranges_do_not_share_their_numbers() -> None:
    one, other = Ranges(), Ranges()
    one.add(1)
    assert list(other) == []
