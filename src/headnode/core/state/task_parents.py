"""Tasks that may be dispatched before their parents have ended: the node starts them then (decision 0044)."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping

from headnode.core.model.outcome import AttemptOfTask
from headnode.core.state.job_record import LiveAttempt, TaskProgress
from headnode.core.state.transitions import TaskState

Waiter = str | int
"""What a task may wait for: a task name, or a task group's number."""

MOST_PARENTS = 32  # live attempts that one task is dispatched behind


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
        self.soon = sorted(index for index in self._behind if self._is_soon(index))

    def changed(self, index: int) -> None:
        """Instances of a task were dispatched, ended or came back."""
        if not self._open:
            return
        progress = self._tasks[index]
        queued = progress.queued.count > 0 or progress.endless
        if queued != (index in self._counted):
            self._counted ^= {index}
            for key in self._awaited(index):
                self._count(key, 1 if queued else -1)
        self._sort(index)

    def _count(self, key: Waiter, step: int) -> None:
        before = self._queued[key]
        self._queued[key] = before + step
        if 0 in (before, before + step):
            for waiter in self._waiters.get(key, ()):
                if waiter in self._behind:
                    self._behind[waiter] += step
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
            if len(self._open[key]) > MOST_PARENTS:
                return None
            for index in self._open[key]:
                if not self._is_alike(index):
                    return None
                for instance, live in self._tasks[index].live.items():
                    found[index + 1, instance, live.attempt] = live
            if len(found) > MOST_PARENTS:
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
