"""Control groups of tasks: the helper that makes them with root's rights, and the shepherd's side of it.

Standard library only: this is loaded by the shepherd factory."""

import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headnode.adapters.processes import cgroups
from headnode.adapters.processes.cgroups import Hierarchies
from headnode.adapters.processes.program_start import close_all, receive_files

_MAX_MESSAGE = 65536  # bytes of a message
_AGAIN = 0.02  # seconds between two tries to remove a group in which something still dies
Wanted = tuple[int | None, int | None, list[int] | None]
"""Memory in bytes, how many processes, which processors."""


def group_name(number: int) -> str:
    """Return what the group of a task is called."""
    return f"t{number}"


def _controllers_for(hierarchies: Hierarchies, limits: Wanted) -> dict[str, Path]:
    """Return the controllers that the group of an attempt has.

    In version 1 each is a directory to make, join and remove: that of memory, which measures, and those that
    limit something.
    """
    _, processes, processors = limits
    if hierarchies.version == "v2":
        return hierarchies.controllers
    unused = {"pids"} if processes is None else set()
    unused |= set() if processors else {"cpuset"}
    return {name: place for name, place in hierarchies.controllers.items() if name not in unused}


class CgroupHelper:
    """One thread, one loop."""

    def __init__(self, channel: socket.socket, marker: str, hierarchies: Hierarchies) -> None:
        self._channel, self._found = channel, hierarchies
        self._outer = {place: place / cgroups.name_of(marker) for place in hierarchies.places()}
        self._made: dict[int, list[Path]] = {}  # groups by number
        self._leaving: dict[int, list[Path]] = {}  # those that are to be removed
        if (unified := hierarchies.unified) is not None:
            self._outer[unified] = cgroups.make_tasks(self._outer[unified], hierarchies)

    def run(self) -> None:
        """Serve until the shepherd is gone."""
        while True:
            self._channel.settimeout(_AGAIN if self._leaving else None)
            message = self._receive()
            if message == b"":
                return
            if message is not None:
                self._obey(json.loads(message))
            self._remove_what_is_empty()

    def _receive(self) -> bytes | None:
        """Return what the shepherd says, nothing when it is gone, None when it is silent for a while."""
        try:
            return self._channel.recv(_MAX_MESSAGE)
        except TimeoutError:
            return None
        except ConnectionError:
            return b""

    def _obey(self, message: list[Any]) -> None:
        match message:
            case ["make", int(number), memory, processes, processors]:
                self._answer(number, (memory, processes, processors), os.O_WRONLY)
            case ["keep", int(number), bool(limited), processors]:
                self._answer(number, (None, None, processors), os.O_RDWR, (limited,))
            case ["kill", int(number)]:
                for group in self._made.get(number, ()):
                    cgroups.kill(group)
            case ["remove", int(number)]:
                self._leaving[number] = self._made.pop(number, [])

    def _groups(self, number: int, places: Iterable[Path]) -> list[Path]:
        unified = () if self._found.unified is None else (self._found.unified,)
        return [self._outer[place] / group_name(number) for place in dict.fromkeys((*unified, *places))]

    def _answer(self, number: int, limits: Wanted, way: int, kept: tuple[bool, ...] = ()) -> None:
        """Make a group, and pass on the files to enter it by; `kept`: those too by which it is used again."""
        opened: list[int] = []
        switches: list[str] = []
        controllers = _controllers_for(self._found, limits)
        groups = self._groups(number, controllers.values())
        try:
            for group in groups:
                group.mkdir()
            self._made[number] = groups
            self._limit(number, limits, controllers)
            for group in groups:
                opened.append(os.open(cgroups.entrance(group, self._found), way | os.O_CLOEXEC))
            if kept and "memory" in controllers:
                memory = self._outer[controllers["memory"]] / group_name(number)
                found = open_switches(memory, self._found.version, limited=kept[0])
                switches += found
                opened += found.values()
            socket.send_fds(self._channel, [json.dumps(["made", number, *switches]).encode()], opened)
        except (OSError, TypeError, ValueError) as error:
            self._leaving[number] = self._made.pop(number, groups)
            with contextlib.suppress(OSError):
                self._channel.send(json.dumps(["failed", number, str(error)]).encode())
        finally:
            for file in opened:
                os.close(file)

    def _limit(self, number: int, limits: Wanted, controllers: dict[str, Path]) -> None:
        memory, processes, processors = limits
        where = {name: self._outer[place] / group_name(number) for name, place in controllers.items()}
        if memory is not None and "memory" in where:
            limit_memory(where["memory"], int(memory), self._found.version)
        if processes is not None and "pids" in where:
            cgroups.write(where["pids"] / "pids.max", str(int(processes)))
        if "cpuset" in where:
            self._bind(where["cpuset"], processors)

    def _bind(self, group: Path, processors: list[int] | None) -> None:
        if self._found.version == "v1":
            cgroups.inherit(group)
        if processors:
            with contextlib.suppress(OSError):  # one was taken from us since: the affinity must do
                cgroups.write(group / "cpuset.cpus", ",".join(str(int(each)) for each in processors))

    def _remove_what_is_empty(self) -> None:
        for number, groups in list(self._leaving.items()):
            left = [group for group in groups if not cgroups.remove(group)]
            for group in left:
                cgroups.kill(group)
            if left:
                self._leaving[number] = left
            else:
                del self._leaving[number]


