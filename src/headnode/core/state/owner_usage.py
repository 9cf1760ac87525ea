"""What the owners and projects of jobs have used: processor-seconds and GPU-seconds that count less as they
get older, and the sum of what has a weight.

An account is brought up to date when a job of it gets or loses processors, so its cost does not depend on how
long jobs run or how many there are.  With a half-life of a week, what was used a week ago counts half.
Source: Slurm, "Multifactor Priority Plugin", PriorityDecayHalfLife.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import expm1, inf, log
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from headnode.core.model.job import JobRequest
from headnode.core.model.owner_limits import LimitScope
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.state.job_record import JobRecord
from headnode.core.state.job_request import gpus_of
from headnode.core.state.node_record import NodeRecord

if TYPE_CHECKING:
    from headnode.core.model.usage_weights import UsageWeights

HALF_LIFE_PARAMETER = "UsageHalfLife"
USAGE_WEIGHTS_PARAMETER = "UsageWeights"
HALF_LIFE = 604_800  # seconds, where the parameter is not set
MAX_ACCOUNTS = 20_000  # names of projects are free text; beyond these the least used accounts are dropped

_PRECISION = 1e-3  # seconds
_RATE = 1_000_000  # of a processor without weights: rates are in millionths, so that their sums are exact
UsageKey = tuple[str, str]
"""An owner and a project, which is empty for jobs without one."""


def seconds_until(room: float, used: float, reserved: float, held: int, decay_time: float) -> float:
    """Return in how many seconds no more than `room` is used and reserved; infinite if not by decay.

    Running jobs use what is reserved at the rate of the processors or GPUs `held`, all the time.
    decay_time:  0: nothing counts that was used
    Unit:        processor-seconds or GPU-seconds

    >>> round(seconds_until(50.0, 100.0, 0.0, 0, 3600 / log(2)))
    3600
    """
    if used + reserved <= room:
        return 0.0
    if not decay_time:
        return (reserved - room) / held if held and room >= 0 else inf
    if not held:
        left = room - reserved
        return decay_time * log(used / left) if left > 0 else inf

    def total(after: float) -> float:
        decayed = -expm1(-after / decay_time)
        return used + (held * decay_time - used) * decayed + reserved - held * after

    low, high = 0.0, reserved / held
    if total(high) > room:
        return inf
    while high - low > _PRECISION:
        middle = (low + high) / 2
        low, high = (middle, high) if total(middle) > room else (low, middle)
    return high


def usage_weights(parameters: Mapping[str, str]) -> "UsageWeights | None":
    """Return the weights with which usage is counted; None: only processors are counted."""
    text = parameters.get(USAGE_WEIGHTS_PARAMETER)
    if not text:
        return None
    from headnode.core.model.usage_weights import read_usage_weights  # few clusters have weights

    return read_usage_weights(text)


class UsageAccount(msgspec.Struct, forbid_unknown_fields=True):
    """The processor-seconds used by the jobs of one owner and project until `at`, less their decay."""

    owner: str
    project: str
    used: float
    at: Instant
    gpus: float = 0.0  # GPU-seconds
    weighted: float | None = None  # with the weights of the times of use; None: as `used`, there were none


class _LiveAccount(msgspec.Struct):
    """An account with what its jobs hold now, which follows from their allocations.

    rate:  in millionths, how much `weighted` is used each second
    """

    key: UsageKey
    used: float
    at: Instant
    held: int = 0
    gpus: float = 0.0
    gpus_held: int = 0
    weighted: float = 0.0
    rate: int = 0


class HeldByJob(NamedTuple):
    """What a job holds: processors, GPUs, and the sum of what has a weight, in millionths."""

    processors: int = 0
    gpus: int = 0
    rate: int = 0


class OwnerUsage:
    """The accounts of all owners.  `now` is the time of the event that is being applied."""

    def __init__(
        self, accounts: list[UsageAccount], parameters: Mapping[str, str], nodes: Mapping[str, NodeRecord]
    ) -> None:
        self.now = Instant(0.0)
        half_life = float(parameters.get(HALF_LIFE_PARAMETER, HALF_LIFE))
        self._time = half_life / log(2)  # seconds in which usage decays to 1/e
        self._nodes, self._weights = nodes, usage_weights(parameters)
        found = map(_live, accounts)
        self._accounts = {each.key: each for each in found}
        self._of_owner: dict[str, list[_LiveAccount]] = {}
        self._of_project: dict[str, list[_LiveAccount]] = {}
        self._index(self._accounts.values())
        self._jobs: dict[JobId, tuple[_LiveAccount, HeldByJob]] = {}

    # Reading

    @property
    def decay_time(self) -> float:
        """The seconds in which usage decays to 1/e."""
        return self._time

    def used_by_owner(self, owner: str, now: Instant, *, gpus: bool = False) -> float:
        """Return the processor-seconds or GPU-seconds of an owner until now, in all projects."""
        used = self._gpus_used if gpus else self._used
        return sum(used(account, now) for account in self._of_owner.get(owner, ()))

    def used_by_project(self, project: str, now: Instant, *, gpus: bool = False) -> float:
        """Return the processor-seconds or GPU-seconds of a project until now, of all owners."""
        used = self._gpus_used if gpus else self._used
        return sum(used(account, now) for account in self._of_project.get(project, ()))

    def held_by_owner(self, owner: str, *, gpus: bool = False) -> int:
        """Return how many processors or GPUs the jobs of an owner hold."""
        return sum(each.gpus_held if gpus else each.held for each in self._of_owner.get(owner, ()))

    def held_by_project(self, project: str, *, gpus: bool = False) -> int:
        """Return how many processors or GPUs the jobs of a project hold."""
        return sum(each.gpus_held if gpus else each.held for each in self._of_project.get(project, ()))

    def users_and_projects(self) -> Iterator[tuple[LimitScope, str]]:
        """Yield all owners and projects with usage."""
        yield from ((LimitScope.USER, owner) for owner in self._of_owner)
        yield from ((LimitScope.PROJECT, project) for project in self._of_project if project)

    def used(self, now: Instant) -> dict[UsageKey, float]:
        """Return the processor-seconds of every owner and project until now."""
        return {key: self._used(account, now) for key, account in self._accounts.items()}

    def weighted(self, now: Instant) -> dict[UsageKey, float]:
        """Return what every owner and project has used until now, each with the weights of its time."""
        return {
            key: self._until(each.weighted, each.rate / _RATE, each.at, now)
            for key, each in self._accounts.items()
        }

    @property
    def depends_on_nodes(self) -> bool:
        """Whether the memory, GPUs and features of nodes say how much jobs use."""
        return self._weights is not None

    def accounts(self) -> list[UsageAccount]:
        """Return what a snapshot keeps."""
        return [
            UsageAccount(*each.key, each.used, each.at, each.gpus, each.weighted)
            for each in self._accounts.values()
        ]

    def held(self) -> dict[JobId, tuple[UsageKey, HeldByJob]]:
        """Return what is counted for each job, with its account."""
        return {job: (account.key, held) for job, (account, held) in self._jobs.items()}

    def _used(self, account: _LiveAccount, now: Instant) -> float:
        """Return what was used until `account.at`, less its decay, and what was held since.

        Usage tends to what is held, times `_time`: then as much decays as is used.
        """
        return self._until(account.used, account.held, account.at, now)

    def _gpus_used(self, account: _LiveAccount, now: Instant) -> float:
        return self._until(account.gpus, account.gpus_held, account.at, now)

    def _until(self, used: float, held: float, at: Instant, now: Instant) -> float:
        return used if now <= at else used + (held * self._time - used) * -expm1((at - now) / self._time)

    # For `apply_event` only

    def count(self, record: JobRecord, project: str, granted: JobRequest | None = None) -> None:
        """Count from now on what a job holds, for its owner and project and for itself.

        granted:  the request that it was started with, if it has processors
        """
        run = record.run
        held = sum(map(len, run.allocation.values())) if run is not None and run.allocation else 0
        gpus = 0
        if held and granted and run and granted.processors_per_gpu:
            gpus = gpus_of(granted, map(len, run.allocation.values()))
        if run is not None:
            run.usage.hold(held, max(self.now, run.started or self.now))  # no event was read at a start
        known = self._jobs.pop(record.id, None)
        if known is not None:
            account, (processors, gpus_before, rate) = known
            self._add(account, -processors, -gpus_before, -rate)
        if held and run is not None:
            account = self._account((record.owner, project))
            rate = self._rate(held, run.allocation, granted)
            self._jobs[record.id] = account, HeldByJob(held, gpus, rate)
            self._add(account, held, gpus, rate)

    def _rate(self, held: int, allocation: Mapping[str, tuple[int, ...]], granted: JobRequest | None) -> int:
        """Return how much a job uses each second, in millionths."""
        weights, nodes = self._weights, self._nodes
        if weights is None or granted is None:
            return held * _RATE
        known = {name: nodes[name].facts for name in allocation if name in nodes}
        return sum(weights.rate(granted, len(mine), known.get(name)) for name, mine in allocation.items())

    def _add(self, account: _LiveAccount, processors: int = 0, gpus: int = 0, rate: int = 0) -> None:
        if self.now > account.at:
            decayed = -expm1((account.at - self.now) / self._time)
            for_ever = self._time  # usage tends to what is held for so long
            account.used += (account.held * for_ever - account.used) * decayed
            account.weighted += (account.rate / _RATE * for_ever - account.weighted) * decayed
            account.gpus += (account.gpus_held * for_ever - account.gpus) * decayed
            account.at = self.now
        account.held += processors
        account.gpus_held += gpus
        account.rate += rate

    def _account(self, key: UsageKey) -> _LiveAccount:
        found = self._accounts.get(key)
        if found is None:
            self._make_room()
            found = self._accounts[key] = _LiveAccount(key, 0.0, self.now)
            self._index([found])
        return found

    def _index(self, accounts: Iterable[_LiveAccount]) -> None:
        for account in accounts:
            self._of_owner.setdefault(account.key[0], []).append(account)
            self._of_project.setdefault(account.key[1], []).append(account)

    def _make_room(self) -> None:
        """If there are too many accounts, drop those that hold nothing and have used least, a tenth.

        Those of projects first: what an owner used in one counts as used without a project then, because an
        owner must not lose its usage by new names of projects.
        """
        accounts = self._accounts
        if len(accounts) < MAX_ACCOUNTS:
            return
        idle = [
            (not key[1], self._used(each, self.now), key) for key, each in accounts.items() if not each.held
        ]
        idle.sort()
        for _, _, (owner, project) in idle:
            if len(accounts) <= MAX_ACCOUNTS - MAX_ACCOUNTS // 10:
                break
            gone = accounts.pop((owner, project))
            if project:
                self._add(gone)
                kept = accounts.setdefault((owner, ""), _LiveAccount((owner, ""), 0.0, self.now))
                self._add(kept)
                kept.used, kept.gpus = kept.used + gone.used, kept.gpus + gone.gpus
                kept.weighted += gone.weighted
        self._of_owner.clear()
        self._of_project.clear()
        self._index(self._accounts.values())

    def set_half_life(self, half_life: float) -> None:
        """Set the half-life of the usage from now on, in seconds."""
        for account in self._accounts.values():
            self._add(account)
        self._time = half_life / log(2)

    def set_weights(self, parameters: Mapping[str, str]) -> None:
        """Read the weights anew.  Each running job must be counted again then."""
        self._weights = usage_weights(parameters)

    def shift(self, by: Seconds) -> None:
        """The clock was set by so many seconds, in which nothing was used."""
        for account in self._accounts.values():
            account.at = Instant(account.at + by)


def _live(account: UsageAccount) -> _LiveAccount:
    weighted = account.used if account.weighted is None else account.weighted
    key = (account.owner, account.project)
    return _LiveAccount(key, account.used, account.at, gpus=account.gpus, weighted=weighted)
