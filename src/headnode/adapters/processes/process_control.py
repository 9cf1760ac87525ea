"""End or suspend everything that an attempt or a shepherd started: by a control group, else by signals.

Standard library only: this is loaded by the shepherd factory."""

import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable

from headnode.adapters import process_tree
from headnode.adapters.process_tree import Picture
from headnode.adapters.processes.attempts import ShepherdAttempt
from headnode.adapters.processes.cgroups import Freezer

TASK_MARKER_NAME = "HEADNODE_TASK"
_ENDING_TICK = 0.01  # seconds between two looks, at least


class AttemptEndings:
    """The attempts that are being ended."""

    def __init__(self, kill: Callable[[ShepherdAttempt], None] = lambda _: None) -> None:
        self._kill = kill  # all of an attempt at once, where that is possible
        self._owners: dict[int, ShepherdAttempt] = {}  # whose the processes are that were seen
        self._force_at: dict[int, float] = {}  # process: when grace is over
        self._attempts: dict[int, ShepherdAttempt] = {}
        self._asked: set[int] = set()
        self.next_look = float("inf")

    def begin(self, attempt: ShepherdAttempt, grace: float) -> None:
        """Start ending an attempt; a second time only shortens the grace."""
        force_at = time.monotonic() + grace
        self._attempts[attempt.process] = attempt
        self._force_at[attempt.process] = min(force_at, self._force_at.get(attempt.process, force_at))
        self.next_look = 0.0

    def force(self) -> None:
        """Let nothing that is being ended have any grace left."""
        for attempt in self._attempts.values():
            self.begin(attempt, 0.0)

    def __contains__(self, attempt: ShepherdAttempt) -> bool:
        return attempt.process in self._attempts

    def owner_of(self, process: int) -> ShepherdAttempt | None:
        """Return the attempt that is being ended and had this process."""
        return self._owners.get(process)

    def members(self, mains: Iterable[int], picture: process_tree.Picture) -> set[int]:
        """Return the living processes of the attempts that are being ended; `mains` as in `look`."""
        strays = _strays(mains, picture) if self._attempts else []
        return {
            process for attempt in self._attempts.values() for process in _members(attempt, picture, strays)
        }

    def look(self, mains: Iterable[int]) -> list[ShepherdAttempt]:
        """Send what is due; return the attempts of which nothing is left, which are to be forgotten.

        `mains` are the processes of all running attempts: none of them is taken for a stray of another.
        """
        began = time.monotonic()
        picture = process_tree.picture()
        strays = _strays(mains, picture)
        over = [attempt for attempt in self._attempts.values() if self._work_on(attempt, picture, strays)]
        # Looking costs more where there are many processes: never spend more than a fifth of the time on it.
        now, goes_on = time.monotonic(), len(over) < len(self._attempts)
        self.next_look = now + max(_ENDING_TICK, 4 * (now - began)) if goes_on else float("inf")
        return over

    def forget(self, over: Collection[ShepherdAttempt]) -> None:
        """Forget attempts of which nothing is left, and whose processes they had."""
        for attempt in over:
            del self._attempts[attempt.process], self._force_at[attempt.process]
            self._asked.discard(attempt.process)
        if over:
            self._owners = {process: each for process, each in self._owners.items() if each not in over}

    def _work_on(self, attempt: ShepherdAttempt, picture: process_tree.Picture, strays: list[int]) -> bool:
        members = _members(attempt, picture, strays)
        if not members:
            return attempt.usage is not None
        self._owners.update(dict.fromkeys(members, attempt))
        if time.monotonic() >= self._force_at[attempt.process]:
            process_tree.send(members, signal.SIGKILL)
            self._kill(attempt)
        elif attempt.process not in self._asked:
            self._asked.add(attempt.process)
            process_tree.send(members, signal.SIGTERM)
            process_tree.send(members, signal.SIGCONT)
        return False


def _strays(mains: Iterable[int], picture: process_tree.Picture) -> list[int]:
    """Return the processes that others have left to this one."""
    own, me = set(mains), os.getpid()
    return [process for process, seen in picture.items() if seen.parent == me and process not in own]


def _members(attempt: ShepherdAttempt, picture: process_tree.Picture, strays: list[int]) -> set[int]:
    """Return the living processes of an attempt, also those whose parents have left them to us.

    A group knows them whatever they did to their environment, but for those that were moved out of it to end
    while others stand still.
    """
    grouped = attempt.group.members() & picture.keys() if attempt.group is not None else set()
    marker = f"{TASK_MARKER_NAME}={attempt.program.environment[TASK_MARKER_NAME]}".encode()
    roots = [p for p in strays if picture[p].session == attempt.process or process_tree.has_marker(p, marker)]
    if attempt.usage is None:
        roots.append(attempt.process)
    return process_tree.descendants(roots, picture) | grouped


def kill_all_descendants() -> None:
    """Kill whatever descends from this process until nothing does; reaps nothing.

    This process must be the reaper of its descendants, so that none can get away from it: without children it
    has no descendants, and need not look at all processes of the node.
    """
    me = os.getpid()
    if not process_tree.children():
        return
    while left := process_tree.descendants([me], process_tree.picture()) - {me}:
        process_tree.send(left, signal.SIGKILL)
        time.sleep(_ENDING_TICK / 5)


