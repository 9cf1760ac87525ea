"""Looks for damage in a journal: in the structure of its tables, and row by row.

SQLite's own check sees damaged pages, not a byte that changed inside a value: rows have checksums for that.
"""

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from headnode.adapters.journal.damage import Damage
from headnode.adapters.journal.event_table import is_intact
from headnode.adapters.journal.troubles import damaged
from headnode.core.model.quantities import JobId

_INSTRUCTIONS: Final = 20_000  # of SQLite between two looks at the clock, about a millisecond
_ROWS: Final = 1_000  # between two looks at the clock
_MOST_TOLD: Final = 20  # faults of the structure


class Table(NamedTuple):
    """A table whose rows have checksums.  `query`: key columns, then key of the sum, body and sum."""

    name: str
    row: str  # what a row is called, with a place for its key
    query: str


TABLES: Final = (
    Table("snapshots", "the snapshot after event {}", "select number, number, state, sum from snapshots"),
    Table("events", "event {}", "select number, number, body, sum from events order by number desc"),
    Table("ended_jobs", "ended job {}", "select id, id, body, sum from ended_jobs order by id desc"),
    Table(
        "ended_instances",
        "ended instance {}",
        "select job || '.' || task || '.' || instance, job, body, sum from ended_instances order by job desc",
    ),
    Table("predictions", "the prediction of job {}", "select job, job, body, sum from predictions"),
)


class Examined(NamedTuple):
    """What was found in a table.  `complete`: all of its rows were read."""

    name: str
    rows: int
    bad: tuple[str, ...]
    complete: bool


def look_over(database: sqlite3.Connection, path: Path, damage: Damage, seconds: float) -> None:
    """Look for damage for at most so long; note damaged rows.

    Raises:  Unavailable ``journal-damaged`` for damage of the structure.
    """
    until = time.monotonic() + seconds
    faults = faults_of_structure(database, time.monotonic() + seconds / 2)
    if faults:
        raise damaged(path, faults[0])
    for table in TABLES:
        for bad in examine(database, table, until).bad:
            damage.note(f"{bad} has changed since it was written")


def faults_of_structure(database: sqlite3.Connection, until: float) -> list[str]:
    """Return what SQLite finds wrong with its pages until then, on the monotonic clock."""
    database.set_progress_handler(lambda: time.monotonic() > until, _INSTRUCTIONS)
    try:
        rows = database.execute(f"pragma quick_check({_MOST_TOLD})").fetchall()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        return []
    finally:
        database.set_progress_handler(None, 0)
    return [] if rows == [("ok",)] else [str(row[0]).splitlines()[0] for row in rows]


def examine(database: sqlite3.Connection, table: Table, until: float) -> Examined:
    """Read the rows of a table until then, on the monotonic clock; name those that are damaged."""
    rows, bad = 0, []
    cursor = database.execute(table.query)
    try:
        for key, summed, body, said in _whole(cursor):
            rows += 1
            if not isinstance(summed, int) or not is_intact(body, JobId(summed), said):
                bad.append(table.row.format(key))
            if rows % _ROWS == 0 and time.monotonic() > until:
                return Examined(table.name, rows, tuple(bad), complete=False)
    finally:
        cursor.close()
    return Examined(table.name, rows, tuple(bad), complete=True)


def _whole(cursor: sqlite3.Cursor) -> Iterator[tuple[Any, ...]]:
    while (row := cursor.fetchone()) is not None:
        yield row
