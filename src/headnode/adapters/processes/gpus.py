"""The GPUs of this machine, as the programs of their vendors list them.

Source: nvidia-smi, "--query-gpu"; CUDA programming guide, "CUDA Environment Variables"; the kernel's amdkfd,
topology in sysfs: a node with SIMD units is a GPU; the driver of NVIDIA, /proc/driver/nvidia.
"""

import contextlib
import logging
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from headnode.adapters.files.owners import why_not_run
from headnode.adapters.processes.device_filter import Device, device_of

log = logging.getLogger("headnode.agent")

NVIDIA, AMD = "nvidia", "amd"
TIME_LIMIT = 10.0  # seconds for nvidia-smi; without its daemon it takes some
MAX_OUTPUT = 1 << 20  # bytes
MAX_GPUS = 1024
_QUERY = ("--query-gpu=index,uuid,name,pci.bus_id", "--format=csv,noheader")
_DEVICES = Path("/dev")
_NVIDIA_GPUS = Path("/proc/driver/nvidia/gpus")
_AMD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")
_RENDER_NODES = Path("/sys/class/drm")
_AMD_DEVICE = Path("/dev/kfd")  # programs reach all of them through it; a container may have none
_NO_MODEL = re.compile(r"nvidia|amd|geforce|\d+[mgt]i?b")
_MAX_FEATURE = 64  # characters


