"""How the agent before this one ended: by itself, killed, or with its machine."""

import contextlib
from pathlib import Path

_FILE = "running"  # there while an agent runs; it says in which boot of the machine


class LastRun:
    """What an earlier agent has left of its run in the state directory."""

    def __init__(self, state: Path, boot: str) -> None:
        self._file, self._boot = state / _FILE, boot

    def begin(self) -> str:
        """Note that an agent runs; return in a sentence how the last one ended, unless it did as told."""
        before = ""
        with contextlib.suppress(OSError):
            before = self._file.read_text(encoding="ascii", errors="replace")
        with contextlib.suppress(OSError):  # a full disk keeps no agent from its work
            self._file.write_text(self._boot, encoding="ascii")
        if not before:
            return ""
        if before != self._boot:
            return "the machine was rebooted while an agent ran: what ran here is lost"
        return "the previous agent was killed or failed; the processes that it started are looked for"

    def end(self) -> None:
        """Note that the agent ends as it was told to."""
        with contextlib.suppress(OSError):
            self._file.unlink()
