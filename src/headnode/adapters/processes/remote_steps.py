"""Commands that a task launches on other nodes: started, measured together, and ended here.

Standard library only: this is loaded by the shepherd factory."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from headnode.adapters import process_tree
from headnode.adapters.processes.attempt_limits import (
    ended_by_limit,
    for_want_of_memory,
    for_want_of_processes,
)
from headnode.adapters.processes.attempts import MemoryUse
from headnode.adapters.processes.cgroup_helper import NoGroup, TaskCgroup, TaskCgroups
from headnode.adapters.processes.job_journal import Key
from headnode.adapters.processes.limits import Bounds, RequestedLimit, most_processes
from headnode.adapters.processes.remote_command import ENTERED, TASK, LaunchOrder, _be_parent
from headnode.core.model.outcome import RemoteUsage, ResourceUsage

_MAX_MESSAGE = 1024  # bytes of what one of our processes tells of its command


class RemoteStep:
    """What was launched under one name: that of an attempt, or of a single launch that belongs to none."""

    def __init__(
        self, name: str, bounds: Bounds, group: TaskCgroup | None, limits: tuple[RequestedLimit, ...] = ()
    ) -> None:
        """`limits` are those of each of its processes, beside those of its user."""
        self.name, self.bounds, self.group, self.limits = name, bounds, group, limits
        self.temporary = ""  # the temporary directory that was made for it
        self.memory: MemoryUse | None = None  # what was seen of it
        self.used = ResourceUsage()
        self.why = ""  # it had more memory than it may have
        self._reached = ""  # a limit that has ended one of its commands
        self.numbers: set[str] = set()  # of its launches
        self._tells: dict[int, int] = {}  # process of ours: a descriptor that tells what its command used

    @property
    def attempt(self) -> Key | None:
        """Task, instance and attempt that launched it; None: it belongs to none."""
        owner, _, attempt = self.name.partition("=")
        if owner != TASK:
            return None
        task, instance, number = map(int, attempt.split(".")[1:])
        return task, instance, number

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
            told = os.read(tells, _MAX_MESSAGE)
        except BlockingIOError:  # it was killed, and what it started may have got its end
            told = b""
        os.close(tells)
        if told:
            *values, status = json.loads(told)
            usage = ResourceUsage(*values)
            self.used = self.used.after(usage)
            time = usage.user_time + usage.system_time
            self._reached = self._reached or ended_by_limit(status, time, self.limits)

    def processes(self, picture: process_tree.Picture) -> set[int]:
        """Return its living processes, if they can be identified."""
        grouped = self.group.members() & picture.keys() if self.group is not None else set()
        me, sessions = os.getpid(), set(self._tells)
        orphans = {p for p, seen in picture.items() if seen.parent == me and seen.session in sessions}
        return process_tree.descendants(sessions | orphans, picture) | grouped

    def wants_memory(self) -> str:
        """Return the sentence for one that was killed for want of memory, all or in part; else nothing."""
        if self.why or self.group is None or not self.group.killed():
            return self.why
        return for_want_of_memory(self.bounds, self.group.figures().peak)

    def total(self) -> RemoteUsage:
        """Return what it used, now that nothing of it runs."""
        used = self.used
        peak = max(used.peak_memory, self.memory.peak if self.memory else 0)
        why = self.wants_memory() or self._reached
        if self.group is not None:
            figures = self.group.figures()
            peak = peak if figures.peak is None else figures.peak
            if figures.times is not None:
                used = used._replace(user_time=figures.times[0], system_time=figures.times[1])
            why = why or for_want_of_processes(figures.refused, self.limits)
        average = min((self.memory.average if self.memory else 0) or peak, peak)
        return RemoteUsage(used._replace(peak_memory=peak, average_memory=average), why)


MARKER = "HEADNODE_LAUNCHED"  # which launch a process belongs to
_TICK = 0.01  # seconds between two looks, at least


def step_name(task: str) -> str:
    """Return the name of what an attempt (job.task.instance.attempt) of another node has here."""
    return f"{TASK}={task}"


class StepDirectories(Protocol):
    """Makes and removes the temporary directories of attempts of other nodes."""

    def make_elsewhere(self, path: str) -> bool:
        """Make one; False if it is there.

        Raises:  CannotStart.
        """

    def remove(self, path: str) -> None:
        """Remove one."""


class RemoteCommands:
    """The commands launched here, until ordered to end: daemons outlive the commands that start them."""

    def __init__(
        self,
        run_directory: int,
        groups: TaskCgroups | None,
        files: StepDirectories,
        watch: Callable[[RemoteStep], None],
        report: Callable[[list[Any]], None],
    ) -> None:
        """`watch` gets steps whose memory is to be checked; `report` sends a message to the agent."""
        self._run, self._groups, self._files = run_directory, groups, files
        self._watch, self._report = watch, report
        self._outposts: dict[str, RemoteStep] = {}
        self._settled: dict[
            str, RemoteUsage
        ] = {}  # what attempts have used here before, by the outpost's name
        self._owners: dict[int, RemoteStep] = {}  # whose the processes are that were seen ending
        self._parents: dict[str, int] = {}  # by number; our process, which may have ended
        self._alive: set[int] = set()  # those of our processes that have not been reaped
        self._waiting: dict[str, LaunchOrder] = {}  # those that may not start yet, by number
        self._force_at: dict[str, float] = {}  # by number of a launch or name of an outpost
        self._asked: set[str] = set()
        self.next_look = float("inf")

    def begin(self, order: LaunchOrder) -> None:
        """Start a command.

        Raises:  OSError; CannotStart if its temporary directory cannot be made.
        """
        if order.number in self._parents:
            return
        outpost = self._outpost(order)
        hears, tells = os.pipe()
        process = os.fork()
        if process == 0:
            _be_parent(self._run, order, outpost.group, tells)
        os.close(tells)
        entered = os.read(hears, 1)  # at once: it is the first that our process does
        os.set_blocking(hears, False)
        outpost.has(order.number, process, hears)
        if entered != ENTERED and outpost.group is not None:
            self._remove_group(outpost)
        self._parents[order.number] = process
        self._alive.add(process)

    def keep(self, order: LaunchOrder) -> None:
        """Let a command wait until it may start."""
        self._waiting.setdefault(order.number, order)

    def take_kept(self) -> list[LaunchOrder]:
        """Return those that wait, which are to start now."""
        kept: list[LaunchOrder] = []
        if self._waiting:
            kept, self._waiting = list(self._waiting.values()), {}
        return kept

    def _outpost(self, order: LaunchOrder) -> RemoteStep:
        name = order.outpost or order.number
        outpost = self._outposts.get(name)
        if outpost is None:
            limits = tuple(order.limits)
            made = order.temporary and order.outpost and self._files.make_elsewhere(order.temporary)
            outpost = self._outposts[name] = RemoteStep(name, order.bounds, self._group(order), limits)
            outpost.temporary = order.temporary if made else ""
            if order.outpost:
                self._watch(outpost)
        return outpost

    def _group(self, order: LaunchOrder) -> TaskCgroup | None:
        """Return a group for an outpost, so that nothing gets away from it; None where there is none."""
        if self._groups is None:
            return None
        processes = most_processes(order.limits)
        if processes is not None:
            processes += 1  # our process, which is in it, too; an mpiexec launches one command on each node
        try:
            return self._groups.make(order.bounds.most_memory, processes, order.processors)
        except NoGroup as why:
            print(f"a launched command has no group: {why}", file=sys.stderr)  # noqa: T201 (the shepherds' log)
            return None

    def reaped(self, process: int) -> bool:
        """A child of this process has ended; return whether it was one of ours, which an outpost measures."""
        if process not in self._alive:
            return False
        self._alive.discard(process)
        for outpost in self._outposts.values():
            if process in outpost.parents:
                outpost.reaped(process)
                self._report_killed(outpost, process)
        return True

    def _report_killed(self, outpost: RemoteStep, process: int) -> None:
        """Tell why a command ended with all that might have told it itself."""
        why = outpost.wants_memory()
        for number, parent in self._parents.items() if why else ():
            if parent == process:
                self._report(["launch-failed", number, why])

    def owner_of(self, process: int) -> RemoteStep | None:
        """Return the outpost that is being ended and had this process, which was left to us."""
        return self._owners.get(process)

    @property
    def parents(self) -> frozenset[int]:
        """The live processes of remote steps, which are not orphans."""
        return frozenset(self._alive)

    @property
    def empty(self) -> bool:
        """Whether nothing is launched here, nor waits to be."""
        return not (self._outposts or self._alive or self._waiting)

    @property
    def outposts(self) -> Iterable[RemoteStep]:
        """All that there are."""
        return self._outposts.values()

    @property
    def steps(self) -> Iterable[RemoteStep]:
        """What is here."""
        return self._outposts.values()

    def of_attempts(self, job: int, keys: Iterable[Key] | None) -> list[RemoteStep]:
        """Return what attempts of a job have launched here from other nodes; None: all that is here."""
        if keys is None:
            return list(self.steps)
        names = {step_name(".".join(map(str, (job, *key)))) for key in keys}
        return [step for name, step in self._outposts.items() if name in names]

    def end(self, numbers: Iterable[str], grace: float) -> None:
        """End what these launches started, and all that it did; kill it after `grace` seconds."""
        for number in numbers:
            self._waiting.pop(number, None)
            if number in self._parents:
                self._end(number, grace)

    def end_task(self, task: str) -> None:
        """Kill whatever an attempt (job.task.instance.attempt) of another node has running here.

        What it used here is told when nothing of it runs, each time.
        """
        name = step_name(task)
        self._waiting = {number: each for number, each in self._waiting.items() if each.outpost != name}
        self._end(name, 0.0)

    def end_above(self, outpost: RemoteStep, why: str) -> None:
        """End an outpost that has more memory than it may."""
        outpost.why = outpost.why or why
        self._end(outpost.name, 0.0)

    def end_all(self) -> None:
        """Kill everything that was launched here."""
        self._waiting.clear()
        self.end([number for number in self._parents if number not in self._force_at], 0.0)

    def force(self) -> None:
        """Let nothing that is being ended have any grace left."""
        for number in self._force_at:
            self._end(number, 0.0)

    def _end(self, number: str, grace: float) -> None:
        force_at = time.monotonic() + grace
        self._force_at[number] = min(force_at, self._force_at.get(number, force_at))
        self.next_look = 0.0

    def look(self, mains: Iterable[int]) -> None:
        """Send what is due; `mains` are the first processes of attempts, which no launch owns."""
        began = time.monotonic()
        if began < self.next_look:
            return
        picture = process_tree.picture()
        own, me = {*mains, *self._alive}, os.getpid()
        strays = [process for process, seen in picture.items() if seen.parent == me and process not in own]
        for number in list(self._force_at):
            self._work_on(number, picture, strays)
        now = time.monotonic()
        self.next_look = now + max(_TICK, 4 * (now - began)) if self._force_at else float("inf")

    def _work_on(self, number: str, picture: process_tree.Picture, strays: list[int]) -> None:
        outpost = next((o for o in self._outposts.values() if number == o.name or number in o.numbers), None)
        parents = self._parents_of(number, outpost)
        members = self._members(number, outpost, parents, picture, strays)
        if outpost is not None:
            self._owners.update(dict.fromkeys(members, outpost))
        if not members and not parents:
            self._is_over(number, outpost)
        elif time.monotonic() >= self._force_at[number]:
            process_tree.send(members, signal.SIGKILL)
        elif number not in self._asked:
            self._asked.add(number)
            process_tree.send(members - parents, signal.SIGTERM)
            process_tree.send(members, signal.SIGCONT)

    def _parents_of(self, number: str, outpost: RemoteStep | None) -> set[int]:
        """Return those of our processes for a launch, or a whole outpost, that are not reaped."""
        if outpost is not None and number == outpost.name:
            return set(outpost.parents)
        return {self._parents[number]} & self._alive if number in self._parents else set()

    def _members(
        self,
        number: str,
        outpost: RemoteStep | None,
        parents: set[int],
        picture: process_tree.Picture,
        strays: list[int],
    ) -> set[int]:
        """Return the living processes of a launch, or of a whole outpost."""
        session = self._parents.get(number, 0)
        marker = (number if number.startswith(f"{TASK}=") else f"{MARKER}={number}").encode()
        roots = [
            p
            for p in strays
            if (picture[p].session == session and session) or process_tree.has_marker(p, marker)
        ]
        grouped = outpost.group.members() if outpost is not None and outpost.group is not None else set()
        if outpost is not None and number != outpost.name and outpost.numbers != {number}:
            grouped = {process for process in grouped if process_tree.has_marker(process, marker)}
        return process_tree.descendants([*roots, *parents], picture) | (grouped & picture.keys())

    def _is_over(self, number: str, outpost: RemoteStep | None) -> None:
        self._parents.pop(number, None)
        del self._force_at[number]
        self._asked.discard(number)
        if outpost is not None and number == outpost.name:
            self._settle(outpost)
        if number.startswith(f"{TASK}="):
            used = self._settled.get(number, RemoteUsage())
            self._report(["launches-ended", number.partition("=")[2], used])

    def _settle(self, outpost: RemoteStep) -> None:
        """Keep what an outpost used, and forget it."""
        total = outpost.total()
        self._remove_group(outpost)
        if outpost.temporary:
            self._files.remove(outpost.temporary)
        del self._outposts[outpost.name]
        self._owners = {process: each for process, each in self._owners.items() if each is not outpost}
        for number in outpost.numbers:
            self._parents.pop(number, None)
        if outpost.name.startswith(f"{TASK}="):
            self._settled[outpost.name] = self._settled.get(outpost.name, RemoteUsage()).after(total)

    def _remove_group(self, outpost: RemoteStep) -> None:
        if outpost.group is not None and self._groups is not None:
            outpost.group.entered()
            self._groups.remove(outpost.group)
        outpost.group = None
