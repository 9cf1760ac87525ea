"""What the attempts of a shepherd use now: processor time, memory and processes.

Standard library only: this is loaded by the shepherd factory."""

import os
import time
from typing import NamedTuple, Protocol

from headnode.adapters import process_tree
from headnode.adapters.processes.attempts import Lanes, MemoryUse
from headnode.adapters.processes.cgroup_helper import TaskCgroup
from headnode.adapters.processes.remote_steps import RemoteCommands
from headnode.core.model.outcome import ResourceUsage

_KILOBYTES_IN_PAGE = os.sysconf("SC_PAGE_SIZE") // 1024
_TICKS = os.sysconf("SC_CLK_TCK")  # in a second
_MIN_AGE = 0.2  # seconds for which an answer is given again
_PAUSES = 9  # and for this many times as long as it took


class CurrentUsage(NamedTuple):
    """What an attempt uses now on this node.  Times in seconds since its start, memory in kB.

    Memory is the sum of what its processes have resident; pages that they share count for each.
    """

    task: int
    instance: int
    attempt: int
    user_time: float
    system_time: float
    memory: int
    peak_memory: int
    processes: int


class _MeasuredAttempt(Protocol):
    """An attempt, or what one of another node has launched here."""

    memory: MemoryUse | None
    used: ResourceUsage

    @property
    def group(self) -> TaskCgroup | None:
        """Its own control group, if it has one."""


class UsageMeter:
    """Measures on request.  Anybody may ask at any time, so answers are given again for a while.

    Then a shepherd measures for at most a tenth of its time, however many processes the machine has.
    """

    def __init__(self) -> None:
        self._answer: list[CurrentUsage] = []
        self._until = 0.0  # on the monotonic clock

    def read(self, lanes: Lanes, launches: RemoteCommands) -> list[CurrentUsage]:
        """Return what each running attempt uses, and what attempts of other nodes have launched here."""
        began = time.monotonic()
        if began >= self._until:
            self._answer = _measured(lanes, launches)
            now = time.monotonic()
            self._until = now + max(_MIN_AGE, _PAUSES * (now - began))
        return self._answer


def _measured(lanes: Lanes, launches: RemoteCommands) -> list[CurrentUsage]:
    picture = process_tree.picture()
    found = [
        _usage(attempt.key, attempt, attempt.processes(picture) - {os.getpid()}, picture)
        for attempt in lanes.running.values()
        if attempt.process
    ]
    for step in launches.steps:
        if (key := step.attempt) is not None:
            found.append(_usage(key, step, step.processes(picture) - set(step.parents), picture))
    return found


def _usage(
    key: tuple[int, int, int], one: _MeasuredAttempt, processes: set[int], picture: process_tree.Picture
) -> CurrentUsage:
    memory = _KILOBYTES_IN_PAGE * sum(picture[each].resident for each in processes)
    peak = max(one.used.peak_memory, memory, one.memory.peak if one.memory else 0)
    figures = one.group.figures() if one.group is not None else None
    times = figures.times if figures is not None else None
    if figures is not None and figures.peak is not None:
        peak = max(figures.peak, memory)
    if times is None:
        spent = [process_times(each) for each in processes]
        times = (
            one.used.user_time + sum(user for user, _ in spent),
            one.used.system_time + sum(system for _, system in spent),
        )
    return CurrentUsage(*key, *times, memory, peak, len(processes))


def process_times(process: int) -> tuple[float, float]:
    """Return the user and system time of a process and the children it has reaped; of none if it has ended.

    In seconds.
    """
    try:
        with open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0, 0.0
    user, system, of_children, system_of_children = map(int, fields[11:15])
    return (user + of_children) / _TICKS, (system + system_of_children) / _TICKS
