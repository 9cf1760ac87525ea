"""The resident client: commands of one user in processes that are forked from one that has imported them.

The launcher (`packaging/launcher/hn.c`) starts it and hands commands to it.  Each command has a process of
its own, forked before the command is known: no environment, argument or answer reaches the resident itself.
It ends when no command has come for a while, or when a file that it has imported is another one on the disk.

Source:  docs/decisions/0037-resident-client.md; unix(7), SCM_RIGHTS and SO_PEERCRED; fcntl(2), F_SETSIG."""

# ruff: noqa: PTH116 (the resident imports what commands import)

import atexit
import fcntl
import gc
import os
import signal
import socket
import struct
import sys
import time

from headnode.apps.cli.__main__ import INTERRUPTED, main
from headnode.apps.cli.catalogue import find_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeAlias

    Files: TypeAlias = "dict[str, tuple[int, int, int]]"

SWITCH = "HEADNODE_RESIDENT_CLIENT"  # as in the launcher
IDLE = 60.0  # seconds without a call until the resident ends
MAX_COMMAND = 4 << 20  # bytes of the arguments and the environment of a command
TIMEOUT = 10.0  # seconds for a whole request
BACKLOG = 64  # calls that wait for a process; more take plain Python
DIRECTORY = 4  # the descriptor of the directory of the socket; 3 is the lock that it has while it lives
MAX_RESIDENTS = 16  # residents of a user, as in the launcher: each has the lock of a slot
_NAME = 32  # hexadecimal digits
_HEAD = struct.Struct("=IIi")  # count of arguments, bytes that follow, the parent of the launcher
_HANDED = 5  # descriptors: 0, 1, 2, the working directory, a pipe of which the launcher has the other end
_JUST_NOW = 2_000_000_000  # ns: a file as young as this may have changed after its import
_TAKEN = b"t"

_IMPORTED = (
    ("job", "submit"),
    ("job", "list"),
    ("job", "view"),
    ("job", "wait"),
    ("job", "cancel"),
    ("node", "list"),
)
"""Commands whose modules are imported before they are called; the others import theirs when they are."""
_ALSO_IMPORTED = ("headnode.apps.cli.table", "headnode.apps.cli.shell", "headnode.apps.cli.terms")


def serve() -> None:
    """Carry out commands until none comes; the launcher names the directory and the socket."""
    begun = time.time_ns()
    name = sys.argv[2]
    for noun, verb in _IMPORTED:
        find_command(noun, verb)
    for module in _ALSO_IMPORTED:
        __import__(module)
    files = imported_files()
    if any(changed > begun - _JUST_NOW for changed, _, _ in files.values()):
        return
    with socket.socket(socket.AF_UNIX) as listener:
        place = f"/proc/self/fd/{DIRECTORY}/{name}"
        _remove_those_of_slot(name)
        listener.bind(place)
        listener.listen(BACKLOG)
        try:
            _serve_calls(listener, files)
        finally:
            _remove(name)


def imported_files() -> "Files":
    """Return when each imported file and the interpreter were changed, their sizes and numbers.

    Raises:  OSError when one is gone.
    """
    paths = {path for module in list(sys.modules.values()) if (path := getattr(module, "__file__", None))}
    files = {path: os.stat(path) for path in (*paths, sys.executable)}
    return {path: (stat.st_mtime_ns, stat.st_size, stat.st_ino) for path, stat in files.items()}


def unchanged(files: "Files") -> bool:
    """Return whether the files on the disk are those that were imported."""
    try:
        for path, was in files.items():
            stat = os.stat(path)
            if (stat.st_mtime_ns, stat.st_size, stat.st_ino) != was:
                return False
    except OSError:
        return False
    return True


def _remove_those_of_slot(name: str) -> None:
    """Remove the names that killed residents left behind: a slot has one resident, which holds the lock."""
    for each in os.listdir(DIRECTORY):
        if len(each) == _NAME and _slot(each) == _slot(name):
            _remove(each)


