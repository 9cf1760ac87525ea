"""The shepherd's side of the groups of its tasks: they are asked for, looked at, and given up.

A group tells what its processes really used, holds them to limits, and loses none of them.  It costs as much
as the start of a small program, so only so many a second are made for attempts that do not need one.
Standard library only: this is loaded by the shepherd factory.
"""

import contextlib
import json
import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from headnode.adapters.processes import cgroups
from headnode.adapters.processes.file_passing import receive_files
from headnode.adapters.processes.grooming import name_of
from headnode.adapters.processes.hierarchies import Hierarchies

SHARE = 0.02  # of the time, at most, goes into groups that are made only to measure
SAVED = 0.02  # seconds: what may be spent at once, after a while without
_PATIENCE = 5.0  # seconds for an answer of the groom
_MOST_FILES = 8
_KB = 1024
_MICROSECONDS = 1_000_000


class NoGroup(Exception):
    """A group cannot be made; the attempt must do without."""


class Figures(NamedTuple):
    """What a group tells.  Times in seconds, memory in kB; None: the system does not say.

    `killed`: how many of its processes were killed because there was no memory for them; `refused`: how
    often it could not start another process.
    """

    peak: int | None = None
    times: tuple[float, float] | None = None  # user, system
    killed: int = 0
    refused: int = 0


class Group:
    """The group of one attempt."""

    def __init__(self, number: int, entrances: list[int], paths: dict[str, Path], version: str) -> None:
        self.number, self.entrances = number, entrances
        self.keeps_memory, self.keeps_processes = "memory" in paths, "pids" in paths
        self._paths, self._version = paths, version

    def entered(self) -> None:
        """Close what one enters by."""
        for file in self.entrances:
            os.close(file)
        self.entrances = []

    def members(self) -> set[int]:
        """Return its processes."""
        return cgroups.members(self._paths["unified"])

    def figures(self) -> Figures:
        """Return what it tells now."""
        times = _numbers(self._paths["unified"] / "cpu.stat")
        user, system = times.get("user_usec"), times.get("system_usec")
        known = user is not None and system is not None
        refused = _numbers(self._paths["pids"] / "pids.events").get("max", 0) if self.keeps_processes else 0
        return Figures(
            self._peak(),
            (times["user_usec"] / _MICROSECONDS, times["system_usec"] / _MICROSECONDS) if known else None,
            self.killed(),
            refused,
        )

    def killed(self) -> int:
        """Return how many of its processes were killed because there was no memory for them."""
        return kills_in(self._paths["memory"], self._version) if self.keeps_memory else 0

    def _peak(self) -> int | None:
        if not self.keeps_memory:
            return None
        file = "memory.peak" if self._version == "v2" else "memory.max_usage_in_bytes"
        with contextlib.suppress(OSError, ValueError):  # memory.peak is there since Linux 5.19
            return -(-int((self._paths["memory"] / file).read_text()) // _KB)
        return None


def kills_in(group: Path, version: str) -> int:
    """Return how many processes of a group were killed because there was no memory for them."""
    return _numbers(group / ("memory.events" if version == "v2" else "memory.oom_control")).get("oom_kill", 0)


def kills_on_machine() -> int:
    """Return how many processes this machine has killed for want of memory since it was started."""
    return _numbers(Path("/proc/vmstat")).get("oom_kill", 0)


def _numbers(file: Path) -> dict[str, int]:
    """Read lines of a name and a number; nothing when there is no such file."""
    found = {}
    with contextlib.suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            name, _, number = line.partition(" ")
            found[name] = int(number)
    return found


class Groups:
    """Asks the groom."""

    def __init__(self, groom: socket.socket, marker: str, found: Hierarchies) -> None:
        groom.settimeout(_PATIENCE)
        self._groom, self._found = groom, found
        self._outer = {name: place / cgroups.name_of(marker) for name, place in found.controllers.items()}
        if found.version == "v2":
            self._outer = {name: outer / cgroups.TASKS for name, outer in self._outer.items()}
        if found.unified is not None:
            self._outer["unified"] = found.unified / cgroups.name_of(marker) / cgroups.TASKS
        self._loose = _loose(marker, found)
        self._number = 0
        self._saved, self._saved_at = SAVED, time.monotonic()

    def may_measure(self) -> bool:
        """Whether a group may be made only to measure: as many as take little of the time, and no more."""
        now = time.monotonic()
        self._saved = min(SAVED, self._saved + (now - self._saved_at) * SHARE)
        self._saved_at = now
        return self._saved > 0.0

    def took(self, seconds: float) -> None:
        """A group that was made only to measure cost so much."""
        self._saved -= seconds

    def make(self, memory: int | None, processes: int | None, processors: Sequence[int]) -> Group:
        """Make a group: memory in bytes, numbers of the machine's processors; None and nothing are no limits.

        Raises:  NoGroup.
        """
        self._number += 1
        try:
            self._say("make", self._number, memory, processes, list(processors))
            answer, files = receive_files(self._groom, 4096, _MOST_FILES)
        except OSError as error:
            raise NoGroup(f"the groom does not answer: {error}") from None
        if not answer or json.loads(answer) != ["made"]:
            raise NoGroup(answer.decode() or "the groom has ended")
        paths = {name: outer / name_of(self._number) for name, outer in self._outer.items()}
        return Group(self._number, files, paths, self._found.version)

    def kill(self, group: Group) -> None:
        """Kill all in a group, also what runs as somebody else by now."""
        with contextlib.suppress(OSError):
            self._say("kill", group.number)

    def remove(self, group: Group) -> None:
        """Remove a group, soon; what is in it is killed."""
        with contextlib.suppress(OSError):
            self._say("remove", group.number)

    def _say(self, *message: object) -> None:
        self._groom.send(json.dumps(message).encode())

    def killed_outside(self) -> int:
        """Return how many processes without a group of their own were killed for want of memory until now."""
        return kills_on_machine() if self._loose is None else kills_in(self._loose, self._found.version)


def _loose(marker: str, found: Hierarchies) -> Path | None:
    """Return the group of what has none of its own, if it tells of memory."""
    place = found.controllers.get("memory")
    if place is None:
        return None
    own = place / cgroups.name_of(marker)
    return own / cgroups.SHEPHERD if found.version == "v2" else own
