"""What a backup contains: the files of a state directory without which a head cannot be as it was."""

import os
from pathlib import Path
from typing import Final

import msgspec

from headnode.adapters.journal.state_directory import CLUSTER_ID, JOURNAL
from headnode.core.model.errors import NotAllowed

FORMAT: Final = "headnode-backup"
VERSION: Final = 1
MANIFEST: Final = "manifest.json"
LARGEST_MANIFEST: Final = 1 << 20  # bytes
AUTHORITY: Final = ("authority.key", "authority.pem", "head.key", "head.pem")
FILES: Final = (
    JOURNAL,
    CLUSTER_ID,
    "name",
    "listen",
    "nodes-here",
    "audit.log",
    *(f"authority/{name}" for name in AUTHORITY),
)
"""All that a backup may contain; a journal is always in it, the others where the head has them."""


class Kept(msgspec.Struct, frozen=True):
    """A file in a backup.  `digest`: SHA-256 in hexadecimal digits."""

    name: str
    size: int
    digest: str


class Manifest(msgspec.Struct, frozen=True):
    """The first member of a backup: what it is of, and what it contains.

    `made` in seconds since 1970; `events`: the number of the last event in the journal.
    """

    format: str
    version: int
    headnode: str
    cluster: str
    cluster_id: str
    made: float
    events: int
    files: tuple[Kept, ...] = ()


def files_of(state: Path, journal: Path) -> dict[str, Path]:
    """Return the files to back up by their names; `journal` is the copy of the journal.

    Raises:  NotAllowed ``backup-not-allowed`` when some of them may not be read.
    """
    found = {JOURNAL: journal}
    for name in FILES[1:]:
        file = state / name
        try:
            if file.is_file():
                os.close(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
                found[name] = file
        except PermissionError:
            raise NotAllowed(
                code="backup-not-allowed",
                what=f"you may not read {str(file)!r}",
                fix="make the backup as root or as the user of the head",
            ) from None
    return found
