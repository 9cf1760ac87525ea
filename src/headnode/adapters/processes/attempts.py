"""The attempts that a shepherd has: in lanes, one after the other; and what their processes used.

Standard library only: this is loaded by the shepherd factory."""

import math
import os
import resource
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headnode.adapters import process_tree
from headnode.adapters.processes.cgroup_helper import CgroupFigures, TaskCgroup
from headnode.adapters.processes.job_journal import EndedRecord, Key
from headnode.adapters.processes.limits import Bounds, RequestedLimit
from headnode.adapters.processes.spawning import TaskProgram
from headnode.adapters.processes.start_failures import CannotStart
from headnode.core.model.outcome import (
    AttemptOutcome,
    Ending,
    ExitCodes,
    ResourceUsage,
    TransferUsage,
    ended_well,
)
from headnode.core.model.quantities import Instant


def open_counters(process: int) -> int:
    """Return a descriptor of what a process has read and written, to be read when it has ended; -1: none.

    It must be opened while the process runs: of one that has ended it belongs to root.
    """
    try:
        return os.open(f"/proc/{process}/io", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def read_counters(counters: int) -> tuple[int, int]:
    """Return the bytes that a process and the children it has reaped have read and written, and close it.

    The process may have ended, but must not be reaped.  Nothing is told of one that is not ours any more.
    """
    if counters < 0:
        return 0, 0
    try:
        words = os.read(counters, 4096).split(None, 4)
    except OSError:
        return 0, 0
    finally:
        os.close(counters)
    return (int(words[1]), int(words[3])) if words[:3:2] == [b"rchar:", b"wchar:"] else (0, 0)


Parent = tuple[Key, ExitCodes]
"""An attempt after which another one starts, and the exit codes with which it ends well."""

FIRST_LOOK = 1.0  # seconds after the start
_SELDOMEST = 30.0  # seconds between two looks
_AGE_SHARE = 8  # the next look comes after this part of the age


class MemoryUse:
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


class ShepherdAttempt:
    """One attempt of an instance: what to start, and how it goes."""

    __slots__ = (
        *(
            "after",
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
        *("moved", "staging", "started", "usage", "used", "verdict"),
    )

    def __init__(
        self, key: Key, lane: str, program: TaskProgram, limit: float | None, bounds: Bounds | None = None
    ) -> None:
        self.key, self.lane, self.program, self.limit = key, lane, program, limit
        self.bounds = bounds or Bounds()
        self.process = 0  # its number, 0 before it is started
        self.started = 0.0
        self.ended = 0.0
        self.usage: tuple[int, float, float, int] | None = (
            None  # status, user, system, peak; None: still runs
        )
        self.memory: MemoryUse | None = None  # what was seen of it, once it has run for a while
        self.group: TaskCgroup | None = None  # its own control group, if it has one
        self.used = ResourceUsage()  # what its processes used, as far as it is known by now
        self.counters = -1  # a descriptor that tells what its process reads and writes
        self.figures: CgroupFigures | None = None  # what its group told at its end
        self.verdict: tuple[Ending, str] = ("exited", "")  # and why
        self.staging: dict[str, Any] | None = None  # what is transferred for it, and how
        self.moved: TransferUsage | None = None  # what its transfers have moved
        self.after: list[Parent] = []  # what must end well before it starts

    @property
    def limits(self) -> tuple[RequestedLimit, ...]:
        """What each of its processes may have."""
        return self.program.limits

    def processes(self, picture: process_tree.Picture) -> set[int]:
        """Return its processes, also those of its session whose parents have left them to us."""
        if self.group is not None:
            return self.group.members() & picture.keys()
        me = os.getpid()
        orphans = [p for p, seen in picture.items() if seen.parent == me and seen.session == self.process]
        return process_tree.descendants({self.process, *orphans}, picture)


def attempts_of(message: list[Any]) -> list[ShepherdAttempt]:
    """Read a ``run`` message: task, lane, shared environment, limit in seconds or None, items, and more.

    That is limits of processes, whether directories are private, bounds of the whole attempt, what is
    transferred for each, and after which attempts they start: left out when there is nothing to say.
    """
    task, lane, shared, limit, items, *more = message
    said: list[Any] = [*more, *((), False, (), (), ())[len(more) :]]
    asked, private, bounds, staged, after = said
    own = Bounds(*bounds)
    limits = tuple((name, soft, hard) for name, soft, hard in asked)
    found = []
    for instance, attempt, argv, variables, *files in items:
        program = TaskProgram(argv, {**shared, **variables}, *files)
        if more:
            program = program._replace(limits=limits, private=private)
        found.append(ShepherdAttempt((task, instance, attempt), lane, program, limit, own))
        found[-1].after = [(tuple(key), codes) for key, codes in after]
    for one, staging in zip(found, staged, strict=False):
        one.staging = staging
        one.program = one.program._replace(made=staging is not None)
    return found


LONG = 0.1  # seconds that a task runs until others behind it are given back, as they might run elsewhere


class Lanes:
    """What waits and what runs."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[ShepherdAttempt]] = {}
        self._queued: dict[Key, ShepherdAttempt] = {}
        self._free: dict[str, None] = {}  # lanes that have something waiting and run nothing
        self._busy: dict[
            str, tuple[float, int]
        ] = {}  # since when on the monotonic clock, and with which task
        self._children: dict[Key, list[ShepherdAttempt]] = {}  # what waits for an attempt to end well
        self._blocked: dict[str, dict[Key, None]] = {}  # by lane: what waits for another attempt
        self._idle: dict[str, float] = {}  # since when such a lane starts nothing
        self.next_look = math.inf  # when to take out what is stuck; nothing is before
        self.running: dict[Key, ShepherdAttempt] = {}
        self.by_process: dict[int, ShepherdAttempt] = {}

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

    @property
    def waiting(self) -> Iterable[ShepherdAttempt]:
        """The attempts themselves."""
        return self._queued.values()

    def add(self, attempt: ShepherdAttempt) -> None:
        """Put an attempt at the end of its lane."""
        self._queued[attempt.key] = attempt
        self._waiting.setdefault(attempt.lane, deque()).append(attempt)
        busy = self._busy.get(attempt.lane)
        if busy is None:
            self._free[attempt.lane] = None
        elif busy[1] != attempt.key[0]:
            self._look_at(busy[0])

    def add_behind(self, attempt: ShepherdAttempt, ended: Mapping[Key, EndedRecord]) -> list[ShepherdAttempt]:
        """Put an attempt at the end of its lane when its parents have ended well; `ended` have ended of late.

        Return it if one of them did not end well, or is not known here: then it is not to start.
        """
        for key, codes in attempt.after:
            if not ended_well(ended[key].outcome, codes) if key in ended else key not in self:
                return [attempt]
        attempt.after = [parent for parent in attempt.after if parent[0] not in ended]
        if not attempt.after:
            self.add(attempt)
            return []
        self._queued[attempt.key] = attempt
        self._blocked.setdefault(attempt.lane, {})[attempt.key] = None
        if attempt.lane not in self._busy:
            self._idle.setdefault(attempt.lane, time.monotonic())
        self._look_at(self._since(attempt.lane))
        for key, _ in attempt.after:
            self._children.setdefault(key, []).append(attempt)
        return []

    def settle(self, over: Iterable[EndedRecord]) -> list[ShepherdAttempt]:
        """Let go on what waited for attempts that are over; take out and return what is not to start."""
        hopeless: list[ShepherdAttempt] = []
        for record in over:
            for child in self._children.pop(record.key, ()):
                if self._queued.get(child.key) is not child:
                    continue
                codes = next(codes for key, codes in child.after if key == record.key)
                child.after = [parent for parent in child.after if parent[0] != record.key]
                if not ended_well(record.outcome, codes):
                    self.take_back(child.key)
                    hopeless.append(child)
                elif not child.after:
                    self._unblock(child)
                    self.add(child)
        return hopeless

    def take_back(self, key: Key) -> ShepherdAttempt | None:
        """Take out an attempt that waits; None when it does not."""
        attempt = self._queued.pop(key, None)
        if attempt is not None:
            self._unblock(attempt)
        return attempt

    def _unblock(self, attempt: ShepherdAttempt) -> None:
        blocked = self._blocked.get(attempt.lane, {})
        blocked.pop(attempt.key, None)
        if not blocked:
            self._blocked.pop(attempt.lane, None)
            self._idle.pop(attempt.lane, None)

    def _look_at(self, since: float) -> None:
        """Look for tasks that wait behind another when that may have run for long."""
        self.next_look = min(self.next_look, since + LONG)

    def take_stuck(self, now: float) -> list[ShepherdAttempt]:
        """Take out what waits behind another task that has run for long, or for tasks of other lanes.

        `now` is on the monotonic clock.
        """
        if now < self.next_look:
            return []
        behind = dict(self._behind_others())
        stuck = {lane for lane, since in behind.items() if now >= since + LONG}
        self.next_look = LONG + min((behind[lane] for lane in behind.keys() - stuck), default=math.inf)
        keys = [
            key
            for lane in stuck
            for key in (*(each.key for each in self._waiting.pop(lane, ())), *self._blocked.get(lane, ()))
        ]
        return [attempt for key in keys if (attempt := self.take_back(key)) is not None]

    def _behind_others(self) -> Iterator[tuple[str, float]]:
        """Yield the lanes in which another task waits than the one that runs, and since when that runs.

        And those in which tasks wait for others, since when nothing runs there.
        """
        for lane, waiting in self._waiting.items():
            since, task = self._busy.get(lane, (0.0, 0))
            if waiting and task and waiting[0].key[0] != task:
                yield lane, since
        for lane in self._blocked:
            yield lane, self._since(lane)

    def _since(self, lane: str) -> float:
        """Return since when the last attempt of a lane runs, or since when nothing starts in it."""
        return self._busy[lane][0] if lane in self._busy else self._idle[lane]

    def next_ones(self) -> Iterator[ShepherdAttempt]:
        """Yield the next attempt of every free lane; each is running from then on."""
        while self._free:
            lane = next(iter(self._free))
            del self._free[lane]
            attempt = self._first(lane)
            if attempt is not None:
                now, waiting = time.monotonic(), self._waiting.get(lane)
                self._busy[lane] = now, attempt.key[0]
                self._idle.pop(lane, None)
                if lane in self._blocked or (waiting and waiting[0].key[0] != attempt.key[0]):
                    self._look_at(now)
                self.running[attempt.key] = attempt
                yield attempt

    def _first(self, lane: str) -> ShepherdAttempt | None:
        waiting = self._waiting[lane]
        while waiting:
            attempt = waiting.popleft()
            if self._queued.pop(attempt.key, None) is attempt:
                return attempt
        del self._waiting[lane]
        return None

    def has_process(self, attempt: ShepherdAttempt, process: int) -> None:
        """Note the process of a running attempt."""
        attempt.process = process
        self.by_process[process] = attempt

    def is_over(self, attempt: ShepherdAttempt) -> int:
        """Take out a running attempt; its lane is free for the next.  Return how many the lane has."""
        del self.running[attempt.key]
        self.by_process.pop(attempt.process, None)
        del self._busy[attempt.lane]
        if attempt.lane in self._waiting:
            self._free[attempt.lane] = None
        if attempt.lane in self._blocked:
            self._idle[attempt.lane] = time.monotonic()
            self._look_at(self._idle[attempt.lane])
        return len(self._waiting.get(attempt.lane, ())) + len(self._blocked.get(attempt.lane, ()))


def usage_of(used: resource.struct_rusage, moved: tuple[int, int]) -> ResourceUsage:
    """Return what a reaped process and its children used; `moved` are the bytes read and written.

    Memory is not in it: that of an attempt is measured while it runs.
    """
    return ResourceUsage(used.ru_utime, used.ru_stime, 0, 0, *moved)


def ended_record(number: int, attempt: ShepherdAttempt, by_limit: str) -> EndedRecord:
    status, _, _, peak = attempt.usage or (0, 0.0, 0.0, 0)
    ending, message = attempt.verdict
    by_signal = os.WIFSIGNALED(status)
    memory, used = attempt.memory, attempt.used
    peak = max(peak, memory.peak if memory else 0)
    if attempt.figures is not None and attempt.figures.peak is not None:
        peak = attempt.figures.peak
    average = min((memory.average if memory else 0) or peak, peak)
    usage = ResourceUsage(used.user_time, used.system_time, peak, average, *used[4:])
    outcome = AttemptOutcome(
        ending,
        None if by_signal else os.WEXITSTATUS(status),
        os.WTERMSIG(status) if by_signal else None,
        Instant(attempt.started),
        Instant(attempt.ended),
        message or by_limit,
        usage=usage,
        transfers=attempt.moved,
    )
    return EndedRecord(number, *attempt.key, outcome)


def not_brought_record(number: int, attempt: ShepherdAttempt, why: str) -> EndedRecord:
    now = Instant(time.time())
    outcome = AttemptOutcome("not-staged", ended=now, message=why, transfers=attempt.moved)
    return EndedRecord(number, *attempt.key, outcome)


def not_started_record(number: int, key: Key, why: CannotStart) -> EndedRecord:
    now = Instant(time.time())
    outcome = AttemptOutcome("not-started", ended=now, message=str(why), fault=why.trouble)
    return EndedRecord(number, *key, outcome)