class MachineGpus(NamedTuple):
    """GPUs in the order of their numbers, which begin at 0.

    `names` are the words that programs know them by in CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES.
    `devices` are those of each, empty if not all are known; `other_devices` are of GPUs that do not count.
    """

    names: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    vendor: str = NVIDIA
    devices: tuple[tuple[Device, ...], ...] = ()
    other_devices: tuple[Device, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """The features of a node with these: gpu, and each model."""
        found = ["gpu", *(word for model in self.models for word in model_features(model))]
        return tuple(dict.fromkeys(found)) if self.names else ()


NO_GPUS = MachineGpus()


def model_features(model: str) -> Iterator[str]:
    """Yield the model as one word, and its own words without vendors and sizes.

    >>> list(model_features("NVIDIA A100-SXM4-40GB"))
    ['nvidia_a100-sxm4-40gb', 'a100', 'sxm4']
    """
    words = re.findall(r"[a-z0-9.-]+", model.lower())
    if words:
        yield "_".join(words)[:_MAX_FEATURE]
    for word in re.split(r"[^a-z0-9.]+", " ".join(words)):
        if word and not _NO_MODEL.fullmatch(word):
            yield word[:_MAX_FEATURE]


def numbered(count: int, gpus: MachineGpus) -> MachineGpus:
    """Return so many GPUs of the kind that was found, with the numbers 0 to count - 1."""
    return _with_names(gpus, tuple(map(str, range(count))))


def with_files(files: Sequence[str], gpus: MachineGpus) -> MachineGpus:
    """Return GPUs of the kind that was found, one for each of these device files.

    Raises:  ValueError for a file that is no character device.
    """
    devices: list[tuple[Device, ...]] = []
    for file in files:
        device = device_of(Path(file))
        if device is None:
            raise ValueError(f"{file!r} is no device file")
        devices.append((device,))
    names = tuple(map(str, range(len(files))))
    return gpus._replace(names=names, devices=tuple(devices), other_devices=())


def _with_names(gpus: MachineGpus, names: tuple[str, ...]) -> MachineGpus:
    """Return the GPUs with these names, which are numbers of those that were found."""
    known = {str(number): devices for number, devices in enumerate(gpus.devices)}
    if not known.keys() >= set(names):
        return gpus._replace(names=names, devices=(), other_devices=())
    others = tuple(device for name, devices in known.items() if name not in names for device in devices)
    return gpus._replace(names=names, devices=tuple(known[name] for name in names), other_devices=others)


def find_gpus(environment: Mapping[str, str]) -> MachineGpus:
    """Return the GPUs that this process may use.  A program that fails is logged, and counts as none."""
    found = _nvidia_gpus() or _amd_gpus()
    variable = "ROCR_VISIBLE_DEVICES" if found.vendor == AMD else "CUDA_VISIBLE_DEVICES"
    visible = environment.get(variable)
    if visible is None or not found.names:
        return found
    names = tuple(word.strip() for word in visible.split(",") if word.strip())
    return _with_names(found, names[: len(found.names)])  # as in a job of another scheduler


def _nvidia_gpus() -> MachineGpus | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    try:
        if why_not := why_not_run([program]):
            raise ValueError(why_not)
        lines = _output([program, *_QUERY]).decode("utf-8", "replace").splitlines()
        rows = [_row(line) for line in lines if line.strip()]
        if len(rows) > MAX_GPUS:
            raise ValueError(f"it lists {len(rows):,} GPUs")
    except (OSError, ValueError) as error:
        log.warning("%s cannot be used, so no GPU of NVIDIA is counted here: %s", program, error)
        return None
    if not rows:
        return None
    devices = _if_all_known([_nvidia_devices(bus) for _, bus in rows])
    return MachineGpus(tuple(map(str, range(len(rows)))), tuple(model for model, _ in rows), NVIDIA, devices)


def _if_all_known(devices: Sequence[tuple[Device, ...]]) -> tuple[tuple[Device, ...], ...]:
    return tuple(devices) if all(devices) else ()


def _nvidia_devices(bus: str) -> tuple[Device, ...]:
    """Return the device of the GPU with a PCI address, 00000000:3B:00.0; nothing if it is not known."""
    with contextlib.suppress(OSError):
        domain, _, rest = bus.lower().partition(":")
        file = _NVIDIA_GPUS / f"{domain[-4:]}:{rest}" / "information"
        said = file.read_text(encoding="ascii", errors="replace")
        if found := re.search(r"^Device Minor:\s*(\d+)\s*$", said, re.MULTILINE):
            device = device_of(_DEVICES / f"nvidia{found[1]}")
            return () if device is None else (device,)
    return ()


def _row(line: str) -> tuple[str, str]:
    """Return the model and the PCI address in a line of nvidia-smi.

    Raises:  ValueError when the line is none of the query.
    """
    words = [word.strip() for word in line.split(",")]
    if len(words) != 4 or not words[0].isdecimal() or not words[1].startswith("GPU-"):
        raise ValueError(f"it printed {line[:80]!r}")
    return words[2], words[3]


def _output(command: Sequence[str]) -> bytes:
    """Return what a program prints, and end it with everything that it started.

    Raises:  OSError, ValueError, also when it takes too long, prints too much or fails.
    """
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as running:
        try:
            assert running.stdout is not None
            said = _read(running.stdout.fileno(), time.monotonic() + TIME_LIMIT)
            status = running.wait(TIME_LIMIT)
        except subprocess.TimeoutExpired:
            raise ValueError("it does not end") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
    if status != 0:
        raise ValueError(f"it ended with status {status}")
    return said


def _read(descriptor: int, until: float) -> bytes:
    """Return everything up to the end of the stream.

    Raises:  ValueError when that is too much, or not there in time.
    """
    said = b""
    while select.select([descriptor], [], [], max(0.0, until - time.monotonic()))[0]:
        piece = os.read(descriptor, 1 << 16)
        if not piece:
            return said
        said += piece
        if len(said) > MAX_OUTPUT:
            raise ValueError(f"it printed more than {MAX_OUTPUT:,} bytes")
    raise ValueError(f"it took longer than {TIME_LIMIT:.0f} s")


def _amd_gpus() -> MachineGpus:
    models: list[str] = []
    devices: list[tuple[Device, ...]] = []
    with contextlib.suppress(OSError):
        _AMD_DEVICE.stat()
        for node in sorted(_AMD_NODES.iterdir(), key=lambda path: path.name.zfill(6)):
            with contextlib.suppress(OSError):
                said = (node / "properties").read_text(encoding="ascii", errors="replace")
                if re.search(r"^simd_count [1-9]", said, re.MULTILINE):
                    models.append(_amd_model(said))
                    devices.append(_amd_devices(said))
    if not models:
        return NO_GPUS
    return MachineGpus(tuple(map(str, range(len(models)))), tuple(models), AMD, _if_all_known(devices))


def _amd_devices(properties: str) -> tuple[Device, ...]:
    """Return the devices of a GPU: for computing, and for a screen.  /dev/kfd is for all of them."""
    found = re.search(r"^drm_render_minor (\d+)$", properties, re.MULTILINE)
    if found is None:
        return ()
    render = f"renderD{found[1]}"
    names = {render}
    with contextlib.suppress(OSError):
        names |= {entry.name for entry in (_RENDER_NODES / render / "device" / "drm").iterdir()}
    devices = (device_of(_DEVICES / "dri" / name) for name in sorted(names))
    return tuple(device for device in devices if device is not None)


def _amd_model(properties: str) -> str:
    """Return the kind of a GPU of AMD as its compilers call it.

    >>> _amd_model("simd_count 440\\ngfx_target_version 90010\\n")
    'amd gfx90a'
    """
    found = re.search(r"^gfx_target_version (\d+)$", properties, re.MULTILINE)
    version = int(found[1]) if found else 0
    return f"amd gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}" if version else "amd"
