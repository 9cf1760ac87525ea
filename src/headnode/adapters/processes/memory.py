"""How much memory the processes of an attempt have, looked at now and then while it runs.

The first look is after a second, later ones come more and more rarely.  Shared pages count for each process.
The system does not keep the limit ``rss``: it is kept here, for each process, with looks once a second.
Standard library only: this is loaded by the shepherd factory.
"""

import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from headnode.adapters.processes import process_tree

if TYPE_CHECKING:
    from headnode.adapters.processes.attempts import Attempt

FIRST_LOOK = 1.0  # seconds after the start
_SELDOMEST = 30.0  # seconds between two looks
_AGE_SHARE = 8  # the next look comes after this part of the age
_COST_SHARE = 100  # looking takes at most this part of the time
_KB = 1024
_PAGE = os.sysconf("SC_PAGE_SIZE") // _KB


class Memory:
    """What was seen of one attempt.  Memory in kB, times of the monotonic clock."""

    __slots__ = ("_area", "_began", "_seen_at", "next_look", "peak")

    def __init__(self, began: float) -> None:
        self._began = self._seen_at = began
        self._area = 0.0  # kB times seconds
        self.peak = 0
        self.next_look = began + FIRST_LOOK

    @property
    def average(self) -> int:
        """The mean over the time until the last look; 0 before the first."""
        seconds = self._seen_at - self._began
        return round(self._area / seconds) if seconds > 0 else 0

    def see(self, resident: int, now: float, often: bool) -> None:
        """Note how much there is now; it is taken for what there was since the last look."""
        self._area += resident * (now - self._seen_at)
        self._seen_at = now
        self.peak = max(self.peak, resident)
        pause = (now - self._began) / _AGE_SHARE
        self.next_look = now + (FIRST_LOOK if often else min(max(pause, FIRST_LOOK), _SELDOMEST))


class MemoryWatch:
    """Looks at all attempts of a shepherd together."""

    def __init__(self) -> None:
        self.next_look = float("inf")

    def begin(self, attempt: "Attempt") -> None:
        """Look at this attempt from now on."""
        attempt.memory = Memory(time.monotonic())
        self.next_look = min(self.next_look, attempt.memory.next_look)

    def look(self, running: Iterable["Attempt"]) -> list[tuple["Attempt", int]]:
        """Look at those that are due; return those above their limit ``rss``, with the kB of one process."""
        began = time.monotonic()
        seen = [(attempt, attempt.memory) for attempt in running if attempt.memory is not None]
        due = [attempt for attempt, memory in seen if memory.next_look <= began]
        above = _measure(due, began) if due else []
        now = time.monotonic()
        self.next_look = min((memory.next_look for _, memory in seen), default=float("inf"))
        self.next_look = max(self.next_look, now + _COST_SHARE * (now - began) if due else 0.0)
        return above


def _measure(attempts: list["Attempt"], now: float) -> list[tuple["Attempt", int]]:
    picture = process_tree.picture()
    above = []
    for attempt in attempts:
        sizes = [picture[each].resident * _PAGE for each in _processes(attempt, picture)]
        limit = _limit_of(attempt)
        if attempt.memory is not None:
            attempt.memory.see(sum(sizes), now, often=limit is not None)
        if limit is not None and max(sizes, default=0) * _KB > limit:
            above.append((attempt, max(sizes)))
    return above


def _processes(attempt: "Attempt", picture: process_tree.Picture) -> set[int]:
    """Return the processes of an attempt, also those of its session whose parents have left them to us."""
    me = os.getpid()
    orphans = [p for p, seen in picture.items() if seen.parent == me and seen.session == attempt.process]
    return process_tree.descendants({attempt.process, *orphans}, picture)


def _limit_of(attempt: "Attempt") -> int | None:
    """Return how many bytes each process may have resident, if that is limited."""
    for name, soft, hard in attempt.program.limits:
        sides = [side for side in (soft, hard) if side is not None and side >= 0]
        if name == "rss" and sides:
            return min(sides)
    return None
