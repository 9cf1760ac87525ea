"""What can go wrong with the journal's file, in words that say what to do."""

import os
import sqlite3
from pathlib import Path

from headnode.core.model.errors import Unavailable

_FULL = sqlite3.SQLITE_FULL
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_FILE_SYSTEM = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN})


def damaged(path: Path, what: str) -> Unavailable:
    """Return the error for a journal that does not hold what was written."""
    return Unavailable(
        code="journal-damaged",
        what=f"the journal {str(path)!r} is damaged: {what}",
        fix="nothing was changed; check the disk, then put a backup of the state directory in place; "
        "`sqlite3 FILE .recover` shows what is left of the damaged file",
    )


def full(path: Path) -> Unavailable:
    """Return the error for a disk that has no room for the journal."""
    return Unavailable(
        code="journal-full",
        what=f"there is no room left for the journal {str(path)!r}, so nothing was recorded",
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
        fix=f"see that {str(path.parent)!r} exists, is on a local disk and belongs to the user of the head",
    )


def _no_room(path: Path) -> bool:
    try:
        return os.statvfs(path.parent).f_bavail == 0
    except OSError:
        return False
