"""Captured output for the head: read, listed, removed.  It is the user's: no link leads us elsewhere."""

import contextlib
import heapq
import os
import shutil
import stat
from collections.abc import Collection, Iterable
from pathlib import Path

from headnode.core.model.errors import NotFound

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_captured(job_directory: Path, name: str, offset: int, most: int) -> tuple[bytes, int]:
    """Return up to `most` bytes from `offset` on, and the size of the file; a missing file is an empty one.

    A negative offset counts from the end.
    Raises:  NotFound ``no-output`` when what is there is not a regular file of the job's user.
    """
    try:
        with contextlib.ExitStack() as opened:
            file = _open(job_directory, name, opened)
            size = os.fstat(file).st_size
            start = offset if offset >= 0 else max(0, size + offset)
            return os.pread(file, most, start), size
    except FileNotFoundError:
        return b"", 0
    except OSError as error:
        raise NotFound(
            code="no-output", what=f"captured output {name!r} cannot be read: {os.strerror(error.errno or 0)}"
        ) from None


def jobs_with_output(output: Path, after: int, most: int) -> list[int]:
    """Return the first `most` of the jobs with ids above `after` that have a directory below `output`."""
    with os.scandir(output) as found:
        jobs = (int(entry.name) for entry in found if entry.name.isascii() and entry.name.isdecimal())
        return heapq.nsmallest(most, (job for job in jobs if job > after))


def remove_outputs(output: Path, jobs: Iterable[int], stay: Collection[int]) -> list[str]:
    """Remove what was captured of these jobs, but for those that `stay`; return what went wrong."""
    troubles: list[str] = []
    for job in jobs:
        if job not in stay:
            shutil.rmtree(
                output / str(job), onerror=lambda _, path, why: troubles.append(f"{path}: {why[1]}")
            )
    return troubles


def _open(job_directory: Path, name: str, opened: contextlib.ExitStack) -> int:
    folder = _entered(os.open(job_directory, _DIRECTORY), opened)
    owner = os.fstat(folder).st_uid
    *folders, last = name.split("/")
    for part in folders:
        folder = _entered(os.open(part, _DIRECTORY, dir_fd=folder), opened)
    file = _entered(os.open(last, _FILE, dir_fd=folder), opened)
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != owner:
        raise NotFound(
            code="no-output", what=f"captured output {name!r} is not a regular file of the job's user"
        )
    return file


def _entered(descriptor: int, opened: contextlib.ExitStack) -> int:
    opened.callback(os.close, descriptor)
    return descriptor
