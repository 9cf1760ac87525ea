"""How attempts are started in a control group, watched, and ended by a limit of memory, time or processes.

Standard library only: this is loaded by the shepherd factory."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from headnode.adapters import process_tree
from headnode.adapters.processes.attempts import FIRST_LOOK, MemoryUse, ShepherdAttempt
from headnode.adapters.processes.cgroup_helper import (
    CgroupFigures,
    NoGroup,
    TaskCgroup,
    TaskCgroups,
    kills_on_machine,
)
from headnode.adapters.processes.cgroup_pool import CgroupPool, ReusedCgroup
from headnode.adapters.processes.limits import Bounds, RequestedLimit, most_processes, without_processes
from headnode.adapters.processes.program_start import GroupRefused
from headnode.adapters.processes.spawning import spawn
from headnode.adapters.processes.start_failures import CannotStart

_SHELLS_ADD = 128  # a shell tells by this exit status and the number that a signal ended its program
_MAX_OF = 0.6  # of the limit: what the system counts by its ticks, and kills for, is more than what it tells
_SIGNALS = {signal.SIGXCPU: "cpu", signal.SIGXFSZ: "fsize"}
_COUNTS = {"cpu": "{} s of processor time", "fsize": "{} bytes in a file"}


def limit_ending(attempt: ShepherdAttempt) -> str:
    """Return the sentence for an attempt that a limit of its processes has ended; nothing for another."""
    if attempt.usage is None or attempt.usage[0] == 0 or attempt.verdict[0] != "exited":
        return ""
    status, user, system, _ = attempt.usage
    return ended_by_limit(status, user + system, attempt.program.limits)


def ended_by_limit(status: int, processor_time: float, limits: Iterable[RequestedLimit]) -> str:
    """Return the sentence for a program with these limits that one of them has ended; nothing for another.

    `status` is as `os.waitpid` says it, `processor_time` in seconds.
    """
    asked = {name: [side for side in sides if isinstance(side, int)] for name, *sides in limits}
    for what, name in _SIGNALS.items():
        told = _limit_sentence(name, asked.get(name, ()), min)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == what:
            return f"the program was ended by {what.name}: it reached its limit {told}"
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _SHELLS_ADD + what and asked.get(name):
            return f"a process of the task was ended by {what.name}: it reached its limit {told}"
    hard = max((limit for limit in asked.get("cpu", ()) if limit >= 0), default=None)
    if hard is not None and processor_time >= _MAX_OF * hard and _killed(status):
        told = _limit_sentence("cpu", asked["cpu"], max)
        return f"a process of the task was killed by the system: it reached its limit {told}"
    return ""


def for_want_of_processes(refused: int, limits: Iterable[RequestedLimit]) -> str:
    """Return the sentence for a program that could not start another process so many times."""
    most = most_processes(limits)
    if not refused or most is None:
        return ""
    return (
        f"the task could not start another process {refused} times: it reached its limit 'nproc', "
        f"{most} processes and threads"
    )


def _killed(status: int) -> bool:
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status) == signal.SIGKILL
    return os.WEXITSTATUS(status) == _SHELLS_ADD + signal.SIGKILL


def _limit_sentence(name: str, asked: Iterable[int], side: Callable[[list[int]], int]) -> str:
    amounts = [amount for amount in asked if amount >= 0]
    return repr(name) + (f", {_COUNTS[name].format(side(amounts))}" if amounts else "")


_ALL_OF_IT = 0.9  # of its limit: who was killed with less did not reach it
_ASK = "/estimatedprocessmemory, or in its batch script (--mem, -l mem)"
_KB = 1024
_SHELL_SIGNAL_BASE = 128  # a shell tells by this exit status and the number that a signal ended its program


class MemoryKills:
    """Counts the processes that were killed for want of memory since it was asked before."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count, self._known = count, count()

    def fresh(self) -> int:
        """Return how many there were since."""
        before, self._known = self._known, self._count()
        return self._known - before


def above_its_memory(bounds: Bounds) -> str:
    """Return the sentence for an attempt that needed more memory than it asked for."""
    each = f" ({bounds.memory} MB for each of its {bounds.held} processors)" if bounds.held > 1 else ""
    return (
        f"the task was killed: it needed more than the {bounds.memory * bounds.held} MB{each} that it "
        f"requested; request more with {_ASK}"
    )


