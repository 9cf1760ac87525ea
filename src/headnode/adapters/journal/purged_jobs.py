"""What is left of purged jobs in the database: removed in small steps.

The caller begins and ends the transactions.  The archive loses a job with the event that purges it.  Its
events go later: until two snapshots are newer than the last of them, a recovery may need them.  Their rows
stay, without body and job, so that a missing number is still noticed.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final

from headnode.adapters.journal.event_table import OF_INSTANCES, OF_JOB, OF_PURGED
from headnode.core.model.quantities import JobId
from headnode.core.state.events import Event, JobsPurged
from headnode.engine.ports import PurgeStep

TABLE: Final = "create table if not exists purging (job integer primary key)"
"""Ended jobs that were purged, of which rows are left.  Journals of version 0.2 begin without this table."""

# SQLite uses the index of a kind only where the query repeats its number.
_EVENTS_OF_JOB: Final = tuple(
    f"select number from events where kind = {kind} and job = ? and number <= ? limit ?"  # noqa: S608
    for kind in (OF_JOB, OF_INSTANCES)
)
_NEWEST_OF_JOB: Final = tuple(
    f"select max(number) from events where kind = {kind} and job = ?"  # noqa: S608
    for kind in (OF_JOB, OF_INSTANCES)
)


def purged_by(events: Sequence[Event]) -> list[JobId]:
    """Return the jobs that events purge."""
    return [job for event in events if isinstance(event, JobsPurged) for job in event.jobs]


class PurgedJobs:
    """Jobs that were purged, and of which rows are left in the other tables."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        database.execute(TABLE)

    def note(self, jobs: Iterable[JobId]) -> None:
        """Let what is left of jobs go, from the next step on."""
        self._database.executemany("insert or ignore into purging values (?)", [(job,) for job in jobs])

    def keep(self, jobs: Iterable[JobId]) -> None:
        """Let what is left of jobs stay: they are back."""
        self._database.executemany("delete from purging where job = ?", [(job,) for job in jobs])

    def step(self, most: int) -> PurgeStep:
        """Remove up to `most` rows, of as many jobs at most."""
        covered, removed, waits_for = self._covered(), 0, 0
        jobs = self._database.execute("select job from purging order by job limit ?", (most,)).fetchall()
        for (job,) in jobs:
            if removed >= most:
                return PurgeStep(removed, waits_for, more=True)
            removed += self._clear(job, covered, most - removed)
            if removed < most:
                newest = self._newest(job)
                waits_for = max(waits_for, newest)
                if not newest:
                    self._database.execute("delete from purging where job = ?", (job,))
                    removed += 1
        return PurgeStep(removed, waits_for, more=removed > 0)

    def _covered(self) -> int:
        """Return the last event that no recovery needs, whichever of the snapshots it begins from."""
        number, snapshots = self._database.execute("select min(number), count(*) from snapshots").fetchone()
        return number if snapshots > 1 else 0

    def _newest(self, job: JobId) -> int:
        """Return the number of the newest event that is left of a job; 0: none is."""
        numbers = [self._database.execute(query, (job,)).fetchone()[0] for query in _NEWEST_OF_JOB]
        return max(number or 0 for number in numbers)

    def _clear(self, job: JobId, covered: int, most: int) -> int:
        """Remove up to `most` rows of a job; return how many."""
        removed = 0
        for events in _EVENTS_OF_JOB:
            removed += self._database.execute(
                f"update events set kind = ?, job = null, body = x'' where number in ({events})",  # noqa: S608
                (OF_PURGED, job, covered, most - removed),
            ).rowcount
        removed += self._database.execute(
            "delete from ended_instances where job = ?1 and (task, instance) in "
            "(select task, instance from ended_instances where job = ?1 limit ?2)",
            (job, most - removed),
        ).rowcount
        removed += self._database.execute("delete from predictions where job = ?", (job,)).rowcount
        return removed
