"""Which files a task has made or changed at the top of its scratch directory: they are taken away as ``./``.

What was brought is noted there when all of it has arrived.  The note is a file of the user, who can only
mislead his own transfers with it.
Source:  HTCondor, condor_submit(1), "transfer_output_files".
"""

import json
import os
import stat
from itertools import islice

from headnode.adapters.staging.failures import NeverTransferred
from headnode.adapters.staging.local_storage import files_below
from headnode.core.model.staging import NEW_FILES

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
