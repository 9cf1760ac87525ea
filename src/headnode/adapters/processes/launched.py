"""Commands that a task launches on other nodes: started, connected with the agent, and ended here.

Standard library only: this is loaded by the shepherd factory.  Each command has a small process of ours as
its parent, forked from the shepherd, that passes on what the command reads and writes.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from headnode.adapters.processes import process_tree
from headnode.adapters.processes.affinity import bind_this
from headnode.adapters.processes.bounds import Bounds, most_processes, without_processes
from headnode.adapters.processes.file_passing import keep_only
from headnode.adapters.processes.launcher import (
    ANSWER_FOR,
    ERROR,
    FAILED,
    Frames,
    dial,
    say_exit,
)
from headnode.adapters.processes.limited_start import LimitRefused, enter, start_limited
from headnode.adapters.processes.limits import Asked, CannotSet, asked
from headnode.adapters.processes.outposts import Outpost, Total
from headnode.adapters.processes.piped import ANSWERED_AS_USUAL, Piped, login_shell
from headnode.adapters.processes.task_groups import Group, Groups, NoGroup
from headnode.adapters.processes.terminal import Terminal
from headnode.adapters.processes.used import open_counters, read_counters

MARKER = "HEADNODE_LAUNCHED"  # which launch a process belongs to
TASK = "HEADNODE_TASK"  # which attempt; an mpiexec may hand only this one on to its ranks
SHELL = "/bin/sh"
ENTERED = b"+"  # our process is in its control groups, if it has any
_TICK = 0.01  # seconds between two looks, at least


class Order(NamedTuple):
    """What to run: the command for the shell, its variables, and where; `number` is that of the launch.

    `terminal` is the size and kind of the terminal that it is given; empty: none.  `outpost` is the name
    under which it is held and measured with others, `outpost_of` an attempt; empty: it stands for itself.
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
    limits: tuple[Asked, ...] = ()  # of each of its processes, as the task asks for them

    @property
    def bounds(self) -> Bounds:
        """What all of its outpost may have together."""
        return Bounds(tuple(self.processors), self.memory, self.held, parallel=True)


def outpost_of(task: str) -> str:
    """Return the name of what an attempt (job.task.instance.attempt) of another node has here."""
    return f"{TASK}={task}"


