"""Keeps the processes of a control group from opening devices: a small program that the kernel asks.

It is attached to the group of a shepherd in the version 2 tree, holds for all groups in it, and goes away
with it.  It also works beside groups of version 1.

Source: Linux, "Control Group v2", device controller; bpf(2); include/uapi/linux/bpf.h.
"""

import ctypes
import errno
import os
import platform
import stat
import struct
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple

_SYSTEM_CALL: Final = {"x86_64": 321, "aarch64": 280}  # bpf
_LOAD, _ATTACH, _DETACH, _OPEN_BY_ID, _QUERY = 5, 8, 9, 13, 16  # its commands
_PROGRAM_TYPE, _ATTACH_TYPE = 15, 6  # BPF_PROG_TYPE_CGROUP_DEVICE, BPF_CGROUP_DEVICE
_BESIDE_OTHERS = 2  # BPF_F_ALLOW_MULTI: those of groups above hold too, as of a container
_MAX_PROGRAMS = 64  # of a group
_ATTRIBUTES = 128  # bytes
_CHARACTER_DEVICE = 2
# Operations: what they do with a register.  1 is the question; 0 is the answer: 0 forbids, 1 permits.
_READ_WORD, _AND, _SKIP_UNLESS, _SET, _END = 0x61, 0x54, 0x55, 0xB7, 0x95


class Device(NamedTuple):
    """The numbers by which the kernel knows a character device."""

    major: int
    minor: int


def device_of(file: Path) -> Device | None:
    """Return the device of a file; None if it is no character device, or not there."""
    with suppress(OSError):
        status = file.stat()
        if stat.S_ISCHR(status.st_mode):
            return Device(os.major(status.st_rdev), os.minor(status.st_rdev))
    return None


def why_no_filter() -> str:
    """Return why devices cannot be denied here; empty if they can be."""
    try:
        os.close(_loaded([Device(0, 0)]))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def deny(group: Path, devices: Iterable[Device]) -> None:
    """Let no process of a group, nor of those in it, open these devices; what it has open stays open.

    It replaces what was denied before.
    Raises:  OSError.
    """
    with ExitStack() as files:
        directory = _opened(files, os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        before = [
            _opened(files, _call(_OPEN_BY_ID, struct.pack("<I", number))) for number in _attached(directory)
        ]
        if denied := sorted(set(devices)):
            program = _opened(files, _loaded(denied))
            _call(_ATTACH, struct.pack("<IIII", directory, program, _ATTACH_TYPE, _BESIDE_OTHERS))
        for program in before:  # only now: there is no moment in which all are permitted
            _call(_DETACH, struct.pack("<IIII", directory, program, _ATTACH_TYPE, 0))


def _opened(files: ExitStack, descriptor: int) -> int:
    files.callback(os.close, descriptor)
    return descriptor


def _attached(directory: int) -> Sequence[int]:
    """Return the numbers of the programs of a group itself."""
    numbers = (ctypes.c_uint32 * _MAX_PROGRAMS)()
    query = struct.pack("<IIIIQI", directory, _ATTACH_TYPE, 0, 0, ctypes.addressof(numbers), _MAX_PROGRAMS)
    attributes = _Attributes(query)
    attributes.call(_QUERY)
    (count,) = struct.unpack_from("<I", attributes.buffer, 24)
    return list(numbers[:count])


def _loaded(denied: Sequence[Device]) -> int:
    """Return a descriptor of a program that denies these devices.

    Raises:  OSError.
    """
    code = ctypes.create_string_buffer(_program(denied))
    licence = ctypes.create_string_buffer(b"GPL")
    count = (len(code) - 1) // 8
    return _call(
        _LOAD, struct.pack("<IIQQ", _PROGRAM_TYPE, count, ctypes.addressof(code), ctypes.addressof(licence))
    )


def _program(denied: Sequence[Device]) -> bytes:
    """Return the instructions: the first word of the question has the type, then major and minor follow."""
    parts = [
        _instruction(_READ_WORD, 4, 1, 0),
        _instruction(_AND, 4, value=0xFFFF),
        _instruction(_SKIP_UNLESS, 4, offset=len(denied) * 4 + 2, value=_CHARACTER_DEVICE),
        _instruction(_READ_WORD, 2, 1, 4),
        _instruction(_READ_WORD, 3, 1, 8),
    ]
    for device in denied:
        parts += (
            _instruction(_SKIP_UNLESS, 2, offset=3, value=device.major),
            _instruction(_SKIP_UNLESS, 3, offset=2, value=device.minor),
            _instruction(_SET, 0, value=0),
            _instruction(_END),
        )
    return b"".join((*parts, _instruction(_SET, 0, value=1), _instruction(_END)))


def _instruction(
    operation: int, register: int = 0, source: int = 0, offset: int = 0, value: int = 0
) -> bytes:
    return struct.pack("<BBhi", operation, register | source << 4, offset, value)


class _Attributes:
    """What a call is asked with, and answers in."""

    def __init__(self, content: bytes) -> None:
        self.buffer = ctypes.create_string_buffer(content, _ATTRIBUTES)

    def call(self, command: int) -> int:
        """Return what the kernel returns.

        Raises:  OSError.
        """
        number = _SYSTEM_CALL.get(platform.machine())
        if number is None:
            raise OSError(errno.ENOSYS, f"not known for {platform.machine()}")
        library = ctypes.CDLL(None, use_errno=True)
        result: int = library.syscall(number, command, self.buffer, _ATTRIBUTES)
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result


def _call(command: int, content: bytes) -> int:
    return _Attributes(content).call(command)
