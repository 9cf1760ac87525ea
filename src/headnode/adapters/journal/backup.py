"""Backups of a head's state: written while the head runs, checked by replaying, and restored."""

import hashlib
import io
import math
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final, NamedTuple

import msgspec

from headnode.adapters.files.owners import refuse_unsafe_state, why_not_trusted
from headnode.adapters.journal.sqlite import CLUSTER_ID, JOURNAL, SqliteJournal, write_cluster_id
from headnode.adapters.wire.tls import AUTHORITY_FILES
from headnode.core.model.bounds import UNREADABLE
from headnode.core.model.errors import BadRequest, HeadnodeError, NotAllowed, Unavailable, WrongState
from headnode.core.model.quantities import Instant
from headnode.core.model.user import User
from headnode.core.state import nodes as c
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.decide import decide
from headnode.core.state.invariants import check_cluster
from headnode.engine.recovery import recover

FORMAT: Final = "headnode-backup"
VERSION: Final = 2  # 1 was of development
MANIFEST: Final = "manifest.json"
MAX_MANIFEST: Final = 1 << 20  # bytes
FILES: Final = (
    JOURNAL,
    CLUSTER_ID,
    "name",
    "listen",
    "nodes-here",
    "audit.log",
    *(f"authority/{name}" for name in AUTHORITY_FILES),
)
"""All that a backup may contain; a journal is always in it, the others where the head has them."""


class BackupFile(msgspec.Struct, frozen=True):
    """A file in a backup.  `digest`: SHA-256 in hexadecimal digits."""

    name: str
    size: int
    digest: str


class ManifestVersion(msgspec.Struct, frozen=True):
    """The fields of the manifest in every version: its format, and the version that wrote it."""

    format: str
    version: int
    headnode: str


class Manifest(msgspec.Struct, frozen=True):
    """The first member of a backup: what it is of, and what it contains.

    `created` in seconds since 1970; `events`: the number of the last event in the journal.
    """

    format: str
    version: int
    headnode: str
    cluster: str
    cluster_id: str
    created: float
    events: int
    files: tuple[BackupFile, ...] = ()


def files_of(state: Path, journal: Path) -> dict[str, Path]:
    """Return the files to back up by their names; `journal` is the copy of the journal.

    Raises:  NotAllowed ``backup-not-allowed`` when some of them may not be read.
    """
    files = {JOURNAL: journal}
    for name in FILES[1:]:
        file = state / name
        try:
            if file.is_file():
                os.close(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
                files[name] = file
        except PermissionError:
            raise NotAllowed(
                code="backup-not-allowed",
                what=f"you may not read {str(file)!r}",
                fix="make the backup as root or as the user of the head",
            ) from None
    return files


class CheckedBackup(NamedTuple):
    """A backup that is good: what it says of itself, and the cluster as its journal has it."""

    manifest: Manifest
    cluster: ClusterState


def check_backup(backup: Path, unpacked: Path) -> CheckedBackup:
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
    return CheckedBackup(manifest, cluster)


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
            raise BadRequest(
                code="no-backup",
                what=f"{str(backup)!r} is not a backup of a head",
                fix="name a file that `hn backup` wrote",
            )
        text = content.read(MAX_MANIFEST)
        _see_that_its_version_is_read(backup, msgspec.json.decode(text, type=ManifestVersion))
        return msgspec.json.decode(text, type=Manifest)
    except UNREADABLE as error:
        raise _damaged(backup, f"its manifest cannot be read: {error}") from None


def _see_that_its_version_is_read(backup: Path, version: ManifestVersion) -> None:
    if version.format != FORMAT or version.version != VERSION:
        raise Unavailable(
            code="backup-version",
            what=f"the backup {str(backup)!r} has format {version.format} {version.version}, "
            f"this Headnode reads {FORMAT} {VERSION}",
            fix=f"restore it with Headnode {version.headnode}, which wrote it",
        )


def _write(backup: Path, content: IO[bytes], file: Path, kept: BackupFile) -> None:
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


_QUICK = 1  # level of compression
_OTHERS = 0o077


def write_backup(target: Path, files: Mapping[str, Path], manifest: Manifest) -> CheckedBackup:
    """Write the files into `target`, unpack and replay them beside it, then give the file its name.

    Raises:  BadRequest ``backup-place``; Unavailable ``backup-failed``, or what `check_backup` raises.
    """
    folder = target.parent
    _see_that_it_is_private(target)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=folder))  # for its owner only
    try:
        written = scratch / "backup"
        _pack(written, files, manifest)
        checked = check_backup(written, scratch / "unpacked")
        os.link(written, target)
        _sync(folder)
    except FileExistsError:
        raise _exists(target) from None
    except OSError as error:
        raise Unavailable(
            code="backup-failed",
            what=f"the backup {str(target)!r} cannot be written: {error.strerror or error}",
            fix=f"check that {str(folder)!r} has space for twice the journal, or choose another place",
        ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return checked


def _see_that_it_is_private(target: Path) -> None:
    """Refuse places where others could read or exchange the keys in the backup."""
    if target.exists() or target.is_symlink():
        raise _exists(target)
    try:
        folder = target.parent.stat()
    except OSError as error:
        raise BadRequest(
            code="backup-place",
            what=f"the directory {str(target.parent)!r} cannot be used: {error.strerror}",
            fix="create it, or choose another",
        ) from None
    open_to_others = folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not folder.st_mode & stat.S_ISVTX
    if open_to_others or folder.st_uid not in (0, os.geteuid()):
        raise BadRequest(
            code="backup-place",
            what=f"others may change files in {str(target.parent)!r}, and the backup contains private keys",
            fix="choose a directory that only you may write to",
        )


def _exists(target: Path) -> BadRequest:
    return BadRequest(
        code="backup-place", what=f"{str(target)!r} exists already", fix="choose another name, or remove it"
    )


def _pack(written: Path, files: Mapping[str, Path], manifest: Manifest) -> None:
    kept = tuple(BackupFile(name, file.stat().st_size, _digest(file)) for name, file in files.items())
    head = msgspec.json.encode(msgspec.structs.replace(manifest, files=kept))
    number = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(number, "wb") as stream:
        if os.fstat(number).st_mode & _OTHERS:
            raise BadRequest(
                code="backup-place",
                what=f"the file system of {str(written.parent.parent)!r} cannot restrict access to files",
                fix="choose a directory on another file system: the backup contains private keys",
            )
        with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=_QUICK) as archive:
            archive.addfile(_member(MANIFEST, len(head)), io.BytesIO(head))
            for each in kept:
                with files[each.name].open("rb") as content:  # one that grows is cut at its size then
                    archive.addfile(_member(each.name, each.size), content)
        stream.flush()
        os.fsync(number)


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    return member


