"""One process at a time: a lock on a side file, which the system lets go of however the process ends."""

import errno
import fcntl
import os
from pathlib import Path

from headnode.adapters.journal.troubles import from_system
from headnode.core.model.errors import Unavailable


class SingleProcess:
    """Holds `path` locked from its making until `release`.

    Raises:  Unavailable ``already-running`` when another process, or another journal of this one, holds it;
             ``journal-error`` when the file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise from_system(path, error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise self._refusal(path, error) from error
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let another process have it."""
        os.close(self._file)

    def _refusal(self, path: Path, error: OSError) -> Unavailable:
        holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip()
        os.close(self._file)
        if error.errno != errno.EWOULDBLOCK:
            return from_system(path, error)
        who = f"process {holder}" if holder else "another process"
        return Unavailable(
            code="already-running",
            what=f"{who} already uses the state directory {str(path.parent)!r}",
            fix="use that head, stop it with `hn down`, or give this one another state directory",
        )
