"""What can be wrong with the journal's file or its rows, in words that say what to do."""

import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from headnode.core.model.errors import Unavailable, UnknownDescription
from headnode.engine.recovery import unknown

_FULL = sqlite3.SQLITE_FULL
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_FILE_SYSTEM = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN})


class UnreadableRow(Unavailable):
    """A row of the journal that cannot be read: ``journal-damaged`` or ``journal-unknown``.

    `row`: which row, and why, in one sentence.
    """

    def __init__(self, error: Unavailable, row: str) -> None:
        super().__init__(code=error.code, what=error.what, fix=error.fix)
        self.row = row


def changed_row(path: Path, name: str) -> UnreadableRow:
    """Return the error for a row whose checksum is wrong."""
    why = f"{name} has changed since it was written"
    return UnreadableRow(damaged(path, why), why)


def undecodable_row(path: Path, name: str, error: Exception, written_by: str) -> UnreadableRow:
    """Return the error for an intact row that does not decode: a newer version wrote it, or a broken one.

    `error`: msgspec.DecodeError, or UnknownDescription.
    """
    if isinstance(error, (msgspec.ValidationError, UnknownDescription)):
        found = unknown(f"{name} in the journal {str(path)!r}", error, written_by)
        return UnreadableRow(found, f"{name} needs Headnode {written_by}")
    why = f"{name} does not decode: {error}"
    return UnreadableRow(damaged(path, why), why)


def damaged(path: Path, what: str) -> Unavailable:
    """Return the error for a journal that does not hold what was written."""
    return Unavailable(
        code="journal-damaged",
        what=f"the journal {str(path)!r} is damaged: {what}",
        fix="nothing was changed; see what is intact with: hn journal check; then check the disk, move the "
        "state directory away and restore a backup with: hn restore FILE",
    )


def missing(path: Path) -> Unavailable:
    """Return the error for a state directory whose journal is not there any more."""
    return Unavailable(
        code="journal-missing",
        what=f"the state directory {str(path.parent)!r} belongs to a cluster, but its journal {path.name!r} "
        "is missing or empty",
        fix="put the journal back, or move the directory away and restore a backup with: hn restore FILE; "
        "to begin a new cluster, use another directory or move this one away",
    )


def other_cluster(path: Path, beside: str, inside: str) -> Unavailable:
    """Return the error for a journal that lies in the state directory of another cluster."""
    return Unavailable(
        code="other-cluster",
        what=f"the journal {str(path)!r} belongs to cluster {inside}, the state directory to {beside}",
        fix="put the right journal back, or move the directory away and restore a backup: hn restore FILE",
    )


def in_use(path: Path) -> Unavailable:
    """Return the error for a journal that another process holds, though the lock file is not locked."""
    return Unavailable(
        code="already-running",
        what=f"another process uses the journal {str(path)!r}",
        fix="use that head, stop it with `hn down`, or give this one another state directory",
    )


def replaced(path: Path) -> Unavailable:
    """Return the error for a file of the journal that is not the one this head writes any more."""
    return Unavailable(
        code="journal-replaced",
        what=f"{str(path)!r} was removed or replaced while the head runs, so nothing is recorded any more",
        fix="the head still has all that it acknowledged: save it with `hn backup FILE`, then `hn down`, "
        "move the state directory away and `hn restore FILE`",
    )


def full(path: Path) -> Unavailable:
    """Return the error for a disk that has no room for the journal."""
    return Unavailable(
        code="journal-full",
        what=f"no space is left for the journal {str(path)!r}, so nothing was recorded",
        fix=f"free some space in {str(path.parent)!r} and try again; nothing recorded before is lost",
    )


def from_sqlite(path: Path, error: sqlite3.Error) -> Unavailable:
    """Return what an error of SQLite means for the journal."""
    primary = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if primary in _DAMAGED:
        return damaged(path, str(error))
    if primary == _FULL or (primary in _FILE_SYSTEM and _no_room(path)):
        return full(path)
    return _failed(path, str(error))


def from_system(path: Path, error: OSError) -> Unavailable:
    """Return what an error of the operating system means for the journal."""
    return _failed(path, error.strerror or str(error))


def _failed(path: Path, what: str) -> Unavailable:
    return Unavailable(
        code="journal-error",
        what=f"the journal {str(path)!r} cannot be used: {what}",
        fix=f"check that {str(path.parent)!r} exists, is on a local disk and belongs to the user of the head",
    )


def _no_room(path: Path) -> bool:
    try:
        return os.statvfs(path.parent).f_bavail == 0
    except OSError:
        return False


MAX_NOTED: Final = 100  # rows; the log has them all

Row = TypeVar("Row")

log = logging.getLogger("headnode.adapters.journal")


class Damage:
    """The rows that were found unreadable since the journal was opened, each once."""

    def __init__(self) -> None:
        self._noted: dict[str, None] = {}

    @property
    def noted(self) -> tuple[str, ...]:
        """The first rows that were found, in sentences."""
        return tuple(self._noted)

    def note(self, what: str) -> None:
        """Note a row that cannot be read, in a sentence; log it the first time."""
        if what not in self._noted and len(self._noted) < MAX_NOTED:
            self._noted[what] = None
            log.error("a row of the journal cannot be read: %s", what)

    def readable(self, read: Callable[..., Row], rows: Iterable[tuple[Any, ...]]) -> Iterator[Row]:
        """Yield what `read` makes of each row; one that cannot be read is noted and left out."""
        for row in rows:
            try:
                found = read(*row)
            except UnreadableRow as error:
                self.note(error.row)
                continue
            yield found
