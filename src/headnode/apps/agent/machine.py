"""What this machine is: processors, memory, disk, speed, and which boot it is."""

import os
import platform
import re
import shutil
import tempfile
from pathlib import Path

from headnode import __version__
from headnode.adapters.identity.peer import user_name
from headnode.adapters.processes import hierarchies
from headnode.adapters.processes.affinity import machine_processors
from headnode.apps.agent.options import Options
from headnode.core.model.node import NodeFacts

_PROC = Path("/proc")
_ENFORCED = {"memory": "memory", "pids": "processes", "cpuset": "processors"}


def facts_of_this_machine(options: Options) -> NodeFacts:
    """Return the facts of this node; what the options say is believed over what is found."""
    processors, memory = _read("cpuinfo"), _read("meminfo")
    groups = hierarchies.find()
    return NodeFacts(
        name=options.name,
        processors=options.processors or len(os.sched_getaffinity(0)),
        sockets=options.sockets or len(set(_values("physical id", processors))) or 1,
        memory=options.memory or _megabytes("MemTotal", memory),
        speed=options.speed or _speed(processors),
        disk=options.disk or _disk(tempfile.gettempdir()),
        swap=options.swap or _megabytes("SwapTotal", memory),
        groups=options.groups,
        features=options.features,
        architecture=platform.machine(),
        system=platform.system(),
        boot_id=boot_id(),
        serves="" if os.geteuid() == 0 else user_name(os.geteuid()),
        machine_processors=() if options.processors else machine_processors(),
        control_groups=groups.version,
        version=__version__,
        enforced=tuple(_ENFORCED[name] for name in groups.controllers),
    )


def most_processes(wanted: int) -> int:
    """Return how many processes a job may have here: what is wanted, but half of what there can be."""
    return min(wanted, int(_read("sys/kernel/pid_max")) // 2)


def boot_id() -> str:
    """Return a word that is different after every start of the machine."""
    return _read("sys/kernel/random/boot_id").strip()


def _read(name: str) -> str:
    return (_PROC / name).read_text(encoding="ascii", errors="replace")


def _values(name: str, text: str) -> list[str]:
    return re.findall(rf"^{name}\s*:\s*(\S+)", text, re.MULTILINE)


def _megabytes(name: str, meminfo: str) -> int:
    return sum(int(kilobytes) // 1024 for kilobytes in _values(name, meminfo)[:1])


def _disk(directory: str) -> int:
    """Return the size (MB) of the file system where tasks write what they do not keep."""
    return shutil.disk_usage(directory).total // 2**20


def _speed(cpuinfo: str) -> int:
    """Return MHz; 0 where the processor does not say, as many ARM ones do not."""
    return max((round(float(mhz)) for mhz in _values("cpu MHz", cpuinfo)), default=0)