def limit_memory(group: Path, most: int, version: str) -> None:
    """Limit a cgroup to so many bytes without further swap; a process that needs more is killed.

    Raises:  OSError.
    """
    if version == "v2":
        cgroups.write(group / "memory.max", str(most))
        cgroups.write(group / "memory.oom.group", "1")
        swap, amount = group / "memory.swap.max", 0
    else:
        cgroups.write(group / "memory.limit_in_bytes", str(most))
        swap, amount = group / "memory.memsw.limit_in_bytes", most  # of memory and swap together
    with contextlib.suppress(OSError):  # systems that do not count swap have no such file
        cgroups.write(swap, str(amount))


_SWITCHES = {
    "v1": {
        "limit": "memory.limit_in_bytes",
        "swap": "memory.memsw.limit_in_bytes",
        "peak": "memory.max_usage_in_bytes",
    },
    "v2": {"limit": "memory.max", "whole": "memory.oom.group", "peak": "memory.peak"},
}


def open_switches(group: Path, version: str, *, limited: bool) -> dict[str, int]:
    """Open the files by which one group of memory is used again and again; return those that are there.

    ``peak`` can be set to zero since Linux 6.12 in version 2, and always in version 1.  Only a group that is
    `limited` has the others; it has no swap from now on.
    """
    found = {}
    for name, file in _SWITCHES[version].items():
        if limited or name == "peak":
            with contextlib.suppress(OSError):  # not every system counts swap, or forgets a peak
                found[name] = os.open(group / file, os.O_RDWR | os.O_CLOEXEC)
    if limited and version == "v2":
        with contextlib.suppress(OSError):
            cgroups.write(group / "memory.swap.max", "0")
    return found


def run_cgroup_helper(channel: socket.socket, marker: str, hierarchies: Hierarchies) -> None:
    """Be the cgroup helper of a shepherd until that is gone."""
    try:
        CgroupHelper(channel, marker, hierarchies).run()
    except OSError as error:
        print(f"the cgroup helper of shepherd {marker} ends: {error}", file=sys.stderr)  # noqa: T201 (the shepherds' log)


SHARE = 0.02  # of the time, at most, goes into groups that are made only to measure
SAVED = 0.02  # seconds: what may be spent at once, after a while without
_TIMEOUT = 5.0  # seconds for an answer of the helper
_MAX_FILES = 8
_KB = 1024
_KILLS = {"v1": "memory.oom_control", "v2": "memory.events"}
_MICROSECONDS = 1_000_000


class NoGroup(Exception):
    """A group cannot be made; the attempt must do without."""


class CgroupFigures(NamedTuple):
    """What a group tells.  Times in seconds, memory in kB; None: the system does not say.

    `killed`: how many of its processes were killed because there was no memory for them; `refused`: how
    often it could not start another process.
    """

    peak: int | None = None
    times: tuple[float, float] | None = None  # user, system
    killed: int = 0
    refused: int = 0


