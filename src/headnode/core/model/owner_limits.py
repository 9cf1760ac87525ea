"""Limits of users and projects: how many jobs, processors and GPUs each may have at once.

Source:  Slurm, "Resource Limits" (MaxJobsPerUser, MaxTRESPerUser, MaxSubmitJobsPerUser, GrpJobs, GrpTRES);
         OpenPBS, "qmgr", max_run and max_queued with PBS_GENERIC.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from headnode.core.model.errors import BadRequest

EVERY = "*"
"""In place of a name: each user, or each project, separately."""

UNLIMITED = "unlimited"
MOST_LIMIT = 1_000_000_000
MOST_OWNERS = 10_000  # entries of one parameter


class LimitedAmount(StrEnum):
    """What is limited."""

    JOBS = "jobs"  # running
    PROCESSORS = "processors"
    GPUS = "gpus"
    SUBMITTED = "submitted"  # jobs that have been submitted and are not over


_AMOUNTS = tuple(amount.value for amount in LimitedAmount)


class LimitScope(StrEnum):
    """Whose jobs count together: all of a user, or all of a project."""

    USER = "user"
    PROJECT = "project"

    @property
    def parameter(self) -> str:
        """The cluster parameter with these limits."""
        return "UserLimits" if self is LimitScope.USER else "ProjectLimits"


LIMIT_PARAMETERS = MappingProxyType({scope.parameter: scope for scope in LimitScope})

Limits = Mapping[LimitedAmount, int | None]
"""The limits of one entry.  None: unlimited, whatever the entry of everybody says."""

NO_LIMITS: Mapping[str, Limits] = MappingProxyType({})


class LimitOwner(NamedTuple):
    """A user or a project, and one amount that all its jobs together may have."""

    scope: LimitScope
    name: str
    amount: LimitedAmount

    @property
    def key(self) -> str:
        """The key by which the scheduler counts it.  No licence has it: their names have no comma."""
        return f"{self.scope},{self.amount},{self.name}"


class LimitShare(msgspec.Struct, frozen=True, gc=False):
    """What a job takes of a limit of its user or project, which is `limit` for all their jobs together.

    `key` is that of a `LimitOwner`.  `amount` None: one for each `size` processors that the job holds.
    """

    key: str
    limit: int
    amount: int | None = None
    size: int = 1


def limit_owner(key: str) -> LimitOwner:
    """Return whose limit a key is of."""
    scope, amount, name = key.split(",", 2)
    return LimitOwner(LimitScope(scope), name, LimitedAmount(amount))


def limits_of(entries: Mapping[str, Limits], name: str) -> dict[LimitedAmount, int]:
    """Return the limits of a user or project: its own, and for what it does not name those of everybody.

    >>> limits_of(read_owner_limits("*:jobs=2,processors=8;ann:jobs=unlimited"), "ann")
    {<LimitedAmount.PROCESSORS: 'processors'>: 8}
    """
    both = {**entries.get(EVERY, {}), **entries.get(name, {})}
    return {amount: limit for amount, limit in both.items() if limit is not None}


def read_owner_limits(text: str) -> dict[str, dict[LimitedAmount, int | None]]:
    """Read ``NAME:AMOUNT=N,AMOUNT=N;NAME:...``; the last colon counts.

    Raises:  BadRequest ``limits``.
    """
    found: dict[str, dict[LimitedAmount, int | None]] = {}
    for entry in filter(None, (piece.strip() for piece in text.split(";"))):
        name, colon, amounts = entry.rpartition(":")
        name = name.strip()
        if not colon or not name:
            raise _wrong(f"{entry!r} has no name", "write NAME:jobs=10,processors=64, and * as NAME for each")
        if name in found:
            raise _wrong(f"{name!r} has two entries", "write one entry with all its limits")
        found[name] = dict(_read_amounts(name, amounts))
    if len(found) > MOST_OWNERS:
        raise _wrong(f"there are {len(found):,} entries", f"write at most {MOST_OWNERS:,}")
    return found


def _read_amounts(name: str, text: str) -> Iterator[tuple[LimitedAmount, int | None]]:
    seen = set[str]()
    for piece in (part.strip() for part in text.split(",")):
        word, _, number = (part.strip() for part in piece.partition("="))
        if word not in _AMOUNTS or word in seen:
            what = (
                f"{word!r} is limited twice"
                if word in seen
                else f"{piece!r} is not one of {', '.join(_AMOUNTS)}"
            )
            raise _wrong(
                f"in the entry of {name!r} {what}", f"write each once with its number: {name}:jobs=10"
            )
        seen.add(word)
        if number == UNLIMITED:
            yield LimitedAmount(word), None
            continue
        if not (number.isascii() and number.isdecimal() and int(number) <= MOST_LIMIT):
            fix = f"write 0 to {MOST_LIMIT:,} without separators, or {UNLIMITED}"
            raise _wrong(f"{word} of {name!r} is {number!r}", fix)
        yield LimitedAmount(word), int(number)


def _wrong(what: str, fix: str) -> BadRequest:
    return BadRequest(code="limits", what=f"limits are not understood: {what}", fix=fix)
