"""Writes a backup: a private, compressed tar file that appears under its name only when it was checked."""

import hashlib
import io
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from headnode.adapters.backup.checking import Checked, check_backup
from headnode.adapters.backup.contents import MANIFEST, Kept, Manifest
from headnode.core.model.errors import BadRequest, Unavailable

_QUICK = 1  # level of compression
_OTHERS = 0o077


def write_backup(target: Path, files: Mapping[str, Path], manifest: Manifest) -> Checked:
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
    kept = tuple(Kept(name, file.stat().st_size, _digest(file)) for name, file in files.items())
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
