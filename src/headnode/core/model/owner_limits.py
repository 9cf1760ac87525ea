"""Limits of users and projects: how many jobs, processors and GPUs each may have at once.

Source:  Slurm, "Resource Limits" (MaxJobsPerUser, MaxTRESPerUser, MaxSubmitJobsPerUser, GrpJobs, GrpTRES);
         OpenPBS, "qmgr", max_run and max_queued with PBS_GENERIC.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from headnode.core.model.bounds import LIMITED_OWNERS, NAME, OWNER_LIMIT
from headnode.core.model.errors import BadRequest

EVERY = "*"
"""In place of a name: each user, or each project, separately."""

UNLIMITED = "unlimited"


class LimitedAmount(StrEnum):
    """What is limited."""

    JOBS = "jobs"  # running
    PROCESSORS = "processors"
    GPUS = "gpus"
    SUBMITTED = "submitted"  # jobs that have been submitted and are not over

    def counted(self, number: int) -> str:
        """Return so much of it in words.

        >>> LimitedAmount.JOBS.counted(1), LimitedAmount.GPUS.counted(2)
        ('1 running job', '2 GPUs')
        """
        return f"{number} {_WORDS[self]}{'' if number == 1 else 's'}"


_WORDS = {
    LimitedAmount.JOBS: "running job",
    LimitedAmount.PROCESSORS: "processor",
    LimitedAmount.GPUS: "GPU",
    LimitedAmount.SUBMITTED: "submitted job",
}
_AMOUNTS = tuple(amount.value for amount in LimitedAmount)
_NEXT_ENTRY = re.compile(rf":\s*(?:{'|'.join(_AMOUNTS)})\s*=")
_MOST_DIGITS = len(str(OWNER_LIMIT.most))
_MOST_SHOWN = 80  # characters of a wrong entry that the error repeats


class LimitScope(StrEnum):
    """Whose jobs count together: all of a user, or all of a project."""

    USER = "user"
    PROJECT = "project"

    @property
    def parameter(self) -> str:
        """The cluster parameter with these limits."""
        return "UserLimits" if self is LimitScope.USER else "ProjectLimits"


_KEYS = tuple(f"{scope}," for scope in LimitScope)  # how keys of limits begin
LIMIT_PARAMETERS = MappingProxyType({scope.parameter: scope for scope in LimitScope})

Limits = Mapping[LimitedAmount, int | None]
"""The limits of one entry.  None: unlimited, whatever the entry of everybody says."""


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

    def held(self, processors: int) -> int:
        """Return how much of the limit a job holds with so many processors."""
        return processors // self.size if self.amount is None else self.amount


def is_limit(key: str) -> bool:
    """Return whether a key is that of a limit, and not the name of a licence."""
    return key.startswith(_KEYS)


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


@lru_cache(maxsize=4)  # a value that is set is read when it is checked, recorded and applied
def read_owner_limits(text: str) -> Mapping[str, Limits]:
    """Read ``NAME:AMOUNT=N,AMOUNT=N;NAME:...``; the last colon counts.

    Raises:  BadRequest ``limits``, which names the entry.
    """
    found: dict[str, dict[LimitedAmount, int | None]] = {}
    for entry in filter(None, (piece.strip() for piece in text.split(";"))):
        name, colon, amounts = entry.rpartition(":")
        name = name.strip()
        if not colon or not name:
            raise _wrong(
                f"{_shown(entry)} has no name", "write NAME:jobs=10,processors=64, and * as NAME for each"
            )
        if _NEXT_ENTRY.search(name):
            raise _wrong(f"{_shown(entry)} has several names", "write ; between the entries")
        if not name.isprintable() or len(name) > NAME.most:
            raise _wrong(f"{_shown(name)} cannot be a name", "write the name of a user or a project")
        if name in found:
            raise _wrong(f"{_shown(name)} has two entries", "write one entry with all its limits")
        found[name] = dict(_read_amounts(name, amounts))
    if len(found) > LIMITED_OWNERS.most:
        raise _wrong(f"there are {len(found):,} entries", f"write at most {LIMITED_OWNERS.most:,}")
    return MappingProxyType(found)


def _read_amounts(name: str, text: str) -> Iterator[tuple[LimitedAmount, int | None]]:
    seen = set[str]()
    for piece in (part.strip() for part in text.split(",")):
        word, _, number = (part.strip() for part in piece.partition("="))
        if word not in _AMOUNTS or word in seen:
            what = f"{word!r} is limited twice" if word in seen else _no_amount(piece)
            fix = f"write each amount once with its number: {name[:_MOST_SHOWN]}:jobs=10,processors=1000"
            raise _wrong(f"in the entry of {_shown(name)} {what}", fix)
        seen.add(word)
        if number == UNLIMITED:
            yield LimitedAmount(word), None
            continue
        plain = number.isascii() and number.isdecimal() and len(number) <= _MOST_DIGITS
        if not plain or int(number) > OWNER_LIMIT.most:
            fix = f"write {word}= and 0 to {OWNER_LIMIT.most:,} without separators, or {word}={UNLIMITED}"
            given = f"is {_shown(number)}" if number else "has no number"
            raise _wrong(f"{word} of {_shown(name)} {given}", fix)
        yield LimitedAmount(word), int(number)


def _no_amount(piece: str) -> str:
    if not piece:
        return "an amount is missing"
    if piece.isdecimal():
        return f"{_shown(piece)} is a number without an amount"  # as in jobs=10,000
    return f"{_shown(piece)} is not one of {', '.join(_AMOUNTS)}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "...")


def _wrong(what: str, fix: str) -> BadRequest:
    return BadRequest(code="limits", what=f"limits are not understood: {what}", fix=fix)
