"""Control groups: where this process may make them, and those of a shepherd, which can be killed at once.

Standard library only: this is loaded by the shepherd factory."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from headnode.adapters.processes.program_start import same_processors

ROOT = Path("/sys/fs/cgroup")
AGENT = (
    "agent"  # the group of the agent where one was delegated: a group with groups in it holds no processes
)
CONTROLLERS = ("memory", "pids", "cpuset")


class Hierarchies(NamedTuple):
    """Where groups are made.  `version`: ``v2``, ``v1`` or ``none``.

    `unified` holds groups of version 2, which can be killed and frozen as a whole, and tell processor time.
    `controllers` are those that we can use, each with the directory for its groups: `unified` in version 2.
    """

    version: str
    unified: Path | None
    controllers: dict[str, Path]

    def places(self) -> tuple[Path, ...]:
        """Return every directory in which there are groups of ours."""
        unified = () if self.unified is None else (self.unified,)
        return tuple(dict.fromkeys((*unified, *self.controllers.values())))


NONE = Hierarchies("none", None, {})


_PART = 65536  # bytes


def write(file: Path, text: str) -> None:
    """Write to a file of a group: a third of what a text file of Python costs.

    Raises:  OSError.
    """
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def read(file: Path) -> str:
    """Return what a file of a group says.

    Raises:  OSError.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, _PART):
            parts.append(part)
        return b"".join(parts).decode()
    finally:
        os.close(descriptor)


def counts_in(text: str) -> dict[str, int]:
    """Return the numbers by their names, one in each line.

    Raises:  ValueError.
    """
    return {name: int(number) for name, _, number in (line.partition(" ") for line in text.splitlines())}


def find(root: Path = ROOT) -> Hierarchies:
    """Return what this process may use."""
    if (root / "cgroup.controllers").exists():
        base = _base(root)
        return NONE if base is None else Hierarchies("v2", base, dict.fromkeys(_switched_on(base), base))
    beside = root / "unified"
    unified = _base(beside) if (beside / "cgroup.controllers").exists() else None
    controllers = {name: root / name for name in CONTROLLERS if _is_ours(root / name)}
    return Hierarchies("v1", unified, controllers) if controllers or unified else NONE


def switch_on(root: Path = ROOT) -> None:
    """Let groups have controllers, as far as this process may; it moves out of the way where it must."""
    base = _base(root) if (root / "cgroup.controllers").exists() else None
    if base is None:
        return
    offered = read(base / "cgroup.controllers").split()
    for name in CONTROLLERS:
        if name in offered and name not in _switched_on(base):
            _switch_on(base, name, may_move=base != root)


def _switch_on(base: Path, name: str, *, may_move: bool) -> None:
    switch = base / "cgroup.subtree_control"
    try:
        write(switch, f"+{name}")
    except OSError:  # processes are in the way, or it is kept from us
        if may_move:
            with contextlib.suppress(OSError):
                _move_down(base)
                write(switch, f"+{name}")


def _move_down(base: Path) -> None:
    below = base / AGENT
    below.mkdir(exist_ok=True)
    for process in read(base / "cgroup.procs").split():
        with contextlib.suppress(ProcessLookupError):
            write(below / "cgroup.procs", process)


def _switched_on(base: Path) -> list[str]:
    names = read(base / "cgroup.subtree_control").split()
    return [name for name in CONTROLLERS if name in names]


def _base(tree: Path) -> Path | None:
    """Return the highest directory of a version 2 tree in which this process may make groups."""
    if _is_ours(tree):
        return tree
    own = tree / _own_group().lstrip("/")
    own = own.parent if own.name == AGENT else own
    return own if own != tree and _is_ours(own) else None


