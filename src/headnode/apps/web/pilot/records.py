"""What the grid service keeps beside the head: operations by their ids, and which jobs were deleted.

The head has the jobs; a lost file costs only the list of operations.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

_TABLES: Final = """
create table if not exists operations (job integer not null, created real not null, id text not null,
    op text not null, asked real not null, completed real, success integer, result text not null default '',
    primary key (job, created, id)) without rowid;
create table if not exists deleted (job integer not null, created real not null, at real not null,
    primary key (job, created)) without rowid;
"""
MAX_OPERATIONS: Final = 100  # of one job


class GridJobKey(NamedTuple):
    """A job of one life of the cluster: its id may come again in another."""

    id: int
    created: float


class GridOperation(NamedTuple):
    """An operation that a client asked for."""

    id: str
    op: str
    created: float
    completed: float | None
    success: bool
    result: str


class GridRecords:
    """The file; it is made when the first operation is kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turns: WeakValueDictionary[tuple[GridJobKey, str], asyncio.Lock] = WeakValueDictionary()

    def turn(self, job: GridJobKey, operation: str) -> asyncio.Lock:
        """Return what requests for the same operation wait for."""
        return self._turns.setdefault((job, operation), asyncio.Lock())

    def operations(self, job: GridJobKey) -> list[GridOperation]:
        """Return the operations of a job, in the order in which they came."""
        if not self._path.exists():
            return []
        with self._database() as database:
            rows = database.execute(
                "select id, op, asked, completed, success, result from operations "
                "where job = ? and created = ? order by asked",
                job,
            ).fetchall()
        return [
            GridOperation(name, op, asked, completed, bool(success), result)
            for name, op, asked, completed, success, result in rows
        ]

    def begin(self, job: GridJobKey, operation: str, op: str) -> None:
        """Keep that an operation was asked for; one that is known stays as it is."""
        with self._database() as database:
            database.execute(
                "insert or ignore into operations (job, created, id, op, asked) values (?, ?, ?, ?, ?)",
                (*job, operation, op, time.time()),
            )

    def complete(self, job: GridJobKey, operation: str, *, success: bool, result: str = "") -> None:
        """Keep how an operation ended."""
        with self._database() as database:
            database.execute(
                "update operations set completed = ?, success = ?, result = ? "
                "where job = ? and created = ? and id = ?",
                (time.time(), success, result, *job, operation),
            )

    def delete(self, job: GridJobKey) -> None:
        """Keep that a job was deleted."""
        with self._database() as database:
            database.execute("insert or ignore into deleted values (?, ?, ?)", (*job, time.time()))

    def deleted_of(self, jobs: Iterable[GridJobKey]) -> frozenset[GridJobKey]:
        """Return those of the jobs that were deleted."""
        if not self._path.exists():
            return frozenset()
        one = "select 1 from deleted where job = ? and created = ?"
        with self._database() as database:
            return frozenset(job for job in jobs if database.execute(one, job).fetchone())

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        with closing(sqlite3.connect(self._path, timeout=5.0)) as database, database:
            database.executescript(_TABLES)
            yield database
