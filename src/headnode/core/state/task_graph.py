"""The task graph of a job: which tasks may run next, and which processors of the job are free."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from functools import partial

from headnode.core.model.job import JobSpec
from headnode.core.model.node import NodeState
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.task import SPECIAL, TaskType
from headnode.core.state.job_events import NodeCores
from headnode.core.state.job_record import JobRecord, JobRun, spec_of
from headnode.core.state.task_lines import TaskLines, TaskParents, Waiter
from headnode.core.state.transitions import JobState, NodePhase, phase_on


def remove_cores(numbers: list[int], cores: Sequence[int]) -> list[int]:
    """Return the numbers that are not in `cores`; both ascend.

    >>> remove_cores([1, 2, 5, 7], (2, 3, 5)), remove_cores([1, 2, 5, 7], (2, 5))
    ([1, 7], [1, 7])
    """
    at = bisect_left(numbers, cores[0]) if cores else 0
    end = at + len(cores)
    if numbers[at:end] == list(cores):
        return numbers[:at] + numbers[end:]
    taken = set(cores)
    return [number for number in numbers if number not in taken]


def merge_cores(numbers: list[int], cores: Sequence[int]) -> list[int]:
    """Return the numbers of both, each once; both ascend, and so does the result.

    >>> merge_cores([1, 7], (2, 5)), merge_cores([1, 4], (2, 5)), merge_cores([1, 4], (4, 5))
    ([1, 2, 5, 7], [1, 2, 4, 5], [1, 4, 5])
    """
    if not cores:
        return numbers
    at = bisect_left(numbers, cores[0])
    if at == len(numbers) or cores[-1] < numbers[at]:
        return [*numbers[:at], *cores, *numbers[at:]]
    return sorted({*numbers, *cores})


class TaskGraph:
    """The task dependencies and free processors of one job, kept up to date by `apply_event`.

    `waiting` are the jobs that have tasks in `ready`; the graph keeps its own job in it, or out of it.
    Source: CCS, "Task execution" and the row *depend*: all tasks of that name must be over.
    """

    def __init__(self, record: JobRecord, run: JobRun, waiting: set[JobId]) -> None:
        self.spec: JobSpec = spec_of(record)
        self.run = run
        self._job, self._waiting = record.id, waiting
        self.paused_until = Instant(0.0)  # its service makes no instance before
        self.lines = TaskLines()
        self.work_out()

    def work_out(self) -> None:
        """Compute everything anew, after tasks were added or a finished task was requeued."""
        self.lines.describe(self.spec)
        self.ready: list[int] = []  # indexes of tasks that may be dispatched and have queued instances
        self.open = 0  # tasks that are not done
        self.remaining: dict[Waiter, int] = {}  # name or group -> its tasks that are not done
        self.waiters: dict[Waiter, list[int]] = {}
        self.blocks: dict[int, int] = {}  # task index -> how many names and groups it still waits for
        self.free: dict[str, list[int]] = {}
        self.lanes: dict[NodeCores, int] = {}  # place -> live instances there
        self._find_special()
        self._edges: dict[int, set[Waiter]] = {}
        for edge in self.spec.group_edges:
            self._edges.setdefault(edge.child, set()).add(edge.parent)
        self._count_open()
        self._sort_tasks()
        carries = partial(_carries, self.spec)  # no method: a graph that nobody has any more is freed at once
        self.parents = TaskParents(self.run.tasks, self.waiters, carries, self.lines.is_alike)
        self.take_stock()

    def _find_special(self) -> None:
        """Find the tasks that prepare and release nodes, and the service: their places in the task list."""
        self.prep: int | None = None
        self.release: int | None = None
        self.service: int | None = None
        self.tends_nodes = False  # something is to be done on each node before its tasks, or after them
        for progress in self.run.tasks:
            if progress.instances_made is not None:
                break
        else:
            return
        found = {task.kind: index for index, task in enumerate(self.spec.tasks) if task.kind in SPECIAL}
        self.prep, self.release = found.get(TaskType.NODE_PREP), found.get(TaskType.NODE_RELEASE)
        self.service = found.get(TaskType.SERVICE)
        self.tends_nodes = self.prep is not None or self.release is not None

    def counts(self, index: int) -> bool:
        """Whether the job needs this task to be done; not so for node preparation and release tasks."""
        return not self.tends_nodes or index not in (self.prep, self.release)

    @property
    def guards_nodes(self) -> bool:
        """Whether some node of the job may take no tasks of it yet, or any more."""
        return self.tends_nodes or bool(self.run.holdings)

    def is_entered(self, node: str) -> bool:
        """Whether anything of the job may be dispatched to a node: it is ready, and is not being cleaned."""
        holding = self.run.holdings.get(node)
        return holding is None or not (holding.prolog_due or holding.phase is NodePhase.CLEANING)

    def is_usable(self, node: str) -> bool:
        """Whether usual tasks may be dispatched to a node: it is prepared, and is not being released."""
        if not self.is_entered(node):
            return False
        if not self.tends_nodes:
            return True
        phase = phase_on(self.run.holdings, node)
        if self.prep is None and phase in (NodePhase.ASSIGNED, NodePhase.RELEASED):
            return True
        return phase is NodePhase.READY

    def lanes_on(self, node: str) -> bool:
        """Whether something of the job is on a node."""
        return any(name == node for place in self.lanes for name, _ in place)

    def idle(self) -> dict[str, list[int]]:
        """Return the processors that no task uses, or that are being prepared for tasks to come."""
        preparing = {n for n, each in self.run.holdings.items() if each.phase is NodePhase.PREPARING}
        if not preparing:
            return self.free
        held = self.run.allocation
        return {node: list(held[node]) if node in preparing else free for node, free in self.free.items()}

    def _count_open(self) -> None:
        for index, progress in enumerate(self.run.tasks):
            waits = progress.queued.count or progress.waits is not None
            if (waits or progress.live or progress.endless) and self.counts(index):
                self.open += 1
                for key in _carries(self.spec, index):
                    self.remaining[key] = self.remaining.get(key, 0) + 1

    def _sort_tasks(self) -> None:
        for index, progress in enumerate(self.run.tasks):
            awaited = (
                [key for key in self._awaits(index) if self.remaining.get(key)] if self.remaining else ()
            )
            if awaited:
                self.blocks[index] = len(awaited)
                for key in awaited:
                    self.waiters.setdefault(key, []).append(index)
            elif progress.queued.count or progress.endless:
                self.ready.append(index)
        self._note_ready()

    def _note_ready(self) -> None:
        if self.ready:
            self._waiting.add(self._job)
        else:
            self._waiting.discard(self._job)
            if not self._waiting:
                self._waiting.clear()  # else its table stays large, and each pass walks through it

    def take_stock(self) -> None:
        """Work out which processors of the allocation no live instance uses."""
        self.lanes = {}
        self.lines.clear()
        for index, progress in enumerate(self.run.tasks):
            for instance, live in progress.live.items():
                if live.started is not None or live.moved:
                    self.lines.last(live.placement, index, instance)
                self.lanes[live.placement] = self.lanes.get(live.placement, 0) + 1
                self.lines.join(live.placement, index, 1)
        if not self.lanes:
            self.free = {node: list(processors) for node, processors in self.run.allocation.items()}
            return
        taken: dict[str, set[int]] = {}
        for place in self.lanes:
            for node, processors in place:
                taken.setdefault(node, set()).update(processors)
        self.free = {
            node: remove_cores(list(processors), sorted(taken[node])) if node in taken else list(processors)
            for node, processors in self.run.allocation.items()
        }

    def _awaits(self, index: int) -> set[Waiter]:
        task = self.spec.tasks[index]
        groups = self._edges.get(task.group, set()) if task.group is not None else set()
        return groups.union(task.depends_on)

    def awaited(self, index: int) -> list[Waiter]:
        """Return the names and groups that a task still waits for."""
        return sorted((key for key in self._awaits(index) if self.remaining.get(key)), key=str)

    def occupy(self, place: NodeCores, index: int, instances: int) -> None:
        """Take the processors of a place, once for all instances that go there; `index` is of their task."""
        if place not in self.lanes:
            for node, processors in place:
                if node in self.free:  # not when what is suspended is released: it holds nothing
                    self.free[node] = remove_cores(self.free[node], processors)
        self.lanes[place] = self.lanes.get(place, 0) + instances
        self.lines.join(place, index, instances)

    def vacate(self, place: NodeCores, index: int, instance: int) -> None:
        """One instance of a task left a place; the last one frees its processors."""
        self.lines.leave(place, index, instance)
        left = self.lanes[place] - 1
        if left:
            self.lanes[place] = left
            return
        del self.lanes[place]
        for node, processors in place:
            if node in self.free:
                self.free[node] = merge_cores(self.free[node], processors)

    def task_changed(self, index: int) -> None:
        """A task's instances were dispatched, ended or came back: put `ready` right."""
        progress = self.run.tasks[index]
        self.parents.changed(index)
        listed = bool(self.ready) and _holds(self.ready, index)
        wanted = (progress.queued.count > 0 or progress.endless) and index not in self.blocks
        if wanted == listed:
            return
        if wanted:
            insort(self.ready, index)
        else:
            del self.ready[bisect_left(self.ready, index)]
        self._note_ready()

    def task_done(self, index: int) -> None:
        """The last instance of a task is over: those that waited for nothing else may run."""
        self.open -= 1
        self.parents.done(index)
        for key in _carries(self.spec, index) if self.remaining else ():
            self.remaining[key] -= 1
            if self.remaining[key] == 0:
                for waiter in self.waiters.pop(key, ()):
                    self.blocks[waiter] -= 1
                    if self.blocks[waiter] == 0:
                        del self.blocks[waiter]
                        self.parents.freed(waiter)
                        self.task_changed(waiter)

    def has_failed_parent(self, index: int) -> bool:
        """Whether a task that this one depends on has failed."""
        return not self.parents.failed.isdisjoint(self._awaits(index))

    def dependents(self, index: int) -> set[int]:
        """Return every task that waits for this one, directly or through others."""
        found: set[int] = set()
        fresh = {index}
        while fresh:
            keys = {key for task in fresh for key in _carries(self.spec, task)}
            fresh = {task for key in keys for task in self.waiters.get(key, ())} - found
            found |= fresh
        return found


def _carries(spec: JobSpec, index: int) -> Iterator[Waiter]:
    """Yield the name and the group of a task, if it has them: others may wait for these."""
    task = spec.tasks[index]
    if task.name:
        yield task.name
    if task.group is not None:
        yield task.group


def _holds(ascending: Sequence[int], number: int) -> bool:
    at = bisect_left(ascending, number)
    return at < len(ascending) and ascending[at] == number


def is_blocked(record: JobRecord) -> bool:
    """Whether nothing of a queued job could be dispatched: what is left is held, or waits for instances."""
    run = record.run
    if run is None or record.state is not JobState.QUEUED:
        return False
    if all(progress.waits is None for progress in run.tasks):
        return False
    return not TaskGraph(record, run, set()).ready


SERVING_STATES = (NodeState.READY, NodeState.PAUSED)
"""States of nodes that take tasks of jobs that they are part of."""


def has_parts(graph: TaskGraph) -> bool:
    """Whether each task of the job has processors of its own."""
    return bool(graph.run.parts) and len(graph.run.parts) == len(graph.spec.tasks)
