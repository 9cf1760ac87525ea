"""How long the jobs of a replay waited for limits of their users, projects and groups.

A job waits for a limit while what is left of it is not enough for the job, even if all nodes were idle: the
rule by which the scheduler passes the job over.  What is left of processor-minutes changes all the time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import groupby
from math import expm1, inf, log
from operator import itemgetter
from typing import NamedTuple

from headnode.apps.simulate.machine import SimulatedMachine
from headnode.apps.simulate.scenario import RequestOverrides
from headnode.apps.simulate.submissions import ReplaySubmissions, idle_nodes, sized_request
from headnode.core.model.job import JobRequest
from headnode.core.model.owner_limits import LimitScope, is_spent, limit_owner
from headnode.core.scheduling.free_resources import FreeResources
from headnode.core.scheduling.limit_checks import is_limited, least_of_limit
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.request import limits_held, resolve
from headnode.core.state.limit_index import LimitIndex
from headnode.core.state.limit_use import ROUNDING
from headnode.core.state.owner_usage import HALF_LIFE, seconds_until


class OwnerWait(NamedTuple):
    """How many jobs of an owner waited for its limits; the seconds of all, and of the longest."""

    scope: LimitScope
    name: str
    jobs: int
    seconds: float
    longest: float


class LimitWaits(NamedTuple):
    """The seconds that each job waited for limits, and the users, projects and groups, the longest first."""

    seconds: Sequence[float]
    owners: Sequence[OwnerWait]


class _ShortTime:
    """For how long something has been short."""

    __slots__ = ("end", "passed", "since")

    def __init__(self) -> None:
        self.passed, self.since, self.end = 0.0, 0.0, 0.0

    def until(self, now: float) -> float:
        """Return the seconds until now."""
        return self.passed + max(0.0, min(now, self.end) - self.since)

    def set(self, now: float, end: float) -> None:
        """Let it be short from now on until `end`, unless that is changed before."""
        self.passed, self.since, self.end = self.until(now), now, end


class _Minutes:
    """What is used of a limit of processor-minutes, less its decay, and what running jobs may still use.

    decay_time:  the seconds in which usage decays to 1/e; 0: only what running jobs may use counts
    """

    def __init__(self, limit: int, decay_time: float) -> None:
        self._limit, self._time = limit, decay_time
        self._used, self._at, self._held, self._ends = 0.0, 0.0, 0, 0.0

    def hold(self, now: float, processors: int, until: float) -> None:
        """Let a job hold so many processors more from now on, at most until its run time limit."""
        self._used, self._at = self._used_at(now), now
        self._held += processors
        self._ends += processors * until

    def enough_in(self, now: float, needed: int) -> float:
        """Return in how many seconds there is enough for a job that needs so much; infinite: not by decay."""
        reserved = max(0.0, self._ends - self._held * now)
        room = self._limit - needed + ROUNDING
        return seconds_until(room, self._used_at(now), reserved, self._held, self._time)

    def _used_at(self, now: float) -> float:
        if not self._time:
            return 0.0
        decayed = -expm1((self._at - now) / self._time)
        return self._used + (self._held * self._time - self._used) * decayed


_SCOPES = tuple(LimitScope)


class _AlikeJobs:
    """Jobs of one size of one user and project.

    times:  how long limits of the user, the project, the groups, and any of these were too short for them
    """

    def __init__(self, request: JobRequest, table: NodeTable) -> None:
        self.request, self._need = request, resolve(request, table)
        keys = [share.key for share in request.limits if not share.seconds]
        self.keys = tuple([key for key in keys if limit_owner(key).scope is scope] for scope in _SCOPES)
        spent = [share for share in request.limits if is_spent(share.key)]
        needed = {each.key: least_of_limit(self._need, each, table) for each in spent}
        self.minutes = tuple(
            [(key, most) for key, most in needed.items() if limit_owner(key).scope is scope]
            for scope in _SCOPES
        )
        self.waiting = 0
        self.times = tuple(_ShortTime() for _ in (*_SCOPES, None))
        self._known: dict[tuple[tuple[str, int], ...], bool] = {}

    def look(
        self, now: float, left: Mapping[str, int], minutes: Mapping[str, _Minutes], idle: FreeResources
    ) -> None:
        """Look again which limits are too short, and until when, by what is left of each."""
        ends = []
        for keys, spent in zip(self.keys, self.minutes, strict=True):
            short = self._is_short(tuple((key, left[key]) for key in keys), idle)
            waits = (minutes[key].enough_in(now, needed) for key, needed in spent)
            ends.append(inf if short else now + max(waits, default=0.0))
        for time, end in zip(self.times, (*ends, max(ends)), strict=True):
            time.set(now, end)

    def _is_short(self, left: tuple[tuple[str, int], ...], idle: FreeResources) -> bool:
        if left not in self._known:
            nodes = (idle.node_table, idle.free, idle.jobs, idle.owned, idle.amounts)
            self._known[left] = bool(left) and is_limited(self._need, FreeResources(*nodes, dict(left)))
        return self._known[left]


class _LimitUse:
    """What jobs hold of limits at a time, and how long each has waited for them until then."""

    def __init__(self, jobs: Sequence[_AlikeJobs], idle: FreeResources, decay_time: float) -> None:
        self._jobs, self._idle = jobs, idle
        self._left = {share.key: share.limit for each in jobs for share in each.request.limits}
        self._minutes = {
            key: _Minutes(limit, decay_time if limit_owner(key).amount.counts_usage else 0.0)
            for key, limit in self._left.items()
            if is_spent(key)
        }
        self._limits = [0.0] * len(jobs)  # when the run time limit of each is over
        self._sizes = [0] * len(jobs)
        self._since: dict[int, tuple[float, ...]] = {}  # how long it had been short, of waiting jobs
        self._of_key: dict[str, list[_AlikeJobs]] = {}
        for each in {id(each): each for each in jobs}.values():
            for share in each.request.limits:
                self._of_key.setdefault(share.key, []).append(each)
        self.waits = [[0.0] * len(jobs) for _ in (*_SCOPES, None)]

    def change(self, now: float, rows: Sequence[tuple[int, int]], ended: Sequence[float]) -> None:
        """Change the processors of jobs by as many; jobs that arrive change by none."""
        changed = set[str]()
        for row, more in rows:
            of, size = self._jobs[row], self._sizes[row] + more
            if not of.request.limits:
                continue
            if size == 0 and ended[row] != now:
                of.waiting += 1
                self._since[row] = tuple(time.until(now) for time in of.times)
                changed.update(*of.keys, *(dict(each) for each in of.minutes))
            elif self._sizes[row] == 0 and more:
                of.waiting -= 1
                self._count(row, self._since.pop(row), now)
            if self._sizes[row] == 0:
                self._limits[row] = now + of.request.run_time
            changed.update(self._hold(of.request, self._sizes[row], size))
            for key in (key for each in of.minutes for key, _ in each if more):
                self._minutes[key].hold(now, more, self._limits[row])
                changed.add(key)
            self._sizes[row] = size
        touched = {id(each): each for key in changed for each in self._of_key[key] if each.waiting}
        for each in touched.values():
            each.look(now, self._left, self._minutes, self._idle)

    def _count(self, row: int, since: Sequence[float], now: float) -> None:
        for column, time, before in zip(self.waits, self._jobs[row].times, since, strict=True):
            column[row] += time.until(now) - before

    def _hold(self, request: JobRequest, before: int, after: int) -> Iterator[str]:
        """Take what a job holds more of its limits with its new size; yield what changes."""
        held, holds = (limits_held(request, size) if size else {} for size in (before, after))
        for key in held.keys() | holds.keys():
            more = holds.get(key, 0) - held.get(key, 0)
            if more:
                self._left[key] -= more
                yield key


class ReplayedJobs(NamedTuple):
    """The jobs of a replay.

    Unit:  seconds for `submits`, `ended` and the first of each of `changes`, which are those of a
           `PreemptionCost`
    """

    submissions: ReplaySubmissions
    submits: Sequence[float]
    changes: Sequence[tuple[float, int, int]]
    ended: Sequence[float]


def limit_waits(
    replayed: ReplayedJobs,
    index: LimitIndex,
    machine: SimulatedMachine,
    asking: RequestOverrides,
    half_life: float = HALF_LIFE,
) -> LimitWaits:
    """Return how long jobs waited for their limits.

    half_life:  of usage, in seconds
    Cost:  for each change O(kinds of waiting jobs that have the same limit)
    """
    table = NodeTable(idle_nodes(machine))
    made: dict[tuple[str, str, tuple[int, int], float], _AlikeJobs] = {}
    jobs = []
    for row in range(len(replayed.submits)):
        come = replayed.submissions
        estimate = come.estimate(row) if index.counts_time else 1.0
        key = come.owner(row), come.project(row), come.size(row), estimate
        if key not in made:
            request = index.admit(*key[:2], sized_request(*key[2], machine, asking, estimate))
            made[key] = _AlikeJobs(request, table)
        jobs.append(made[key])
    use = _LimitUse(jobs, FreeResources.empty(table, {}), half_life / log(2))
    arrivals = [(at, row, 0) for row, at in enumerate(replayed.submits)]
    for now, changes in groupby(merge(arrivals, replayed.changes, key=itemgetter(0)), itemgetter(0)):
        use.change(now, [(row, more) for _, row, more in changes], replayed.ended)
    *by_scope, every = use.waits
    names = replayed.submissions.owner, replayed.submissions.project, replayed.submissions.group
    owners = [
        each
        for scope, waits, name in zip(_SCOPES, by_scope, names, strict=True)
        for each in _owner_waits(scope, waits, name)
    ]
    return LimitWaits(every, sorted(owners, key=lambda each: -each.seconds))


def _owner_waits(
    scope: LimitScope, waits: Sequence[float], name: Callable[[int], str]
) -> Iterator[OwnerWait]:
    by_owner: dict[str, list[float]] = {}
    for row, seconds in enumerate(waits):
        if seconds > 0:
            by_owner.setdefault(name(row), []).append(seconds)
    for owner, each in by_owner.items():
        yield OwnerWait(scope, owner, len(each), sum(each), max(each))
