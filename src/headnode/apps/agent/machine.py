"""What this machine is, and what the agent is told on its command line."""

import argparse
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec

from headnode import __version__
from headnode.adapters.processes import cgroups
from headnode.adapters.processes.gpus import NO_GPUS, MachineGpus, find_gpus, numbered, with_files
from headnode.adapters.processes.program_start import machine_processors
from headnode.adapters.wire.peers import user_name
from headnode.apps.agent.processor_topology import ProcessorTopology, read_topology
from headnode.core.model.bounds import GPUS
from headnode.core.model.errors import BadRequest
from headnode.core.model.node import NodeFacts


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The command line, read.  What is None or empty is found on the machine.

    Memory, disk and swap in MB, speed in MHz.

    `head` None: the head is on another machine, and the state directory knows which once it has joined.
    """

    head: Path | None
    join: str  # an invitation; empty: none
    only_join: bool
    allocation: bool  # it runs in a job of another scheduler, and ends with everything that it started
    state: Path
    name: str
    processors: int | None
    sockets: int | None
    cores_per_socket: int | None
    threads_per_core: int | None
    memory: int | None
    speed: int | None
    disk: int | None
    swap: int | None
    gpus: int | None
    gpu_files: tuple[str, ...]
    groups: tuple[str, ...]
    features: tuple[str, ...]


def read_options(argv: Sequence[str]) -> AgentOptions:
    """Read the command line.

    Raises:  SystemExit 2 with a sentence when it is wrong, 0 after help.
    """
    options = _parser().parse_args(argv)
    return AgentOptions(
        head=None if options.head is None else options.head.absolute(),
        join=options.join,
        only_join=options.only_join,
        allocation=options.allocation,
        state=options.state.absolute(),
        name=options.name,
        processors=options.processors,
        sockets=options.sockets,
        cores_per_socket=options.cores_per_socket,
        threads_per_core=options.threads_per_core,
        memory=options.memory,
        speed=options.speed,
        disk=options.disk,
        swap=options.swap,
        gpus=options.gpus,
        gpu_files=_words(options.gpu_files),
        groups=_words(options.groups),
        features=_words(options.features),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="headnode agent", description=__doc__, allow_abbrev=False)
    parser.add_argument("--head", type=Path, metavar="SOCKET", help="the socket of a head on this machine")
    parser.add_argument("--join", default="", metavar="INVITATION", help="as hn node invite printed it")
    parser.add_argument("--only-join", action="store_true", help="join and end")
    parser.add_argument(
        "--allocation", action="store_true", help="end what runs here at the end, as in a job of a scheduler"
    )
    parser.add_argument("--state", type=Path, required=True, metavar="DIRECTORY", help="state directory")
    parser.add_argument("--name", default="", help="name of this node (default: that of the machine)")
    for name in _AMOUNTS:
        parser.add_argument(
            f"--{name}",
            type=_positive,
            metavar="N",
            help="use this number instead of the one found on the machine",
        )
    parser.add_argument(
        "--gpus", type=_number, metavar="N", help="count so many GPUs instead of those found; 0: none"
    )
    parser.add_argument(
        "--gpu-files", default="", metavar="FILE,...", help="the device file of each GPU, in their order"
    )
    parser.add_argument("--groups", default="", metavar="A,B", help="node groups this node is in")
    parser.add_argument("--features", default="", metavar="A,B", help="features this node has")
    return parser


_AMOUNTS = (
    *("processors", "sockets", "cores-per-socket", "threads-per-core", "memory", "speed", "disk", "swap"),
)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= GPUS.most):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to {GPUS.most}")
    return int(text)


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


_PROC = Path("/proc")
_ENFORCED = {"memory": "memory", "pids": "processes", "cpuset": "processors"}


def gpus_of_this_machine(options: AgentOptions) -> MachineGpus:
    """Return the GPUs that this node counts; with none to count nothing is looked for.

    Raises:  BadRequest ``gpu-files``.
    """
    if options.gpus == 0:
        return NO_GPUS
    gpus, files = find_gpus(os.environ), options.gpu_files
    if not files:
        return gpus if options.gpus is None else numbered(options.gpus, gpus)
    fix = "name the device file of each GPU, for example --gpu-files /dev/nvidia0,/dev/nvidia1"
    if options.gpus not in (None, len(files)):
        what = f"--gpus {options.gpus} and {len(files)} device files are not the same number of GPUs"
        raise BadRequest(code="gpu-files", what=what, fix=fix)
    try:
        return with_files(files, gpus)
    except ValueError as error:
        raise BadRequest(code="gpu-files", what=str(error), fix=fix) from None


def facts_of_this_machine(options: AgentOptions, gpus: MachineGpus = NO_GPUS) -> NodeFacts:
    """Return the facts of this node; what the options say is believed over what is found."""
    processors, memory = _read("cpuinfo"), _read("meminfo")
    groups, own = cgroups.find(), os.sched_getaffinity(0)
    shape = _shape(options, len(own), read_topology(own), processors)
    return NodeFacts(
        name=options.name,
        processors=options.processors or len(own),
        sockets=shape.sockets,
        cores_per_socket=shape.cores_per_socket,
        threads_per_core=shape.threads_per_core,
        memory=options.memory or _megabytes("MemTotal", memory),
        speed=options.speed or _speed(processors),
        disk=options.disk or _disk(tempfile.gettempdir()),
        swap=options.swap or _megabytes("SwapTotal", memory),
        groups=options.groups,
        features=tuple(dict.fromkeys((*options.features, *gpus.features))),
        gpus=len(gpus.names),
        architecture=platform.machine(),
        system=platform.system(),
        boot_id=boot_id(),
        only_user="" if os.geteuid() == 0 else user_name(os.geteuid()),
        machine_processors=() if options.processors else machine_processors(),
        control_groups=groups.version,
        version=__version__,
        enforced=tuple(_ENFORCED[name] for name in groups.controllers),
    )


def _shape(
    options: AgentOptions, usable: int, found: ProcessorTopology | None, cpuinfo: str
) -> ProcessorTopology:
    """Return the sockets, and the cores and threads of them; 0: not known.

    With other numbers of processors or sockets than the machine's, what it says of cores is not valid.
    """
    others = options.processors not in (None, usable) or options.sockets is not None
    of_machine = None if others else found
    if of_machine is not None:
        sockets, cores, threads = of_machine
    else:
        there = len(set(_values("physical id", cpuinfo))) or 1
        sockets, cores, threads = options.sockets or min(there, options.processors or usable), 0, 0
    return ProcessorTopology(sockets, options.cores_per_socket or cores, options.threads_per_core or threads)


def most_processes(limit: int) -> int:
    """Return how many processes a job may have here: what is wanted, but half of what there can be."""
    return min(limit, _most_on_this_machine() // 2)


@cache
def _most_on_this_machine() -> int:
    return int(_read("sys/kernel/pid_max"))


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
