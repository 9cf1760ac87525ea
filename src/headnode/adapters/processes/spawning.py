"""Start one program with its files, or say in a sentence why it cannot be started and what to do.

Standard library only: this is loaded by the shepherd factory."""

import errno
import fcntl
import functools
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from headnode.adapters.processes.attempt_directories import make_directories
from headnode.adapters.processes.limits import (
    SHORT,
    CannotSet,
    RequestedLimit,
    nothing_is_left,
    requested_limits,
)
from headnode.adapters.processes.missing_program import beside, reason, why_not
from headnode.adapters.processes.program_start import (
    Files,
    GroupRefused,
    LimitRefused,
    bound_to,
    remove,
    start_limited,
)
from headnode.adapters.processes.start_failures import CannotStart, cannot, shortage
from headnode.core.model import faults

SHELL = "/bin/sh"
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
# Signals ignored by Python or the agent's parent must not be ignored in the program.
_ANSWERED_AS_USUAL = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGCHLD,
    signal.SIGPIPE,
    signal.SIGXFSZ,
)
_OWNERS = (errno.EDQUOT, errno.EACCES, errno.EPERM)  # what the owner of a directory can do to it himself
_DUP2 = os.POSIX_SPAWN_DUP2
_OUTPUT = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
_NEW_FILE = _OUTPUT | os.O_TRUNC


Start = Callable[[str, list[str], dict[str, str], Files], int]