def _own_group() -> str:
    """Return the group of this process in the version 2 tree."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            number, _, path = line.partition("::")
            if number == "0":
                return path
    return ""


def _is_ours(place: Path) -> bool:
    return os.access(place, os.W_OK) and os.access(place / "cgroup.procs", os.W_OK)


PREFIX = "headnode-"
SHEPHERD, TASKS, LOOSE = "shepherd", "tasks", "loose"
_PAUSE = 0.005  # seconds between two looks
_YOUNG = 60.0  # seconds in which a group that is empty may be that of a shepherd about to enter it


def name_of(marker: str) -> str:
    """Return what the groups of a shepherd are called."""
    return f"{PREFIX}{marker}"


def own_groups(marker: str) -> list[Path]:
    """Return where the groups of a shepherd are, whether they exist or not: one in each tree."""
    return [place / name_of(marker) for place in find().places()]


def enter(marker: str, most_processes: int = 0) -> Hierarchies:
    """Make the groups and put this process into them; return what may be made in them.

    `most_processes` is what all of the job may have here, with threads; 0: no limit of ours.
    """
    found = find()
    if found.unified is None:
        return NONE  # without a tree that can be killed as a whole there is little to be had
    try:
        with same_processors():  # tasks that are not bound have the processors that the agent was started on
            _enter_unified(found.unified / name_of(marker), found.version == "v2" and bool(found.controllers))
            if found.version == "v1":
                _enter_first_version(marker, found)
        if most_processes and "pids" in found.controllers:
            limit = found.controllers["pids"] / name_of(marker) / "pids.max"
            write(limit, str(most_processes))
    except OSError:
        return NONE
    return found


def entrance(group: Path, hierarchies: Hierarchies) -> Path:
    """Return the file by which a process with one thread enters a group.

    In version 1 a thread is moved alone: the kernel need not wait for all processors then, which takes 10 ms
    where no process was moved for a while (Linux 5.17).
    """
    is_unified = hierarchies.unified is not None and group.is_relative_to(hierarchies.unified)
    return group / ("cgroup.procs" if is_unified else "tasks")


def _enter_unified(group: Path, with_controllers: bool) -> None:
    group.mkdir(exist_ok=True)
    if with_controllers:
        controllers = group.parent / "cgroup.subtree_control"
        wanted = " ".join(f"+{name}" for name in read(controllers).split())
        write(group / "cgroup.subtree_control", wanted)
    (group / SHEPHERD).mkdir(exist_ok=True)
    write(group / SHEPHERD / "cgroup.procs", "0")


def _enter_first_version(marker: str, hierarchies: Hierarchies) -> None:
    for controller, place in hierarchies.controllers.items():
        group = place / name_of(marker)
        group.mkdir(exist_ok=True)
        if controller == "cpuset":  # a new one has no processors and memory nodes: it accepts no process
            inherit(group)
        write(entrance(group, hierarchies), "0")


def inherit(group: Path) -> None:
    """Give a new cpuset of version 1 all that the one above has.

    Raises:  OSError.
    """
    for file in ("cpuset.mems", "cpuset.cpus"):
        write(group / file, read(group.parent / file))


def exists(marker: str) -> bool:
    """Tell whether any group of a shepherd is there."""
    return any(group.exists() for group in own_groups(marker))


def end(marker: str, timeout: float) -> bool:
    """Kill all in the groups and remove them; True when they are gone, or never were.

    It is tried for `timeout` seconds; with 0 once, without sleeping.
    """
    until = time.monotonic() + timeout
    groups = [group for group in own_groups(marker) if not remove(group)]  # mostly nothing is in them
    while groups:
        for group in groups:
            kill(group)
        groups = [group for group in groups if not remove(group)]
        if groups and time.monotonic() > until:
            return False
        if groups:
            time.sleep(_PAUSE)
    return True


def kill(group: Path) -> None:
    """Kill all processes of a group and of the groups in it."""
    with contextlib.suppress(OSError):
        write(group / "cgroup.kill", "1")
        return
    for process in members(group):  # version 1, or before Linux 5.14
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)


def members(group: Path) -> set[int]:
    """Return the processes in a group and the groups in it; in version 1 also dead ones."""
    found: set[int] = set()
    for each in below(group):
        with contextlib.suppress(OSError):
            found.update(map(int, read(each / "cgroup.procs").split()))
    return found


def remove(group: Path) -> bool:
    """Remove a group with those in it, as far as they are empty; True when nothing is left."""
    try:
        group.rmdir()  # most have none in them
    except FileNotFoundError:
        return True
    except OSError:
        pass
    else:
        return True
    for each in below(group):
        with contextlib.suppress(OSError):
            each.rmdir()
    return not group.exists()


def below(group: Path) -> Iterator[Path]:
    """Yield the groups in a group, innermost first, and then itself."""
    inside: list[str] = []
    with contextlib.suppress(OSError), os.scandir(group) as entries:  # which know what is a directory
        inside = sorted(entry.name for entry in entries if entry.is_dir())
    for name in inside:
        yield from below(group / name)
    yield group


def sweep(now: float) -> list[str]:
    """Remove the empty groups of shepherds that ended when no agent was there; return their names.

    `now` in seconds since 1970: what is younger than a minute may be about to be used.
    """
    places = find().places()
    names = {group.name for place in places for group in place.glob(f"{PREFIX}*")}
    found = []
    for name in sorted(names):
        groups = [place / name for place in places if (place / name).exists()]
        with contextlib.suppress(OSError):
            young = max((group.stat().st_mtime for group in groups), default=now) > now - _YOUNG
            if not young and not any(members(group) for group in groups):
                left = [group for group in groups if not remove(group)]
                found += [] if left else [name]
    return found


class Freezer:
    """The group in a shepherd's group that can be frozen: what is moved into it, or was started in it.

    It is opened while the shepherd may still do so: what is asked of open files later counts as asked by who
    opened them (Linux 5.16; before, the user is refused, and signals must do).
    """

    def __init__(self, marker: str) -> None:
        """Make and open the groups.

        Raises:  OSError where that is not possible, as on systems without version 2.
        """
        found = find()
        if found.unified is None:
            raise FileNotFoundError("there are no control groups that this agent may use")
        outer = found.unified / name_of(marker)
        self._tasks = make_tasks(outer, found)
        (self._tasks / LOOSE).mkdir(exist_ok=True)
        self._leave = os.open(outer / SHEPHERD / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        self._enter = os.open(self._tasks / LOOSE / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        self._freeze = os.open(self._tasks / "cgroup.freeze", os.O_WRONLY | os.O_CLOEXEC)
        self._events = os.open(self._tasks / "cgroup.events", os.O_RDONLY | os.O_CLOEXEC)

    def freeze(self) -> None:
        """Let nothing in the group run.

        Raises:  OSError.
        """
        os.write(self._freeze, b"1")

    def thaw(self) -> None:
        """Let all in the group run.

        Raises:  OSError.
        """
        os.write(self._freeze, b"0")

    def inside(self) -> set[int]:
        """Return the processes in the group."""
        return members(self._tasks)

    def is_frozen(self) -> bool:
        """Return whether all processes of the cgroup are stopped."""
        return b"frozen 1" in os.pread(self._events, 4096, 0)

    def take_in(self, process: int) -> None:
        """Move a process into the group; one that is gone is passed over.

        Raises:  OSError.
        """
        with contextlib.suppress(ProcessLookupError):
            os.write(self._enter, str(process).encode())

    def let_out(self, process: int) -> None:
        """Move a process out of the group, where it runs; one that is gone is passed over.

        Raises:  OSError.
        """
        with contextlib.suppress(ProcessLookupError):
            os.write(self._leave, str(process).encode())


def make_tasks(group: Path, hierarchies: Hierarchies) -> Path:
    """Make the group for tasks in a shepherd's version 2 group, and return it.

    Raises:  OSError.
    """
    tasks = group / TASKS
    if not tasks.exists():
        tasks.mkdir(exist_ok=True)
        if hierarchies.version == "v2" and hierarchies.controllers:
            wanted = " ".join(f"+{name}" for name in hierarchies.controllers)
            write(tasks / "cgroup.subtree_control", wanted)
    return tasks
