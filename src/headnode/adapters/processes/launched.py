"""Commands that a task launches on other nodes: started, connected with the agent, and ended here.

Standard library only: this is loaded by the shepherd factory.  Each command has a small process of ours as
its parent, forked from the shepherd, that passes on what the command reads and writes.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from typing import NamedTuple, NoReturn

from headnode.adapters.processes import process_tree
from headnode.adapters.processes.affinity import bind_this
from headnode.adapters.processes.launcher import (
    ANSWER_FOR,
    ERROR,
    FAILED,
    Frames,
    dial,
    say_exit,
)
from headnode.adapters.processes.piped import Piped, login_shell
from headnode.adapters.processes.task_groups import Group, Groups, NoGroup
from headnode.adapters.processes.terminal import Terminal

MARKER = "HEADNODE_LAUNCHED"  # which launch a process belongs to
TASK = "HEADNODE_TASK"  # which attempt; an mpiexec may hand only this one on to its ranks
SHELL = "/bin/sh"
_TICK = 0.01  # seconds between two looks, at least
_LINGER = 0.3  # seconds for the output of what a command left behind, after its own end
_ANSWERED_AS_USUAL = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM),
    *(signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ),
)


class Order(NamedTuple):
    """What to run: the command for the shell, its variables, and where; `number` is that of the launch.

    `terminal` is the size and kind of the terminal that it is given; empty: none.
    """

    number: str
    command: str
    environment: dict[str, str]
    work_directory: str
    terminal: str = ""
    processors: tuple[int, ...] = ()  # of the machine; none: all


class Launches:
    """What was launched here, until it is told to be over: daemons outlive the commands that start them."""

    def __init__(self, run_directory: int, groups: Groups | None = None) -> None:
        self._run, self._groups = run_directory, groups
        self._lodged: dict[
            str, tuple[str, Group]
        ] = {}  # by number: the task's marker, and a group of its own
        self._parents: dict[str, int] = {}  # by number; our process, which may have ended
        self._alive: set[int] = set()  # those of our processes that have not been reaped
        self._force_at: dict[str, float] = {}
        self._asked: set[str] = set()
        self.next_look = float("inf")

    def begin(self, order: Order) -> None:
        """Start a command.

        Raises:  OSError.
        """
        if order.number in self._parents:
            return
        group = self._lodge(order)
        process = os.fork()
        if process == 0:
            _be_parent(self._run, order, () if group is None else tuple(group.entrances))
        if group is not None:
            group.entered()
        self._parents[order.number] = process
        self._alive.add(process)

    def _lodge(self, order: Order) -> Group | None:
        """Return a group for a launch, so that nothing gets away from it; None where there is none."""
        if self._groups is None:
            return None
        try:
            group = self._groups.make(None, None, order.processors)
        except NoGroup as why:
            print(f"a launched command has no group: {why}", file=sys.stderr)  # noqa: T201 (the shepherds' log)
            return None
        self._lodged[order.number] = (f"{TASK}={order.environment.get(TASK, '')}", group)
        return group

    def reaped(self, process: int) -> None:
        """A child of this process has ended."""
        self._alive.discard(process)

    @property
    def parents(self) -> frozenset[int]:
        """Our processes that live: nobody's strays."""
        return frozenset(self._alive)

    def end(self, numbers: Iterable[str], grace: float) -> None:
        """End what these launches started, and all that it did; kill it after `grace` seconds."""
        for number in numbers:
            if number in self._parents:
                force_at = time.monotonic() + grace
                self._force_at[number] = min(force_at, self._force_at.get(number, force_at))
                self.next_look = 0.0

    def end_task(self, task: str) -> None:
        """Kill whatever an attempt (job.task.instance.attempt) of another node has running here."""
        self._force_at[f"{TASK}={task}"] = time.monotonic()
        self.next_look = 0.0

    def end_all(self) -> None:
        """Kill everything that was launched here."""
        self.end([number for number in self._parents if number not in self._force_at], 0.0)

    def look(self, mains: Iterable[int]) -> None:
        """Send what is due; `mains` are the first processes of attempts, which no launch owns."""
        began = time.monotonic()
        if began < self.next_look:
            return
        picture = process_tree.picture()
        own, me = {*mains, *self._alive}, os.getpid()
        strays = [process for process, seen in picture.items() if seen.parent == me and process not in own]
        for number in list(self._force_at):
            self._work_on(number, picture, strays)
        now = time.monotonic()
        self.next_look = now + max(_TICK, 4 * (now - began)) if self._force_at else float("inf")

    def _work_on(self, number: str, picture: process_tree.Picture, strays: list[int]) -> None:
        parent = self._parents.get(number, 0)
        marker = (number if number.startswith(TASK) else f"{MARKER}={number}").encode()
        roots = [
            p
            for p in strays
            if (picture[p].session == parent and parent) or process_tree.has_marker(p, marker)
        ]
        if parent in self._alive:
            roots.append(parent)
        lodged = [each for each, (task, _) in self._lodged.items() if number in (each, task)]
        grouped = {process for each in lodged for process in self._lodged[each][1].members()}
        members = process_tree.descendants(roots, picture) | (grouped & picture.keys())
        if not members:
            self._give_up(lodged)
            self._parents.pop(number, None)
            del self._force_at[number]
            self._asked.discard(number)
        elif time.monotonic() >= self._force_at[number]:
            process_tree.send(members, signal.SIGKILL)
        elif number not in self._asked:
            self._asked.add(number)
            process_tree.send(members - {parent}, signal.SIGTERM)
            process_tree.send(members, signal.SIGCONT)

    def _give_up(self, lodged: list[str]) -> None:
        for number in lodged:
            _, group = self._lodged.pop(number)
            if self._groups is not None:
                self._groups.remove(group)