class TaskCgroup:
    """The group of one attempt."""

    def __init__(self, number: int, entrances: list[int], paths: dict[str, Path], version: str) -> None:
        self.number, self.entrances = number, entrances
        self.has_shepherd = False  # True: it could not leave; who kills the group kills the job
        self.keeps_memory, self.keeps_processes = "memory" in paths, "pids" in paths
        self.paths, self.version = paths, version

    @property
    def hierarchies(self) -> frozenset[str]:
        """The trees in which it has a directory: ``unified``, and in version 1 the names of controllers."""
        return frozenset(self.paths if self.version == "v1" else ("unified",))

    def entered(self) -> None:
        """Close what one enters by."""
        close_all(self.entrances)
        self.entrances = []

    def members(self) -> set[int]:
        """Return its processes."""
        return cgroups.members(self.paths["unified"])

    def figures(self) -> CgroupFigures:
        """Return what it tells now."""
        times = self._counts("unified", "cpu.stat")
        known = "user_usec" in times and "system_usec" in times
        refused = self._counts("pids", "pids.events").get("max", 0) if self.keeps_processes else 0
        return CgroupFigures(
            self._peak(),
            (times["user_usec"] / _MICROSECONDS, times["system_usec"] / _MICROSECONDS) if known else None,
            self.killed(),
            refused,
        )

    def _counts(self, tree: str, file: str) -> dict[str, int]:
        return _numbers(self.paths[tree] / file)

    def killed(self) -> int:
        """Return how many of its processes were killed because there was no memory for them."""
        return self._counts("memory", _KILLS[self.version]).get("oom_kill", 0) if self.keeps_memory else 0

    def _peak(self) -> int | None:
        if not self.keeps_memory:
            return None
        with contextlib.suppress(OSError, ValueError):  # memory.peak is there since Linux 5.19
            return -(-int(cgroups.read(self.paths["memory"] / _SWITCHES[self.version]["peak"])) // _KB)
        return None


def kills_in(group: Path, version: str) -> int:
    """Return how many processes of a group were killed because there was no memory for them."""
    return _numbers(group / _KILLS[version]).get("oom_kill", 0)


def kills_on_machine() -> int:
    """Return how many processes this machine has killed for want of memory since it was started."""
    return _numbers(Path("/proc/vmstat")).get("oom_kill", 0)


def _numbers(file: Path) -> dict[str, int]:
    """Read lines of a name and a number; nothing when there is no such file."""
    with contextlib.suppress(OSError, ValueError):
        return cgroups.counts_in(cgroups.read(file))
    return {}


class TaskCgroups:
    """Asks the cgroup helper."""

    def __init__(self, helper: socket.socket, marker: str, hierarchies: Hierarchies) -> None:
        helper.settimeout(_TIMEOUT)
        self._helper, self._found = helper, hierarchies
        self._outer = {key: place / cgroups.name_of(marker) for key, place in hierarchies.controllers.items()}
        if hierarchies.version == "v2":
            self._outer = {name: outer / cgroups.TASKS for name, outer in self._outer.items()}
        if hierarchies.unified is not None:
            self._outer["unified"] = hierarchies.unified / cgroups.name_of(marker) / cgroups.TASKS
        self._loose = _loose(marker, hierarchies)
        self._own = _own_entrances(marker, hierarchies)
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

    def make(self, memory: int | None, processes: int | None, processors: Sequence[int]) -> TaskCgroup:
        """Make a group: memory in bytes, numbers of the machine's processors; None and nothing are no limits.

        Raises:  NoGroup.
        """
        _, files = self._ask("make", memory, processes, list(processors))
        paths = self._paths((memory, processes, list(processors)))
        return TaskCgroup(self._number, files, paths, self._found.version)

    def keep(self, processors: Sequence[int], *, limited: bool) -> tuple[TaskCgroup, dict[str, int]]:
        """Make a group for attempts one after the other, without a limit; return it with its switches.

        `limited`: limits of its memory will be set.  The switches are as `open_switches` names them.
        Raises:  NoGroup.
        """
        names, files = self._ask("keep", limited, list(processors))
        cut = len(files) - len(names)
        paths = self._paths((None, None, list(processors)))
        group = TaskCgroup(self._number, files[:cut], paths, self._found.version)
        return group, dict(zip(names, files[cut:], strict=True))

    def _ask(self, *words: object) -> tuple[list[str], list[int]]:
        """Let the helper make the next group; return the names of its switches, and the files."""
        verb, *more = words
        self._number += 1
        try:
            self._send(verb, self._number, *more)
            answer, files = receive_files(self._helper, 4096, _MAX_FILES)
            while answer and json.loads(answer)[1] != self._number:  # it is late: nobody waits for it
                close_all(files)
                answer, files = receive_files(self._helper, 4096, _MAX_FILES)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._send("remove", self._number)
            raise NoGroup(f"the cgroup helper does not answer: {error}") from None
        if not answer or json.loads(answer)[0] != "made":
            raise NoGroup(answer.decode() or "the cgroup helper has ended")
        return json.loads(answer)[2:], files

    def _paths(self, limits: Wanted) -> dict[str, Path]:
        made = _controllers_for(self._found, limits)
        return {name: self._outer[name] / group_name(self._number) for name in (*made, "unified")}

    def entrances_of_shepherd(self, group: TaskCgroup) -> list[int]:
        """Return by what this process leaves a group again."""
        return [file for name, file in self._own.items() if name in group.hierarchies]

    def kill(self, group: TaskCgroup) -> None:
        """Kill all processes in a cgroup, including those of other users."""
        with contextlib.suppress(OSError):
            self._send("kill", group.number)

    def remove(self, group: TaskCgroup) -> None:
        """Remove a group, soon; what is in it is killed."""
        with contextlib.suppress(OSError):
            self._send("remove", group.number)

    def _send(self, *message: object) -> None:
        self._helper.send(json.dumps(message).encode())

    def killed_outside(self) -> int:
        """Return how many processes without a group of their own were killed for want of memory until now."""
        return kills_on_machine() if self._loose is None else kills_in(self._loose, self._found.version)


def _own_entrances(marker: str, hierarchies: Hierarchies) -> dict[str, int]:
    """Open the groups of this process, by hierarchy, in which it is alone: while it may still do so."""
    name = cgroups.name_of(marker)
    groups = {} if hierarchies.unified is None else {"unified": hierarchies.unified / name / cgroups.SHEPHERD}
    if hierarchies.version == "v1":
        groups |= {each: place / name for each, place in hierarchies.controllers.items() if each != "pids"}
    return {
        each: os.open(cgroups.entrance(group, hierarchies), os.O_WRONLY | os.O_CLOEXEC)
        for each, group in groups.items()
    }


def _loose(marker: str, hierarchies: Hierarchies) -> Path | None:
    """Return the group of what has none of its own, if it tells of memory."""
    place = hierarchies.controllers.get("memory")
    if place is None:
        return None
    own = place / cgroups.name_of(marker)
    return own / cgroups.SHEPHERD if hierarchies.version == "v2" else own
