"""How much memory the processes of an attempt have, looked at now and then while it runs.

The first look is after a second, later ones come more and more rarely.  Shared pages count for each process.
The system does not keep the limit ``rss``: it is kept here, for each process, with looks once a second.
So is what an attempt may have in all, where it has no control group for that: then looks come five times a
second, and shared pages are counted once before an attempt is ended.
Standard library only: this is loaded by the shepherd factory.
"""

import os
import time
from collections.abc import Iterable
from typing import Protocol, TypeVar

from headnode.adapters.processes import process_tree
from headnode.adapters.processes.bounds import Bounds
from headnode.adapters.processes.endings_by_memory import above_its_memory
from headnode.adapters.processes.limits import Asked
from headnode.adapters.processes.task_groups import Group

FIRST_LOOK = 1.0  # seconds after the start
OFTEN = 0.2  # seconds between two looks where memory in all is limited and nobody else keeps it
_SELDOMEST = 30.0  # seconds between two looks
_AGE_SHARE = 8  # the next look comes after this part of the age
_COST_SHARE = 100  # looking takes at most this part of the time
_KB = 1024
_PAGE = os.sysconf("SC_PAGE_SIZE") // _KB


class Memory:
    """What was seen of one attempt.  Memory in kB, times of the monotonic clock."""

    __slots__ = ("_area", "_began", "_seen_at", "next_look", "peak")

    def __init__(self, began: float, pause: float = FIRST_LOOK) -> None:
        self._began = self._seen_at = began
        self._area = 0.0  # kB times seconds
        self.peak = 0
        self.next_look = began + pause

    @property
    def average(self) -> int:
        """The mean over the time until the last look; 0 before the first."""
        seconds = self._seen_at - self._began
        return round(self._area / seconds) if seconds > 0 else 0

    def see(self, resident: int, now: float, pause: float | None = None) -> None:
        """Note how much there is now; it is taken for what there was since the last look.

        The next look comes after `pause` seconds; None: more and more rarely.
        """
        self._area += resident * (now - self._seen_at)
        self._seen_at = now
        self.peak = max(self.peak, resident)
        rarely = min(max((now - self._began) / _AGE_SHARE, FIRST_LOOK), _SELDOMEST)
        self.next_look = now + (rarely if pause is None else pause)


class Watched(Protocol):
    """Processes that are looked at together: those of an attempt on this node."""

    memory: Memory | None

    @property
    def bounds(self) -> Bounds:
        """What they may have together."""

    @property
    def group(self) -> Group | None:
        """Their own control group, if they have one."""

    @property
    def limits(self) -> tuple[Asked, ...]:
        """What each of them may have."""

    def processes(self, picture: process_tree.Picture) -> set[int]:
        """Return those that live."""


One = TypeVar("One", bound=Watched)


class MemoryWatch:
    """Looks at all attempts of a shepherd together."""

    def __init__(self) -> None:
        self.next_look = float("inf")

    def begin(self, attempt: Watched) -> None:
        """Look at this attempt from now on."""
        pause = _pause(attempt)
        attempt.memory = Memory(time.monotonic(), FIRST_LOOK if pause is None else pause)
        self.next_look = min(self.next_look, attempt.memory.next_look)

    def look(self, running: Iterable[One]) -> list[tuple[One, str]]:
        """Look at those that are due; return those that have more than they may, with a sentence for each."""
        began = time.monotonic()
        seen = [(attempt, attempt.memory) for attempt in running if attempt.memory is not None]
        due = [attempt for attempt, memory in seen if memory.next_look <= began]
        above = _measure(due, began) if due else []
        now = time.monotonic()
        self.next_look = min((memory.next_look for _, memory in seen), default=float("inf"))
        self.next_look = max(self.next_look, now + _COST_SHARE * (now - began) if due else 0.0)
        return above


def _measure(attempts: list[One], now: float) -> list[tuple[One, str]]:
    picture = process_tree.picture()
    above = []
    for attempt in attempts:
        sizes = {each: picture[each].resident * _PAGE for each in attempt.processes(picture)}
        if attempt.memory is not None:
            attempt.memory.see(sum(sizes.values()), now, _pause(attempt))
        why = _above(attempt, sizes)
        if why:
            above.append((attempt, why))
    return above


def _pause(attempt: Watched) -> float | None:
    """Return how long not to look at an attempt; None: as one likes."""
    if _has_to_be_watched(attempt):
        return OFTEN
    limited = _limit_of(attempt) is not None or attempt.bounds.most_memory is not None
    return FIRST_LOOK if limited else None


def _has_to_be_watched(attempt: Watched) -> bool:
    """Whether nobody but us keeps what an attempt may have in all."""
    kept = attempt.group is not None and attempt.group.keeps_memory
    return attempt.bounds.most_memory is not None and not kept


def _above(attempt: Watched, sizes: dict[int, int]) -> str:
    """Say what an attempt has too much of; nothing when it has not."""
    limit, largest = _limit_of(attempt), max(sizes.values(), default=0)
    if limit is not None and largest * _KB > limit:
        return f"a process of the task has {largest} kB in memory, above its limit 'rss'"
    most = attempt.bounds.most_memory
    if most is None:
        return ""
    if _has_to_be_watched(attempt):
        too_much = sum(sizes.values()) * _KB > most and _shared_once(sizes) * _KB > most
    else:  # a group of version 1 kills one process and leaves the others to wait for it
        too_much = attempt.group is not None and attempt.group.killed() > 0
    return above_its_memory(attempt.bounds) if too_much else ""


def _shared_once(sizes: dict[int, int]) -> int:
    """Return the kB of processes with each page counted once; those that we may not look into count whole."""
    return sum(_proportional(process, size) for process, size in sizes.items())


def _proportional(process: int, resident: int) -> int:
    try:
        with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as file:  # noqa: PTH123
            for line in file:
                if line.startswith("Pss:"):
                    return int(line.split()[1])
    except OSError:
        return resident
    return resident


def _limit_of(attempt: Watched) -> int | None:
    """Return how many bytes each process may have resident, if that is limited."""
    for name, soft, hard in attempt.limits:
        sides = [side for side in (soft, hard) if side is not None and side >= 0]
        if name == "rss" and sides:
            return min(sides)
    return None