def _be_parent(run_directory: int, order: Order, entrances: tuple[int, ...]) -> NoReturn:
    """Be the parent of the command; never return into the shepherd."""
    try:
        with contextlib.suppress(OSError):  # before Linux 5.16 a user may not
            for entrance in entrances:
                os.write(entrance, b"0")
        signal.set_wakeup_fd(-1)
        for each in _ANSWERED_AS_USUAL:
            signal.signal(each, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        os.setsid()
        bind_this(order.processors)
        run = os.dup2(run_directory, 3, inheritable=False)
        os.closerange(4, 1 << 16)  # among them the journal, by whose lock the shepherd is known to live
        _run(Frames(dial(run)), order)
    except OSError:  # the agent is gone: the shepherd ends what there is
        pass
    finally:
        os._exit(1)


def _run(frames: Frames, order: Order) -> None:
    frames.say(ANSWER_FOR, order.number.encode())
    try:
        _enter(frames, order)
        command = (
            _in_terminal(frames, order) if order.terminal else Piped(frames, _argv(order), order.environment)
        )
    except (OSError, ValueError) as error:
        _say_exit(frames, FAILED, f"the command cannot be started: {error}")
        return
    _say_exit(frames, command.run(), "")


def _say_exit(frames: Frames, code: int, problem: str) -> None:
    say_exit(frames, code, problem)
    os._exit(0)


def _in_terminal(frames: Frames, order: Order) -> Terminal:
    """Start the command, or without one the login shell, in a terminal of its own.

    Raises:  OSError, ValueError.
    """
    return Terminal(frames, _argv(order), order.environment, order.terminal.encode())


def _argv(order: Order) -> list[str]:
    return [SHELL, SHELL, "-c", order.command] if order.command else login_shell(order.environment)


def _enter(frames: Frames, order: Order) -> None:
    """Go where a command starts, or say that it starts elsewhere."""
    home = order.environment.get("HOME", "/")
    for folder in (order.work_directory, home, "/"):
        with contextlib.suppress(OSError):
            os.chdir(folder)
            if folder != order.work_directory:
                missing = f"hn-launch: there is no {order.work_directory!r} here that may be entered"
                frames.say(ERROR, f"{missing}; the command starts in {folder!r}\n".encode())
            return