class Launches:
    """What was launched here, until it is told to be over: daemons outlive the commands that start them."""

    def __init__(
        self,
        run_directory: int,
        groups: Groups | None,
        watch: Callable[[Outpost], None],
        tell: Callable[[list[Any]], None],
    ) -> None:
        """`watch` is given outposts of attempts, whose memory is to be looked at; `tell` tells the agent."""
        self._run, self._groups, self._watch, self._tell = run_directory, groups, watch, tell
        self._outposts: dict[str, Outpost] = {}
        self._settled: dict[str, Total] = {}  # what attempts have used here before, by the outpost's name
        self._owners: dict[int, Outpost] = {}  # whose the processes are that were seen ending
        self._parents: dict[str, int] = {}  # by number; our process, which may have ended
        self._alive: set[int] = set()  # those of our processes that have not been reaped
        self._waiting: dict[str, Order] = {}  # those that may not start yet, by number
        self._force_at: dict[str, float] = {}  # by number of a launch or name of an outpost
        self._asked: set[str] = set()
        self.next_look = float("inf")

    def begin(self, order: Order) -> None:
        """Start a command.

        Raises:  OSError.
        """
        if order.number in self._parents:
            return
        outpost = self._outpost(order)
        hears, tells = os.pipe()
        process = os.fork()
        if process == 0:
            _be_parent(self._run, order, outpost.group, tells)
        os.close(tells)
        entered = os.read(hears, 1)  # at once: it is the first that our process does
        os.set_blocking(hears, False)
        outpost.has(order.number, process, hears)
        if entered != ENTERED and outpost.group is not None:
            self._remove_group(outpost)
        self._parents[order.number] = process
        self._alive.add(process)

    def keep(self, order: Order) -> None:
        """Let a command wait until it may start."""
        self._waiting.setdefault(order.number, order)

    def take_kept(self) -> list[Order]:
        """Return those that wait, which are to start now."""
        kept, self._waiting = list(self._waiting.values()), {}
        return kept

    def _outpost(self, order: Order) -> Outpost:
        name = order.outpost or order.number
        outpost = self._outposts.get(name)
        if outpost is None:
            limits = tuple(order.limits)
            outpost = self._outposts[name] = Outpost(name, order.bounds, self._group(order), limits)
            if order.outpost:
                self._watch(outpost)
        return outpost

    def _group(self, order: Order) -> Group | None:
        """Return a group for an outpost, so that nothing gets away from it; None where there is none."""
        if self._groups is None:
            return None
        processes = most_processes(order.limits)
        if processes is not None:
            processes += 1  # our process, which is in it, too; an mpiexec launches one command on each node
        try:
            return self._groups.make(order.bounds.most_memory, processes, order.processors)
        except NoGroup as why:
            print(f"a launched command has no group: {why}", file=sys.stderr)  # noqa: T201 (the shepherds' log)
            return None

    def reaped(self, process: int) -> None:
        """A child of this process has ended."""
        if process not in self._alive:
            return
        self._alive.discard(process)
        for outpost in self._outposts.values():
            if process in outpost.parents:
                outpost.reaped(process)
                self._tell_killed(outpost, process)

    def _tell_killed(self, outpost: Outpost, process: int) -> None:
        """Tell why a command ended with all that might have told it itself."""
        why = outpost.wants_memory()
        for number, parent in self._parents.items() if why else ():
            if parent == process:
                self._tell(["not-launched", number, why])

    def owner_of(self, process: int) -> Outpost | None:
        """Return the outpost that is being ended and had this process, which was left to us."""
        return self._owners.get(process)

    @property
    def parents(self) -> frozenset[int]:
        """Our processes that live: nobody's strays."""
        return frozenset(self._alive)

    @property
    def outposts(self) -> Iterable[Outpost]:
        """All that there are."""
        return self._outposts.values()

    def end(self, numbers: Iterable[str], grace: float) -> None:
        """End what these launches started, and all that it did; kill it after `grace` seconds."""
        for number in numbers:
            self._waiting.pop(number, None)
            if number in self._parents:
                self._end(number, grace)

    def end_task(self, task: str) -> None:
        """Kill whatever an attempt (job.task.instance.attempt) of another node has running here.

        What it used here is told when nothing of it runs, each time.
        """
        name = outpost_of(task)
        self._waiting = {number: each for number, each in self._waiting.items() if each.outpost != name}
        self._end(name, 0.0)

    def end_above(self, outpost: Outpost, why: str) -> None:
        """End an outpost that has more memory than it may."""
        outpost.why = outpost.why or why
        self._end(outpost.name, 0.0)

    def end_all(self) -> None:
        """Kill everything that was launched here."""
        self._waiting.clear()
        self.end([number for number in self._parents if number not in self._force_at], 0.0)

    def force(self) -> None:
        """Let nothing that is being ended have any grace left."""
        for number in self._force_at:
            self._end(number, 0.0)

    def _end(self, number: str, grace: float) -> None:
        force_at = time.monotonic() + grace
        self._force_at[number] = min(force_at, self._force_at.get(number, force_at))
        self.next_look = 0.0

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
        outpost = next((o for o in self._outposts.values() if number == o.name or number in o.numbers), None)
        parents = self._parents_of(number, outpost)
        members = self._members(number, outpost, parents, picture, strays)
        if outpost is not None:
            self._owners.update(dict.fromkeys(members, outpost))
        if not members and not parents:
            self._is_over(number, outpost)
        elif time.monotonic() >= self._force_at[number]:
            process_tree.send(members, signal.SIGKILL)
        elif number not in self._asked:
            self._asked.add(number)
            process_tree.send(members - parents, signal.SIGTERM)
            process_tree.send(members, signal.SIGCONT)

    def _parents_of(self, number: str, outpost: Outpost | None) -> set[int]:
        """Return those of our processes for a launch, or a whole outpost, that are not reaped."""
        if outpost is not None and number == outpost.name:
            return set(outpost.parents)
        return {self._parents[number]} & self._alive if number in self._parents else set()

    def _members(
        self,
        number: str,
        outpost: Outpost | None,
        parents: set[int],
        picture: process_tree.Picture,
        strays: list[int],
    ) -> set[int]:
        """Return the living processes of a launch, or of a whole outpost."""
        session = self._parents.get(number, 0)
        marker = (number if number.startswith(f"{TASK}=") else f"{MARKER}={number}").encode()
        roots = [
            p
            for p in strays
            if (picture[p].session == session and session) or process_tree.has_marker(p, marker)
        ]
        grouped = outpost.group.members() if outpost is not None and outpost.group is not None else set()
        if outpost is not None and number != outpost.name and outpost.numbers != {number}:
            grouped = {process for process in grouped if process_tree.has_marker(process, marker)}
        return process_tree.descendants([*roots, *parents], picture) | (grouped & picture.keys())

    def _is_over(self, number: str, outpost: Outpost | None) -> None:
        self._parents.pop(number, None)
        del self._force_at[number]
        self._asked.discard(number)
        if outpost is not None and number == outpost.name:
            self._settle(outpost)
        if number.startswith(f"{TASK}="):
            used, peak, average, why = self._settled.get(number, Total())
            self._tell(["launches-over", number.partition("=")[2], *used, peak, average, why])

    def _settle(self, outpost: Outpost) -> None:
        """Keep what an outpost used, and forget it."""
        total = outpost.total()
        self._remove_group(outpost)
        del self._outposts[outpost.name]
        self._owners = {process: each for process, each in self._owners.items() if each is not outpost}
        for number in outpost.numbers:
            self._parents.pop(number, None)
        if outpost.name.startswith(f"{TASK}="):
            self._settled[outpost.name] = self._settled.get(outpost.name, Total()).and_also(total)

    def _remove_group(self, outpost: Outpost) -> None:
        if outpost.group is not None and self._groups is not None:
            outpost.group.entered()
            self._groups.remove(outpost.group)
        outpost.group = None


