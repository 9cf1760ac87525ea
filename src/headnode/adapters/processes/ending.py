"""End an attempt with everything it started: ask, wait the grace, kill until nothing is left.

Standard library only: this is loaded by the shepherd factory.
"""

import os
import signal
import time
from collections.abc import Callable, Collection, Iterable

from headnode.adapters.processes import process_tree
from headnode.adapters.processes.attempts import Attempt

MARKER = "HEADNODE_TASK"
_TICK = 0.01  # seconds between two looks, at least


class Endings:
    """The attempts that are being ended."""

    def __init__(self, kill: Callable[[Attempt], None] = lambda _: None) -> None:
        self._kill = kill  # all of an attempt at once, where that is possible
        self._owners: dict[int, Attempt] = {}  # whose the processes are that were seen
        self._force_at: dict[int, float] = {}  # process: when grace is over
        self._attempts: dict[int, Attempt] = {}
        self._asked: set[int] = set()
        self.next_look = float("inf")

    def begin(self, attempt: Attempt, grace: float) -> None:
        """Start ending an attempt; a second time only shortens the grace."""
        force_at = time.monotonic() + grace
        self._attempts[attempt.process] = attempt
        self._force_at[attempt.process] = min(force_at, self._force_at.get(attempt.process, force_at))
        self.next_look = 0.0

    def force(self) -> None:
        """Let nothing that is being ended have any grace left."""
        for attempt in self._attempts.values():
            self.begin(attempt, 0.0)

    def __contains__(self, attempt: Attempt) -> bool:
        return attempt.process in self._attempts

    def owner_of(self, process: int) -> Attempt | None:
        """Return the attempt that is being ended and had this process."""
        return self._owners.get(process)

    def members(self, mains: Iterable[int], picture: process_tree.Picture) -> set[int]:
        """Return the living processes of the attempts that are being ended; `mains` as in `look`."""
        strays = _strays(mains, picture) if self._attempts else []
        return {
            process for attempt in self._attempts.values() for process in _members(attempt, picture, strays)
        }

    def look(self, mains: Iterable[int]) -> list[Attempt]:
        """Send what is due; return the attempts of which nothing is left, which are to be forgotten.

        `mains` are the processes of all running attempts: none of them is taken for a stray of another.
        """
        began = time.monotonic()
        picture = process_tree.picture()
        strays = _strays(mains, picture)
        over = [attempt for attempt in self._attempts.values() if self._work_on(attempt, picture, strays)]
        # Looking costs more where there are many processes: never spend more than a fifth of the time on it.
        now, goes_on = time.monotonic(), len(over) < len(self._attempts)
        self.next_look = now + max(_TICK, 4 * (now - began)) if goes_on else float("inf")
        return over

    def forget(self, over: Collection[Attempt]) -> None:
        """Forget attempts of which nothing is left, and whose processes they had."""
        for attempt in over:
            del self._attempts[attempt.process], self._force_at[attempt.process]
            self._asked.discard(attempt.process)
        if over:
            self._owners = {process: each for process, each in self._owners.items() if each not in over}

    def _work_on(self, attempt: Attempt, picture: process_tree.Picture, strays: list[int]) -> bool:
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


def _members(attempt: Attempt, picture: process_tree.Picture, strays: list[int]) -> set[int]:
    """Return the living processes of an attempt, also those whose parents have left them to us.

    A group knows them whatever they did to their environment, but for those that were moved out of it to end
    while others stand still.
    """
    grouped = attempt.group.members() & picture.keys() if attempt.group is not None else set()
    marker = f"{MARKER}={attempt.program.environment[MARKER]}".encode()
    roots = [p for p in strays if picture[p].session == attempt.process or process_tree.has_marker(p, marker)]
    if attempt.usage is None:
        roots.append(attempt.process)
    return process_tree.descendants(roots, picture) | grouped


def kill_all_descendants() -> None:
    """Kill whatever descends from this process until nothing does; reaps nothing.

    This process must be the reaper of its descendants, so that none can get away from it.
    """
    me = os.getpid()
    while left := process_tree.descendants([me], process_tree.picture()) - {me}:
        process_tree.send(left, signal.SIGKILL)
        time.sleep(_TICK / 5)
