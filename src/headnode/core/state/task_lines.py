"""Tasks of a job that are dispatched ahead: behind others at the same place, or behind their parents.

Different tasks of one kind run one after the other at their place.  Tasks that wait for parents only may be
dispatched before these have ended: the node starts them then (decision 0044).
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Set

from headnode.core.model.job import JobSpec
from headnode.core.model.outcome import AttemptOfTask
from headnode.core.model.quantities import Seconds
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.job_events import NodeCores
from headnode.core.state.job_record import LiveAttempt, TaskProgress
from headnode.core.state.transitions import TaskState

AHEAD = 0.1  # seconds of work handed to a node in advance
MAX_AHEAD = 64  # instances
_WEIGHT = 0.125  # of the newest run time in the mean
_MAX_RUN_TIME = 10 * AHEAD  # seconds: a longer run time counts as this, so that short tasks count again soon


def ahead(mean: float) -> int:
    """Return how many instances of this mean run time (seconds) are so much work; at least 1.

    >>> ahead(0.001), ahead(0.03), ahead(7.0)
    (64, 3, 1)
    """
    return max(1, min(int(AHEAD / max(mean, AHEAD / MAX_AHEAD)), MAX_AHEAD))


class TaskKinds:
    """Which tasks of a description may run behind each other, worked out for each when it is asked for.

    Those of equal descriptions are equal, whatever they have worked out so far.
    """

    __slots__ = ("_found", "_known", "_same", "_spec")

    def __init__(self, spec: JobSpec) -> None:
        self._spec = spec
        self._found: dict[int, object] = {}  # by the index of the task
        self._known: dict[object, object] = {}  # equal kinds are one object
        self._same = 0  # so many tasks at the beginning of the list are known to be of one kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskKinds) and other._spec == self._spec

    def of(self, index: int) -> object:
        """Return the same object for tasks that may run behind each other; None: dispatched singly."""
        if index not in self._found:
            kind = _kind(self._spec, self._spec.tasks[index])
            self._found[index] = self._known.setdefault(kind, kind)
        return self._found[index]

    def are_same(self, end: int) -> bool:
        """Return whether all tasks before this index may run behind each other; each is looked at once."""
        first = self.of(0)
        while self._same < end and first is not None and self.of(self._same) is first:
            self._same += 1
        return self._same >= end


class TaskLines:
    """Which tasks of a job may run behind each other, what is at each place, and how long tasks took last."""

    def __init__(self) -> None:
        """`describe` comes before anything else."""
        self._mean: float | None = None  # seconds; None: nothing has ended yet
        self.members: dict[NodeCores, dict[int, int]] = {}  # live instances at each place, by task index
        self.lasting: dict[NodeCores, set[tuple[int, int]]] = {}  # of these, what nothing may run behind
        self._kinds: TaskKinds

    def describe(self, spec: JobSpec) -> None:
        """Go by this description from now on."""
        self._kinds = TaskKinds(spec)

    def join(self, place: NodeCores, index: int, instances: int) -> None:
        """Instances of a task went to a place."""
        members = self.members.setdefault(place, {})
        members[index] = members.get(index, 0) + instances

    def last(self, place: NodeCores, index: int, instance: int) -> None:
        """An instance at a place is known to run, or had another place before: nothing goes behind it."""
        self.lasting.setdefault(place, set()).add((index, instance))

    def clear(self) -> None:
        """Nothing is at any place."""
        self.members.clear()
        self.lasting.clear()

    def leave(self, place: NodeCores, index: int, instance: int) -> None:
        """An instance of a task left a place."""
        lasting = self.lasting.get(place)
        if lasting is not None:
            lasting.discard((index, instance))
            if not lasting:
                del self.lasting[place]
        members = self.members[place]
        members[index] -= 1
        if not members[index]:
            del members[index]
            if not members:
                del self.members[place]

    def note_end(self, lasted: Seconds | None) -> None:
        """An attempt is over after so many seconds; None: it was given back, for another took too long."""
        if lasted is None:
            self._mean = max(self._mean or 0.0, AHEAD)
            return
        seconds = min(max(lasted, 0.0), _MAX_RUN_TIME)
        self._mean = seconds if self._mean is None else self._mean + _WEIGHT * (seconds - self._mean)

    def is_alike(self, index: int) -> bool:
        """Whether a task may run behind others, and others behind it."""
        return self._kinds.of(index) is not None

    @property
    def depth(self) -> int:
        """Return how many tasks may be sent to one place at once: more than 1 if those before were short."""
        return 1 if self._mean is None else ahead(self._mean)

    def line(self, ready: list[int], position: int, places: int) -> list[int]:
        """Return the alike tasks that follow each other in `ready`: no more than so many places may have."""
        depth = self.depth
        if depth == 1 or not self.is_alike(ready[position]):
            return []
        most = ready[position : position + 2 * places * depth]
        if not most or self._kinds.are_same(most[-1] + 1):
            return most
        found: list[int] = []
        for index in most:
            if not self.are_alike(ready[position], index):
                break
            found.append(index)
        return found

    def are_alike(self, one: int, other: int) -> bool:
        """Whether one of two tasks may run behind the other."""
        return self._kinds.of(one) is self._kinds.of(other) is not None

    def lanes(self, line: list[int], depth: int) -> list[tuple[NodeCores, int]]:
        """Return the places with less than half of `depth`, and how many more of a line each takes.

        All that is there is of the same kind, and nothing there is known to take long, or has moved.
        """
        kind = self._kinds.of(line[0])
        return [
            (place, depth - len(members))
            for place, members in self.members.items()
            if len(members) <= depth // 2 and place not in self.lasting and self._are_all(members, kind)
        ]

    def _are_all(self, indexes: Iterable[int], kind: object) -> bool:
        of = self._kinds.of
        return all(of(index) is kind for index in indexes)


def _kind(spec: JobSpec, task: TaskSpec) -> object:
    """Return what decides where a task may go, and what its end may mean for others; None: it goes alone."""
    alone = task.kind is not TaskType.BASIC or task.exclusive or task.distribution is not None
    if alone or task.stages or spec.interactive:
        return None
    if spec.fail_on_task_failure or task.fail_job_on_failure:
        return None  # nothing is to start after the one that fails
    return (task.minimum, task.maximum, task.required_nodes, task.node_group, task.needs, task.rerunnable)


def deal(line: list[int], room: Mapping[NodeCores, int]) -> list[tuple[int, NodeCores]]:
    """Return the place of each task, in their order: the places take turns while they have room.

    >>> [place for _, place in deal([0, 1, 2, 3], {"a": 1, "b": 2})]
    ['a', 'b', 'b']
    """
    left = dict(room)
    dealt: list[tuple[int, NodeCores]] = []
    waiting = iter(line)
    while left:
        for place in list(left):
            index = next(waiting, None)
            if index is None:
                return dealt
            dealt.append((index, place))
            left[place] -= 1
            if not left[place]:
                del left[place]
    return dealt


def share(waiting: int, depth: int, places: int) -> int:
    """Return how many of so many tasks each place should have: never more than half of a fair share."""
    return max(1, min(depth, waiting // (2 * max(1, places))))


def on_nodes(place: NodeCores, nodes: Set[str]) -> bool:
    """Whether a place is on one node, and that is one of these."""
    return len(place) == 1 and place[0][0] in nodes


Waiter = str | int
"""What a task may wait for: a task name, or a task group's number."""