_SUSPENSION_TICK = 0.005  # seconds between two looks while something still runs, at least
_TIMEOUT = 10.0  # seconds; a process that cannot be stopped by then runs as another user, and is left alone
_WATCH = 10.0  # seconds between two checks while all is stopped: a process may have been continued


class ProcessSuspension:
    """Whether the tasks of a shepherd stand still; `number` is that of the job's suspension, 0 for none.

    They also do while they are `apart`: when the head may have given their work to another node.
    """

    def __init__(self, freezer: Freezer | None) -> None:
        self.number = 0
        self.apart = False
        self.still = False  # nothing runs
        self.next_look = float("inf")
        self._since = 0.0
        self._way: _Signals | _Group = _Signals() if freezer is None else _Group(freezer)

    @property
    def holds(self) -> bool:
        """Whether nothing may run, or soon not."""
        return self.apart or bool(self.number)

    def begin(self, number: int) -> None:
        """Stop everything from now on; the same number a second time changes nothing."""
        self._begin()
        self.number = number

    def part(self) -> None:
        """Stop all processes after the lease is over, until it is renewed; also what was spared before."""
        self._begin()
        self.apart, self.next_look = True, 0.0

    def _begin(self) -> None:
        if not self.holds:
            self._since, self.still, self.next_look = time.monotonic(), False, 0.0
            self._way.begin()

    def look_soon(self) -> None:
        """Something has begun to end: let it."""
        if self.holds:
            self.next_look = 0.0

    def look(self, spared: set[int], picture: Picture) -> bool:
        """Stop what still runs, but for what is `spared`; True when from now on nothing does.

        A process that is stopped starts no others, so that after a few looks all are found.
        """
        began = time.monotonic()
        mine = _mine(picture)
        try:
            runs = self._way.stop(mine - spared, mine & spared, picture)
        except OSError as error:
            print(f"control groups cannot stop tasks; signals are used instead: {error}", file=sys.stderr)  # noqa: T201 (the shepherds' log)
            self._way = _Signals()
            runs = self._way.stop(mine - spared, set(), picture)
        if runs and not self.still:
            if began - self._since < _TIMEOUT:
                self.next_look = began + max(_SUSPENSION_TICK, 4 * (time.monotonic() - began))
                return False
            print(f"cannot be stopped: {runs}", file=sys.stderr)  # noqa: T201 (the shepherds' log)
        first, self.still = not self.still, True
        self.next_look = began + _WATCH
        return first

    def end(self, picture: Picture) -> float:
        """Let everything go on, unless it is apart; return for how many seconds it stood still."""
        self.number = 0
        return self._end(picture)

    def rejoin(self, picture: Picture) -> float:
        """Let everything go on, unless the job is suspended; return for how many seconds it stood still."""
        self.apart = False
        return self._end(picture)

    def _end(self, picture: Picture) -> float:
        if self.holds:
            self.next_look = 0.0  # for what is spared from now on
            return 0.0
        self._way.go_on(_mine(picture))
        self.still, self.next_look = False, float("inf")
        return time.monotonic() - self._since


def _mine(picture: Picture) -> set[int]:
    return process_tree.descendants([os.getpid()], picture) - {os.getpid()}


class _Signals:
    """Stops processes one by one."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self._before: set[int] = set()  # stopped by their user: they do not go on with the others
        self._stopped: set[int] = set()

    def stop(self, processes: set[int], spared: set[int], picture: Picture) -> list[int]:
        """Stop what of these runs, and return it; let go on what is spared and was stopped here.

        What is blocked when it is told to stop does so before it runs again: there is nothing to wait for.
        """
        self._before |= {process for process in processes if picture[process].stopped} - self._stopped
        running = {process for process in processes if not picture[process].stopped}
        will_stop = {process for process in running & self._stopped if picture[process].blocked}
        process_tree.send(running, signal.SIGSTOP)
        again = {process for process in spared & self._stopped if picture[process].stopped}
        process_tree.send(again, signal.SIGCONT)
        self._stopped = (self._stopped | running) - again
        return sorted(running - will_stop)

    def go_on(self, mine: set[int]) -> None:
        """Let go on what was stopped here."""
        process_tree.send(mine - self._before, signal.SIGCONT)


class _Group:
    """Freezes a control group, with all that is in it at once."""

    def __init__(self, freezer: Freezer) -> None:
        self._freezer = freezer

    def begin(self) -> None:
        """Nothing is known from before."""

    def stop(self, processes: set[int], spared: set[int], _picture: Picture) -> list[int]:
        """Freeze these, and let out what is spared; return what was not frozen yet.

        Raises:  OSError.
        """
        self._freezer.freeze()
        inside = self._freezer.inside()
        for process in spared & inside:
            self._freezer.let_out(process)
        outside = processes - inside
        for process in outside:
            self._freezer.take_in(process)
        return sorted(outside) if outside or self._freezer.is_frozen() else sorted(processes)

    def go_on(self, _mine: set[int]) -> None:
        """Thaw the group; its processes stay in it, to be frozen together another time."""
        self._freezer.thaw()
