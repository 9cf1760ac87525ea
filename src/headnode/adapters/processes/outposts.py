"""What an attempt has on a node that is not its first: all that it launched there, together.

It is held to the memory and the limits that the attempt may have there, and measured, so that the result of
the attempt can tell what it used on all its nodes.
Standard library only: this is loaded by the shepherd factory.
"""

import os
from collections.abc import Mapping
from typing import NamedTuple

from headnode.adapters.processes import process_tree
from headnode.adapters.processes.bounds import Bounds
from headnode.adapters.processes.endings_by_limit import ended_by_limit, for_want_of_processes
from headnode.adapters.processes.endings_by_memory import for_want_of_memory
from headnode.adapters.processes.limits import Asked
from headnode.adapters.processes.memory import Memory
from headnode.adapters.processes.task_groups import Group
from headnode.adapters.processes.used import Used

_LONGEST = 256  # bytes of what one of our processes tells of its command


class Total(NamedTuple):
    """What an attempt used on a node.  Memory in kB.

    `why`: a sentence, when it wanted for memory or reached a limit there.
    """

    used: Used = Used()
    peak: int = 0
    average: int = 0
    why: str = ""

    def and_also(self, other: "Total") -> "Total":
        """Return what both are together, one after the other on the same node."""
        peak, average = max(self.peak, other.peak), max(self.average, other.average)
        return Total(self.used.and_also(other.used), peak, average, self.why or other.why)


class Outpost:
    """What was launched under one name: that of an attempt, or of a single launch that belongs to none."""

    def __init__(
        self, name: str, bounds: Bounds, group: Group | None, limits: tuple[Asked, ...] = ()
    ) -> None:
        """`limits` are those of each of its processes, beside those of its user."""
        self.name, self.bounds, self.group, self.limits = name, bounds, group, limits
        self.memory: Memory | None = None  # what was seen of it
        self.used = Used()
        self.why = ""  # it had more memory than it may have
        self._reached = ""  # a limit that has ended one of its commands
        self.numbers: set[str] = set()  # of its launches
        self._largest = 0  # kB, the most that one process had
        self._tells: dict[int, int] = {}  # process of ours: a descriptor that tells what its command used

    @property
    def parents(self) -> Mapping[int, int]:
        """Our processes that are not reaped."""
        return self._tells

    def has(self, number: str, process: int, tells: int) -> None:
        """Take in a launch: our process, and where it tells what its command used."""
        self.numbers.add(number)
        self._tells[process] = tells

    def reaped(self, process: int) -> None:
        """One of our processes has ended; hear what its command used."""
        tells = self._tells.pop(process, -1)
        if tells < 0:
            return
        try:
            words = os.read(tells, _LONGEST).split()
        except BlockingIOError:  # it was killed, and what it started may have got its end
            words = []
        os.close(tells)
        if len(words) == 6:
            user, system, read, written, largest, status = words
            self.used = self.used.and_also(Used(float(user), float(system), int(read), int(written)))
            self._largest = max(self._largest, int(largest))
            time = float(user) + float(system)
            self._reached = self._reached or ended_by_limit(int(status), time, self.limits)

    def processes(self, picture: process_tree.Picture) -> set[int]:
        """Return its living processes, as far as they can be told."""
        grouped = self.group.members() & picture.keys() if self.group is not None else set()
        me, sessions = os.getpid(), set(self._tells)
        orphans = {p for p, seen in picture.items() if seen.parent == me and seen.session in sessions}
        return process_tree.descendants(sessions | orphans, picture) | grouped

    def wants_memory(self) -> str:
        """Return the sentence for one that was killed for want of memory, all or in part; else nothing."""
        if self.why or self.group is None or not self.group.killed():
            return self.why
        return for_want_of_memory(self.bounds, self.group.figures().peak)

    def total(self) -> Total:
        """Return what it used, now that nothing of it runs."""
        peak, used = max(self._largest, self.memory.peak if self.memory else 0), self.used
        why = self.wants_memory() or self._reached
        if self.group is not None:
            figures = self.group.figures()
            peak = peak if figures.peak is None else figures.peak
            if figures.times is not None:
                used = used._replace(user=figures.times[0], system=figures.times[1])
            why = why or for_want_of_processes(figures.refused, self.limits)
        average = min((self.memory.average if self.memory else 0) or peak, peak)
        return Total(used, peak, average, why)
