"""Programs of ours that go on in the background: their directory, their start, and what they said since."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from headnode.core.model.errors import Unavailable

LAST_LINES = 15  # of a log, told when a program does not stay


class Started:
    """A program that was started, and where its log began for it."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        """Start it, in a session of its own; what it says is appended to the log.

        Raises:  OSError.
        """
        self.log = log
        with log.open("ab") as file:
            self._began = file.tell()
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
                cwd="/",
            )

    def last_lines(self) -> str:
        """Return the end of what it has said, each line on one of its own."""
        with self.log.open("rb") as file:
            file.seek(self._began)
            lines = file.read().decode(errors="replace").splitlines()[-LAST_LINES:]
        return "".join(f"\n  | {line}" for line in lines)


def make_directory(directory: str, code: str, what: str, fix: str) -> Path:
    """Make the directory of a program unless it is there: root's is open to all, else it is private.

    Raises:  Unavailable of this code; `what` names the directory, `fix` says how to choose another.
    """
    folder = Path(directory)
    try:
        folder.mkdir(mode=0o755 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
    except OSError as trouble:
        why = os.strerror(trouble.errno or 0)
        raise Unavailable(code=code, what=f"{what} {directory!r} cannot be made: {why}", fix=fix) from trouble
    return folder
