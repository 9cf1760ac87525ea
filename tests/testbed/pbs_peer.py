"""A site that speaks as OpenPBS or as Torque, in a directory of the test: see `pbs_programs`."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testbed import pbs_programs
from testbed.rude_programs import RudePrograms

TIMEOUT = 60.0  # seconds
PROGRAMS = ("qsub", "qstat", "qdel", "qhold", "qrls", "qalter", "qsig")


class PbsPeer(RudePrograms):
    """The directory of a server, and its programs for a resource."""

    process: "subprocess.Popen[bytes]"

    def __init__(
        self, directory: Path, speaks: str, slots: int, defects: Sequence[str], **more: object
    ) -> None:
        self.programs = directory / "programs"
        self._settings = {
            "speaks": speaks, "slots": slots, "defects": list(defects), "history": True, "longest_name": 236,
            "queues": ["workq"], **more,
        }  # fmt: skip
        python = f"{sys.executable} -I -S {pbs_programs.__file__} {directory}"
        super().__init__(directory, {name: f"{python} {name}" for name in PROGRAMS})
        self.server = [*python.split(), "server"]

    def make(self) -> None:
        """Make the directory of a server without jobs."""
        for name in ("live", "ended", "spool"):
            (self.directory / name).mkdir()
        (self.directory / "counter").write_text("0")
        (self.directory / "site.json").write_text(json.dumps(self._settings))
        self.write()

    def jobs(self) -> list[dict[str, Any]]:
        """Return all jobs that were ever submitted."""
        return pbs_programs.Site(self.directory).jobs(ended=True)

    def in_queue(self) -> list[str]:
        """Return the markers of the jobs that wait or run."""
        waits = (job for job in self.jobs() if job["state"] not in "FC")
        return [job["variables"].get("HEADNODE_MARKER", job["name"]) for job in waits]

    def freeze(self, seconds: float) -> None:
        """Let the server start and end no job for a while."""
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def names(self) -> list[str]:
        """Return the markers of all jobs that were ever submitted."""
        return [job["variables"].get("HEADNODE_MARKER", job["name"]) for job in self.jobs()]

    def job(self, number: str) -> dict[str, Any]:
        """Return the job with an id."""
        return next(job for job in self.jobs() if f"{job['number']}.head" == number)

    def go_away(self, *, away: bool) -> None:
        """Let the server not answer from now on, or answer again."""
        path = self.directory / "away"
        path.touch() if away else path.unlink()

    def run(self, *words: str) -> str:
        """Return what one of its programs prints."""
        path = f"{self.programs}:/usr/bin:/bin"
        done = subprocess.run(words, env={"PATH": path}, capture_output=True, text=True, timeout=TIMEOUT)
        return done.stdout

    def until(self, happened: Callable[[], object]) -> None:
        """Wait for a condition."""
        until = time.monotonic() + TIMEOUT
        while not happened():
            assert time.monotonic() < until, self.jobs()
            time.sleep(0.05)


@contextmanager
def pbs_peer(
    directory: Path, speaks: str = "openpbs", slots: int = 4, defects: Sequence[str] = (), **more: object
) -> Iterator[PbsPeer]:
    """Start a server; its jobs run as the user of the test."""
    directory.mkdir()
    directory.chmod(0o755)
    peer = PbsPeer(directory, speaks, slots, defects, **more)
    peer.make()
    with subprocess.Popen(peer.server, stdin=subprocess.DEVNULL) as process:
        peer.process = process
        try:
            peer.until((directory / "ready").exists)
            yield peer
        finally:
            process.terminate()
