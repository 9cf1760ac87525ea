"""Job logs in the Standard Workload Format, plain or packed; files that are written whole or not at all."""

import gzip
import lzma
import os
import secrets
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

from headnode.adapters.files.opening import directory_of, open_named
from headnode.core.formats.swf import NeverRuns, SwfHeader, SwfJob, SwfLog, read_swf, write_swf
from headnode.core.model.errors import BadRequest
from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.replay import job_ends

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file beside `path` that takes its place at the end; a pipe or a device is written to at once.

    The file beside it is new and has a name that nobody can guess: no link can be put in its place.
    Raises:  OSError when it cannot be written; nothing is left beside `path` then.
    """
    if path.exists() and not path.is_file():
        with os.fdopen(open_named(str(path), os.O_WRONLY), "wb") as file:
            yield file
        return
    directory, name = directory_of(str(path))
    beside = f".{name}.{secrets.token_hex(8)}.part"
    try:
        with os.fdopen(os.open(beside, _NEW, 0o666, dir_fd=directory), "wb") as file:
            try:
                yield file
                file.flush()
                os.rename(beside, name, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:  # also when it is interrupted from the keyboard
                os.unlink(beside, dir_fd=directory)
                raise
    finally:
        os.close(directory)


def unwritable(what: str, path: str, reason: str) -> BadRequest:
    """Return that a file of a user cannot be written; `what` it is, such as ``report``."""
    return BadRequest(
        code=f"{what.partition(' ')[0]}-file",
        what=f"{what} {path!r} cannot be written: {reason}",
        fix="name a file in a directory that exists and that you may write to",
    )


@contextmanager
def user_file(what: str, path: str) -> Iterator[BinaryIO]:
    """Open a file that a user has named, as `atomic_file` does; `what` it is, such as ``report``.

    Raises:  BadRequest ``report-file`` when it cannot be written; one that was there is left alone.
    """
    try:
        with atomic_file(Path(path)) as file:
            yield file
    except OSError as trouble:
        raise unwritable(what, path, trouble.strerror or str(trouble)) from trouble


MAX_LOG = 1 << 30  # bytes, unpacked: some ten million jobs
_XZ = b"\xfd7zXZ\x00"
_GZIP = b"\x1f\x8b"


def read_log(
    path: str,
    processors: int | None = None,
    largest: int = MAX_LOG,
    never: NeverRuns | None = None,
    whose: bool = False,
) -> SwfLog:
    """Read a log in the Standard Workload Format, plain, gzip or xz; see `read_swf`.

    Raises:  BadRequest ``workload-file`` when it cannot be read or unpacked, and what `read_swf` raises.
    """
    # Latin-1 because old logs name people in their comments so; the numbers are the same in any encoding.
    return read_swf(_content(path, largest).decode("latin-1").splitlines(), processors, never, whose)


def _content(path: str, largest: int) -> bytes:
    try:
        with os.fdopen(open_named(path), "rb") as file:
            content = _unpacked(file, largest + 1)
    except OSError as trouble:
        raise _unreadable_log(path, trouble.strerror or str(trouble)) from trouble
    except (EOFError, lzma.LZMAError, zlib.error) as trouble:
        raise _unreadable_log(path, f"it is packed, but damaged: {trouble}") from trouble
    if len(content) > largest:
        raise BadRequest(
            code="workload-file",
            what=f"job log {path!r} is larger than {largest} bytes",
            fix="cut it into months and simulate one after the other",
        )
    return content


def _unpacked(file: BinaryIO, most: int) -> bytes:
    """Return the first `most` bytes; no packed file, however small, can fill the memory."""
    begin = file.read(len(_XZ))
    file.seek(0)
    if begin.startswith(_XZ):
        with lzma.open(file) as stream:
            return stream.read(most)
    if begin.startswith(_GZIP):
        with gzip.open(file) as stream:
            return stream.read(most)
    return file.read(most)


def _unreadable_log(path: str, reason: str) -> BadRequest:
    return BadRequest(
        code="workload-file",
        what=f"job log {path!r} cannot be read: {reason}",
        fix="name a log in the Standard Workload Format, plain or packed with gzip or xz",
    )


HEADING = "job,submit,start,end,processors"


def write_starts(path: str, workload: Workload, starts: Sequence[float]) -> None:
    """Write one line for each job, in seconds on the log's clock.

    Raises:  BadRequest ``starts-file`` when the file cannot be written; one that was there is left alone.
    """
    with user_file("starts file", path) as file:
        file.write(f"{HEADING}\n".encode("ascii"))
        file.writelines(line.encode("ascii") for line in _start_lines(workload, starts))


def _start_lines(workload: Workload, starts: Sequence[float]) -> Iterator[str]:
    rows = zip(
        workload.numbers,
        workload.submits,
        starts,
        job_ends(workload, starts),
        workload.processors,
        strict=True,
    )
    return (f"{job},{submit},{start},{end},{count}\n" for job, submit, start, end, count in rows)


class ClusterHistory(NamedTuple):
    """The ended jobs of a period, and how many jobs of the cluster are not over and so not among them."""

    about: SwfHeader
    jobs: Sequence[SwfJob]
    queued: int
    running: int


def write_history(path: str, history: ClusterHistory, *, whole_seconds: bool = False) -> int:
    """Write the history in the Standard Workload Format, packed if the name ends with .gz or .xz.

    Return how many lines the header has.
    Raises:  BadRequest ``history-file`` when it cannot be written; what was there is left alone.
    """
    header, lines = write_swf(history.about, history.jobs, whole_seconds=whole_seconds)
    with user_file("history file", path) as file, _packed_places(Path(path), file) as packed:
        packed.writelines(line.encode("ascii") for line in chain(header, lines))
    return len(header)


@contextmanager
def _packed_places(path: Path, file: BinaryIO) -> Iterator[BinaryIO | gzip.GzipFile | lzma.LZMAFile]:
    """Write to the file through the packer that its name asks for."""
    if path.suffix.lower() == ".gz":
        with gzip.GzipFile(fileobj=file, mode="wb") as gz:
            yield gz
    elif path.suffix.lower() == ".xz":
        with lzma.LZMAFile(file, "wb") as xz:
            yield xz
    else:
        yield file
