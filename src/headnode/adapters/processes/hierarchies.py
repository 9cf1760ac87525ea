"""Where this process may make control groups, and what the system keeps in them for us.

There are three arrangements: version 2 alone; version 1, a tree for each controller, mostly with a version
2 tree beside them that has no controllers; and none.  Root makes groups at the top of each tree: below a
service of its own, systemd could not start that service again while tasks run.  Another user makes them
where its own group was delegated to it. Standard library only: this is loaded by the shepherd factory.
Source: Linux, "Control Group v2" and cgroups(7); systemd.resource-control(5), Delegate.
"""

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

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
    offered = (base / "cgroup.controllers").read_text().split()
    for name in CONTROLLERS:
        if name in offered and name not in _switched_on(base):
            _switch_on(base, name, may_move=base != root)


def _switch_on(base: Path, name: str, *, may_move: bool) -> None:
    switch = base / "cgroup.subtree_control"
    try:
        switch.write_text(f"+{name}")
    except OSError:  # processes are in the way, or it is kept from us
        if may_move:
            with contextlib.suppress(OSError):
                _move_down(base)
                switch.write_text(f"+{name}")


def _move_down(base: Path) -> None:
    below = base / AGENT
    below.mkdir(exist_ok=True)
    for process in (base / "cgroup.procs").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            (below / "cgroup.procs").write_text(process)


def _switched_on(base: Path) -> list[str]:
    names = (base / "cgroup.subtree_control").read_text().split()
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
    processes = place / "cgroup.procs"
    return processes.exists() and os.access(place, os.W_OK) and os.access(processes, os.W_OK)
