"""Run one command of another scheduler as a user: clean environment, time limit, bounded output."""

import contextlib
import os
import pwd
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import NamedTuple

from headnode.core.batch import HAND_OFF
from headnode.core.batch.dialect import CommandResult
from headnode.core.model.resource import BatchResource

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
MAX_OUTPUT = 64 * 1024 * 1024  # bytes of standard output: a poll of 100,000 jobs has 20 MB
MAX_COMPLAINT = 64 * 1024  # bytes of standard error
_READ = 1 << 16


class CommandUser(NamedTuple):
    """The user as whom a command runs; None for the numbers: as this process."""

    name: str
    uid: int | None
    gid: int | None
    home: str


def own_account() -> CommandUser:
    """Return the account of this process.

    Raises:  KeyError.
    """
    own = pwd.getpwuid(os.geteuid())
    return CommandUser(own.pw_name, None, None, home_of(own))


def home_of(user: pwd.struct_passwd) -> str:
    """Return the home of a user: for this process, that of its environment unless it is root."""
    home = os.environ.get("HOME", "")
    own = user.pw_uid == os.geteuid() != 0 and home.startswith("/")
    return home if own else user.pw_dir


def account_of(name: str, uid: int, gid: int) -> CommandUser:
    """Return the account of a job's owner, if commands may run as that user here.

    Raises:  PermissionError, LookupError.
    """
    known = pwd.getpwnam(name)
    if known.pw_uid != uid:
        raise LookupError(f"user {name!r} has the number {known.pw_uid} on this machine, and the job {uid}")
    if uid == os.geteuid():
        return CommandUser(name, None, None, home_of(known))
    if os.geteuid() != 0:
        raise PermissionError(f"only a head that runs as root can hand over jobs of {name!r}")
    return CommandUser(name, uid, gid, known.pw_dir)


def run_command(
    resource: BatchResource,
    variable: str,
    account: CommandUser,
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    seconds: float,
) -> CommandResult:
    """Run a command of a resource, here or by ssh, and return what it answered.

    The command is killed after `seconds`, also if this process is gone by then; at the other end of ssh after
    so many seconds there, also if the connection is gone.
    `variable` is the one that names the configuration of the resource.
    """
    inner = {"PATH": f"{resource.programs}:{PATH}" if resource.programs else PATH, HAND_OFF: "1"}
    if resource.settings:
        inner[variable] = resource.settings
    limited = ["timeout", "-s", "KILL", f"{seconds:.0f}", *argv]
    if resource.host:
        far = shlex.join(["env", *(f"{name}={value}" for name, value in inner.items()), *limited])
        ssh = ["ssh", "-oBatchMode=yes", "-oConnectTimeout=15", "--", resource.host, far]
        limited, inner = ["timeout", "-s", "KILL", f"{seconds:.0f}", *ssh], {"PATH": PATH}
    with contextlib.ExitStack() as opened:
        source = input_file(stdin, opened)
        out, err = (_OutputPipe(most, opened) for most in (MAX_OUTPUT, MAX_COMPLAINT))
        try:
            process = start_as(account, limited, inner, (source, out.end, err.end))
        except (OSError, subprocess.SubprocessError) as error:
            return CommandResult(None, "", f"it cannot be started: {error}")
        for pipe in (out, err):
            os.close(pipe.end)
            pipe.end = -1
        return _result(process, out, err, seconds)


def input_file(data: bytes, opened: contextlib.ExitStack) -> int:
    """Return a descriptor that reads the data: a pipe would block if its reader does not read."""
    if not data:
        source = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        opened.callback(os.close, source)
        return source
    memory = os.memfd_create("input", os.MFD_CLOEXEC)
    opened.callback(os.close, memory)
    with os.fdopen(os.dup(memory), "wb") as file:
        file.write(data)
    os.lseek(memory, 0, os.SEEK_SET)
    return memory


class _OutputPipe:
    """What a command writes to one stream, at most so many bytes."""

    def __init__(self, most: int, opened: contextlib.ExitStack) -> None:
        self.reader, self.end = os.pipe2(os.O_CLOEXEC)  # `end`: for the command; -1 once it is closed here
        self.received, self._most = bytearray(), most
        opened.callback(self._close)

    def _close(self) -> None:
        os.close(self.reader)
        if self.end >= 0:
            os.close(self.end)

    @property
    def is_within_bounds(self) -> bool:
        """Whether the command wrote no more than it may."""
        return len(self.received) <= self._most


def start_as(
    account: CommandUser,
    argv: Sequence[str],
    environment: dict[str, str],
    streams: tuple[int, int, int],
    keeps: tuple[int, ...] = (),
) -> "subprocess.Popen[bytes]":
    """Start a command as a user, as the leader of a group, with the user's variables and these.

    streams:  standard input, output and error, as `subprocess` takes them
    keeps:    further descriptors that it inherits
    Raises:   OSError, subprocess.SubprocessError.
    """
    own = {"HOME": account.home, "USER": account.name, "LOGNAME": account.name, "LANG": "C.UTF-8"}
    groups = None
    if account.uid is not None and account.gid is not None:
        groups = os.getgrouplist(account.name, account.gid)
    return subprocess.Popen(
        argv,
        stdin=streams[0],
        stdout=streams[1],
        stderr=streams[2],
        pass_fds=keeps,
        cwd="/",
        env=own | environment,
        user=account.uid,
        group=account.gid,
        extra_groups=groups,
        umask=0o022,
        start_new_session=True,
    )


def _result(
    process: "subprocess.Popen[bytes]", out: _OutputPipe, err: _OutputPipe, seconds: float
) -> CommandResult:
    until = time.monotonic() + seconds
    whole = _read_all((out, err), until)
    if not whole:
        _kill(process)
    try:
        status: int | None = process.wait(max(0.1, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        _kill(process)
        status, whole = process.wait(), False
    output, complaint = (pipe.received.decode("utf-8", "replace") for pipe in (out, err))
    if not whole or status is None or status < 0 or status == KILLED_BY_TIMEOUT:
        return CommandResult(None, output, complaint)
    return CommandResult(status, output, complaint)


def _read_all(pipes: Sequence[_OutputPipe], until: float) -> bool:
    """Read until both streams end; return False if the time is over first, or one has too much."""
    with selectors.DefaultSelector() as both:
        for pipe in pipes:
            both.register(pipe.reader, selectors.EVENT_READ, pipe)
        while both.get_map():
            ready = both.select(max(0.0, until - time.monotonic()))
            if not ready:
                return False
            for key, _ in ready:
                data = os.read(key.fd, _READ)
                if not data:
                    both.unregister(key.fd)
                key.data.received += data
                if not key.data.is_within_bounds:
                    return False
    return True


KILLED_BY_TIMEOUT = 137  # the status of timeout(1) that has killed its command


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill the command with what it has started; it leads a group of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
