"""Files of the node, or of a file system that it shares, as storage: copied as the user."""

import os
import stat
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from headnode.adapters.files.opening import open_plain
from headnode.adapters.staging.arrival import ArrivingFile
from headnode.adapters.staging.failures import NeverTransferred
from headnode.adapters.staging.storage import Seen
from headnode.core.model.staging import local_path

MAX_SORTED = 100_000  # files of a directory


def open_source(path: str) -> int:
    """Open a regular file of the user.  A pipe or device is refused, and blocks nobody.

    As root no link of another user is followed.
    Raises:  OSError, NeverTransferred.
    """
    if os.geteuid() == 0:
        try:
            return open_plain(path)
        except OSError as error:
            error.filename = path  # not only the part of it that is missing
            raise
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise NeverTransferred(f"{path!r} is not a regular file", "name a file, or a directory with a slash")
    return file


def files_below(directory: str) -> Iterator[str]:
    """Yield the regular files below a directory, relative to it; links to directories are not followed.

    Those of a directory with more than `MAX_SORTED` are in any order.
    """
    folders = [""]
    while folders:
        folder, below = folders.pop(), []
        with os.scandir(Path(directory, folder)) as entries:
            first = list(islice(entries, MAX_SORTED))
            for entry in chain(sorted(first, key=lambda each: each.name), entries):
                if entry.is_dir(follow_symlinks=False):
                    below.append(str(Path(folder, entry.name)))
                elif entry.is_file():
                    yield str(Path(folder, entry.name))
        folders += sorted(below, reverse=True)


def path_of(url: str) -> str:
    """Return the path of a file:// URL; raises NeverTransferred for one of another machine."""
    path = local_path(url.rstrip("/"))
    if not path:
        raise NeverTransferred(f"{url[:200]!r} names no file of this node", "write file:///PATH")
    return path


def _copy(file: int, arrival: ArrivingFile, seen: Seen) -> int:
    """Copy what has not arrived yet of an open file; return its size."""
    about = os.fstat(file)
    arrival.is_executable = bool(about.st_mode & stat.S_IXUSR)
    begun = arrival.begin(f"{about.st_dev}:{about.st_ino}:{about.st_size}:{about.st_mtime_ns}")
    seen.expect(about.st_size)
    seen(begun)
    arrival.copy(file, begun, about.st_size, seen)
    return about.st_size


class LocalStorage:
    """The file system of the node."""

    def fetch(self, url: str, arrival: ArrivingFile, seen: Seen) -> int | None:
        file = open_source(path_of(url))
        try:
            return _copy(file, arrival, seen)
        finally:
            os.close(file)

    def store(self, file: int, size: int, url: str, token: str, seen: Seen) -> None:  # noqa: ARG002
        arrival = ArrivingFile(path_of(url), token)
        try:
            arrival.finish(_copy(file, arrival, seen), "", None, durable=True)
        finally:
            arrival.close()

    def forget(self, url: str, token: str) -> None:
        arrival = ArrivingFile(path_of(url), token)
        arrival.discard()
        arrival.close()

    def below(self, url: str) -> Iterator[str]:
        return files_below(path_of(url))

    def close(self) -> None:
        """Nothing is kept open."""
