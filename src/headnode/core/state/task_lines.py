"""Different tasks of a job that are dispatched ahead, to run one after the other at the same place."""

from collections.abc import Iterable, Mapping, Set

from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Seconds
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.job_events import NodeCores

AHEAD = 0.1  # seconds of work handed to a node in advance
MOST_AHEAD = 64  # instances
_WEIGHT = 0.125  # of the newest run time in the mean
_LONGEST = 10 * AHEAD  # seconds: a longer run time counts as this, so that short tasks count again soon


def ahead(mean: float) -> int:
    """Return how many instances of this mean run time (seconds) are so much work; at least 1.

    >>> ahead(0.001), ahead(0.03), ahead(7.0)
    (64, 3, 1)
    """
    return max(1, min(int(AHEAD / max(mean, AHEAD / MOST_AHEAD)), MOST_AHEAD))


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

    def __init__(self, spec: JobSpec) -> None:
        self._mean: float | None = None  # seconds; None: nothing has ended yet
        self.members: dict[NodeCores, dict[int, int]] = {}  # live instances at each place, by task index
        self.lasting: dict[NodeCores, set[tuple[int, int]]] = {}  # of these, what nothing may run behind
        self._kinds = TaskKinds(spec)

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
        seconds = min(max(lasted, 0.0), _LONGEST)
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
