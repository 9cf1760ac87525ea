"""Tables beside the journal that are copied to standby heads: notices to send, and stored credentials.

They are in files of their own in the state directory, of a head and of its standby.
"""

import contextlib
import errno
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

Value = int | float | str | bytes | None
Row = tuple[Value, ...]

PAGE_ROWS: Final = 500
PAGE_BYTES: Final = 256 * 1024  # a page ends with the row that exceeds this
_BUSY: Final = 5.0  # seconds to wait for another connection to the same file


class CopiedTable(NamedTuple):
    """A table, and the file that it is in.

    key:      so many columns, from the first on, are the primary key
    is_mark:  its row says up to which event the other tables of its file are complete: read it before them,
              store it after them
    """

    name: str
    file: str
    columns: tuple[str, ...]
    key: int
    schema: str
    is_mark: bool = False

    def key_of(self, row: Row) -> Row:
        """Return the primary key of a row."""
        return row[: self.key]


WAITING: Final = CopiedTable(
    "waiting",
    "notices.db",
    ("number", "address", "notice"),
    2,
    "create table if not exists waiting (number integer, address text, notice blob, "
    "primary key (number, address)) without rowid;",
)
SEEN: Final = CopiedTable(
    "seen",
    "notices.db",
    ("only", "number"),
    1,
    "create table if not exists seen (only integer primary key check (only = 1), number integer);",
    is_mark=True,
)
CURSORS: Final = CopiedTable(
    "cursors",
    "webhooks.db",
    ("hook", "number"),
    1,
    "create table if not exists cursors (hook text primary key, number integer not null);",
)
DELEGATIONS: Final = CopiedTable(
    "delegations",
    "delegations.db",
    ("owner", "name", "job", "expires", "kept"),
    2,
    "create table if not exists delegations (owner text not null, name text not null, job integer, "
    "expires real not null, kept blob not null, primary key (owner, name)) without rowid;",
)
EVENT_LOGS: Final = CopiedTable(
    "event_logs",
    "event_logs.db",
    ("only", "number"),
    1,
    "create table if not exists event_logs (only integer primary key check (only = 1), number integer);",
)
TABLES: Final = {table.name: table for table in (DELEGATIONS, CURSORS, EVENT_LOGS, WAITING, SEEN)}
"""By name, in the order in which standby heads get them."""
FILES: Final = tuple(dict.fromkeys(table.file for table in TABLES.values()))

RowListener = Callable[[CopiedTable, Row, Row | None], None]
"""Is told of a table, the primary key of a row, and the row; None: it was removed."""


class RowChanges:
    """Says which rows have changed.  Only in the thread that changes them."""

    def __init__(self) -> None:
        self.listeners: list[RowListener] = []

    def stored(self, table: CopiedTable, row: Row) -> None:
        """Say that a row is on the disk, in place of one with its key."""
        for listener in self.listeners:
            listener(table, table.key_of(row), row)

    def removed(self, table: CopiedTable, key: Row) -> None:
        """Say that the row with a key is gone."""
        for listener in self.listeners:
            listener(table, key, None)


@contextlib.contextmanager
def opened(state: Path, table: CopiedTable) -> Iterator[sqlite3.Connection]:
    """Open the file of a table, private to this user, in a transaction; what is removed is overwritten.

    Raises:  OSError; sqlite3.Error.
    """
    path = state / table.file
    _make(path)
    with contextlib.closing(sqlite3.connect(path, timeout=_BUSY)) as database, database:
        database.execute("pragma secure_delete = on")
        database.executescript(table.schema)
        yield database


def _make(path: Path) -> None:
    """Make a private file if it is not there; refuse a link.

    One that is there is not opened: to close it would let go of the locks of its other connections here.
    """
    try:
        if stat.S_ISLNK(path.lstat().st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):  # another thread was first
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))


def page(state: Path, table: CopiedTable, after: Row = ()) -> tuple[list[Row], bool]:
    """Return the rows with keys after `after`, in the order of the keys, and whether there are more.

    Raises:  OSError; sqlite3.Error.
    """
    if not (state / table.file).exists():
        return [], False
    keys = ", ".join(table.columns[: table.key])
    later = f"where ({keys}) > ({_marks(table.key)})" if after else ""
    select = f"select {', '.join(table.columns)} from {table.name} {later} order by {keys} limit ?"  # noqa: S608
    rows: list[Row] = []
    size = 0
    with opened(state, table) as database:
        for row in database.execute(select, (*after, PAGE_ROWS)):
            rows.append(row)
            size += size_of_row(row)
            if size > PAGE_BYTES:
                break
    return rows, size > PAGE_BYTES or len(rows) == PAGE_ROWS


def replace_between(state: Path, table: CopiedTable, after: Row, until: Row, rows: Sequence[Row]) -> None:
    """Let a table have exactly these rows with keys after `after`, up to `until`; empty: without that end.

    Raises:  OSError; sqlite3.Error.
    """
    if not rows and not (state / table.file).exists():
        return
    keys = ", ".join(table.columns[: table.key])
    ends = [(sign, end) for sign, end in ((">", after), ("<=", until)) if end]
    where = " and ".join(f"({keys}) {sign} ({_marks(table.key)})" for sign, _ in ends) or "true"
    with opened(state, table) as database:
        database.execute("begin immediate")
        database.execute(
            f"delete from {table.name} where {where}",  # noqa: S608
            tuple(value for _, end in ends for value in end),
        )
        database.executemany(_insert(table), rows)


def change(state: Path, table: CopiedTable, changes: Sequence[tuple[Row, Row | None]]) -> None:
    """Store or remove the row of each key, in this order.

    Raises:  OSError; sqlite3.Error.
    """
    where = " and ".join(f"{column} = ?" for column in table.columns[: table.key])
    with opened(state, table) as database:
        database.execute("begin immediate")
        for key, row in changes:
            if row is None:
                database.execute(f"delete from {table.name} where {where}", key)  # noqa: S608
            else:
                database.execute(_insert(table), row)


def end_at(state: Path, number: int) -> None:
    """Forget what is of events after `number`: the head that takes over does not have these.

    Raises:  OSError; sqlite3.Error.
    """
    for table, statement in (
        (WAITING, "delete from waiting where number > :number"),
        (SEEN, "update seen set number = min(number, :number)"),
        (CURSORS, "update cursors set number = min(number, :number)"),
        (EVENT_LOGS, "update event_logs set number = min(number, :number)"),
    ):
        if (state / table.file).exists():
            with opened(state, table) as database:
                database.execute(statement, {"number": number})


def size_of_row(row: Row) -> int:
    """Return how many bytes a row takes, roughly."""
    return 64 + sum(len(value) for value in row if isinstance(value, str | bytes))


def _insert(table: CopiedTable) -> str:
    return f"insert or replace into {table.name} values ({_marks(len(table.columns))})"  # noqa: S608


def _marks(number: int) -> str:
    return ", ".join("?" * number)
