"""The shepherd factory: a small process that forks a shepherd for each job, and becomes it in the child.

Standard library only."""

import contextlib
import ctypes
import grp
import json
import os
import pwd
import resource  # noqa: F401  (os.wait4 loads it when first called, and the user may not be able to)
import select
import signal
import socket
import sys
import traceback
from typing import Any, NoReturn

from headnode.adapters.files.opening import open_output_directory, open_plain
from headnode.adapters.processes import cgroups, limits
from headnode.adapters.processes.cgroup_helper import TaskCgroups, run_cgroup_helper
from headnode.adapters.processes.cgroups import Hierarchies
from headnode.adapters.processes.job_journal import Writer
from headnode.adapters.processes.program_start import keep_only
from headnode.adapters.processes.shepherd import Shepherd
from headnode.adapters.processes.shepherd_home import HomeDirectories, ShepherdHome, header_of
from headnode.adapters.processes.transfer_run import open_slots
from headnode.core.model import faults

_LIBC = ctypes.CDLL(None, use_errno=True)
_SET_CHILD_SUBREAPER = 36  # prctl
_MAX_ORDER = 65536  # bytes
_FILE_MODE_MASK = 0o022  # whatever started the agent: what users expect of a batch system
_BROKEN = 70  # exit status of a shepherd that ended by a fault of ours


class _NoIdentity(Exception):
    """Why this process cannot become the job's user: other users may run here."""


def main() -> None:
    """Serve the agent on the channel whose descriptor is the first argument, until it hangs up."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    serve(channel, ours)
    signal.set_wakeup_fd(-1)  # before the pair is closed: a shepherd may end now


def serve(channel: socket.socket, children: socket.socket) -> None:
    """Fork a shepherd for each order; say which shepherds have ended."""
    poller = select.poll()
    poller.register(channel, select.POLLIN)
    poller.register(children, select.POLLIN)
    while True:
        for descriptor, _ in poller.poll():
            if descriptor == children.fileno():
                with contextlib.suppress(BlockingIOError):
                    children.recv(4096)
                _report_the_dead(channel)
            else:
                order = _next_order(channel)
                if not order:
                    return
                _fork(channel, children, json.loads(order))


def _next_order(channel: socket.socket) -> bytes:
    """Return an order; nothing when the agent is gone, which it may be without having heard us out."""
    try:
        return channel.recv(_MAX_ORDER)
    except ConnectionResetError:
        return b""


def _fork(channel: socket.socket, children: socket.socket, order: dict[str, Any]) -> None:
    try:
        process = os.fork()
    except OSError as error:
        why = f"the node cannot start processes: {error.strerror}"
        if "marker" in order:
            _send(channel, ["failed", order["marker"], why, faults.SHORTAGE])
        return
    if process == 0:
        children.close()
        if "path" in order:
            _open_as_user(channel, order)
        _become(channel, order)
    if "marker" in order:
        _send(channel, ["forked", order["marker"], process])


def _report_the_dead(channel: socket.socket) -> None:
    while True:
        try:
            process, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if process == 0:
            return
        _send(channel, ["gone", process])


def _send(channel: socket.socket, message: list[Any]) -> None:
    with contextlib.suppress(OSError):  # the agent is gone: we hear that next
        channel.send(json.dumps(message).encode())


def _open_as_user(channel: socket.socket, order: dict[str, Any]) -> NoReturn:
    """Open a file as the named user, and pass it to the agent; never return into the factory."""
    number = order["number"]
    try:
        signal.set_wakeup_fd(-1)
        keep_only(channel.fileno())
        os.chdir("/")
        _take_identity(order["uid"], order["gid"])
        file = open_plain(order["path"])
        socket.send_fds(channel, [json.dumps(["opened", number]).encode()], [file])
        os._exit(0)
    except (OSError, ValueError) as error:  # a zero byte in the name is the latter
        told = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        _send(channel, ["not-opened", number, isinstance(error, FileNotFoundError), told.lower()])
        os._exit(0)
    except BaseException:  # noqa: BLE001 - the last line of a process: told in the log, then it ends
        traceback.print_exc()
    finally:
        os._exit(_BROKEN)


def _become(channel: socket.socket, order: dict[str, Any]) -> NoReturn:
    """Be the shepherd, or its cgroup helper and parent; never return into the factory."""
    try:
        signal.set_wakeup_fd(-1)
        try:
            os.setsid()
            found = cgroups.enter(order["marker"], order["most_processes"])
            helper = None if found.unified is None else _fork_from_helper(channel, order["marker"], found)
            home = _prepare(order, found, helper)
        except _NoIdentity as error:
            why = f"the node cannot run programs as user {order['uid']}: {error}"
            _send(channel, ["failed", order["marker"], why, faults.IDENTITY])
            os._exit(1)
        except (OSError, KeyError) as error:
            why = f"the node cannot run this job: {_reason(error)}"
            _send(channel, ["failed", order["marker"], why, faults.SHEPHERD])
            os._exit(1)
        channel.close()
        job: dict[str, Any] | None = order
        while job is not None:
            job = Shepherd(home, job).run()
        os._exit(0)
    except BaseException:  # noqa: BLE001 - the last line of a process: told in the log, then it ends
        traceback.print_exc()
    finally:
        os._exit(_BROKEN)


def _fork_from_helper(channel: socket.socket, marker: str, hierarchies: Hierarchies) -> socket.socket:
    """Return in the shepherd, with its way to the cgroup helper, which is its parent and ends after it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    shepherd = os.fork()
    if shepherd == 0:
        theirs.close()
        return ours
    ours.close()
    channel.close()
    run_cgroup_helper(theirs, marker, hierarchies)
    os.waitpid(shepherd, 0)
    os._exit(0)


