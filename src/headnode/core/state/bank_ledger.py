"""The runs of jobs for which a bank is paid, from the intention to reserve until the end is confirmed.

Whatever is lost on the way, an entry says what is due.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from headnode.core.model.bank import BankAction, BankedRun
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.state.job_record import JobRecord, spec_of

BANK = "Bank"
"""The parameter with the address of the bank."""

BankKey = tuple[int, int]
"""A job and the number of its run, from 1."""


class BankEntry(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A run that was reserved, goes on, or is due: to be charged, released or refunded at the bank."""

    job: JobId
    run: int
    owner: str
    project: str = ""
    queue: str = ""
    stage: Literal["asked", "running", "charge", "release", "refund"] = "asked"
    reserved: int | None = None  # millionths of the bank's unit
    processors: int = 0  # the most that it held at once
    held: int = 0  # now
    used: float = 0.0  # processor-seconds until `at`
    at: Instant = Instant(0.0)
    started: Instant | None = None

    @property
    def due(self) -> BankAction | None:
        """What the bank is to be asked for; None while the run waits or goes on."""
        return self.stage if self.stage in ("charge", "release", "refund") else None

    def banked(self) -> BankedRun:
        """Return the run as the bank is told of it: its processor-seconds as a time with all processors."""
        return BankedRun(
            job=self.job,
            run=self.run,
            owner=self.owner,
            project=self.project,
            queue=self.queue,
            processors=self.processors,
            seconds=round(self.used / self.processors) if self.processors else 0,
            started=self.started,
            ended=self.at if self.started is not None else None,
        )


class BankLedger:
    """The entries by job and run, and which are due, the oldest first."""

    def __init__(self, entries: Iterable[BankEntry] = ()) -> None:
        self.entries: dict[BankKey, BankEntry] = {(each.job, each.run): each for each in entries}
        self.due = dict.fromkeys(key for key, each in self.entries.items() if each.due)

    def open(self, record: JobRecord, run: int) -> BankEntry:
        """Return the entry of a run; make it if there is none."""
        found = self.entries.get((record.id, run))
        if found is None:
            found = self.entries[record.id, run] = BankEntry(record.id, run, record.owner)
        spec = spec_of(record)
        found.owner, found.project, found.queue = record.owner, spec.project, spec.template
        return found

    def settle(self, key: BankKey, stage: Literal["charge", "release", "refund"]) -> None:
        """Let something be due."""
        self.entries[key].stage = stage
        self.due[key] = None

    def close(self, key: BankKey) -> None:
        """Forget a run: the bank has confirmed what was due."""
        del self.entries[key]
        self.due.pop(key, None)

    def shift(self, by: Seconds) -> None:
        """The clock was set by so many seconds, in which nothing was used."""
        for each in self.entries.values():
            each.at = Instant(each.at + by) if each.held else each.at


def next_run(record: JobRecord) -> int:
    """Return the number of the run that a queued job will have."""
    return 1 + (record.run.starts if record.run is not None else 0)
