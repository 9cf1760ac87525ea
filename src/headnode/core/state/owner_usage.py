"""What the owners and projects of jobs have used: processor-seconds that count less as they get older.

An account is brought up to date when a job of it gets or loses processors, so its cost does not depend on how
long jobs run or how many there are.  With a half-life of a week, what was used a week ago counts half.
Source: Slurm, "Multifactor Priority Plugin", PriorityDecayHalfLife.
"""

from heapq import nsmallest
from math import exp2, expm1, log

import msgspec

from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.state.job_record import JobRecord

HALF_LIFE_PARAMETER = "UsageHalfLife"
HALF_LIFE = 604_800  # seconds, where the parameter is not set
MOST_ACCOUNTS = 20_000  # names of projects are free text; beyond these the least used accounts are dropped

UsageKey = tuple[str, str]
"""An owner and a project, which is empty for jobs without one."""


class UsageAccount(msgspec.Struct, forbid_unknown_fields=True):
    """The processor-seconds used by the jobs of one owner and project until `at`, less their decay."""

    owner: str
    project: str
    used: float
    at: Instant


class OwnerUsage:
    """The accounts of all owners.  `now` is the time of the event that is being applied."""

    def __init__(self, accounts: list[UsageAccount], half_life: float) -> None:
        self.now = Instant(0.0)
        self._half_life = half_life
        self._accounts: dict[UsageKey, UsageAccount] = {(each.owner, each.project): each for each in accounts}
        self._held: dict[UsageKey, int] = {}  # processors, derived from the allocations of the jobs
        self._jobs: dict[JobId, tuple[UsageKey, int]] = {}  # the same for each job

    # Reading

    def used(self, now: Instant) -> dict[UsageKey, float]:
        """Return the processor-seconds of every owner and project until now."""
        return {key: self._used(account, now) for key, account in self._accounts.items()}

    def accounts(self) -> list[UsageAccount]:
        """Return what a snapshot keeps."""
        return list(self._accounts.values())

    @property
    def held(self) -> dict[JobId, tuple[UsageKey, int]]:
        """The processors that are counted for each job, with its account."""
        return self._jobs

    def _used(self, account: UsageAccount, now: Instant) -> float:
        """Return what was used until `account.at`, less its decay, and what was held since."""
        span = max(0.0, now - account.at) / self._half_life
        held = self._held.get((account.owner, account.project), 0)
        return account.used * exp2(-span) - held * self._half_life / log(2) * expm1(-span * log(2))

    # For `apply_event` only

    def count(self, record: JobRecord, project: str) -> None:
        """Count from now on the processors that a job holds, for its owner and project."""
        key = (record.owner, project)
        held = 0 if record.run is None else sum(map(len, record.run.allocation.values()))
        known, before = self._jobs.pop(record.id, (key, 0))
        if known != key:
            self._add(known, -before)
            before = 0
        if held:
            self._jobs[record.id] = (key, held)
        self._add(key, held - before)

    def _add(self, key: UsageKey, processors: int) -> None:
        if not processors:
            return
        account = self._accounts.get(key)
        if account is None:
            self._make_room()
            account = self._accounts[key] = UsageAccount(*key, used=0.0, at=self.now)
        self._settle(account)
        held = self._held.get(key, 0) + processors
        if held:
            self._held[key] = held
        else:
            del self._held[key]

    def _settle(self, account: UsageAccount) -> None:
        if self.now > account.at:
            account.used, account.at = self._used(account, self.now), self.now

    def _make_room(self) -> None:
        """If there are too many accounts, drop those that hold nothing and have used least, a tenth."""
        if len(self._accounts) < MOST_ACCOUNTS:
            return
        idle = [(self._used(each, self.now), key) for key, each in self._accounts.items()]
        idle = [each for each in idle if each[1] not in self._held]
        for _, key in nsmallest(MOST_ACCOUNTS // 10, idle):
            del self._accounts[key]

    def set_half_life(self, half_life: float) -> None:
        """Let usage decay so from now on, in seconds."""
        for account in self._accounts.values():
            self._settle(account)
        self._half_life = half_life

    def shift(self, by: Seconds) -> None:
        """The clock was set by so many seconds, in which nothing was used."""
        for account in self._accounts.values():
            account.at = Instant(account.at + by)