def _be_parent(run_directory: int, order: Order, group: Group | None, tells: int) -> NoReturn:
    """Be the parent of the command; never return into the shepherd."""
    try:
        entered = _enter_all(() if group is None else group.entrances)
        os.write(tells, ENTERED if entered else b"-")
        if entered and group is not None and group.keeps_processes:
            order = order._replace(limits=without_processes(order.limits))
        signal.set_wakeup_fd(-1)
        for each in ANSWERED_AS_USUAL:
            signal.signal(each, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        os.setsid()
        bind_this(order.processors)
        run = os.dup2(run_directory, 3, inheritable=False)
        tells = os.dup2(tells, 4, inheritable=False)
        keep_only(run, tells)  # not the journal, by whose lock the shepherd is known to live
        _run(Frames(dial(run)), order, tells)
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

    def __init__(self, frames: Frames, order: Order, tells: int) -> None:
        """Start it.

        Raises:  OSError, ValueError; CannotSet, LimitRefused.
        """
        self._limits = asked(order.limits)
        super().__init__(frames, _argv(order), order.environment)
        self._tells, self._counters = tells, open_counters(self._process)

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
        words = (usage.ru_utime, usage.ru_stime, *moved, usage.ru_maxrss, status)
        os.write(self._tells, " ".join(map(str, words)).encode())
        return status


def _run(frames: Frames, order: Order, tells: int) -> None:
    frames.say(ANSWER_FOR, order.number.encode())
    try:
        _enter(frames, order)
        command = _InTerminal(frames, order) if order.terminal else _Measured(frames, order, tells)
    except (OSError, ValueError, CannotSet, LimitRefused) as error:
        _say_exit(frames, FAILED, f"the command cannot be started: {error}")
        return
    _say_exit(frames, command.run(), "")


def _say_exit(frames: Frames, code: int, problem: str) -> None:
    say_exit(frames, code, problem)
    os._exit(0)


class _InTerminal(Terminal):
    """Starts the command with its limits, or without one the login shell, in a terminal of its own."""

    def __init__(self, frames: Frames, order: Order) -> None:
        """Start it.

        Raises:  OSError, ValueError; CannotSet, LimitRefused.
        """
        self._limits = asked(order.limits)
        super().__init__(frames, _argv(order), order.environment, order.terminal.encode())

    def start(self, program: str, argv: list[str], environment: Mapping[str, str], terminal: int) -> int:
        """Start the program in a session of its own."""
        if not self._limits:
            return super().start(program, argv, environment, terminal)
        files, limits = (terminal, terminal, terminal), self._limits
        return start_limited(
            program, argv, dict(environment), files, limits, ANSWERED_AS_USUAL, own_terminal=True
        )


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