MAX_PARENTS = 32  # live attempts that one task is dispatched behind


class TaskParents:
    """The tasks of a job that wait only for parents of which nothing is queued; derived from its graph.

    `soon` are their indexes, ascending.  A task that was given back is not among them: it waits until its
    parents have ended.
    """

    def __init__(
        self,
        tasks: list[TaskProgress],
        waiters: Mapping[Waiter, list[int]],
        carries: Callable[[int], Iterable[Waiter]],
        is_alike: Callable[[int], bool],
    ) -> None:
        """`waiters` wait for each name or group; `carries` are those of a task.

        `is_alike` tells whether a task may run behind others, and others behind it.
        """
        self._tasks, self._waiters, self._carries, self._is_alike = tasks, waiters, carries, is_alike
        self.soon: list[int] = []
        self._open: dict[Waiter, dict[int, None]] = {key: {} for key in waiters}  # tasks that are not done
        self._queued = dict.fromkeys(waiters, 0)  # how many of these have queued instances
        self._counted: set[int] = set()  # the tasks that are counted there
        self._behind: dict[int, int] = {}  # by waiting task: names and groups that have queued instances
        self.failed: set[Waiter] = set()  # names and groups of tasks that are done and have failed
        for index, progress in enumerate(tasks):
            if waiters and not progress.is_done:
                for key in self._awaited(index):
                    self._open[key][index] = None
                self.changed(index)
            elif progress.failed and progress.is_done:
                self._note_failure(index)
        for key, waiting in waiters.items():
            for index in waiting:
                self._behind[index] = self._behind.get(index, 0) + (self._queued[key] > 0)
        if self._behind:
            self.soon = sorted(index for index in self._behind if self._is_soon(index))

    def changed(self, index: int) -> None:
        """Instances of a task were dispatched, ended or came back."""
        if not self._open:
            return
        progress = self._tasks[index]
        queued = progress.queued.count > 0 or progress.endless or progress.waits is not None
        if queued != (index in self._counted):
            self._counted ^= {index}
            for key in self._awaited(index):
                self._count(key, 1 if queued else -1)
        if index in self._behind:
            self._sort(index)

    def _count(self, key: Waiter, step: int) -> None:
        before = self._queued[key]
        self._queued[key] = before + step
        if 0 in (before, before + step):
            for waiter in self._waiters.get(key, ()):
                behind = self._behind.get(waiter)
                if behind is None:
                    continue
                self._behind[waiter] = behind + step
                if 0 in (behind, behind + step):  # else it is not `soon`, before and after
                    self._sort(waiter)

    def done(self, index: int) -> None:
        """All instances of a task are over."""
        if self._tasks[index].failed:
            self._note_failure(index)
        if self._open:
            for key in self._awaited(index):
                self._open[key].pop(index, None)

    def _note_failure(self, index: int) -> None:
        self.failed.update(self._carries(index))

    def freed(self, index: int) -> None:
        """A task waits for no other any more."""
        self._behind.pop(index, None)
        self._sort(index)

    def after(self, keys: Iterable[Waiter]) -> tuple[str, tuple[AttemptOfTask, ...]] | None:
        """Return the node of all live parents of these names and groups, and their attempts.

        None unless all are dispatched to one node, to places there only, none is known to run, and each may
        have others behind it.
        """
        found: dict[AttemptOfTask, LiveAttempt] = {}
        for key in keys:
            if len(self._open[key]) > MAX_PARENTS:
                return None
            for index in self._open[key]:
                if not self._is_alike(index):
                    return None
                for instance, live in self._tasks[index].live.items():
                    found[index + 1, instance, live.attempt] = live
            if len(found) > MAX_PARENTS:
                return None
        nodes = {live.placement[0][0] if _may_lead(live) else "" for live in found.values()}
        return (nodes.pop(), tuple(found)) if len(nodes) == 1 and "" not in nodes else None

    def _awaited(self, index: int) -> list[Waiter]:
        return [key for key in self._carries(index) if key in self._open]

    def _is_soon(self, index: int) -> bool:
        progress = self._tasks[index]
        waits = self._behind.get(index) == 0 and progress.queued.count > 0
        return waits and not progress.unstarted and self._is_alike(index)

    def _sort(self, index: int) -> None:
        at = bisect_left(self.soon, index)
        listed = self.soon[at : at + 1] == [index]
        if self._is_soon(index) != listed:
            if listed:
                del self.soon[at]
            else:
                insort(self.soon, index)


def _may_lead(live: LiveAttempt) -> bool:
    return live.state is TaskState.DISPATCHED and len(live.placement) == 1 and not live.moved
