"""How what is left beyond the minimum of every job is shared out: units one at a time, to whose turn it is.

Each next unit goes to the job that would then have the least for its weight: the method of highest averages
(Jefferson, d'Hondt).  It is exact in whole units, and when there is one unit more, or a job fewer, nobody
else's share gets smaller: so few processors change hands.
Source: HPC Pack scheduling mode Balanced, cluster parameter PriorityBias.
"""

from collections.abc import Sequence
from enum import StrEnum
from heapq import heapify, heappop, heapreplace
from types import MappingProxyType
from typing import NamedTuple

from headnode.core.scheduling.turns import Turn


class Bias(StrEnum):
    """How much more a job gets than one of lower priority, beyond the minimum of both."""

    HIGH = "HighBias"
    MEDIUM = "MediumBias"
    LOW = "LowBias"
    NONE = "NoBias"


_TIMES = MappingProxyType({Bias.HIGH: 10.0, Bias.MEDIUM: 2.0, Bias.LOW: 1.0, Bias.NONE: 1.0})
"""How many times as much for a priority 1000 higher; what lies between is scaled."""

_JUST_UNDER = 1 - 1e-9  # a level that rounding must not lift over one at which somebody gets a unit more


class Claim(NamedTuple):
    """What a job could use beyond its minimum.  Units are whole: processors, sockets or nodes."""

    turn: Turn
    most: int  # units
    size: int  # processors of each
    weight: float


def weight_of(turn: Turn, bias: Bias) -> float:
    """Return how much a job of this turn gets for each one that a job of priority 0 gets.

    >>> weight_of((-3000, 1, 1), Bias.MEDIUM) / weight_of((-2000, 2, 2), Bias.MEDIUM)
    2.0
    """
    return float(_TIMES[bias] ** (-turn[0] / 1000))


def share_out(claims: Sequence[Claim], processors: int) -> list[int]:
    """Return how many units each claim gets, of so many processors in all.

    Never more than it could use; everything is given away that anybody can use.  Ties go by turn.
    Cost:  O(claims * log(claims)), however many processors there are.

    >>> share_out([Claim((-2000, 1, 1), 9, 1, 1.0), Claim((-3000, 2, 2), 9, 1, 2.0)], 9)
    [3, 6]
    """
    given = _nearly(claims, processors)
    left = processors - sum(units * claim.size for units, claim in zip(given, claims, strict=True))
    line = [
        (_level(claim, units + 1), claim.turn, number)
        for number, (claim, units) in enumerate(zip(claims, given, strict=True))
        if units < claim.most
    ]
    heapify(line)
    while line and left > 0:
        _, turn, number = line[0]
        claim = claims[number]
        if claim.size > left:
            heappop(line)
            continue
        given[number] += 1
        left -= claim.size
        if given[number] < claim.most:
            heapreplace(line, (_level(claim, given[number] + 1), turn, number))
        else:
            heappop(line)
    return given


def _level(claim: Claim, units: int) -> float:
    """Return how many processors for its weight a claim has with so many units."""
    return units * claim.size / claim.weight


def _nearly(claims: Sequence[Claim], processors: int) -> list[int]:
    """Return what every claim has at the highest level that surely leaves something: the rest is a few units.

    Whoever reaches a level with a unit has it before anybody has one that is above that level.
    """
    level = _level_of_all(claims, processors) * _JUST_UNDER
    return [min(claim.most, int(level * claim.weight / claim.size)) for claim in claims]


def _level_of_all(claims: Sequence[Claim], processors: int) -> float:
    """Return the level at which the claims have all the processors, if these could be divided at will."""
    left, weights = float(processors), sum(claim.weight for claim in claims)
    reached = 0.0
    for full, weight in sorted((_level(claim, claim.most), claim.weight) for claim in claims):
        if weights <= 0 or left < (full - reached) * weights:
            break
        left -= (full - reached) * weights
        reached, weights = full, weights - weight
    else:
        return reached
    return reached + left / weights if weights > 0 else reached
