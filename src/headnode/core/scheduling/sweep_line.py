"""When several amounts that change over time are all large enough at once."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

Changes = Iterable[tuple[float, bool, int]]
"""An amount over time: (instant, just after it, amount) until the next; the first is for the beginning."""


class Course(NamedTuple):
    """The sum of some amounts, and how much of it is needed."""

    amounts: Sequence[Changes]
    needed: int


def first_instants(courses: Sequence[Course], after: float, until: float) -> Iterator[float]:
    """Yield every instant from `after` on, and before `until`, where all courses suffice and something rose.

    What suffices between two of them sufficed at the first already.
    """
    totals, changes = _unrolled(courses, after)
    lacking = sum(total < course.needed for total, course in zip(totals, courses, strict=True))
    if not lacking and after < until:
        yield after
    place = 0
    while place < len(changes) and (now := changes[place][0]) < until:
        rose, later = False, False
        while place < len(changes) and changes[place][0] == now:
            _, just_after, which, by = changes[place]
            if just_after and not later:
                later = True
                if rose and not lacking:
                    yield now
            needed = courses[which].needed
            lacking += (totals[which] + by < needed) - (totals[which] < needed)
            totals[which] += by
            rose = rose or (by > 0 and not just_after)
            place += 1
        if rose and not later and not lacking:
            yield now


def _unrolled(
    courses: Sequence[Course], after: float
) -> tuple[list[int], list[tuple[float, bool, int, int]]]:
    """Return the sums at the beginning, and every change of one: (instant, just after it, which, by)."""
    totals, changes = [0] * len(courses), []
    for which, course in enumerate(courses):
        for amounts in course.amounts:
            before = 0
            for at, just_after, amount in amounts:
                if at <= after and not just_after:
                    totals[which] += amount
                elif amount != before:
                    changes.append((at, just_after, which, amount - before))
                before = amount
    changes.sort()
    return totals, changes
