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
            self._file = os.fdopen(
                os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b", buffering=0
            )
        except OSError as error:
            raise from_system(path, error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise self._refusal(path, error) from error
        self._file.truncate(0)
        self._file.write(b"%d\n" % os.getpid())

    def release(self) -> None:
        """Let another process have it."""
        self._file.close()

    def _refusal(self, path: Path, error: OSError) -> Unavailable:
        holder = self._file.read(32).decode("ascii", "replace").strip()
        self._file.close()
        if error.errno != errno.EWOULDBLOCK:
            return from_system(path, error)
        who = f"process {holder}" if holder else "another process"
        return Unavailable(
            code="already-running",
            what=f"{who} already uses the state directory {str(path.parent)!r}",
            fix="use that head, stop it with `hn down`, or give this one another state directory",
        )