def _digest(file: Path) -> str:
    size, digest = file.stat().st_size, hashlib.sha256()
    with file.open("rb") as content:
        while size > 0 and (piece := content.read(min(size, 1 << 20))):
            digest.update(piece)
            size -= len(piece)
    return digest.hexdigest()


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)


SKIPPED: Final = 10_000  # job numbers: those of jobs that were made after the backup must not come again
_BESIDE: Final = frozenset({"head.log"})  # what may be in the directory already


def restore(backup: Path, state: Path, now: Instant, skipped: int = SKIPPED) -> CheckedBackup:
    """Check a backup and make the state directory `state` from it; leave out so many job numbers.

    Raises:  WrongState ``restore-exists``; BadRequest ``backup-owner``; Unavailable ``restore-failed``,
             ``unsafe-state``, or what `check_backup` raises.
    """
    _see_that_nothing_is_there(state)
    _refuse_backup_of_others(backup)
    try:
        state.mkdir(parents=True, exist_ok=True)
        state.chmod(0o755 if os.geteuid() == 0 else 0o700)
        refuse_unsafe_state(state)
        scratch = Path(tempfile.mkdtemp(prefix=".restore.", dir=state))
        try:
            unpacked = scratch / "unpacked"
            checked = check_backup(backup, unpacked)
            _skip_numbers(unpacked / JOURNAL, checked.cluster, now, skipped)
            write_cluster_id(unpacked, checked.manifest.cluster_id)
            _move(unpacked, state)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise Unavailable(
            code="restore-failed",
            what=f"{str(state)!r} cannot be restored: {error.strerror or error}",
            fix="check its free space and your rights, or name another directory with --state DIRECTORY",
        ) from error
    return checked


def _refuse_backup_of_others(backup: Path) -> None:
    """Refuse, as root, a backup that another user can change: it names programs that root runs."""
    if os.geteuid() == 0 and (why_not := why_not_trusted(str(backup))):
        raise BadRequest(
            code="backup-owner",
            what=f"root does not restore {str(backup)!r}: {why_not}",
            fix="make sure that it is your backup, and copy it to a directory that only root can change",
        )


def _see_that_nothing_is_there(state: Path) -> None:
    names = sorted(file.name for file in state.iterdir()) if state.is_dir() else []
    if set(names) - _BESIDE:
        raise WrongState(
            code="restore-exists",
            what=f"the state directory {str(state)!r} is in use: it has {', '.join(names[:3])}",
            fix=f"stop its head with hn down and move it away: mv {state} {state}.old; "
            "or restore elsewhere with --state DIRECTORY",
        )


def _skip_numbers(path: Path, cluster: ClusterState, now: Instant, count: int) -> None:
    by = User(name="hn restore", uid=os.geteuid(), gid=os.getegid(), administrator=True)
    journal = SqliteJournal(path, may_create=False)
    try:
        journal.append(decide(cluster, c.SkipNumbers(by=by, count=count), now))
    finally:
        journal.close()


def _move(unpacked: Path, state: Path) -> None:
    """Move all into place: the cluster id first, the journal last, so that no head starts on a part of it."""
    names = {file.name for file in unpacked.iterdir()} - {CLUSTER_ID, JOURNAL, f"{JOURNAL}.lock"}
    for name in (CLUSTER_ID, *sorted(names), JOURNAL):
        (unpacked / name).rename(state / name)
