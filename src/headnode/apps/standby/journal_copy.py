"""What a standby copies: the whole journal, in pieces, in place of what was there; the tables beside it."""

import hashlib
import logging
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Final

from headnode.adapters.files.copied_tables import TABLES, CopiedTable, Row, change, replace_between
from headnode.adapters.journal.sqlite import JOURNAL, SqliteJournal, write_cluster_id
from headnode.adapters.wire.standby_messages import JournalPiece, RowsBetween, RowsChanged
from headnode.core.model.errors import BadRequest, Unavailable
from headnode.engine.ports import may_be_same
from headnode.engine.replica import Replica

log = logging.getLogger("headnode.standby")

COPY: Final = "journal.db.copy"  # what has arrived so far
WHOLE: Final = "journal.db.new"  # a copy that is whole, was read, and takes the place of the journal
DAMAGED: Final = ("journal-damaged", "journal-missing")
_BESIDE: Final = ("-wal", "-shm")


class JournalCopy:
    """The pieces so far, in a file beside the journal of the state directory."""

    def __init__(self, state: Path) -> None:
        self._state, self._path = state, state / COPY
        self._digest = hashlib.sha256()

    def forget(self) -> None:
        """Remove what has arrived of a copy that was not sent to its end.

        Raises:  OSError.
        """
        self._path.unlink(missing_ok=True)

    def take(self, piece: JournalPiece) -> bool:
        """Store a piece; return whether the copy is whole now, on the disk, and is what was sent.

        Raises:  BadRequest ``standby-copy`` if it is not what was sent; OSError.  Then nothing is left of it.
        """
        if piece.first:
            self._path.unlink(missing_ok=True)
            self._digest = hashlib.sha256()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(self._path, flags, 0o600), "ab") as file:
                file.write(piece.data)
                self._digest.update(piece.data)
                if not piece.digest:
                    return False
                file.flush()
                os.fsync(file.fileno())
        except OSError:  # the disk is full: it is needed for other things
            self._path.unlink(missing_ok=True)
            raise
        if self._digest.hexdigest() != piece.digest:
            self._path.unlink()
            raise BadRequest(code="standby-copy", what="the copy of the journal is not what the head sent")
        return True

    def install(self, before: Replica | None) -> Replica:
        """Make the copy the journal, once it has been read; return it.  `before` is closed then.

        A journal with events that the copy does not have is kept beside it: it may be the only one.
        Whenever this ends, even by a kill, one of both is whole: `settled_replica` goes on from there.
        Raises:  Unavailable if the copy does not read; then nothing has changed.  OSError.
        """
        keep = not _contains(self._path, before)
        self._path.rename(self._state / WHOLE)
        _synchronize(self._state)
        (self._state / f"{COPY}.lock").unlink(missing_ok=True)
        return _replace(self._state, before, keep=keep)


def settled_replica(state: Path) -> Replica | None:
    """Open the journal of a standby that begins; None: it needs a copy of that of the head.

    A copy that was whole when the standby was killed takes its place now.  A damaged journal stays where it
    is until a copy has come.
    Raises:  Unavailable, as the journal does; OSError.
    """
    before: Replica | None = None
    if (state / JOURNAL).exists():
        try:
            before = open_replica(state)
        except Unavailable as error:
            if error.code not in DAMAGED:
                raise
            log.error("the journal here cannot be used, a copy is needed: %s", error)
    if not (state / WHOLE).exists():
        return before
    try:
        keep = not _contains(state / WHOLE, before)
    except Unavailable as error:
        log.error("a copy of the journal cannot be used: %s", error)
        return before
    return _replace(state, before, keep=keep)


def open_replica(state: Path) -> Replica:
    """Open the journal of a standby, and let the state directory belong to its cluster.

    Raises:  Unavailable ``journal-missing``, ``journal-damaged`` and others of the journal.
    """
    store = SqliteJournal(state / JOURNAL, may_create=False)
    try:
        write_cluster_id(state, store.cluster_id)
        return Replica(store)
    except BaseException:
        store.close()
        raise


def _replace(state: Path, before: Replica | None, *, keep: bool) -> Replica:
    """Let the whole copy take the place of the journal, in one step."""
    journal = state / JOURNAL
    if before is not None:
        before.store.close()
    if keep and journal.exists():
        kept = _free_name(state, f"to-event-{before.number}" if before is not None else "damaged")
        for ending in ("", *_BESIDE):
            if (file := journal.with_name(JOURNAL + ending)).exists():
                file.with_name(kept.name + ending).hardlink_to(file)
        log.warning("the journal here had events that the copy of the head has not: it is kept as %s", kept)
    for ending in _BESIDE:  # they belong to the journal before; a closed one has none
        journal.with_name(JOURNAL + ending).unlink(missing_ok=True)
    (state / WHOLE).rename(journal)
    _synchronize(state)
    (state / f"{WHOLE}.lock").unlink(missing_ok=True)
    return open_replica(state)


def _contains(copy: Path, before: Replica | None) -> bool:
    """Return whether a copy has all events of the journal before it; not, if that cannot be read.

    Raises:  Unavailable if the copy does not read.
    """
    fresh = SqliteJournal(copy, may_create=False)
    try:
        Replica(fresh)  # a journal that is good is not given up for one that is not
        if before is None:
            return False
        same = fresh.cluster_id == before.store.cluster_id
        newer, last = before.number <= fresh.last_number, before.store.checksum_of(before.number)
        return same and newer and may_be_same(fresh.checksum_of(before.number), last)
    finally:
        fresh.close()


def _free_name(state: Path, word: str) -> Path:
    """Return a name beside the journal that nothing has: what was kept before stays."""
    number, path = 1, state / f"{JOURNAL}.{word}"
    while path.exists():
        number += 1
        path = state / f"{JOURNAL}.{word}.{number}"
    return path


def _synchronize(state: Path) -> None:
    directory = os.open(state, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


INTEGER_BOUND: Final = 2**63  # what SQLite has of whole numbers


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
