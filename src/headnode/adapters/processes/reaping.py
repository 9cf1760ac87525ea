"""Reaps the children of a shepherd, and counts for each attempt what its processes have used.

Standard library only: this is loaded by the shepherd factory."""

import os
import time

from headnode.adapters import process_tree
from headnode.adapters.processes.attempts import (
    Lanes,
    ShepherdAttempt,
    open_counters,
    read_counters,
    usage_of,
)
from headnode.adapters.processes.process_control import AttemptEndings
from headnode.adapters.processes.program_start import Removals
from headnode.adapters.processes.remote_steps import RemoteCommands
from headnode.adapters.processes.staging import ShepherdTransfers


class Reaper:
    """Knows whose each child is: an attempt's, or of what else a shepherd starts."""

    def __init__(
        self,
        children: process_tree.ChildList,
        lanes: Lanes,
        endings: AttemptEndings,
        launches: RemoteCommands,
        transfers: ShepherdTransfers,
        removals: Removals,
    ) -> None:
        self._lanes, self._endings, self._launches = lanes, endings, launches
        self._transfers, self._removals = transfers, removals
        self._children = children
        self._childless = True  # at the last look
        self.child_ended = True  # a child has ended, or may have, since the last look
        self.reaped_others = False  # than programs of attempts, since the loop has looked at all of its parts

    def reap(self) -> list[ShepherdAttempt]:
        """Reap what has died, and count what it used; return the attempts whose programs have ended."""
        over: list[ShepherdAttempt] = []
        self.child_ended = False
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                self._childless = True
                break
            self._childless = False
            if found is None:
                break
            attempt = self._lanes.by_process.get(found.si_pid)
            if attempt is None:
                self._reap_other(found.si_pid)
                continue
            moved = read_counters(attempt.counters)
            _, status, usage = os.wait4(found.si_pid, 0)
            attempt.ended = time.time()
            attempt.usage = (status, usage.ru_utime, usage.ru_stime, usage.ru_maxrss)
            attempt.used = attempt.used.after(usage_of(usage, moved))
            if attempt not in self._endings:
                over.append(attempt)
        return over

    def _reap_other(self, process: int) -> None:
        self.reaped_others = True
        owner = self._owner_of_stray(process) or self._launches.owner_of(process)
        moved = read_counters(open_counters(process))
        _, status, usage = os.wait4(process, 0)
        self._removals.reaped(process, status)
        self._transfers.reaped(process)
        if not self._launches.reaped(process) and owner is not None:
            owner.used = owner.used.after(usage_of(usage, moved))

    def _owner_of_stray(self, process: int) -> ShepherdAttempt | None:
        """Return the attempt to which an orphaned process belonged, or None if it is not known."""
        return self._endings.owner_of(process) or self._lanes.by_process.get(process_tree.session_of(process))

    def strays(self) -> set[int]:
        """Return the children that lived at the last look and that no part of the shepherd has started."""
        if self._childless:
            return set()
        strays = self._children.now() - self._lanes.by_process.keys()
        if strays:
            strays -= self._launches.parents | self._removals.processes | self._transfers.processes
        return strays
