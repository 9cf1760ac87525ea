"""The sockets, cores and threads of this machine, of the processors that the agent may use.

Source:  Linux, Documentation/admin-guide/cputopology.rst; ABI/stable/sysfs-devices-system-cpu.
"""

import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

_PROCESSORS = Path("/sys/devices/system/cpu")
_MOST = 65_536  # bytes of a file; a list of 8,192 single processors has 41,000
_SAME_CORE = ("core_cpus_list", "thread_siblings_list")  # the second in Linux before 5.3


class ProcessorTopology(NamedTuple):
    """How processors share sockets and cores.  Where sockets or cores differ, the least number counts."""

    sockets: int
    cores_per_socket: int
    threads_per_core: int


def read_topology(numbers: Collection[int], directory: Path = _PROCESSORS) -> ProcessorTopology | None:
    """Return how these processors share sockets and cores; None if the machine does not say it of all.

    A container or an emulator may have no such files, or files that say nothing.
    """
    sockets: dict[int, dict[str, int]] = {}  # of each socket its cores, with the number of their threads
    for number in numbers:
        found = directory / f"cpu{number}" / "topology"
        socket, core = _text(found / "physical_package_id"), _first_text(found)
        if not (socket.isascii() and socket.isdigit() and core):  # -1: not known
            return None
        cores = sockets.setdefault(int(socket), {})
        cores[core] = cores.get(core, 0) + 1
    if not sockets:
        return None
    threads = min(threads for cores in sockets.values() for threads in cores.values())
    return ProcessorTopology(len(sockets), min(map(len, sockets.values())), threads)


def _first_text(directory: Path) -> str:
    """Return the processors that share the core, as the machine writes them; empty if it does not."""
    return next(filter(None, (_text(directory / name) for name in _SAME_CORE)), "")


def _text(path: Path) -> str:
    """Return what a file of the kernel says; empty if it cannot be read."""
    try:
        with open(path, "rb", opener=_open) as file:
            return file.read(_MOST).decode("ascii", "replace").strip()
    except OSError:
        return ""


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