def _reason(error: Exception) -> str:
    if not isinstance(error, OSError):
        return str(error)
    said = (error.strerror or str(error)).lower()
    return f"{error.filename!r}: {said}" if error.filename else said


def _prepare(order: dict[str, Any], hierarchies: Hierarchies, helper: socket.socket | None) -> ShepherdHome:
    """Do as the agent's user what only that may do, then become the job's user for good."""
    journal = Writer(order["journal"], header_of(order))
    freezer = _freezer(order) if helper is not None and order["suspendable"] else None
    groups = TaskCgroups(helper, order["marker"], hierarchies) if helper is not None else None
    output = open_output_directory(order["output_directory"], order["uid"], order["gid"])
    run, outputs = _place(order["run_directory"]), _place(f"{order['output_directory']}/..")
    directories = HomeDirectories(run, outputs, output, open_slots(order["run_directory"]))
    os.chdir("/")
    os.umask(_FILE_MODE_MASK)
    try:
        _take_identity(order["uid"], order["gid"])
    except (OSError, ValueError) as error:  # limits of the site for this user may be impossible
        raise _NoIdentity(str(error)) from None
    if _LIBC.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become the reaper of its descendants")
    return ShepherdHome(order, journal, directories, freezer, groups)


def _place(path: str) -> int:
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def _freezer(order: dict[str, Any]) -> cgroups.Freezer | None:
    """Return what can freeze the tasks; None where signals must do."""
    try:
        return cgroups.Freezer(order["marker"])
    except OSError:
        return None


def name_of(group: int) -> str:
    """Return the name of a group, or its number as text when the machine knows none."""
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)


def _take_identity(uid: int, gid: int) -> None:
    if uid == os.getuid():
        return
    try:
        user = pwd.getpwuid(uid).pw_name
        groups = [name_of(group) for group in os.getgrouplist(user, gid)]
        limits.set_limits(limits.limits_of(user, groups, limits.lines_of()))
        os.initgroups(user, gid)
    except KeyError:  # a user of the head without a name on this machine
        os.setgroups([gid])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
