"""Let everything that a shepherd runs stand still, and go on: by a control group, else by signals.

Standard library only: this is loaded by the shepherd factory.
"""

import os
import signal
import sys
import time

from headnode.adapters.processes import process_tree
from headnode.adapters.processes.cgroups import Freezer
from headnode.adapters.processes.process_tree import Picture

_TICK = 0.005  # seconds between two looks while something still runs, at least
_PATIENCE = 10.0  # seconds; what cannot be stopped by then runs as somebody else, and is let be
_WATCH = 10.0  # seconds between two looks while all stands still: somebody else may have continued something


class Suspension:
    """Whether the tasks of a shepherd stand still; `number` is that of the job's suspension, 0 for none.

    They also do while they are `apart`: when nobody may know that they run.
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
        """Stop everything until it is together again with those who know of it."""
        self._begin()
        self.apart = True

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
            if began - self._since < _PATIENCE:
                self.next_look = began + max(_TICK, 4 * (time.monotonic() - began))
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

    def stop(self, these: set[int], _spared: set[int], picture: Picture) -> list[int]:
        """Stop what of these runs, and return it.

        What is blocked when it is told to stop does so before it runs again: there is nothing to wait for.
        """
        self._before |= {process for process in these if picture[process].stopped} - self._stopped
        running = {process for process in these if not picture[process].stopped}
        will_stop = {process for process in running & self._stopped if picture[process].blocked}
        process_tree.send(running, signal.SIGSTOP)
        self._stopped |= running
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

    def stop(self, these: set[int], spared: set[int], _picture: Picture) -> list[int]:
        """Freeze these, and let out what is spared; return what was not frozen yet.

        Raises:  OSError.
        """
        self._freezer.freeze()
        inside = self._freezer.inside()
        for process in spared & inside:
            self._freezer.let_out(process)
        outside = these - inside
        for process in outside:
            self._freezer.take_in(process)
        return sorted(outside) if outside or self._freezer.is_frozen() else sorted(these)

    def go_on(self, _mine: set[int]) -> None:
        """Thaw the group; its processes stay in it, to be frozen together another time."""
        self._freezer.thaw()
