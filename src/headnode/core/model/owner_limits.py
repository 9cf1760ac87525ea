"""Limits of users, projects and groups of users: how many jobs, processors and GPUs each may have at once,
and how many processor-minutes and GPU-minutes each may use.

Source:  Slurm, "Resource Limits" (MaxJobsPerUser, MaxTRESPerUser, MaxSubmitJobsPerUser, GrpJobs, GrpTRES,
         GrpTRESMins, GrpTRESRunMins, MaxTRESMinsPerJob);
         OpenPBS, "qmgr", max_run and max_queued with PBS_GENERIC, and with g:GROUP.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from math import ceil, inf, isinf
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from msgspec import structs

from headnode.core.model.bounds import LIMITED_OWNERS, MINUTES_LIMIT, NAME, OWNER_LIMIT, Bound
from headnode.core.model.errors import BadRequest

EVERY = "*"
"""In place of a name: each user, or each project, separately."""

UNLIMITED = "unlimited"
GROUP_MARK = "@"
"""In `UserLimits` before the name of a group: each member of it, separately."""


class LimitedAmount(StrEnum):
    """What is limited."""

    JOBS = "jobs"  # running
    PROCESSORS = "processors"
    GPUS = "gpus"
    SUBMITTED = "submitted"  # jobs that have been submitted and are not over
    MINUTES = "processor-minutes"  # used, less their decay, and those that running jobs may still use
    JOB_MINUTES = "processor-minutes-per-job"  # the processors of one job times its run time limit
    RUN_MINUTES = "processor-minutes-running"  # those that running jobs may still use
    GPU_MINUTES = "gpu-minutes"  # the same three of GPUs
    GPU_JOB_MINUTES = "gpu-minutes-per-job"
    GPU_RUN_MINUTES = "gpu-minutes-running"

    @property
    def counts_time(self) -> bool:
        """Whether a job takes of it as much as it may use until its run time limit."""
        return self in _TIMED

    @property
    def counts_gpus(self) -> bool:
        """Whether jobs without GPUs take nothing of it."""
        return self in _OF_GPUS

    @property
    def counts_usage(self) -> bool:
        """Whether what jobs have used counts, less its decay, also when they have ended."""
        return self in _OF_USAGE

    @property
    def unit(self) -> int:
        """How many the scheduler counts for one: it counts processor-seconds and GPU-seconds."""
        return 60 if self.counts_time else 1

    @property
    def bound(self) -> Bound:
        """The largest limit of it."""
        return OWNER_LIMIT if self.unit == 1 else MINUTES_LIMIT

    def shown(self, counted: float) -> int:
        """Return what the scheduler counts as users write it; parts of a minute count as one.

        >>> LimitedAmount.MINUTES.shown(61), LimitedAmount.JOBS.shown(61)
        (2, 61)
        """
        return ceil(counted / self.unit)

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
    LimitedAmount.MINUTES: "processor-minute",
    LimitedAmount.JOB_MINUTES: "processor-minute",
    LimitedAmount.RUN_MINUTES: "processor-minute",
    LimitedAmount.GPU_MINUTES: "GPU-minute",
    LimitedAmount.GPU_JOB_MINUTES: "GPU-minute",
    LimitedAmount.GPU_RUN_MINUTES: "GPU-minute",
}
_OF_USAGE = frozenset({LimitedAmount.MINUTES, LimitedAmount.GPU_MINUTES})
_OF_RUNNING = frozenset({LimitedAmount.RUN_MINUTES, LimitedAmount.GPU_RUN_MINUTES})
_OF_EACH_JOB = frozenset({LimitedAmount.JOB_MINUTES, LimitedAmount.GPU_JOB_MINUTES})
_TIMED = _OF_USAGE | _OF_RUNNING | _OF_EACH_JOB
_OF_GPUS = frozenset(amount for amount in LimitedAmount if amount.startswith("gpu"))
_AMOUNTS = tuple(amount.value for amount in LimitedAmount)
_NEXT_ENTRY = re.compile(rf":\s*(?:{'|'.join(_AMOUNTS)})\s*=")
_MAX_SHOWN = 80  # characters of a wrong entry that the error repeats


class LimitScope(StrEnum):
    """Whose jobs count together: all of a user, of a project, or of the members of a group."""

    USER = "user"
    PROJECT = "project"
    GROUP = "group"

    @property
    def parameter(self) -> str:
        """The cluster parameter with these limits."""
        return f"{self.capitalize()}Limits"


_KEYS = tuple(f"{scope}," for scope in LimitScope)  # how keys of limits begin
_SPENT = tuple(f"{scope},{amount}," for scope in LimitScope for amount in _OF_USAGE | _OF_RUNNING)
_OF_ONE_JOB = tuple(f"{scope},{amount}," for scope in LimitScope for amount in _OF_EACH_JOB)
LIMIT_PARAMETERS = MappingProxyType({scope.parameter: scope for scope in LimitScope})

Limits = Mapping[LimitedAmount, int | None]
"""The limits of one entry.  None: unlimited, whatever the entry of everybody says."""


class LimitOwner(NamedTuple):
    """A user, a project or a group, and one amount that all its jobs together may have."""

    scope: LimitScope
    name: str
    amount: LimitedAmount

    @property
    def key(self) -> str:
        """The key by which the scheduler counts it.  No licence has it: their names have no comma."""
        return f"{self.scope},{self.amount},{self.name}"


class LimitShare(msgspec.Struct, frozen=True, gc=False):
    """What a job takes of a limit of its user, project or group, which is `limit` for all jobs of these.

    `key` is that of a `LimitOwner`.  `amount` None: one for each `size` processors that the job holds.  With
    `seconds`, its run time limit, it takes so many times as much.
    """

    key: str
    limit: int
    amount: int | None = None
    size: int = 1
    seconds: int = 0

    def held(self, processors: int) -> int:
        """Return how much of the limit a job holds with so many processors."""
        return self.count(processors) * (self.seconds or 1)

    def count(self, processors: int) -> int:
        """Return how many processors, GPUs or jobs count for the limit, of a job with so many processors."""
        return processors // self.size if self.amount is None else self.amount


def is_limit(key: str) -> bool:
    """Return whether a key is that of a limit, and not the name of a licence."""
    return key.startswith(_KEYS)


def is_spent(key: str) -> bool:
    """Return whether a key is that of a limit of which a plan expects nothing back when jobs end.

    What jobs used stays used; what running jobs reserve becomes less all the time, and is counted anew.
    """
    return key.startswith(_SPENT)


def is_of_one_job(key: str) -> bool:
    """Return whether a key is that of a limit that each job has for itself."""
    return key.startswith(_OF_ONE_JOB)


ENDLESS = 1 << 62
"""The seconds of a job without a run time limit: above each limit."""


def timed(share: LimitShare, amount: LimitedAmount, run_time: float) -> LimitShare:
    """Return what a job takes of a limit of minutes, which takes `share` at each time."""
    return structs.replace(share, limit=share.limit * amount.unit, seconds=_seconds_of(run_time))


def retimed(shares: Iterable[LimitShare], run_time: float) -> tuple[LimitShare, ...]:
    """Return what a job takes of limits with another run time limit."""
    seconds = _seconds_of(run_time)
    return tuple(structs.replace(each, seconds=seconds) if each.seconds else each for each in shares)


def _seconds_of(run_time: float) -> int:
    return ENDLESS if isinf(run_time) else max(1, ceil(run_time))


def limit_owner(key: str) -> LimitOwner:
    """Return whose limit a key is of."""
    scope, amount, name = key.split(",", 2)
    return LimitOwner(LimitScope(scope), name, LimitedAmount(amount))


def limits_of(
    entries: Mapping[str, Limits], name: str, groups: Iterable[str] = ()
) -> dict[LimitedAmount, int]:
    """Return the limits of a user, project or group; None as a limit is left out.

    For each amount its own entry counts, else the largest of its `groups`, else that of everybody.

    >>> limits_of(read_owner_limits("*:jobs=2,processors=8;ann:jobs=unlimited"), "ann")
    {<LimitedAmount.PROCESSORS: 'processors'>: 8}
    """
    of_groups: dict[LimitedAmount, int | None] = {}
    for group in groups:
        for amount, limit in entries.get(GROUP_MARK + group, {}).items():
            of_groups[amount] = _larger(limit, of_groups[amount]) if amount in of_groups else limit
    every = {**entries.get(EVERY, {}), **of_groups, **entries.get(name, {})}
    return {amount: limit for amount, limit in every.items() if limit is not None}


def entry_of(entries: Mapping[str, Limits], name: str, groups: Iterable[str], amount: LimitedAmount) -> str:
    """Return the name of the entry that sets the limit of an amount, as in `limits_of`."""
    if amount in entries.get(name, {}):
        return name
    names = [GROUP_MARK + group for group in groups if amount in entries.get(GROUP_MARK + group, {})]
    if not names:
        return EVERY
    return max(names, key=lambda entry: inf if (limit := entries[entry][amount]) is None else limit)


def groups_in(entries: Mapping[LimitScope, Mapping[str, Limits]]) -> frozenset[str]:
    """Return the names of the groups of which limits ask who is a member."""
    members = (name[1:] for name in entries[LimitScope.USER] if name.startswith(GROUP_MARK))
    return frozenset((*members, *entries[LimitScope.GROUP]))


def _larger(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


@lru_cache(maxsize=4)  # a value that is set is read when it is checked, recorded and applied
def read_owner_limits(text: str) -> Mapping[str, Limits]:
    """Read ``NAME:AMOUNT=N,AMOUNT=N;NAME:...``; the last colon counts.

    Raises:  BadRequest ``limits``, which names the entry.
    """
    limits: dict[str, dict[LimitedAmount, int | None]] = {}
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
        if name in limits:
            raise _wrong(f"{_shown(name)} has two entries", "write one entry with all its limits")
        limits[name] = dict(_read_amounts(name, amounts))
    if len(limits) > LIMITED_OWNERS.most:
        raise _wrong(f"there are {len(limits):,} entries", f"write at most {LIMITED_OWNERS.most:,}")
    return MappingProxyType(limits)


def _read_amounts(name: str, text: str) -> Iterator[tuple[LimitedAmount, int | None]]:
    seen = set[str]()
    for piece in (part.strip() for part in text.split(",")):
        word, _, number = (part.strip() for part in piece.partition("="))
        if word not in _AMOUNTS or word in seen:
            what = f"{word!r} is limited twice" if word in seen else _no_amount(piece)
            fix = f"write each amount once with its number: {name[:_MAX_SHOWN]}:jobs=10,processors=1000"
            raise _wrong(f"in the entry of {_shown(name)} {what}", fix)
        seen.add(word)
        if number == UNLIMITED:
            yield LimitedAmount(word), None
            continue
        most = LimitedAmount(word).bound.most
        plain = number.isascii() and number.isdecimal() and len(number) <= len(str(most))
        if not plain or int(number) > most:
            fix = f"write {word}= and 0 to {most:,} without separators, or {word}={UNLIMITED}"
            problem = f"is {_shown(number)}" if number else "has no number"
            raise _wrong(f"{word} of {_shown(name)} {problem}", fix)
        yield LimitedAmount(word), int(number)


def _no_amount(piece: str) -> str:
    if not piece:
        return "an amount is missing"
    if piece.isdecimal():
        return f"{_shown(piece)} is a number without an amount"  # as in jobs=10,000
    return f"{_shown(piece)} is not one of {', '.join(_AMOUNTS)}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "...")


def _wrong(what: str, fix: str) -> BadRequest:
    return BadRequest(code="limits", what=f"limits are not understood: {what}", fix=fix)
