"""The tables of ended jobs and ended instances, and what is left of purged jobs.

The caller begins and ends the transactions.  The archive loses a job with the event that purges it.  Its
events go later: until two snapshots are newer than the last of them, a recovery may need them.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from headnode.adapters.journal.errors import Damage, UnreadableRow, changed_row, damaged, undecodable_row
from headnode.adapters.journal.event_table import (
    Drop,
    DropAll,
    DropUnfinished,
    EventTable,
    Put,
    changes,
    checksum,
    first_bytes,
    is_intact,
    length_of,
)
from headnode.core.model.bounds import PAGE_BYTES
from headnode.core.model.errors import UnknownDescription
from headnode.core.model.quantities import JobId
from headnode.core.state.events import Event, JobsPurged
from headnode.core.state.job_events import InstanceEnd
from headnode.core.state.job_record import decode_record, decode_spec
from headnode.engine.ports import EndedJob, PurgeStep

_ANY_ID: Final = 2**63 - 1  # above every id

_Key = tuple[JobId, int, int]  # job, task, instance
_Row = tuple[JobId, bytes, int]  # of an ended job: id, body, sum
_encoder = msgspec.msgpack.Encoder()
_job_decoder = msgspec.msgpack.Decoder(EndedJob)
decode_instance = msgspec.msgpack.Decoder(InstanceEnd).decode


def decode_ended_job(body: bytes) -> EndedJob:
    """Return the job of a row.  Its record and its description are decoded too: readers trust them.

    Raises:  msgspec.DecodeError, UnknownDescription.
    """
    job = _job_decoder.decode(body)
    decode_spec(decode_record(job.record).spec)
    return job


def _is_much(rows: list[_Row]) -> bool:
    return sum(length_of(body) for _, body, _ in rows) >= PAGE_BYTES.most


_NewJob = tuple[JobId, str, str, bytes, int]  # id, owner, state, body, sum


class EndedTables:
    """The archive in the database `path`; errors name that file."""

    def __init__(
        self, database: sqlite3.Connection, path: Path, damage: Damage, written_by: Callable[[], str]
    ) -> None:
        """`damage` hears of rows that lists leave out because they do not read."""
        self._database, self._path, self._damage = database, path, damage
        self._written_by = written_by

    def take_out(self, jobs: Iterable[JobId]) -> None:
        """Forget the jobs; those that are not there are none."""
        gone: dict[tuple[str, str], int] = {}
        for job in jobs:
            rows = self._database.execute(
                "delete from ended_jobs where id = ? returning owner, state", (job,)
            ).fetchall()
            if rows:  # seldom: a job comes here when it ends
                self._database.execute("delete from ended_groups where id = ?", (job,))
                for owner, state in rows:
                    gone[owner, state] = gone.get((owner, state), 0) + 1
        if gone:
            self._count((owner, state, -jobs) for (owner, state), jobs in gone.items())

    def put_in(self, jobs: Iterable[EndedJob]) -> None:
        """Keep the jobs, in place of what is kept under their ids.  A page of them is in memory at a time."""
        page: dict[JobId, tuple[_NewJob, str]] = {}
        size = 0
        for job in jobs:
            body = _encoder.encode(job)
            row = job.id, job.owner, job.state, body, checksum(body, job.id)
            page[job.id] = row, job.job_group
            size += len(body)
            if size >= PAGE_BYTES.most:
                self._put(page)
                page, size = {}, 0
        self._put(page)

    def _put(self, page: Mapping[JobId, tuple[_NewJob, str]]) -> None:
        if not page:
            return
        self.take_out(page)
        rows = [row for row, _ in page.values()]
        self._database.executemany("insert into ended_jobs values (?, ?, ?, ?, ?)", rows)
        groups = [(job, group) for job, (_, group) in page.items() if group]
        if groups:
            self._database.executemany("insert or replace into ended_groups values (?, ?)", groups)
        fresh: dict[tuple[str, str], int] = {}  # a Counter costs as much as the rest, for the one job of most
        for _, owner, state, _, _ in rows:
            fresh[owner, state] = fresh.get((owner, state), 0) + 1
        self._count((owner, state, jobs) for (owner, state), jobs in fresh.items())

    def job(self, job: JobId) -> EndedJob | None:
        """Return one ended job."""
        return next((self._read_job(*row) for row in self._row(job)), None)

    def jobs(
        self, owner: str | None, states: Sequence[str], before: int | None, limit: int
    ) -> list[EndedJob]:
        """Return up to `limit` ended jobs with ids below `before`, newest id first; no states means all."""
        jobs: list[EndedJob] = []
        below, asked = _ANY_ID if before is None else before, max(limit, 0)
        while len(jobs) < asked:
            rows = first_bytes(self._rows(owner, states, below, asked - len(jobs)), PAGE_BYTES.most)
            jobs += self._damage.readable(self._read_job, rows)
            if not rows or (jobs and _is_much(rows)):
                break
            below = rows[-1][0]
        return jobs

    def _rows(self, owner: str | None, states: Sequence[str], below: int, limit: int) -> Iterator[_Row]:
        """Yield the rows of up to `limit` ended jobs with ids below `below`, newest id first."""
        if owner is None and not states:
            yield from self._database.execute(
                "select id, body, sum from ended_jobs where id < ? order by id desc limit ?", (below, limit)
            )
            return
        wanted = set(states or self.counts(owner))
        ids = [job for state in wanted for job in self._ids(owner, state, below, limit)]
        yield from (row for job in sorted(ids, reverse=True)[:limit] for row in self._row(job))

    def _row(self, job: JobId) -> list[_Row]:
        """Return the row of one ended job, if there is one."""
        return self._database.execute("select id, body, sum from ended_jobs where id = ?", (job,)).fetchall()

    def jobs_of_group(
        self, group: str, owner: str | None, states: Sequence[str], before: int | None, limit: int
    ) -> list[EndedJob]:
        """Return up to `limit` ended jobs of a group with ids below `before`, newest id first."""
        rows = self._database.execute(
            "select g.id, j.state, j.owner from ended_groups g join ended_jobs j on j.id = g.id "
            "where g.job_group = ? and g.id < ? order by g.id desc",
            (group, _ANY_ID if before is None else before),
        )
        wanted = (
            JobId(job)
            for job, state, whose in rows
            if owner in (None, whose) and (not states or state in states)
        )
        ahead = (row for job in wanted for row in self._row(job))
        jobs: list[EndedJob] = []
        while len(jobs) < limit:
            some = first_bytes(islice(ahead, limit - len(jobs)), PAGE_BYTES.most)
            jobs += self._damage.readable(self._read_job, some)
            if not some or (jobs and _is_much(some)):
                break
        return jobs

    def jobs_after(self, after: int, limit: int) -> list[EndedJob]:
        """Return up to `limit` ended jobs with ids above `after`, in order."""
        jobs: list[EndedJob] = []
        asked = max(limit, 0)
        while len(jobs) < asked:
            rows = first_bytes(
                self._database.execute(
                    "select id, body, sum from ended_jobs where id > ? order by id limit ?",
                    (after, asked - len(jobs)),
                ),
                PAGE_BYTES.most,
            )
            jobs += self._damage.readable(self._read_job, rows)
            if not rows or (jobs and _is_much(rows)):
                break
            after = rows[-1][0]
        return jobs

    def counts(self, owner: str | None) -> dict[str, int]:
        """Return how many jobs ended in each state."""
        chosen, values = ("", ()) if owner is None else ("where owner = ?", (owner,))
        rows = self._database.execute(
            f"select state, sum(jobs) from ended_counts {chosen} group by state",  # noqa: S608 - our own words
            values,
        ).fetchall()
        return {state: jobs for state, jobs in rows if jobs}

    def instance(self, job: JobId, task: int, instance: int) -> InstanceEnd | None:
        """Return how the newest attempt of one instance ended."""
        row = self._database.execute(
            "select instance, body, sum from ended_instances where job = ? and task = ? and instance = ?",
            (job, task, instance),
        ).fetchone()
        return None if row is None else self._read_instance(job, task, *row)

    def instances(self, job: JobId, task: int, after: int, limit: int) -> list[InstanceEnd]:
        """Return the ended instances of a task with numbers above `after`, in order."""
        rows = self._database.execute(
            "select job, task, instance, body, sum from ended_instances "
            "where job = ? and task = ? and instance > ? order by instance limit ?",
            (job, task, after, max(limit, 0)),
        ).fetchall()
        return list(self._damage.readable(self._read_instance, rows))

    def project(self, events: Sequence[Event]) -> None:
        """Bring the ended instances up to date with the events."""
        pending: dict[_Key, InstanceEnd | None] = {}  # None: it will run again
        for change in changes(events):
            match change:
                case Put(job, ended):
                    pending[job, ended.task, ended.instance] = ended
                case Drop(job, task, first, last) if first == last:
                    pending[job, task, first] = None
                case _:
                    self._write(pending)
                    pending = {}
                    self._drop(change)
        self._write(pending)

    def _write(self, pending: dict[_Key, InstanceEnd | None]) -> None:
        rows = []
        gone = []
        for key, ended in pending.items():
            if ended is None:
                gone.append(key)
            else:
                body = _encoder.encode(ended)
                rows.append((*key, ended.state == "finished", body, checksum(body, key[0])))
        if gone:
            self._database.executemany(
                "delete from ended_instances where job = ? and task = ? and instance = ?", gone
            )
        if rows:
            self._database.executemany(
                "insert or replace into ended_instances values (?, ?, ?, ?, ?, ?)", rows
            )

    def _drop(self, change: Drop | DropUnfinished | DropAll) -> None:
        match change:
            case Drop(job, task, first, last):
                self._database.execute(
                    "delete from ended_instances where job = ? and task = ? and instance between ? and ?",
                    (job, task, first, last),
                )
            case DropUnfinished(job):
                self._database.execute("delete from ended_instances where job = ? and not finished", (job,))
            case DropAll(job):
                self._database.execute("delete from ended_instances where job = ?", (job,))

    def _ids(self, owner: str | None, state: str, below: int, limit: int) -> list[JobId]:
        if owner is None:
            rows = self._database.execute(
                "select id from ended_jobs where state = ? and id < ? order by id desc limit ?",
                (state, below, limit),
            )
        else:
            rows = self._database.execute(
                "select id from ended_jobs where owner = ? and state = ? and id < ? order by id desc limit ?",
                (owner, state, below, limit),
            )
        return [job for (job,) in rows.fetchall()]

    def _count(self, rows: Iterable[tuple[str, str, int]]) -> None:
        self._database.executemany(
            "insert into ended_counts values (?, ?, ?) "
            "on conflict (owner, state) do update set jobs = jobs + excluded.jobs",
            rows,
        )

    def _read_job(self, job: JobId, body: bytes, checksum: int) -> EndedJob:
        if not is_intact(body, job, checksum):
            raise changed_row(self._path, f"ended job {job}")
        try:
            return decode_ended_job(body)
        except (msgspec.DecodeError, UnknownDescription) as error:
            raise undecodable_row(self._path, f"ended job {job}", error, self._written_by()) from None

    def _read_instance(self, job: JobId, task: int, instance: int, body: bytes, checksum: int) -> InstanceEnd:
        name = f"ended instance {job}.{task}.{instance}"
        if not is_intact(body, job, checksum):
            raise changed_row(self._path, name)
        try:
            ended = decode_instance(body)
        except msgspec.DecodeError as error:
            raise undecodable_row(self._path, name, error, self._written_by()) from None
        if (ended.task, ended.instance) != (task, instance):
            why = f"{name} is stored in the place of another"
            raise UnreadableRow(damaged(self._path, why), why)
        return ended


def purged_by(events: Sequence[Event]) -> list[JobId]:
    """Return the jobs that events purge."""
    return [job for event in events if isinstance(event, JobsPurged) for job in event.jobs]


class PurgedJobs:
    """Jobs that were purged, and of which rows are left in the other tables."""

    def __init__(self, database: sqlite3.Connection, events: EventTable) -> None:
        self._database, self._events = database, events

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
                newest = self._events.newest_of(job)
                waits_for = max(waits_for, newest)
                if not newest:
                    self._database.execute("delete from purging where job = ?", (job,))
                    removed += 1
        return PurgeStep(removed, waits_for, more=removed > 0)

    def _covered(self) -> int:
        """Return the last event that no recovery needs, whichever of the snapshots it begins from."""
        number, snapshots = self._database.execute("select min(number), count(*) from snapshots").fetchone()
        return number if snapshots > 1 else 0

    def _clear(self, job: JobId, covered: int, most: int) -> int:
        """Remove up to `most` rows of a job; return how many."""
        removed = self._events.purge(job, covered, most)
        removed += self._database.execute(
            "delete from ended_instances where job = ? and (task, instance) in "
            "(select task, instance from ended_instances where job = ? limit ?)",
            (job, job, most - removed),
        ).rowcount
        removed += self._database.execute("delete from predictions where job = ?", (job,)).rowcount
        return removed
