"""Files of the node, or of a file system that it shares, as storage: copied as the user.

Files that a task has made or changed at the top of its scratch directory are taken away as ``./``.  What was
brought is noted there when all of it has arrived.  The note is a file of the user, who can only mislead his
own transfers with it.
Source:  HTCondor, condor_submit(1), "transfer_output_files".
"""

import json
import os
import stat
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from headnode.adapters.files.opening import open_plain
from headnode.adapters.staging.arrival import ArrivingFile
from headnode.adapters.staging.failures import NeverTransferred
from headnode.adapters.staging.storage import Seen
from headnode.core.model.staging import NEW_FILES, local_path

MAX_SORTED = 100_000  # files of a directory


def open_source(path: str) -> int:
    """Open a regular file of the user.  A pipe or device is refused, and does not block.

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


def _copy(file: int, arrival: ArrivingFile, progress: Seen) -> int:
    """Copy what has not arrived yet of an open file; return its size."""
    about = os.fstat(file)
    arrival.is_executable = bool(about.st_mode & stat.S_IXUSR)
    begun = arrival.begin(f"{about.st_dev}:{about.st_ino}:{about.st_size}:{about.st_mtime_ns}")
    progress.expect(about.st_size)
    progress(begun)
    arrival.copy(file, begun, about.st_size, progress)
    return about.st_size


class LocalStorage:
    """The file system of the node."""

    def fetch(self, url: str, arrival: ArrivingFile, progress: Seen) -> int | None:
        file = open_source(path_of(url))
        try:
            return _copy(file, arrival, progress)
        finally:
            os.close(file)

    def store(self, file: int, size: int, url: str, token: str, progress: Seen) -> None:  # noqa: ARG002
        arrival = ArrivingFile(path_of(url), token)
        try:
            arrival.finish(_copy(file, arrival, progress), "", None, durable=True)
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


_OWN = ".headnode-"  # names of files of transfers
_NOTE = f"{_OWN}brought"
_MAX_NOTE = 32 << 20  # bytes
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


def note_brought(directory: str) -> None:
    """Note the files that are in a scratch directory now.

    Raises:  OSError.
    """
    with os.scandir(directory) as entries:
        files = {entry.name: _state(entry) for entry in entries if entry.is_file()}
    with os.fdopen(os.open(f"{directory}/{_NOTE}", _WRITE, 0o600), "w", encoding="utf-8") as file:
        json.dump(files, file)


def made_files(directory: str, path: str, most: int) -> list[str]:
    """Return the names of the files to take away as `path`, at most `most` and one more.

    path:  a directory, with all below it; or ``./``, which means the new files at the top
    Raises:  OSError, NeverTransferred.
    """
    if path != NEW_FILES:
        below = os.path.join(directory, path.rstrip("/"))  # noqa: PTH118 - a Path takes its slashes away
        return list(islice(files_below(below), most + 1))
    before = _noted(directory)
    with os.scandir(directory) as entries:
        files = (each for each in entries if not each.name.startswith(_OWN) and each.is_file())
        made = (each.name for each in files if _state(each) != before.get(each.name))
        return sorted(islice(made, most + 1))


def _state(entry: "os.DirEntry[str]") -> list[int]:
    about = entry.stat()
    return [about.st_size, about.st_mtime_ns, about.st_ino]


def _noted(directory: str) -> dict[str, list[int]]:
    """Return what was noted; nothing if no file was brought."""
    try:
        file = os.open(f"{directory}/{_NOTE}", _READ)
    except FileNotFoundError:
        return {}
    with os.fdopen(file, "rb") as note:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise _changed()
        data = note.read(_MAX_NOTE)
    try:
        noted = json.loads(data)
    except ValueError:
        raise _changed() from None
    if not isinstance(noted, dict):
        raise _changed()
    return noted


def _changed() -> NeverTransferred:
    return NeverTransferred(f"the program has changed {_NOTE!r}", "let it leave that file alone")
