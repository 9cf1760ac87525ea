"""Checks a backup by what it is for: unpack it, compare each file with its digest, replay the journal."""

import hashlib
import math
import os
import tarfile
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from headnode.adapters.backup.contents import (
    FILES,
    FORMAT,
    LARGEST_MANIFEST,
    MANIFEST,
    VERSION,
    Kept,
    Manifest,
)
from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.adapters.journal.state_directory import JOURNAL
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.invariants import check_cluster
from headnode.core.model.errors import BadRequest, HeadnodeError, Unavailable
from headnode.engine.recovery import recover


class Checked(NamedTuple):
    """A backup that is good: what it says of itself, and the cluster as its journal has it."""

    manifest: Manifest
    cluster: Cluster


def check_backup(backup: Path, unpacked: Path) -> Checked:
    """Unpack a backup into the new directory `unpacked`, which stays, and replay its journal there.

    Raises:  BadRequest ``no-backup``; Unavailable ``backup-damaged``, ``backup-version`` or what the journal
             raises; OSError when `unpacked` cannot be written.
    """
    manifest = _unpack(backup, unpacked)
    journal = SqliteJournal(unpacked / JOURNAL, may_create=False)
    try:
        journal.look_over(math.inf)
        if journal.damage():
            raise _damaged(backup, journal.damage()[0])
        cluster, number, _ = recover(journal)
        check_cluster(cluster)
        if (journal.cluster_id, number) != (manifest.cluster_id, manifest.events):
            raise _damaged(backup, f"its journal ends with event {number}, not {manifest.events}")
    finally:
        journal.close()
    return Checked(manifest, cluster)


def _unpack(backup: Path, unpacked: Path) -> Manifest:
    unpacked.mkdir(mode=0o700)
    try:
        with tarfile.open(backup, "r|gz") as archive:
            manifest = _manifest(backup, archive)
            missing = {kept.name: kept for kept in manifest.files}
            while (member := archive.next()) is not None:
                kept = missing.pop(member.name, None)
                content = archive.extractfile(member) if kept is not None and member.isreg() else None
                if kept is None or content is None or kept.name not in FILES:
                    raise _damaged(backup, f"{member.name!r} is not part of it")
                _write(backup, content, unpacked / kept.name, kept)
    except (tarfile.TarError, EOFError) as error:
        raise _damaged(backup, str(error)) from None
    if missing:
        raise _damaged(backup, f"{min(missing)!r} is missing")
    return manifest


def _manifest(backup: Path, archive: tarfile.TarFile) -> Manifest:
    first = archive.next()
    content = archive.extractfile(first) if first is not None and first.name == MANIFEST else None
    try:
        if content is None:
            raise BadRequest(code="no-backup", what=f"{str(backup)!r} is no backup of a head")
        found = msgspec.json.decode(content.read(LARGEST_MANIFEST), type=Manifest)
    except msgspec.MsgspecError as error:
        raise _damaged(backup, f"its manifest cannot be read: {error}") from None
    if found.format != FORMAT or found.version != VERSION:
        raise Unavailable(
            code="backup-version",
            what=f"the backup {str(backup)!r} has format {found.format} {found.version}, "
            f"this Headnode reads {FORMAT} {VERSION}",
            fix=f"restore it with Headnode {found.headnode}, which wrote it",
        )
    return found


def _write(backup: Path, content: IO[bytes], file: Path, kept: Kept) -> None:
    """Write a file that only its owner may read, and compare it with its digest."""
    file.parent.mkdir(mode=0o700, exist_ok=True)
    digest = hashlib.sha256()
    number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(number, "wb") as stream:
        while piece := content.read(1 << 20):
            digest.update(piece)
            stream.write(piece)
        stream.flush()
        os.fsync(number)
    if digest.hexdigest() != kept.digest:
        raise _damaged(backup, f"{kept.name!r} has changed since it was written")


def _damaged(backup: Path, what: str) -> HeadnodeError:
    return Unavailable(
        code="backup-damaged",
        what=f"the backup {str(backup)!r} is damaged: {what}",
        fix="take another backup; nothing was changed",
    )