def memory_ending(attempt: "ShepherdAttempt", killed: int) -> str:
    """Return the sentence for an attempt of which processes were killed for want of memory; else nothing.

    `killed`: how many those were, or may have been: without a group the figures are those of the whole job
    here, or of the whole node.
    """
    if not killed or attempt.usage is None or attempt.verdict[0] != "exited":
        return ""
    if attempt.figures is not None:
        return for_want_of_memory(attempt.bounds, attempt.figures.peak)
    return _NONE_LEFT if _by_kill(attempt.usage[0]) else ""


def for_want_of_memory(bounds: Bounds, peak: int | None) -> str:
    """Return the sentence for a group of which processes were killed for want of memory; `peak` in kB."""
    return above_its_memory(bounds) if _reached_its_limit(bounds, peak) else _NONE_LEFT


_NONE_LEFT = (
    f"a process of the task was killed because its node had no memory left; with {_ASK} memory is "
    "reserved for the task, and other tasks cannot use it"
)


def _reached_its_limit(bounds: Bounds, peak: int | None) -> bool:
    most = bounds.most_memory
    return most is not None and (peak is None or peak * _KB >= _ALL_OF_IT * most)


def _by_kill(status: int) -> bool:
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status) == signal.SIGKILL
    return os.WEXITSTATUS(status) == _SHELL_SIGNAL_BASE + signal.SIGKILL


OFTEN = 0.2  # seconds between two checks if total memory is limited and not by the kernel
_COST_SHARE = 100  # looking takes at most this part of the time
_KILOBYTE = 1024
_PAGE = os.sysconf("SC_PAGE_SIZE") // _KILOBYTE


class WatchedProcesses(Protocol):
    """Processes that are looked at together: those of an attempt on this node."""

    memory: MemoryUse | None

    @property
    def bounds(self) -> Bounds:
        """What they may have together."""

    @property
    def group(self) -> TaskCgroup | None:
        """Their own control group, if they have one."""

    @property
    def limits(self) -> tuple[RequestedLimit, ...]:
        """What each of them may have."""

    def processes(self, picture: process_tree.Picture) -> set[int]:
        """Return those that live."""


One = TypeVar("One", bound=WatchedProcesses)


class MemoryWatch:
    """Looks at all attempts of a shepherd together."""

    def __init__(self) -> None:
        self.next_look = float("inf")

    def begin(self, attempt: WatchedProcesses) -> None:
        """Look at this attempt from now on."""
        pause = _pause(attempt) if attempt.limits or attempt.bounds.memory else None
        memory = attempt.memory = MemoryUse(time.monotonic(), FIRST_LOOK if pause is None else pause)
        self.next_look = min(self.next_look, memory.next_look)

    def look(self, running: Iterable[One]) -> list[tuple[One, str]]:
        """Measure the attempts that are due; return those over their limit, each with its message."""
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


def _pause(attempt: WatchedProcesses) -> float | None:
    """Return how long not to look at an attempt; None: as one likes."""
    if _has_to_be_watched(attempt):
        return OFTEN
    limited = _limit_of(attempt) is not None or attempt.bounds.most_memory is not None
    return FIRST_LOOK if limited else None


def _has_to_be_watched(attempt: WatchedProcesses) -> bool:
    """Return whether the total memory of an attempt is limited, but not by its cgroup."""
    kept = attempt.group is not None and attempt.group.keeps_memory
    return attempt.bounds.most_memory is not None and not kept


def _above(attempt: WatchedProcesses, sizes: dict[int, int]) -> str:
    """Say what an attempt has too much of; nothing when it has not."""
    limit, largest = _limit_of(attempt), max(sizes.values(), default=0)
    if limit is not None and largest * _KILOBYTE > limit:
        return f"a process of the task has {largest} kB in memory, above its limit 'rss'"
    most = attempt.bounds.most_memory
    if most is None:
        return ""
    if _has_to_be_watched(attempt):
        too_much = sum(sizes.values()) * _KILOBYTE > most and _shared_once(sizes) * _KILOBYTE > most
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


def _limit_of(attempt: WatchedProcesses) -> int | None:
    """Return how many bytes each process may have resident, if that is limited."""
    for name, soft, hard in attempt.limits:
        sides = [side for side in (soft, hard) if side is not None and side >= 0]
        if name == "rss" and sides:
            return min(sides)
    return None


