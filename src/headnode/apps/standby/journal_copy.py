"""A copy of the whole journal that arrives at a standby in pieces, and takes the place of what was there."""

import hashlib
import os
from pathlib import Path
from typing import Final

from headnode.adapters.journal.sqlite import JOURNAL, SqliteJournal, write_cluster_id
from headnode.adapters.wire.standby_messages import JournalPiece
from headnode.core.model.errors import BadRequest
from headnode.engine.replica import Replica

COPY: Final = "journal.db.copy"
_FILES: Final = ("", "-wal", "-shm")


class JournalCopy:
    """The pieces so far, in a file beside the journal of the state directory."""

    def __init__(self, state: Path) -> None:
        self._state, self._path = state, state / COPY
        self._digest = hashlib.sha256()

    def take(self, piece: JournalPiece) -> bool:
        """Store a piece; return whether the copy is whole now, on the disk, and is what was sent.

        Raises:  BadRequest ``standby-copy`` if it is not what was sent; OSError.
        """
        if piece.first:
            self._path.unlink(missing_ok=True)
            self._digest = hashlib.sha256()
        try:
            self._write(piece)
        except OSError:
            self._path.unlink(missing_ok=True)  # a disk that it has filled has room for other things again
            raise
        if not piece.digest:
            return False
        if self._digest.hexdigest() != piece.digest:
            self._path.unlink()
            raise BadRequest(code="standby-copy", what="the copy of the journal is not what the head sent")
        return True

    def _write(self, piece: JournalPiece) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self._path, flags, 0o600), "ab") as file:
            file.write(piece.data)
            self._digest.update(piece.data)
            if piece.digest:
                file.flush()
                os.fsync(file.fileno())

    def is_new(self, before: Replica | None) -> bool:
        """Return whether the copy lacks events of the journal that is there; it is read first.

        Raises:  Unavailable if the copy does not read.
        """
        return not self._contains(before)

    def install(self, before: Replica | None, *, keep: bool) -> None:
        """Make the copy the journal.  `before` is closed, and kept beside it if it may be the only one.

        Raises:  OSError.
        """
        number = before.number if before is not None else 0
        if before is not None:
            before.store.close()
        for ending in _FILES:
            file = self._state / f"{JOURNAL}{ending}"
            if keep and file.exists():
                file.replace(self._state / f"{JOURNAL}.to-event-{number}{ending}")
            file.unlink(missing_ok=True)
        self._path.rename(self._state / JOURNAL)
        for ending in ("-wal", "-shm", ".lock"):
            self._path.with_name(COPY + ending).unlink(missing_ok=True)

    def _contains(self, before: Replica | None) -> bool:
        """Return whether the copy has all events of the journal before it, if there was one.

        Raises:  Unavailable if the copy does not read.
        """
        fresh = SqliteJournal(self._path, may_create=False)
        try:
            Replica(fresh)  # a journal that is good is not given up for one that is not
            if before is None:
                return True
            same = fresh.cluster_id == before.store.cluster_id
            return same and fresh.checksum_of(before.number) == before.store.checksum_of(before.number)
        finally:
            fresh.close()


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
