"""Control groups that the attempts of a job use one after the other, and starting a program inside one.

Standard library only: this is loaded by the shepherd factory."""

import contextlib
import errno
import os
import resource
from collections.abc import Callable, Sequence

from headnode.adapters.processes import cgroups
from headnode.adapters.processes.cgroup_helper import CgroupFigures, TaskCgroup, TaskCgroups
from headnode.adapters.processes.program_start import GroupRefused, close_all, enter, same_processors

_MAX_GROUPS = 64  # groups: each has up to six open files
_FILES_FOR_ONE = 16  # of those that the shepherd may have open
_LEFTOVER = 2048  # kB: with more memory left in it, a group would tell the next attempt a wrong peak
_KB = 1024
_PART = 32  # bytes of a number
_PAGE = 4096  # bytes of a file of counts
_ALONE = 2  # links of a directory without others in it
_NO_LIMIT = {"v1": b"-1", "v2": b"max"}
Kind = tuple[bool, tuple[int, ...]]
"""Whether its memory is limited, and the processors of the machine that it is bound to."""


class ReusedCgroup(TaskCgroup):
    """A group of one attempt at a time.

    While no attempt has it, it has no limit and no process, and its peak is what little is left in it.  Times
    and kills are told as differences.
    """

    def __init__(self, made: TaskCgroup, switches: dict[str, int], kind: Kind) -> None:
        """`switches` are files as `open_switches` names them."""
        super().__init__(made.number, made.entrances, made.paths, made.version)
        self.kind = kind
        self.keeps_processes = False
        self._switches = switches
        self._read: dict[str, int] = {}  # descriptors of counts, by the name of the file
        self.spent = self._remembers()  # True: no other attempt may have it
        self._times, self._kills = (0.0, 0.0), 0  # until this attempt
        self._burst = 0  # 1: it had more than its limit before that was set

    def _remembers(self) -> bool:
        """Whether it has a peak that cannot be forgotten, as from Linux 5.19 to 6.11 in version 2."""
        told = self.keeps_memory and "peak" not in self._switches
        return told and (self.paths["memory"] / "memory.peak").exists()

    def entered(self) -> None:
        """Keep what one enters by: the next attempt needs it."""

    def close(self) -> None:
        """Close its files: no attempt gets it any more."""
        close_all((*self.entrances, *self._switches.values(), *self._read.values()))
        self.entrances, self._switches, self._read = [], {}, {}

    def members(self) -> set[int]:
        """Return its processes."""
        with contextlib.suppress(OSError):  # it was removed with the whole job
            return super().members() if self._is_lived_in("unified") else set()
        return set()

    def hold(self, most: int) -> bool:
        """Limit its memory to so many bytes; False: it has more already, and must be killed.

        Version 2 kills for it by itself.  Where the limit cannot be set, `keeps_memory` is False from now on.
        """
        text = str(most).encode()
        try:
            for name, value in (("whole", b"1"), ("limit", text), ("swap", text)):
                if name in self._switches:
                    os.write(self._switches[name], value)
        except OSError as error:
            if error.errno == errno.EBUSY:
                self._burst = 1
                return False
            self.keeps_memory, self.spent = False, True
        return True

    def figures(self) -> CgroupFigures:
        """Return what this attempt has used until now."""
        told = super().figures()
        if told.times is None:
            return told
        user, system = (max(0.0, now - before) for now, before in zip(told.times, self._times, strict=True))
        return told._replace(times=(user, system))

    def killed(self) -> int:
        """Return how many processes of this attempt were killed because there was no memory for them."""
        return max(0, super().killed() - self._kills) + self._burst

    def _counts(self, tree: str, file: str) -> dict[str, int]:
        with contextlib.suppress(OSError, ValueError):
            if file not in self._read:
                self._read[file] = os.open(self.paths[tree] / file, os.O_RDONLY | os.O_CLOEXEC)
            return cgroups.counts_in(os.pread(self._read[file], _PAGE, 0).decode())
        return {}

    def _peak(self) -> int | None:
        if (
            self.keeps_memory and "peak" in self._switches
        ):  # version 2 tells it by file since it was forgotten
            with contextlib.suppress(OSError, ValueError):
                return -(-int(os.pread(self._switches["peak"], _PART, 0)) // _KB)
            return None
        return super()._peak()

    def reset(self) -> bool:
        """Get ready for the next attempt; False: it cannot be."""
        if self.spent or self.has_shepherd:
            return False
        try:
            return not self._is_lived_in(*self.hierarchies) and self._forgets()
        except (OSError, ValueError):
            return False

    def _is_lived_in(self, *trees: str) -> bool:
        """Whether it has processes, or groups inside, as the tasks of root may make them."""
        if any(os.pread(file, _PART, 0) for file in self.entrances):
            return True
        return any(self.paths[tree].stat().st_nlink != _ALONE for tree in trees)

    def _forgets(self) -> bool:
        no_limit = _NO_LIMIT[self.version]
        for name, value in (("swap", no_limit), ("limit", no_limit), ("whole", b"0"), ("peak", b"0")):
            if name in self._switches:
                os.write(self._switches[name], value)
        told = super().figures()
        if told.times is not None:
            self._times = told.times
        self._kills, self._burst = self._kills + told.killed - self._burst, 0
        return told.peak is None or told.peak <= _LEFTOVER


class CgroupPool:
    """The groups of a shepherd that are used again."""

    def __init__(self, groups: TaskCgroups) -> None:
        self._groups = groups
        self._free: dict[Kind, list[ReusedCgroup]] = {}
        self._count = 0

    def take(self, processors: Sequence[int], *, limited: bool) -> ReusedCgroup | None:
        """Return a group that no attempt has; None: there are as many as this process has files for.

        Raises:  NoGroup.
        """
        kind = limited, tuple(processors)
        if free := self._free.get(kind):
            return free.pop()
        if self._count >= _most():
            other = next(filter(None, self._free.values()), None)
            if other is None:
                return None
            self._remove(other.pop())
        made, switches = self._groups.keep(processors, limited=limited)
        self._count += 1
        return ReusedCgroup(made, switches, kind)

    def start(self, group: ReusedCgroup, memory: int | None, start: Callable[[], int]) -> int:
        """Start a process by `start` while this one is in the group; return its number.

        It saves the fork that enters the group and becomes the program, which is two thirds of what a short
        task costs.  The limit of memory, in bytes, is set when this process has left: it could be killed for
        it otherwise.
        Raises:  GroupRefused when this process may not enter; what `start` raises.
        """
        way_out = self._groups.entrances_of_shepherd(group)
        if len(group.entrances) != len(way_out):  # it would stay in one, and be killed with it
            raise GroupRefused("the group of a task is in other hierarchies than its shepherd leaves")
        with same_processors():
            try:
                try:
                    enter(group.entrances)
                except OSError as error:
                    raise GroupRefused(f"the shepherd cannot enter a group: {error.strerror}") from None
                process = start()
            finally:
                try:
                    enter(way_out)
                except OSError:
                    group.has_shepherd = True
        if memory is not None and not group.has_shepherd and not group.hold(memory):
            self.kill(group)
        return process

    def kill(self, group: ReusedCgroup) -> None:
        """Kill all in a group; no other attempt gets it, because the helper kills later."""
        group.spent = True
        self._groups.kill(group)

    def give_back(self, group: ReusedCgroup) -> None:
        """Let the next attempt have a group, or remove it."""
        if group.reset():
            self._free.setdefault(group.kind, []).append(group)
        else:
            self._remove(group)

    def _remove(self, group: ReusedCgroup) -> None:
        self._count -= 1
        if not group.has_shepherd:
            self._groups.remove(group)
        group.close()


def _most() -> int:
    """Return how many groups this process has files for."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MAX_GROUPS if files == resource.RLIM_INFINITY else min(_MAX_GROUPS, files // _FILES_FOR_ONE)
