"""How deep random and exhaustive tests go: `pytest --depth PERCENT`, a quarter by default.

A test states the depth of a whole run.  `make test-all` runs all of it.
"""

import math
from collections.abc import Iterable, Iterator
from itertools import count, islice
from typing import TypeVar

Case = TypeVar("Case")

_percent = 25.0


def choose(percent: float) -> None:
    """Set the depth of this process, in percent of the whole.  Called once, before tests are collected."""
    global _percent
    _percent = percent


def share_of(whole: int) -> int:
    """Return how many examples, rounds or kills of a whole run are tried: at least one."""
    return max(1, math.ceil(whole * _percent / 100))


def seeds(whole: int) -> range:
    """Return the seeds that are tried, from 0 on."""
    return range(share_of(whole))


def every(whole: int = 1) -> int:
    """Return the step through an enumeration of which a whole run tries each `whole`-th case.

    A longer step is prime: it does not fall into step with the loops of the enumeration.
    """
    if _percent >= 100:
        return max(1, round(whole * 100 / _percent))
    return next(step for step in count(round(whole * 100 / _percent)) if _is_prime(step))


def thinned(cases: Iterable[Case]) -> Iterator[Case]:
    """Yield the cases of an enumeration that are tried: a whole run tries all of them."""
    return islice(cases, 0, None, every())


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))
