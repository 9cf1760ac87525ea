"""Start a program with resource limits and control groups of its own, which posix_spawn cannot set.

They are taken on in a fork of this process, just before it becomes the program: so this process, who
could not raise limits again, never has them.  Costs about a millisecond more than posix_spawn.
Standard library only: this is loaded by the shepherd factory.
Source: setrlimit(2).
"""

import fcntl
import os
import resource
import signal
import termios
from collections.abc import Iterable

from headnode.adapters.processes.affinity import kept
from headnode.adapters.processes.file_passing import keep_only

Files = tuple[int, int, int]
"""Descriptors of standard input, output and error."""
Wanted = Iterable[tuple[str, int, int, int]]
"""Name, resource, soft and hard limit."""

_NOT_STARTED = 127  # exit status that nobody sees
_LONGEST_REPORT = 200  # bytes
_ENTER = "enter"  # no limit is called so


class LimitRefused(Exception):
    """The system does not let a program have a limit; a sentence and what to do."""


class GroupRefused(Exception):
    """The system does not let a program into its control group, as before Linux 5.16; it has not started."""


def start_limited(
    path: str,
    argv: list[str],
    environment: dict[str, str],
    files: Files,
    limits: Wanted,
    signals: Iterable[signal.Signals],
    entrances: Iterable[int] = (),
    *,
    own_session: bool = True,
    own_terminal: bool = False,
) -> int:
    """Start the program with these limits, in a session of its own or in ours; return its process number.

    `own_terminal`: the files are a terminal, which is that of its session from then on.

    `signals` are answered by the program as usual, whatever this process does about them.  `entrances` are
    descriptors of the lists of processes of the groups that it enters. Raises:  LimitRefused; GroupRefused;
    OSError when the program cannot be started; ValueError as `os.execve` does.
    """
    if any("\0" in word for word in argv):
        raise ValueError("embedded null byte")
    hears, says = os.pipe()  # closed when the child becomes the program
    child = os.fork()
    if child == 0:
        if own_session:
            os.setsid()  # cannot fail: a process that was forked leads no group
        _become(path, argv, environment, files, limits, signals, entrances, says, own_terminal)
    os.close(says)
    with os.fdopen(hears, "rb") as report:
        failure = report.read(_LONGEST_REPORT).decode()
    if not failure:
        return child
    os.waitpid(child, 0)
    step, _, number = failure.rpartition(" ")
    error = OSError(int(number), os.strerror(int(number)))
    if step == "start":
        raise error
    if step == _ENTER:
        raise GroupRefused(f"a task cannot enter its control group: {error.strerror}")
    raise LimitRefused(
        f"the limit {step!r} of the task cannot be set on this node: {error.strerror}; write another one"
    )


def enter(entrances: Iterable[int]) -> None:
    """Move this process into groups.

    Raises:  OSError where it may not enter, as before Linux 5.16.
    """
    with kept():
        for entrance in entrances:
            os.write(entrance, b"0")


def _become(
    path: str,
    argv: list[str],
    environment: dict[str, str],
    files: Files,
    limits: Wanted,
    signals: Iterable[signal.Signals],
    entrances: Iterable[int],
    says: int,
    own_terminal: bool,
) -> None:
    """Become the program, or say why not and end; never returns."""
    step = "start"
    try:
        signal.set_wakeup_fd(-1)
        step = _ENTER
        enter(entrances)
        step = "start"
        for number, file in enumerate(files):
            os.dup2(file, number)
        if own_terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        keep_only(says)
        for each in signals:
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for name, what, soft, hard in limits:
            step = name
            resource.setrlimit(what, (soft, hard))
        step = "start"
        os.execve(path, argv, environment)
    except OSError as error:
        os.write(says, f"{step} {error.errno or 0}".encode())
    except (ValueError, MemoryError):
        os.write(says, f"{step} {22 if step != 'start' else 12}".encode())  # EINVAL, ENOMEM
    finally:
        os._exit(_NOT_STARTED)
