"""The tables beside the journal at a standby: what the head has not sent yet, and credentials of users."""

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Final

from headnode.adapters.files.copied_tables import TABLES, CopiedTable, Row, change, replace_between
from headnode.adapters.wire.standby_messages import RowsBetween, RowsChanged
from headnode.core.model.errors import BadRequest

INTEGER_BOUND: Final = 2**63  # what SQLite has of whole numbers
log = logging.getLogger("headnode.standby")


def store_rows(state: Path, message: RowsBetween | RowsChanged) -> None:
    """Store what a head says of its tables.

    Raises:  BadRequest ``standby-rows``; OSError; sqlite3.Error.  The head sends everything again then.
    """
    if isinstance(message, RowsChanged):
        for name, some in groupby(message.changes, lambda one: one.table):
            _change(state, _table(name), [(one.key, one.row) for one in some])
        return
    table = _table(message.table)
    for end in (message.after, message.until):
        _check(end, table.key if end else 0)
    for row in message.rows:
        _check(row, len(table.columns))
    with _usable(state, table):
        replace_between(state, table, message.after, message.until, message.rows)


def _change(state: Path, table: CopiedTable, pairs: Sequence[tuple[Row, Row | None]]) -> None:
    for key, row in pairs:
        _check(key, table.key)
        if row is not None:
            _check(row, len(table.columns))
    with _usable(state, table):
        change(state, table, pairs)


@contextmanager
def _usable(state: Path, table: CopiedTable) -> Iterator[None]:
    """Remove a file that is damaged, so that it can be stored again."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            _remove_damaged(state, table.file)
        raise


def _table(name: str) -> CopiedTable:
    if name not in TABLES:
        raise BadRequest(code="standby-rows", what=f"there is no table {name!r}")
    return TABLES[name]


def _check(row: Row, columns: int) -> None:
    if len(row) != columns:
        raise BadRequest(code="standby-rows", what=f"a row has {len(row)} values, not {columns}")
    for value in row:
        large = isinstance(value, int) and not -INTEGER_BOUND <= value < INTEGER_BOUND
        if large or not isinstance(value, int | float | str | bytes | None):
            raise BadRequest(code="standby-rows", what=f"no table has a {type(value).__name__} like that")


def _remove_damaged(state: Path, name: str) -> None:
    log.error("the copy %s is damaged: it is removed, and the head sends it again", state / name)
    for ending in ("", "-wal", "-shm", "-journal"):
        (state / f"{name}{ending}").unlink(missing_ok=True)
