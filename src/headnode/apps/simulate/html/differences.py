"""Who starts earlier and who later under another policy, by how much, and who most of all."""

from bisect import bisect_right
from collections.abc import Sequence
from heapq import nlargest, nsmallest
from typing import NamedTuple

_EDGES = (600, 3600, 21600, 86400, 604800)  # seconds
_BY = ("under 10 min", "10 to 60 min", "1 to 6 h", "6 to 24 h", "1 to 7 days", "over 7 days")
STEPS = (
    *(f"{by} earlier" for by in reversed(_BY)),
    "at the same time",
    *(f"{by} later" for by in _BY),
)


class Difference(NamedTuple):
    """How the starts under a policy differ from those under the first.

    Unit:  seconds for `changes`, one for each job, below 0 where it starts earlier.  `steps` counts the jobs
           of each of `STEPS`; the others count jobs.
    """

    policy: str
    changes: Sequence[float]
    earlier: int
    later: int
    steps: Sequence[int]


def difference(policy: str, first: Sequence[float], second: Sequence[float]) -> Difference:
    """Compare the starts under a policy, the second, with those under the first."""
    changes = [new - old for old, new in zip(first, second, strict=True)]
    steps = [0] * len(STEPS)
    for change in changes:
        steps[_step(change)] += 1
    middle = len(_BY)
    return Difference(policy, changes, sum(steps[:middle]), sum(steps[middle + 1 :]), steps)


def _step(change: float) -> int:
    by = bisect_right(_EDGES, abs(change))
    middle = len(_BY)
    return middle if change == 0 else middle + 1 + by if change > 0 else middle - 1 - by


def most_gaining(found: Difference, most: int) -> list[int]:
    """Return the places of the jobs that start earlier by most, the most first."""
    places = nsmallest(most, range(len(found.changes)), key=found.changes.__getitem__)
    return [place for place in places if found.changes[place] < 0]


def most_losing(found: Difference, most: int) -> list[int]:
    """Return the places of the jobs that start later by most, the most first."""
    places = nlargest(most, range(len(found.changes)), key=found.changes.__getitem__)
    return [place for place in places if found.changes[place] > 0]
