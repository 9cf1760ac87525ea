"""The parent of one launched command: enters its control group, sets limits, connects it with the agent.

Standard library only: this is loaded by the shepherd factory."""

import contextlib
import json
import os
import signal
from collections.abc import Iterable, Mapping
from typing import NamedTuple, NoReturn

from headnode.adapters.processes.attempts import open_counters, read_counters, usage_of
from headnode.adapters.processes.cgroup_helper import TaskCgroup
from headnode.adapters.processes.launcher import ANSWER_FOR, ERROR, FAILED, Frames, dial, send_exit
from headnode.adapters.processes.limits import (
    Bounds,
    CannotSet,
    RequestedLimit,
    requested_limits,
    without_processes,
)
from headnode.adapters.processes.piped import ANSWERED_AS_USUAL, Piped, login_shell, start_trouble
from headnode.adapters.processes.program_start import LimitRefused, bind_this, enter, keep_only, start_limited
from headnode.adapters.processes.terminal import Terminal

TASK = "HEADNODE_TASK"  # which attempt; an mpiexec may hand only this one on to its ranks
SHELL = "/bin/sh"
ENTERED = b"+"  # our process is in its control groups, if it has any


class LaunchOrder(NamedTuple):
    """What to run: the command for the shell, its variables, and where; `number` is that of the launch.

    `terminal` is the size and kind of the terminal that it is given; empty: none.  `outpost` is the name
    under which it is held and measured with others, `step_name` an attempt; empty: it stands for itself.
    """

    number: str
    command: str
    environment: dict[str, str]
    work_directory: str
    terminal: str = ""
    processors: tuple[int, ...] = ()  # of the machine; none: all
    memory: int = 0  # as in `Bounds`, of all of its outpost together
    held: int = 1
    outpost: str = ""
    limits: tuple[RequestedLimit, ...] = ()  # of each of its processes, as the task asks for them
    temporary: str = ""  # the temporary directory of its outpost, which is made for it

    @property
    def bounds(self) -> Bounds:
        """What all of its outpost may have together."""
        return Bounds(tuple(self.processors), self.memory, self.held, parallel=True)


def _be_parent(run_directory: int, order: LaunchOrder, group: TaskCgroup | None, pipe: int) -> NoReturn:
    """Be the parent of the command; never return into the shepherd."""
    try:
        entered = _enter_all(() if group is None else group.entrances)
        os.write(pipe, ENTERED if entered else b"-")
        if entered and group is not None and group.keeps_processes:
            order = order._replace(limits=without_processes(order.limits))
        signal.set_wakeup_fd(-1)
        for each in ANSWERED_AS_USUAL:
            signal.signal(each, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        os.setsid()
        bind_this(order.processors)
        run = os.dup2(run_directory, 3, inheritable=False)
        pipe = os.dup2(pipe, 4, inheritable=False)
        keep_only(run, pipe)  # not the journal, by whose lock the shepherd is known to live
        _run(Frames(dial(run)), order, pipe)
    except OSError:  # the agent is gone: the shepherd ends what there is
        pass
    finally:
        os._exit(1)


def _enter_all(entrances: Iterable[int]) -> bool:
    """Enter the groups; False where that may not be, as before Linux 5.16."""
    try:
        enter(entrances)
    except OSError:
        return False
    return True


class _Measured(Piped):
    """Starts the command with its limits; tells the shepherd what it and all that it waited for used."""

    def __init__(self, frames: Frames, order: LaunchOrder, pipe: int) -> None:
        """Start it.

        Raises:  OSError, ValueError; CannotSet, LimitRefused.
        """
        self._limits = requested_limits(order.limits)
        super().__init__(frames, _argv(order), order.environment)
        self._tells, self._counters = pipe, open_counters(self._process)

    def start(
        self, program: str, argv: list[str], environment: Mapping[str, str], files: tuple[int, int, int]
    ) -> int:
        """Start the program in our session, by which what it leaves behind is found."""
        if not self._limits:
            return super().start(program, argv, environment, files)
        return start_limited(
            program, argv, dict(environment), files, self._limits, ANSWERED_AS_USUAL, own_session=False
        )

    def reap(self) -> int:
        """Reap the command; return its status."""
        os.waitid(os.P_PID, self._process, os.WEXITED | os.WNOWAIT)
        moved = read_counters(self._counters)
        _, status, usage = os.wait4(self._process, 0)
        used = usage_of(usage, moved)._replace(peak_memory=usage.ru_maxrss)
        os.write(self._tells, json.dumps([*used, status]).encode())
        return status


def _run(frames: Frames, order: LaunchOrder, pipe: int) -> None:
    frames.send(ANSWER_FOR, order.number.encode())
    try:
        _enter(frames, order)
        command = _InTerminal(frames, order) if order.terminal else _Measured(frames, order, pipe)
    except (OSError, ValueError, CannotSet, LimitRefused) as error:
        _send_exit(frames, FAILED, start_trouble(error))
        return
    _send_exit(frames, command.run(), "")


def _send_exit(frames: Frames, code: int, problem: str) -> None:
    send_exit(frames, code, problem)
    os._exit(0)


class _InTerminal(Terminal):
    """Starts the command with its limits, or without one the login shell, in a terminal of its own."""

    def __init__(self, frames: Frames, order: LaunchOrder) -> None:
        """Start it.

        Raises:  OSError, ValueError; CannotSet, LimitRefused.
        """
        self._limits = requested_limits(order.limits)
        super().__init__(frames, _argv(order), order.environment, order.terminal.encode())

    def start(self, program: str, argv: list[str], environment: Mapping[str, str], terminal: int) -> int:
        """Start the program in a session of its own."""
        if not self._limits:
            return super().start(program, argv, environment, terminal)
        files, limits = (terminal, terminal, terminal), self._limits
        return start_limited(
            program, argv, dict(environment), files, limits, ANSWERED_AS_USUAL, own_terminal=True
        )


def _argv(order: LaunchOrder) -> list[str]:
    return [SHELL, SHELL, "-c", order.command] if order.command else login_shell(order.environment)


def _enter(frames: Frames, order: LaunchOrder) -> None:
    """Go where a command starts, or say that it starts elsewhere."""
    home = order.environment.get("HOME", "/")
    for folder in (order.work_directory, home, "/"):
        with contextlib.suppress(OSError):
            os.chdir(folder)
            if folder != order.work_directory:
                missing = f"hn-launch: there is no {order.work_directory!r} here that may be entered"
                frames.send(ERROR, f"{missing}; the command starts in {folder!r}\n".encode())
            return
