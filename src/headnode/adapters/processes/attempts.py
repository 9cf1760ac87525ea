"""The attempts a shepherd has in hand: in lanes, one after the other; lanes run side by side.

Standard library only: this is loaded by the shepherd factory.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from headnode.adapters.processes import process_tree
from headnode.adapters.processes.bounds import Bounds
from headnode.adapters.processes.job_journal import Key
from headnode.adapters.processes.limits import Asked
from headnode.adapters.processes.memory import Memory
from headnode.adapters.processes.spawning import Program
from headnode.adapters.processes.task_groups import Figures, Group
from headnode.adapters.processes.used import Used


class Attempt:
    """One attempt of an instance: what to start, and how it goes."""

    __slots__ = (
        *(
            "bounds",
            "counters",
            "ended",
            "figures",
            "group",
            "key",
            "lane",
            "limit",
            "memory",
            "process",
            "program",
        ),
        *("started", "usage", "used", "verdict"),
    )

    def __init__(
        self, key: Key, lane: str, program: Program, limit: float | None, bounds: Bounds | None = None
    ) -> None:
        self.key, self.lane, self.program, self.limit = key, lane, program, limit
        self.bounds = bounds or Bounds()
        self.process = 0  # its number, 0 before it is started
        self.started = 0.0
        self.ended = 0.0
        self.usage: tuple[int, float, float, int] | None = (
            None  # status, user, system, peak; None: still runs
        )
        self.memory: Memory | None = None  # what was seen of it, once it has run for a while
        self.group: Group | None = None  # its own control group, if it has one
        self.used = Used()  # what its processes used, as far as it is known by now
        self.counters = -1  # a descriptor that tells what its process reads and writes
        self.figures: Figures | None = None  # what its group told at its end
        self.verdict: tuple[str, str] = ("exited", "")  # the kind of its result, and why

    @property
    def limits(self) -> tuple[Asked, ...]:
        """What each of its processes may have."""
        return self.program.limits

    def processes(self, picture: process_tree.Picture) -> set[int]:
        """Return its processes, also those of its session whose parents have left them to us."""
        if self.group is not None:
            return self.group.members() & picture.keys()
        me = os.getpid()
        orphans = [p for p, seen in picture.items() if seen.parent == me and seen.session == self.process]
        return process_tree.descendants({self.process, *orphans}, picture)


def attempts_of(message: list[Any]) -> list[Attempt]:
    """Read a ``run`` message: task, lane, shared environment, limit in seconds or None, items, and more.

    That is limits of processes, whether directories are private, and bounds of the whole attempt: left out
    when there is nothing to say.
    """
    task, lane, shared, limit, items, *more = message
    said: list[Any] = [*more, *((), False, ())[len(more) :]]
    asked, private, bounds = said
    own = Bounds(*bounds)
    limits = tuple((name, soft, hard) for name, soft, hard in asked)
    found = []
    for instance, attempt, argv, variables, *files in items:
        program = Program(argv, {**shared, **variables}, *files)
        if more:
            program = program._replace(limits=limits, private=private)
        found.append(Attempt((task, instance, attempt), lane, program, limit, own))
    return found


class Lanes:
    """What waits and what runs."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Attempt]] = {}
        self._queued: dict[Key, Attempt] = {}
        self._free: dict[str, None] = {}  # lanes that have something waiting and run nothing
        self._busy: dict[str, Key] = {}
        self.running: dict[Key, Attempt] = {}
        self.by_process: dict[int, Attempt] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._queued or key in self.running

    @property
    def empty(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self._queued and not self.running

    @property
    def queued(self) -> Iterable[Key]:
        """The attempts that wait."""
        return self._queued

    def add(self, attempt: Attempt) -> None:
        """Put an attempt at the end of its lane."""
        self._queued[attempt.key] = attempt
        self._waiting.setdefault(attempt.lane, deque()).append(attempt)
        if attempt.lane not in self._busy:
            self._free[attempt.lane] = None

    def take_back(self, key: Key) -> Attempt | None:
        """Take out an attempt that waits; None when it does not."""
        return self._queued.pop(key, None)

    def next_ones(self) -> Iterator[Attempt]:
        """Yield the next attempt of every free lane; each is running from then on."""
        while self._free:
            lane = next(iter(self._free))
            del self._free[lane]
            attempt = self._first(lane)
            if attempt is not None:
                self._busy[lane] = attempt.key
                self.running[attempt.key] = attempt
                yield attempt

    def _first(self, lane: str) -> Attempt | None:
        waiting = self._waiting[lane]
        while waiting:
            attempt = waiting.popleft()
            if self._queued.pop(attempt.key, None) is attempt:
                return attempt
        del self._waiting[lane]
        return None

    def has_process(self, attempt: Attempt, process: int) -> None:
        """Note the process of a running attempt."""
        attempt.process = process
        self.by_process[process] = attempt

    def is_over(self, attempt: Attempt) -> None:
        """Take out a running attempt; its lane is free for the next."""
        del self.running[attempt.key]
        self.by_process.pop(attempt.process, None)
        del self._busy[attempt.lane]
        if attempt.lane in self._waiting:
            self._free[attempt.lane] = None