class CgroupPlacement:
    """Starts attempts, and settles what they used."""

    def __init__(self, output_directory: int, groups: TaskCgroups | None) -> None:
        self._output, self._groups = output_directory, groups
        self._pool = None if groups is None else CgroupPool(groups)
        self._kills = MemoryKills(kills_on_machine if groups is None else groups.killed_outside)

    def start(self, attempt: ShepherdAttempt) -> int:
        """Start an attempt; return its process.

        Raises:  CannotStart.
        """
        began = time.monotonic()
        group = self._group_for(attempt)
        if group is not None:
            try:
                return self._start_in(group, attempt)
            except GroupRefused as why:
                self._do_without(str(why))
            finally:
                if self._groups is not None and not _needs_group(attempt):
                    self._groups.took(time.monotonic() - began)
        return spawn(attempt.program, self._output, attempt.bounds.processors)

    def _start_in(self, group: TaskCgroup, attempt: ShepherdAttempt) -> int:
        program, bounds = attempt.program, attempt.bounds
        if group.keeps_processes:
            program = program._replace(limits=without_processes(program.limits))
        try:
            if self._pool is not None and isinstance(group, ReusedCgroup):
                process = self._pool.start(
                    group, bounds.most_memory, lambda: spawn(program, self._output, bounds.processors)
                )
            else:
                process = spawn(program, self._output, bounds.processors, group.entrances)
        except (CannotStart, GroupRefused):
            self._remove(group)
            raise
        group.entered()
        if group.has_shepherd:
            self._do_without("the shepherd cannot leave a group again")
        else:
            attempt.group = group
        return process

    def _group_for(self, attempt: ShepherdAttempt) -> TaskCgroup | None:
        if self._groups is None or self._pool is None:
            return None
        bounds, processes = attempt.bounds, most_processes(attempt.program.limits)
        if not _needs_group(attempt) and not self._groups.may_measure():
            return None
        try:
            group = None
            if not attempt.program.limits:  # they need the fork that the pool saves
                group = self._pool.take(bounds.processors, limited=bounds.most_memory is not None)
            if group is not None:
                return group
            return self._groups.make(bounds.most_memory, processes, bounds.processors)
        except NoGroup as why:
            self._do_without(str(why))
            return None

    def _do_without(self, why: str) -> None:
        """Make no more groups: what they would keep is looked at instead."""
        print(f"tasks get no control groups of their own from now on: {why}", file=sys.stderr)  # noqa: T201 (the shepherds' log)
        self._groups = self._pool = None
        self._kills = MemoryKills(kills_on_machine)

    def kill(self, attempt: ShepherdAttempt) -> None:
        """Kill all processes in the cgroup of an attempt, including those of other users."""
        if self._pool is not None and isinstance(attempt.group, ReusedCgroup):
            self._pool.kill(attempt.group)
        elif self._groups is not None and attempt.group is not None:
            self._groups.kill(attempt.group)

    def leave(self, attempt: ShepherdAttempt) -> str:
        """Settle what an attempt used, now that nothing of it runs; say which limit ended it, if one did."""
        if attempt.group is None:
            unwell = attempt.usage is not None and attempt.usage[0] != 0
            killed = self._kills.fresh() if unwell else 0
            return memory_ending(attempt, killed) or limit_ending(attempt)
        figures = attempt.figures = attempt.group.figures()
        if figures.times is not None:
            attempt.used = attempt.used._replace(user_time=figures.times[0], system_time=figures.times[1])
        self._remove(attempt.group)
        return (
            memory_ending(attempt, figures.killed) or limit_ending(attempt) or _by_processes(attempt, figures)
        )

    def _remove(self, group: TaskCgroup) -> None:
        if self._pool is not None and isinstance(group, ReusedCgroup):
            self._pool.give_back(group)
            return
        group.entered()
        if self._groups is not None and not group.has_shepherd:
            self._groups.remove(group)


def _needs_group(attempt: ShepherdAttempt) -> bool:
    held = attempt.bounds.most_memory is not None or most_processes(attempt.program.limits) is not None
    return held or attempt.bounds.parallel


def _by_processes(attempt: ShepherdAttempt, figures: CgroupFigures) -> str:
    """Return the sentence for an attempt that failed after it could not start another process."""
    if attempt.usage is None or attempt.usage[0] == 0 or attempt.verdict[0] != "exited":
        return ""
    return for_want_of_processes(figures.refused, attempt.program.limits)
