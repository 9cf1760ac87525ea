"""What one standby head still has to get: a copy of the journal in pieces, and the tables beside it.

Of a table it gets all, then each change; that costs acknowledgements nothing but the pieces between events.
Source:  docs/contracts/08-standby.md, "Beside the journal".
"""

import hashlib
import logging
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from headnode.adapters.files.copied_tables import (
    FILES,
    PAGE_BYTES,
    TABLES,
    CopiedTable,
    Row,
    page,
    size_of_row,
)
from headnode.adapters.standby.dialing import StandbyProblem
from headnode.adapters.wire.standby_messages import PIECE, JournalPiece, RowChange, RowsBetween, RowsChanged
from headnode.core.model.bounds import STANDBY_CHANGES

MEBI: Final = 1024 * 1024
RESERVE: Final = 16 * MEBI  # bytes that a copy leaves on the disk of the head


def refuse_without_room(scratch: Path, size: int) -> None:
    """Refuse to fill the disk on which this head writes with a copy of `size` bytes.

    Raises:  StandbyProblem.
    """
    needed, free = size + RESERVE, shutil.disk_usage(scratch).free
    if free < needed:
        raise StandbyProblem(
            f"it needs a copy of the journal, for which {needed // MEBI + 1} MiB must be free in "
            f"{str(scratch)!r} of the head; {free // MEBI} MiB are"
        )


def pieces(copy: Path) -> Iterator[JournalPiece]:
    """Yield a file in pieces; the last one has the digest of all, even of an empty file."""
    digest, first = hashlib.sha256(), True
    with copy.open("rb") as file:
        piece = file.read(PIECE)
        while following := file.read(PIECE):
            digest.update(piece)
            yield JournalPiece(piece, first)
            piece, first = following, False
    digest.update(piece)
    yield JournalPiece(piece, first, digest.hexdigest())


log = logging.getLogger("headnode.standby")

MAX_PENDING: Final = STANDBY_CHANGES.most  # bytes; with more, whole tables are sent again
BETWEEN_CHANGES: Final = 0.1  # seconds in which changes are collected
MAX_REST: Final = 1.0  # seconds until the next piece, though events wait to be sent
AFTER_FAILURE: Final = 15.0  # seconds until tables that could not be copied are sent again


class _Change(NamedTuple):
    table: CopiedTable
    row: Row | None
    number: int


class RowCopy:
    """The rows for one standby.  `changed` is called in the thread of the head, the rest in the sender's."""

    def __init__(self, state: Path, changed: threading.Condition) -> None:
        """`changed` is notified of changes, and guards what both threads use."""
        self._state, self._changed = state, changed
        self._pending: dict[tuple[str, Row], _Change] = {}  # by table and key; the oldest change first
        self._bytes = 0
        self.noted = self.copied = 0  # changes: how many there were, how many the standby has
        self._whole: list[str] = []  # files whose tables it gets from the first row on
        self._pieces: Iterator[RowsBetween] | None = None  # of the one that it is getting
        self._last = 0.0  # when a piece was sent last, on the monotonic clock
        self._not_before = 0.0  # on the monotonic clock, after a failure
        self.problem = ""  # why rows are not copied; empty: they are
        self.is_whole = False  # all tables came once on this connection, or cannot

    def begin(self) -> None:
        """Let the standby get all tables: what it has may be old."""
        with self._changed:
            self._send_whole()
            self.is_whole, self._not_before, self.problem = False, 0.0, ""

    def _send_whole(self) -> None:
        self._pending.clear()
        self._bytes = 0
        self._whole, self._pieces = list(FILES), None

    def changed(self, table: CopiedTable, key: Row, row: Row | None) -> None:
        """Note that a row was stored or removed."""
        with self._changed:
            self.noted += 1
            before = self._pending.pop((table.name, key), None)  # at the end again: order matters
            self._pending[table.name, key] = _Change(table, row, self.noted)
            self._bytes += _size(key, row) - (0 if before is None else _size(key, before.row))
            if self._bytes > MAX_PENDING:
                self._send_whole()
            if len(self._pending) <= 1:
                self._changed.notify_all()

    def due_in(self, now: float) -> float | None:
        """Return in how many seconds the next piece may be sent; None: there is none."""
        if now < self._not_before:
            return self._not_before - now if self._whole else None
        if self._whole or self._pieces is not None:
            return 0.0
        return max(0.0, self._last + BETWEEN_CHANGES - now) if self._pending else None

    def is_overdue(self, now: float) -> bool:
        """Whether a piece has waited for events for long enough."""
        return self.due_in(now) == 0.0 and now - self._last >= MAX_REST

    def lacks(self, number: int, now: float) -> bool:
        """Whether the standby does not have the first `number` changes, and can get them now."""
        return now >= self._not_before and (not self.is_whole or self.copied < number)

    def next(self) -> RowsBetween | RowsChanged | None:
        """Return the next piece; None if nothing is left, or the tables cannot be read."""
        self._last = time.monotonic()
        try:
            while (piece := self._piece()) is None and self._whole:
                self._pieces = self._tables(self._whole.pop(0))
        except (sqlite3.Error, OSError) as error:
            self.failed(f"what is beside the journal cannot be read: {error}")
            return None
        if piece is not None:
            return piece
        if (changes := self._changes()) is None:
            self._settle()
        return changes

    def _piece(self) -> RowsBetween | None:
        piece = next(self._pieces, None) if self._pieces is not None else None
        if piece is None:
            self._pieces = None
        return piece

    def _tables(self, file: str) -> Iterator[RowsBetween]:
        """Yield all rows of the tables of a file, as they are when they are read."""
        tables = [table for table in TABLES.values() if table.file == file]
        marks = [(table, page(self._state, table)[0]) for table in tables if table.is_mark]
        for table in tables:
            after, has_more = Row(), not table.is_mark
            while has_more:
                rows, has_more = page(self._state, table, after)
                until = table.key_of(rows[-1]) if has_more else ()
                yield RowsBetween(table.name, after, until, tuple(rows))
                after = until
        for table, rows in marks:
            yield RowsBetween(table.name, (), (), tuple(rows))

    def _changes(self) -> RowsChanged | None:
        with self._changed:
            taken: list[RowChange] = []
            size = 0
            while self._pending and size < PAGE_BYTES:
                (name, key), change = next(iter(self._pending.items()))
                del self._pending[name, key]
                size += _size(key, change.row)
                taken.append(RowChange(name, key, change.row))
            self._bytes -= size
            return RowsChanged(tuple(taken)) if taken else None

    def sent(self, problem: str) -> None:
        """Note that the standby has stored the last piece; or why it could not."""
        if problem:
            self.failed(problem)
            return
        self.problem = ""
        self._settle()

    def _settle(self) -> None:
        """Note how many changes the standby has, unless it is still getting whole tables."""
        with self._changed:
            if not self._whole and self._pieces is None:
                self.is_whole = True
                self.copied = next(iter(self._pending.values())).number - 1 if self._pending else self.noted

    def failed(self, problem: str) -> None:
        """Send everything again after a pause; events go on."""
        with self._changed:
            if self.problem != problem:
                log.error("stored credentials and notifications are not copied: %s", problem)
            self.problem, self.is_whole = problem, True
            self._not_before = time.monotonic() + AFTER_FAILURE
            self._send_whole()


def _size(key: Row, row: Row | None) -> int:
    return size_of_row(key if row is None else row)
