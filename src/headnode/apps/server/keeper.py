"""Keeps the agents of this machine's own nodes alive: processes of their own, which outlive the head."""

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from headnode.adapters.processes.agent_lock import is_held

log = logging.getLogger("headnode.server")

BETWEEN_LOOKS = 0.5  # seconds
LONGEST_PAUSE = 60.0  # seconds between two starts of an agent that does not stay alive


class Keeper:
    """Starts an agent for each node that has none."""

    def __init__(self, state: Path, names: list[str], processors: int | None) -> None:
        self._state = state
        self._names = names
        self._processors = processors
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._pauses: dict[
            str, float
        ] = {}  # seconds; doubled each time an agent ends without having connected
        self._not_before: dict[str, float] = {}  # monotonic

    def directory(self, name: str) -> Path:
        """Return where a node of this machine keeps its things."""
        return self._state / "nodes" / name

    async def keep(self, connected: Callable[[str], bool]) -> None:
        """Look after the agents for ever."""
        while True:
            for name in self._names:
                if connected(name):
                    self._pauses.pop(name, None)
                else:
                    self._start_if_missing(name)
            await asyncio.sleep(BETWEEN_LOOKS)

    def _start_if_missing(self, name: str) -> None:
        before = self._started.get(name)
        if before is not None and before.poll() is None:
            return
        directory = self.directory(name)
        directory.mkdir(parents=True, exist_ok=True)
        if is_held(directory):
            return  # an agent of an earlier head; it will dial in
        if before is not None and not self._may_start_again(name):
            return
        if before is not None:
            log.warning("the agent of node %s ended with %s; starting another", name, before.returncode)
        self._started[name] = self._start(name, directory)

    def _may_start_again(self, name: str) -> bool:
        """Whether the pause after an agent that ended is over; pauses grow while none stays."""
        now = time.monotonic()
        if name not in self._not_before:
            pause = self._pauses.get(name, 0.0)
            self._not_before[name] = now + pause
            self._pauses[name] = min(max(2 * pause, BETWEEN_LOOKS), LONGEST_PAUSE)
        if now < self._not_before[name]:
            return False
        del self._not_before[name]
        return True

    def _start(self, name: str, directory: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "headnode.apps.agent"]
        command += ["--head", str(self._state / "nodes.sock"), "--state", str(directory), "--name", name]
        if self._processors is not None or len(self._names) > 1:  # nodes that share a machine bind nothing
            command += ["--processors", str(self._processors or len(os.sched_getaffinity(0)))]
        log.info("starting the agent of node %s", name)
        with (directory / "agent.log").open("ab") as output:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                start_new_session=True,
                env=dict(os.environ),
            )
