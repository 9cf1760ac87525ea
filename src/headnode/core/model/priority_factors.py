"""The order of the queue: positions of jobs, and within a priority the weights of factors and the shares.

Source:  Slurm, "Multifactor Priority Plugin" (PriorityWeightFairshare, PriorityWeightAge,
         PriorityWeightJobSize, PriorityMaxAge), "Classic Fairshare Algorithm".
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from headnode.core.model.bounds import LIMITED_OWNERS, NAME, PRIORITY_WEIGHT, SHARE
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import JobId, SortKey

WEIGHTS_PARAMETER = "PriorityWeights"
MAX_AGE_PARAMETER = "PriorityMaxAge"
MAX_AGE = 604_800  # seconds, where the parameter is not set
USER_SHARES = "UserShares"
PROJECT_SHARES = "ProjectShares"
SHARE_PARAMETERS = (USER_SHARES, PROJECT_SHARES)
ORDER_PARAMETERS = (WEIGHTS_PARAMETER, MAX_AGE_PARAMETER, *SHARE_PARAMETERS)
"""The cluster parameters that decide the order of the queue within a priority."""

EVERY_OTHER = "*"
"""In place of a name: each user, or each project, without an entry of its own."""


class QueuePosition(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """The position of a job in the queue: the smallest is first.

    Without a `key` the order is that of priority, submission and id.  A policy may set the key in a view.
    It takes 48 bytes, and the garbage collector does not visit it; a named tuple takes 80.
    """

    key: SortKey
    minus_priority: int
    order: int  # counts submissions
    job: JobId

    @property
    def priority(self) -> int:
        """The priority of the job."""
        return -self.minus_priority

    @property
    def rank(self) -> tuple[SortKey, int]:
        """What goes before the order of submission."""
        return self.key, self.minus_priority


def queue_position(priority: int, order: int, job: int) -> QueuePosition:
    """Return the place in the queue of a job to which no policy gives a key.

    >>> queue_position(3000, 2, 2) < queue_position(2000, 1, 1)
    True
    """
    return QueuePosition(0, _MINUS.get(priority, -priority), order, JobId(job))


_MINUS = {priority: -priority for priority in range(0, 4001, 1000)}
"""One object for each priority that has a name: 32 bytes for each of many jobs."""


_MAX_SHOWN = 80  # characters of a wrong entry that the error repeats


class PriorityFactor(StrEnum):
    """What a job is ordered by, within its priority.  Each factor is a number from 0 to 1."""

    FAIR_SHARE = "fair-share"  # 1: its user and project have used nothing; 1/2: as much as their share
    AGE = "age"  # how long ago it was submitted; 1: at least `PriorityMaxAge`
    SIZE = "size"  # its part of the processors of the cluster


Weights = Mapping[PriorityFactor, int]


class JobScore(NamedTuple):
    """What orders a job within its priority: each factor times its weight.  The largest sum goes first."""

    fair_share: float = 0.0
    age: float = 0.0
    size: float = 0.0

    @property
    def total(self) -> float:
        """The sum."""
        return self.fair_share + self.age + self.size


class Shares(NamedTuple):
    """How much of the cluster users and projects should get, relative to each other.

    A name without an entry has the share of `*`, which is 1 unless it has an entry.
    """

    users: Mapping[str, int] = MappingProxyType({})  # by USER, and by PROJECT/USER
    projects: Mapping[str, int] = MappingProxyType({})

    def of_project(self, name: str) -> int:
        """Return the share of a project, among the projects and the users without one."""
        return self.projects.get(name, self.projects.get(EVERY_OTHER, 1))

    def of_user(self, name: str, project: str) -> int:
        """Return the share of a user, among those of a project.

        >>> shares = Shares(read_shares("ann:3;chem/ann:5;*:2", USER_SHARES))
        >>> shares.of_user("ann", "chem"), shares.of_user("ann", ""), shares.of_user("bob", "chem")
        (5, 3, 2)
        """
        own = self.users.get(f"{project}/{name}") if project else None
        return own if own is not None else self.users.get(name, self.users.get(EVERY_OTHER, 1))


@lru_cache(maxsize=4)
def read_weights(text: str) -> Weights:
    """Read ``fair-share=1000,age=100,size=-10``.  Only the weight of the size may be negative.

    Raises:  BadRequest ``parameter-value``.
    """
    weights: dict[PriorityFactor, int] = {}
    for piece in filter(None, (part.strip() for part in text.split(","))):
        word, _, number = (part.strip() for part in piece.partition("="))
        if word not in _FACTORS or word in weights:
            what = "is there twice" if word in weights else f"is not one of {', '.join(_FACTORS)}"
            raise _wrong(WEIGHTS_PARAMETER, f"{_shown(word)} {what}", "write fair-share=1000,age=100")
        factor = PriorityFactor(word)
        least = PRIORITY_WEIGHT.least if factor is PriorityFactor.SIZE else 0
        weights[factor] = _number(WEIGHTS_PARAMETER, word, number, (least or 0, PRIORITY_WEIGHT.most))
    return MappingProxyType(weights)


@lru_cache(maxsize=4)
def read_shares(text: str, parameter: str) -> Mapping[str, int]:
    """Read ``NAME:NUMBER;NAME:NUMBER``; the last colon counts.

    Raises:  BadRequest ``parameter-value``, which names the entry.
    """
    shares: dict[str, int] = {}
    example = "chem:3;physics:1;*:1" if parameter == PROJECT_SHARES else "ann:3;chem/bob:2;*:1"
    for entry in filter(None, (piece.strip() for piece in text.split(";"))):
        name, colon, number = (part.strip() for part in entry.rpartition(":"))
        if not colon or not name:
            raise _wrong(parameter, f"{_shown(entry)} has no name", f"write {example}")
        if not name.isprintable() or len(name) > 2 * NAME.most + 1:
            raise _wrong(parameter, f"{_shown(name)} cannot be a name", f"write {example}")
        if name in shares:
            raise _wrong(parameter, f"{_shown(name)} has two entries", "write one entry for each name")
        shares[name] = _number(parameter, name, number, (SHARE.least or 0, SHARE.most))
    if len(shares) > LIMITED_OWNERS.most:
        what = f"there are {len(shares):,} entries"
        raise _wrong(parameter, what, f"write at most {LIMITED_OWNERS.most:,}")
    return MappingProxyType(shares)


def shares_of(parameters: Mapping[str, str]) -> Shares:
    """Return the shares that the parameters of a cluster set."""
    return Shares(*(read_shares(parameters.get(name, ""), name) for name in SHARE_PARAMETERS))


def _number(parameter: str, name: str, text: str, allowed: tuple[int, int]) -> int:
    least, most = allowed
    digits = text.removeprefix("-") if least < 0 else text
    plain = digits.isascii() and digits.isdecimal() and len(digits) <= len(str(most))
    if not plain or not least <= int(text) <= most:
        problem = f"is {_shown(text)}" if text else "has no number"
        raise _wrong(
            parameter, f"{_shown(name)} {problem}", f"write {least:,} to {most:,} without separators"
        )
    return int(text)


_FACTORS = tuple(factor.value for factor in PriorityFactor)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "...")


def _wrong(parameter: str, what: str, fix: str) -> BadRequest:
    return BadRequest(code="parameter-value", what=f"{parameter} is not understood: {what}", fix=fix)
