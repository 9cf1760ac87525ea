"""Looks for damage in a journal: in the structure of its tables, and row by row."""

import math
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from headnode.adapters.journal.ended_tables import decode_ended_job, decode_instance
from headnode.adapters.journal.errors import (
    Damage,
    UnreadableRow,
    damaged,
    from_sqlite,
    missing,
    undecodable_row,
)
from headnode.adapters.journal.event_table import decode_prediction, is_intact
from headnode.adapters.journal.journal_file import SingleProcess, check_log
from headnode.core.model.errors import UnknownDescription
from headnode.core.model.quantities import JobId
from headnode.core.state.events import decode

_INSTRUCTIONS: Final = 20_000  # of SQLite between two looks at the clock, about a millisecond
_ROWS: Final = 1_000  # between two looks at the clock
_MAX_TOLD: Final = 20  # faults of the structure


class CheckedTable(NamedTuple):
    """A table whose rows have checksums.

    `query`: key columns, then key of the sum, body and sum.  `decode` raises msgspec.DecodeError or
    UnknownDescription.
    """

    name: str
    row: str  # what a row is called, with a place for its key
    query: str
    decode: Callable[[bytes], object]


TABLES: Final = (
    CheckedTable(
        "snapshots", "the snapshot after event {}", "select number, number, state, sum from snapshots", bytes
    ),  # recovery decodes it
    CheckedTable(
        "events", "event {}", "select number, number, body, sum from events order by number desc", decode
    ),
    CheckedTable(
        "ended_jobs",
        "ended job {}",
        "select id, id, body, sum from ended_jobs order by id desc",
        decode_ended_job,
    ),
    CheckedTable(
        "ended_instances",
        "ended instance {}",
        "select job || '.' || task || '.' || instance, job, body, sum from ended_instances order by job desc",
        decode_instance,
    ),
    CheckedTable(
        "predictions",
        "the prediction of job {}",
        "select job, job, body, sum from predictions",
        decode_prediction,
    ),
)


class TableCheck(NamedTuple):
    """What was found in a table.  `complete`: all of its rows were read.

    `bad` rows have changed since they were written.  `undecodable` ones are intact, but another version of
    Headnode wrote them.
    """

    name: str
    rows: int
    bad: tuple[str, ...]
    complete: bool
    undecodable: tuple[UnreadableRow, ...] = ()


def look_over(database: sqlite3.Connection, path: Path, damage: Damage, seconds: float) -> None:
    """Look for damage for at most so long, the newest rows of each table first; note damaged rows.

    Raises:  Unavailable ``journal-damaged`` for damage of the structure, ``journal-unknown`` for a row that
             only a newer version of Headnode reads.
    """
    until = time.monotonic() + seconds
    faults = faults_of_structure(database, time.monotonic() + seconds / 2)
    if faults:
        raise damaged(path, faults[0])
    for number, table in enumerate(TABLES):
        now = time.monotonic()
        rows = examine(database, path, table, now + (until - now) / (len(TABLES) - number))
        for bad in rows.bad:
            damage.note(f"{bad} has changed since it was written")
        for each in rows.undecodable:
            if each.code == "journal-unknown":
                raise each
            damage.note(each.row)


def check_file(path: Path) -> list[TableCheck]:
    """Examine the whole journal of a head that does not run, and change nothing.

    Raises:  Unavailable ``already-running``, ``journal-damaged`` when its log does not read, or
             ``journal-missing``.
    """
    if not path.exists() or not path.stat().st_size:
        raise missing(path)
    held = SingleProcess(path.with_name(path.name + ".lock"))
    try:
        check_log(path)
        database = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
        try:
            faults = faults_of_structure(database, math.inf)
            structure = TableCheck("pages", _pages(database), tuple(faults), complete=True)
            return [structure, *(_examined(database, path, table) for table in TABLES)]
        finally:
            database.close()
    except sqlite3.Error as error:
        raise from_sqlite(path, error) from error
    finally:
        held.release()


def _pages(database: sqlite3.Connection) -> int:
    return int(database.execute("pragma page_count").fetchone()[0])


def _examined(database: sqlite3.Connection, path: Path, table: CheckedTable) -> TableCheck:
    """Examine a table; one whose pages are damaged is told as a whole."""
    try:
        return examine(database, path, table, math.inf)
    except sqlite3.DatabaseError as error:
        return TableCheck(table.name, 0, (f"its pages cannot be read: {error}",), complete=False)


def cluster_and_last_event(path: Path) -> tuple[str, int]:
    """Return the cluster id and the number of the last event in a journal that no head uses.

    Raises:  Unavailable.
    """
    try:
        database = sqlite3.connect(path)
        try:
            (cluster,) = database.execute("select id from cluster").fetchone()
            (number,) = database.execute("select max(number) from events").fetchone()
        finally:
            database.close()
    except sqlite3.Error as error:
        raise from_sqlite(path, error) from error
    return str(cluster), number or 0


def faults_of_structure(database: sqlite3.Connection, until: float) -> list[str]:
    """Return what SQLite finds wrong with its pages until then, on the monotonic clock."""
    database.set_progress_handler(lambda: time.monotonic() > until, _INSTRUCTIONS)
    try:
        rows = database.execute(f"pragma quick_check({_MAX_TOLD})").fetchall()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        return []
    finally:
        database.set_progress_handler(None, 0)
    return [] if rows == [("ok",)] else [str(row[0]).splitlines()[0] for row in rows]


def examine(database: sqlite3.Connection, path: Path, table: CheckedTable, until: float) -> TableCheck:
    """Read the rows of a table until then, on the monotonic clock; name those that cannot be read."""
    rows, complete = 0, True
    bad: list[str] = []
    undecodable: list[UnreadableRow] = []
    cursor = database.execute(table.query)
    try:
        for key, summed, body, stored_sum in _whole(cursor):
            rows += 1
            name = table.row.format(key)
            if not isinstance(summed, int) or not is_intact(body, JobId(summed), stored_sum):
                bad.append(name)
            elif (error := _trouble(table, body)) is not None:
                undecodable.append(undecodable_row(path, name, error, _written_by(database)))
            if rows % _ROWS == 0 and time.monotonic() > until:
                complete = False
                break
    finally:
        cursor.close()
    return TableCheck(table.name, rows, tuple(bad), complete, tuple(undecodable))


def _trouble(table: CheckedTable, body: bytes) -> Exception | None:
    try:
        table.decode(body)
    except (msgspec.DecodeError, UnknownDescription) as error:
        return error
    return None


def _written_by(database: sqlite3.Connection) -> str:
    return str(database.execute("select written_by from cluster").fetchone()[0])


def _whole(cursor: sqlite3.Cursor) -> Iterator[tuple[Any, ...]]:
    while (row := cursor.fetchone()) is not None:
        yield row