def _slot(name: str) -> int:
    return int(name[: _NAME // 2], 16) % MAX_RESIDENTS


def _remove(name: str) -> None:
    try:
        os.unlink(name, dir_fd=DIRECTORY)
    except FileNotFoundError:
        return


def _serve_calls(listener: socket.socket, files: "Files") -> None:
    """Keep one process waiting for a call; make the next when it has one."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # what has ended leaves no zombie
    gc.collect()
    gc.freeze()  # a collection in a child would copy the pages of all objects
    while True:
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reads)
            signal.signal(signal.SIGCHLD, before)
            _wait_for_call(listener, files, writes)
        os.close(writes)
        taken = os.read(reads, 1)
        os.close(reads)
        if taken != _TAKEN:
            return


def _wait_for_call(listener: socket.socket, files: "Files", writes: int) -> None:
    """Carry out the first call, if one comes in time.  Never returns."""
    status = 1
    try:
        listener.settimeout(float(os.environ.get(SWITCH) or IDLE))
        call, _ = listener.accept()
        listener.close()
        if unchanged(files):
            os.write(writes, _TAKEN)
            os.close(writes)
            os.close(DIRECTORY)
            os.close(3)
            status = _carry_out(call)
    except (OSError, ValueError):  # no call; a caller that has gone or is another user; a strange request
        pass
    finally:
        os._exit(status)


def _carry_out(call: socket.socket) -> int:
    _, uid, _ = struct.unpack("=iII", call.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if uid != os.getuid():
        return 1
    call.settimeout(TIMEOUT)
    own = os.pidfd_open(os.getpid())
    try:
        socket.send_fds(call, [b"r"], [own])
        os.close(own)
        arguments, environment, parent, life = _receive(call)
        call.settimeout(None)
        _end_with(life)
        status = _run(arguments, environment, parent)
    except KeyboardInterrupt:  # the launcher passes signals on as soon as it knows this process
        status = INTERRUPTED
    _send_status(call, status)
    return status


def _receive(call: socket.socket) -> tuple[list[bytes], list[bytes], int, int]:
    """Return arguments, environment and the parent of the caller, and the pipe that hangs up when it ends.

    The other descriptors take their places.

    Raises:  ValueError for what no launcher sends; OSError when the caller is gone.
    """
    head, handed, flags, _ = socket.recv_fds(call, _HEAD.size, _HANDED)
    if len(head) != _HEAD.size or len(handed) != _HANDED or flags & socket.MSG_CTRUNC:
        raise ValueError("no request of a launcher")
    count, size, parent = _HEAD.unpack(head)
    if not 0 < size <= MAX_COMMAND:
        raise ValueError("no request of a launcher")
    text = b"".join(_parts(call, size))
    fields = text.split(b"\0")
    if fields.pop() or not 0 < count <= len(fields):
        raise ValueError("no request of a launcher")
    for place, descriptor in enumerate(handed[:3]):
        os.dup2(descriptor, place)
    os.fchdir(handed[3])
    for descriptor in handed[:4]:
        os.close(descriptor)
    os.set_inheritable(handed[4], False)
    return fields[:count], fields[count:], parent, handed[4]


def _parts(call: socket.socket, size: int) -> "Iterator[bytes]":
    while size:
        part = call.recv(size)
        if not part:
            raise ValueError("the caller hung up")
        size -= len(part)
        yield part


def _end_with(life: int) -> None:
    """Let the kernel kill this process when the launcher is killed.  Raises OSError when it has been.

    The socket cannot be used for that: the kernel may signal that a request has come after it was read.
    """
    fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(life, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(life, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
    try:
        gone = os.read(life, 1)
    except BlockingIOError:
        return
    raise OSError(f"the caller hung up {gone!r}")


_F_SETSIG = 10  # linux/fcntl.h; the module has no name for it


def _become(arguments: list[bytes], environment: list[bytes], parent: int) -> None:
    """Have the arguments, variables, streams and parent of the caller."""
    os.environ.clear()
    for each in environment:
        name, equals, value = each.partition(b"=")
        if name and equals:
            os.environb.setdefault(name, value)  # as Python takes the first of two
    sys.argv[:] = [os.fsdecode(word) for word in arguments]
    sys.stdin = sys.__stdin__ = _stream(0, "r", sys.stdin)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, "w", sys.stdout)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, "w", sys.stderr)  # type: ignore[misc]
    os.getppid = lambda: parent


def _stream(descriptor: int, mode: str, like: "Any") -> "Any":
    """Return a standard stream as the interpreter makes it."""
    made: Any = open(  # noqa: SIM115
        descriptor, mode, encoding=like.encoding, errors=like.errors, newline="\n", closefd=False
    )
    if mode == "w":
        lines = descriptor == 2 or os.isatty(descriptor)
        made.reconfigure(line_buffering=lines, write_through=like.write_through)
    return made


def _run(arguments: list[bytes], environment: list[bytes], parent: int) -> int:
    """Carry out the command; return the exit status that Python would end with."""
    try:
        _become(arguments, environment, parent)
        status: object = main()
        _at_the_end()
    except SystemExit as end:
        status = end.code
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BaseException:  # noqa: BLE001 (this is where Python itself shows it)
        sys.excepthook(*sys.exc_info())
        status = 1
    if status is not None and not isinstance(status, int):
        sys.stderr.write(f"{status}\n")
        status = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        status = status or 120  # as Python says that it could not write
    return int(status or 0) & 0xFF


def _at_the_end() -> None:
    """Do what the interpreter does before it ends: wait for threads, call what was registered."""
    if threading := sys.modules.get("threading"):
        join: Callable[[], None] = threading._shutdown
        join()
    atexit._run_exitfuncs()


def _send_status(call: socket.socket, status: int) -> None:
    try:
        call.send(bytes([status]))
    except OSError:  # the launcher was killed a moment ago
        return