class TaskProgram(NamedTuple):
    """What to start.  Paths are absolute or empty; `captured` is relative to the job's captured output."""

    argv: list[str]
    environment: dict[str, str]
    work_directory: str
    stdin: str
    stdout: str
    stderr: str
    captured: str
    append_stdout: bool = False  # what the file holds stays, and output is written behind it
    append_stderr: bool = False
    temporary: str = ""  # a directory that is made for it; empty: none
    limits: tuple[RequestedLimit, ...] = ()
    private: bool = False  # the work directory is its own: it is made here
    made: bool = False  # its directories were made before, for files that are there already

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories that are made for it."""
        temporary = (self.temporary,) if self.temporary else ()
        return (*temporary, self.work_directory) if self.private else temporary

    @property
    def captures(self) -> bool:
        """Whether some of its output is not redirected."""
        return not self.stdout or not self.stderr


def spawn(
    program: TaskProgram, output_directory: int, processors: Sequence[int] = (), entrances: Sequence[int] = ()
) -> int:
    """Start the program in its own session; return its process number.

    `output_directory` is a descriptor of the job's directory of captured output.  `processors` are those of
    the machine that it may use (none named: all), `entrances` as in `start_limited`.
    Raises:  CannotStart; GroupRefused.
    """
    if program.made or not program.directories:
        return _spawn(program, output_directory, processors, entrances)
    make_directories(program.temporary, program.work_directory if program.private else "")
    try:
        return _spawn(program, output_directory, processors, entrances)
    except (CannotStart, GroupRefused):
        for path in program.directories:
            remove(path)
        raise


def _spawn(
    program: TaskProgram, output_directory: int, processors: Sequence[int], entrances: Sequence[int]
) -> int:
    _enter(program)
    opened: list[int] = []
    try:
        files = _open_all(program, output_directory, opened)
        if not processors:
            return _start(program, files, entrances)
        with bound_to(processors):
            return _start(program, files, entrances)
    finally:
        for file in opened:
            os.close(file)


def _enter(program: TaskProgram) -> None:
    try:
        os.chdir(program.work_directory)
    except OSError as error:
        do = "let the owner of the job enter it" if error.errno == errno.EACCES else "create it there"
        raise cannot(
            f"the work directory {program.work_directory!r} cannot be entered{_on_node(program)}: "
            f"{reason(error)}; {do}, or name a directory that the node has: --workdir DIRECTORY",
            faults.WORK_DIRECTORY,
            error,
        ) from None


def _on_node(program: TaskProgram) -> str:
    node = program.environment.get("HEADNODE_NODE", "")
    return f" on node {node}" if node else " on this node"


def _open_all(program: TaskProgram, output_directory: int, opened: list[int]) -> Files:
    if program.stdin:
        stdin = _open_input(program.stdin)
        opened.append(stdin)
    else:
        stdin = _nothing()
    captured = -1
    if program.captures:
        captured = _open_captured(program.captured, output_directory)
        opened.append(captured)
    stdout = captured
    if program.stdout:
        stdout = _open_output(program.stdout, "standard output", append=program.append_stdout)
        opened.append(stdout)
    if program.stderr and program.stderr == program.stdout:
        return stdin, stdout, stdout
    stderr = captured
    if program.stderr:
        stderr = _open_output(program.stderr, "standard error", append=program.append_stderr)
        opened.append(stderr)
    return stdin, stdout, stderr


@functools.cache
def _nothing() -> int:
    """Return a descriptor of a file without content, which all programs without standard input share."""
    return _open_input(os.devnull)


def _open_input(path: str) -> int:
    try:  # without O_NONBLOCK, a named pipe without a writer would block every task of the job
        return _blocking(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        raise cannot(
            f"the standard input {path!r} cannot be read: {reason(error)}; "
            "create the file, readable for the owner of the job, or leave out standard input",
            faults.FILES,
            error,
        ) from None


def _open_output(path: str, what: str, *, append: bool) -> int:
    try:
        return _blocking(os.open(path, _OUTPUT | os.O_APPEND if append else _NEW_FILE, 0o666))
    except OSError as error:
        fix = (
            "name a file in it"
            if isinstance(error, IsADirectoryError)
            else "create its directory and let the owner of the job write there, or name another file"
        )
        raise cannot(
            f"the {what} {path!r} cannot be written: {reason(error)}; {fix}",
            faults.FILES,
            error,
        ) from None


def _open_captured(name: str, output_directory: int) -> int:
    try:
        try:
            file = os.open(name, _NEW_FILE, 0o600, dir_fd=output_directory)
        except FileNotFoundError:
            _make_directories(name, output_directory)
            file = os.open(name, _NEW_FILE, 0o600, dir_fd=output_directory)
    except OSError as error:
        at_fault = faults.FILES if _takes_files(output_directory) else faults.CAPTURED_OUTPUT
        raise _no_capture(name, reason(error), at_fault) from None
    if _is_full(file):
        os.close(file)
        raise _no_capture(name, reason(OSError(errno.ENOSPC, "")), faults.CAPTURED_OUTPUT)
    return file


def _no_capture(name: str, why: str, at_fault: str) -> CannotStart:
    return CannotStart(
        f"the file for captured output {name!r} cannot be written on this node: {why}; "
        "free some space there, or redirect both standard output and standard error",
        at_fault,
    )


def _is_full(file: int) -> bool:
    """Whether no byte can be written: a program would fail with its first line, though it is not to blame."""
    disk = os.fstatvfs(file)
    return disk.f_blocks > 0 and (disk.f_bavail if os.geteuid() else disk.f_bfree) == 0


def _takes_files(directory: int) -> bool:
    """Whether a directory takes another file, or only its owner is to blame that it does not.

    What is in it is the owner's: links of his may lead anywhere, and say nothing of the node.
    """
    name = f".probe-{os.getpid()}"
    try:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=directory))
        os.unlink(name, dir_fd=directory)
    except OSError as error:
        return error.errno in _OWNERS
    return True


def _make_directories(name: str, output_directory: int) -> None:
    folders = name.split("/")[:-1]
    for depth in range(len(folders)):
        try:
            os.mkdir("/".join(folders[: depth + 1]), 0o700, dir_fd=output_directory)
        except FileExistsError:
            continue


def discard_if_empty(name: str, output_directory: int) -> None:
    """Remove a file of captured output that nothing was written to."""
    try:
        if os.stat(name, dir_fd=output_directory, follow_symlinks=False).st_size == 0:
            os.unlink(name, dir_fd=output_directory)
    except OSError:  # the program removed it itself: that is as good
        return


def _blocking(file: int) -> int:
    """Return a file that was opened without waiting as one that waits, with its other flags."""
    fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) & ~os.O_NONBLOCK)
    return file


def _start(program: TaskProgram, files: Files, entrances: Sequence[int]) -> int:
    path = _find(program)
    plain = not program.limits and not entrances
    start = _posix_spawn if plain else _with_limits(program.limits, entrances)
    try:
        try:
            return start(path, program.argv, program.environment, files)
        except OSError as error:
            if error.errno in SHORT and nothing_is_left():
                raise shortage(error) from None
            if error.errno not in (errno.ENOEXEC, *SHORT):
                raise
            # A script that does not name its interpreter, as every shell does; or there is enough again.
            script = error.errno == errno.ENOEXEC
        argv = [SHELL, path, *program.argv[1:]] if script else program.argv
        return start(SHELL if script else path, argv, program.environment, files)
    except OSError as error:
        raise CannotStart(why_not(path, error, program.work_directory, _on_node(program))) from None
    except ValueError as error:  # a zero byte in an argument or a variable
        raise CannotStart(f"the command line or the environment is not valid: {error}; correct it") from None


def _with_limits(limits: tuple[RequestedLimit, ...], entrances: Sequence[int]) -> Start:
    """Return how to start a program with these limits, in these groups.

    Raises:  CannotStart when they cannot be set here.
    """
    try:
        wanted = requested_limits(limits)
    except CannotSet as why:
        raise CannotStart(str(why), faults.LIMITS) from None

    def start(path: str, argv: list[str], environment: dict[str, str], files: Files) -> int:
        try:
            return start_limited(path, argv, environment, files, wanted, _ANSWERED_AS_USUAL, entrances)
        except LimitRefused as why:
            raise CannotStart(str(why), faults.LIMITS) from None

    return start


def _posix_spawn(path: str, argv: list[str], environment: dict[str, str], files: Files) -> int:
    stdin, stdout, stderr = files
    actions = (_DUP2, stdin, 0), (_DUP2, stdout, 1), (_DUP2, stderr, 2)
    return os.posix_spawn(
        path,
        argv,
        environment,
        file_actions=actions,
        setsid=True,
        setsigmask=(),
        setsigdef=_ANSWERED_AS_USUAL,
    )


def _find(program: TaskProgram) -> str:
    name = program.argv[0]
    if "/" in name:
        return name
    path = program.environment.get("PATH", _DEFAULT_PATH)
    found = ""
    for folder in path.split(":"):
        candidate = f"{folder or '.'}/{name}"
        if os.access(candidate, os.X_OK) and not Path(candidate).is_dir():
            return candidate
        if not found and os.path.isfile(candidate):  # noqa: PTH113 - a Path may not be looked into here
            found = candidate
    if found:
        raise CannotStart(f"{found!r} is not executable; make it so with chmod +x {found}")
    raise CannotStart(
        f"there is no command {name!r}{_on_node(program)}; {beside(name, program.work_directory)}install it, "
        f"write its full path, or pass your PATH with --env PATH (it is {path})"
    )
