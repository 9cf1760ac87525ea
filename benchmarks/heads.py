"""A head of its own for a benchmark, in a directory that goes away with it.

Run alone, this prints nothing: the other files use it.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from headnode.apps.client.client import Client
from headnode.core.model.errors import HeadnodeError

TIMEOUT = 30.0  # seconds until a head must answer


class Head:
    """A head that runs, and may be ended and started again."""

    def __init__(self, state: Path, nodes: int, processors: int | None, listen: str = "") -> None:
        self.state = state
        self._options = ["--nodes", str(nodes)]
        if processors is not None:
            self._options += ["--processors", str(processors)]
        self._options += ["--listen", listen] if listen else []
        self.client = Client(str(state))
        self.process = self._spawn()

    def _spawn(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "headnode.apps.server", "--state", str(self.state), *self._options]
        with (self.state / "head.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def wait_until_ready(self, nodes: int) -> None:
        """Wait until the head answers and so many nodes are ready."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            try:
                ready = [n for n in self.client.ask("nodes")["nodes"] if n["state"] == "Ready"]
            except HeadnodeError:
                ready = []
                if self.process.poll() is None:
                    time.sleep(0.005)
                    continue
            if len(ready) >= nodes:
                return
            time.sleep(0.005)
        raise SystemExit(f"the head did not become ready:\n{(self.state / 'head.log').read_text()}")

    def kill(self) -> None:
        """End the head as a power switch would, but not its agents."""
        self.client.close()
        self.process.kill()
        self.process.wait()

    def start_again(self) -> None:
        """Start it once more on what it left."""
        self.process = self._spawn()

    def memory(self) -> float:
        """Return the head's resident memory in MB."""
        return resident(self.process.pid)

    def proportional_memory(self) -> float:
        """Return the head's memory in MB, its share of what it has with others (PSS)."""
        lines = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))

    def processor_time(self) -> float:
        """Return the seconds of processor time that the head has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_of_all(self) -> float:
        """Return the resident memory in MB of the head and of every other process of this cluster."""
        return sum(resident(process) for process in _uses(self.state))

    def stop(self) -> None:
        """End everything, jobs and agents too."""
        if self.process.poll() is None:
            self.client.ask("stop_head", cancel_jobs=True)
            self.client.close()
            self.process.wait(TIMEOUT)
        _wait_for_agents(self.state)


def resident(process: int) -> float:
    """Return the resident memory of a process in MB; 0 if it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0.0


def _wait_for_agents(state: Path) -> None:
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline and _uses(state):
        time.sleep(0.02)


def _uses(state: Path) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if str(state).encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
    return [pid for pid in found if pid != os.getpid()]


@contextlib.contextmanager
def head(nodes: int = 1, processors: int | None = None, listen: str = "") -> Iterator[Head]:
    """Start a head with nodes on this machine; end it and remove its directory afterwards."""
    with tempfile.TemporaryDirectory(prefix="headnode-bench-") as directory:
        started = Head(Path(directory), nodes, processors, listen)
        try:
            started.wait_until_ready(nodes)
            yield started
        finally:
            started.stop()


def machine() -> str:
    """Return one line about the machine and the day, for reports."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown processor",
    )
    return f"{os.cpu_count()} x {model}, Python {sys.version.split()[0]}, {time.strftime('%Y-%m-%d')}"
