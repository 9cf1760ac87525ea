"""Where attempts run, in a control group of their own or among the others, and what is known of them then.

An attempt has a group if it is held to memory or processes or has several processors, and else as long as
groups take little of the time.
Standard library only: this is loaded by the shepherd factory.
"""

import sys
import time

from headnode.adapters.processes.attempts import Attempt
from headnode.adapters.processes.bounds import most_processes, without_processes
from headnode.adapters.processes.endings_by_limit import by_limit, for_want_of_processes
from headnode.adapters.processes.endings_by_memory import Kills, by_memory
from headnode.adapters.processes.limited_start import GroupRefused
from headnode.adapters.processes.spawning import CannotStart, spawn
from headnode.adapters.processes.task_groups import Figures, Group, Groups, NoGroup, kills_on_machine


class Lodging:
    """Starts attempts, and settles what they used."""

    def __init__(self, output_directory: int, groups: Groups | None) -> None:
        self._output, self._groups = output_directory, groups
        self._kills = Kills(kills_on_machine if groups is None else groups.killed_outside)

    def start(self, attempt: Attempt) -> int:
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

    def _start_in(self, group: Group, attempt: Attempt) -> int:
        program = attempt.program
        if group.keeps_processes:
            program = program._replace(limits=without_processes(program.limits))
        try:
            process = spawn(program, self._output, attempt.bounds.processors, group.entrances)
        except (CannotStart, GroupRefused):
            self._remove(group)
            raise
        group.entered()
        attempt.group = group
        return process

    def _group_for(self, attempt: Attempt) -> Group | None:
        if self._groups is None:
            return None
        bounds, processes = attempt.bounds, most_processes(attempt.program.limits)
        if not _needs_group(attempt) and not self._groups.may_measure():
            return None
        try:
            return self._groups.make(bounds.most_memory, processes, bounds.processors)
        except NoGroup as why:
            self._do_without(str(why))
            return None

    def _do_without(self, why: str) -> None:
        """Make no more groups: what they would keep is looked at instead."""
        print(f"tasks get no control groups of their own from now on: {why}", file=sys.stderr)  # noqa: T201 (the shepherds' log)
        self._groups = None
        self._kills = Kills(kills_on_machine)

    def kill(self, attempt: Attempt) -> None:
        """Kill all of an attempt that has a group, also what runs as somebody else by now."""
        if self._groups is not None and attempt.group is not None:
            self._groups.kill(attempt.group)

    def leave(self, attempt: Attempt) -> str:
        """Settle what an attempt used, now that nothing of it runs; say which limit ended it, if one did."""
        if attempt.group is None:
            unwell = attempt.usage is not None and attempt.usage[0] != 0
            killed = self._kills.fresh() if unwell else 0
            return by_memory(attempt, killed) or by_limit(attempt)
        figures = attempt.figures = attempt.group.figures()
        if figures.times is not None:
            attempt.used = attempt.used._replace(user=figures.times[0], system=figures.times[1])
        self._remove(attempt.group)
        return by_memory(attempt, figures.killed) or by_limit(attempt) or _by_processes(attempt, figures)

    def _remove(self, group: Group) -> None:
        group.entered()
        if self._groups is not None:
            self._groups.remove(group)


def _needs_group(attempt: Attempt) -> bool:
    held = attempt.bounds.most_memory is not None or most_processes(attempt.program.limits) is not None
    return held or attempt.bounds.parallel


def _by_processes(attempt: Attempt, figures: Figures) -> str:
    """Return the sentence for an attempt that failed after it could not start another process."""
    if attempt.usage is None or attempt.usage[0] == 0 or attempt.verdict[0] != "exited":
        return ""
    return for_want_of_processes(figures.refused, attempt.program.limits)
