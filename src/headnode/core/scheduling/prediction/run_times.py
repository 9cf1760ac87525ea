"""How long a job will run, learned from jobs that ended: what part of the time asked for was used.

Users request far more than they need, and each in their own way: the last jobs of the same user, of the
same name and with the same limit, tell most.  Where there are too few, what the user did under other names
tells, then all jobs with that limit, then all jobs.

Source:  Tsafrir, Etsion and Feitelson, "Backfilling using system-generated predictions rather than user
         runtime estimates", 2007, for how little history is enough.
"""

import re
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple

import msgspec

from headnode.core.model.quantities import FOREVER, Seconds


class RecentValues:
    """The newest values, at most a fixed number.

    Cost:  that of a move within a list of that length for each value.
    """

    __slots__ = ("_ascending", "_most", "_order")

    def __init__(self, most: int, values: Iterable[float] = ()) -> None:
        self._most = most
        self._order: deque[float] = deque()
        self._ascending: list[float] = []
        for value in values:
            self.add(value)

    def __len__(self) -> int:
        return len(self._order)

    def add(self, value: float) -> None:
        """Remember a value, in the place of the oldest if there are enough."""
        if len(self._order) == self._most:
            del self._ascending[bisect_left(self._ascending, self._order.popleft())]
        self._order.append(value)
        insort(self._ascending, value)

    def values(self) -> tuple[float, ...]:
        """Return the values, oldest first."""
        return tuple(self._order)

    def above(self, value: float) -> Sequence[float]:
        """Return those above a value, ascending."""
        return tuple(self._ascending[bisect_right(self._ascending, value) :])

    def quantile(self, level: float) -> float:
        """Return what a part `level` of the values do not exceed; there must be some."""
        return quantile(self._ascending, level)


def quantile(ascending: Sequence[float], level: float) -> float:
    """Return what a part `level` of equally likely values do not exceed, between neighbours in proportion.

    >>> quantile([10, 20, 60], 0.5), quantile([10, 20, 60], 0.9)
    (20, 60)
    """
    place, last = level * len(ascending) - 0.5, len(ascending) - 1
    if place <= 0:  # conditions: replays ask millions of times, and min and max take longer than the rest
        return ascending[0]
    if place >= last:
        return ascending[last]
    below = int(place)
    value = ascending[below]
    if place == below or ascending[below + 1] == value:
        return value
    return value + (place - below) * (ascending[below + 1] - value)


REMEMBERED = 20  # jobs for each kind; older habits tell less than they mislead
MIN_JOBS = 2  # jobs of a kind, or nothing is said about it
LIMITLESS = 0.0  # no limit is less; a number that all formats can write
KINDS = 50_000  # kinds in all; 20 MB at most
_NOT_YET = Seconds(0.0)
_NUMBER = re.compile(r"\d+")

JobKind = tuple[str | None, str | None, float | None]
"""User, family of names and run time limit, `LIMITLESS` for none; None for any."""


class JobTraits(NamedTuple):
    """The properties of a job before it runs.  `name` is "" and `limit` FOREVER if the job has none."""

    user: str
    name: str
    limit: Seconds


class RunTimeForecast(NamedTuple):
    """The forecast of a run time: those of similar jobs, ascending, each equally likely.

    `parts` are in units of `scale` seconds; nothing runs longer than `limit`.
    """

    parts: Sequence[float]
    scale: float
    limit: Seconds

    def at(self, level: float) -> Seconds:
        """Return the run time that a part `level` of its like do not exceed; 0.5 gives the median.

        >>> RunTimeForecast((0.1, 0.2, 0.6), scale=100.0, limit=Seconds(100.0)).at(0.5)
        20.0
        """
        parts, scale, limit = self
        found = quantile(parts, level) * scale
        return limit if limit < found else Seconds(found)


class RunTimeRecord(msgspec.Struct, frozen=True):
    """The run times of one kind of job, oldest first: parts of the limit, or seconds without a limit."""

    user: str | None
    family: str | None
    limit: float | None
    used: tuple[float, ...]


class RunTimeHistory:
    """The newest run times of each kind of job.  The kinds not seen for longest are dropped.

    Say `learn` when a job ends; ask `forecast` at any time.  `state` and `restored` are for snapshots.
    """

    def __init__(self, kinds: int = KINDS) -> None:
        self._most = kinds
        self._memories: OrderedDict[JobKind, RecentValues] = OrderedDict()

    def learn(self, job: JobTraits, used: Seconds) -> None:
        """Remember how long a job ran that came to its own end, or to that of its limit."""
        part = max(0.0, used) / _scale(job)
        for kind in _kinds(job):
            self._memory(kind).add(part)
        while len(self._memories) > self._most:
            self._memories.popitem(last=False)

    def forecast(self, job: JobTraits, ran: Seconds = _NOT_YET) -> RunTimeForecast:
        """Return how long the job may run in all, given that it has run for `ran` already.

        Never longer than its limit.  Without anything to go by, its limit, which may be FOREVER; and for a
        job without limit that has outlived all its like, as long again as it has run.
        """
        scale, outlived = _scale(job), False
        for kind in _kinds(job):
            memory = self._memories.get(kind)
            if memory is None:
                continue
            longer, outlived = memory.above(ran / scale), True
            if len(longer) >= (MIN_JOBS if kind[0] is not None else 1):
                return RunTimeForecast(longer, scale, job.limit)
        longest = 2 * ran if outlived and ran > 0 and job.limit == FOREVER else job.limit
        return RunTimeForecast((longest,), 1.0, job.limit)

    def state(self) -> tuple[RunTimeRecord, ...]:
        """Return all that is remembered, kinds not seen for longest first."""
        return tuple(RunTimeRecord(*kind, memory.values()) for kind, memory in self._memories.items())

    @classmethod
    def restored(cls, state: Iterable[RunTimeRecord]) -> "RunTimeHistory":
        """Return the history with this state."""
        history = cls()
        for kind in state:
            memory = history._memory((kind.user, kind.family, kind.limit))
            for part in kind.used:
                memory.add(part)
        return history

    def _memory(self, kind: JobKind) -> RecentValues:
        memory = self._memories.get(kind)
        if memory is None:
            memory = self._memories[kind] = RecentValues(REMEMBERED)
        else:
            self._memories.move_to_end(kind)
        return memory


def _scale(job: JobTraits) -> float:
    return job.limit if job.limit < inf else 1.0


def _kinds(job: JobTraits) -> Iterator[JobKind]:
    """Yield the kinds the job belongs to, closest first.  What has no limit is never mixed with what has."""
    limits = (job.limit, None) if job.limit < inf else (LIMITLESS,)
    if job.name:
        family = job.name if job.name.isdigit() else _NUMBER.sub("#", job.name)  # run-1 and run-2 are one
        for limit in limits:
            yield job.user, family, limit
    for user in (job.user, None):
        for limit in limits:
            yield user, None, limit
