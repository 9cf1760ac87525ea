"""A copy of the journal, in the pieces in which a standby head gets it."""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from headnode.adapters.standby.dialing import StandbyProblem
from headnode.adapters.wire.standby_messages import PIECE, JournalPiece

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
