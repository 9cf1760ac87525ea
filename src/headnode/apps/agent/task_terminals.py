"""The terminals of tasks that wait for somebody to sit down at them."""

import asyncio
from typing import Protocol

from headnode.adapters.nodes import messages as m
from headnode.adapters.nodes.sessions import HEAD
from headnode.adapters.processes.job_journal import Key
from headnode.core.model.errors import Unavailable
from headnode.core.model.quantities import JobId

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Owner(Protocol):
    """Who knows the jobs of this node."""

    def user_of(self, job: JobId, key: Key) -> int | None:
        """Return the user whose attempt lives here; None when there is no such attempt."""


class Terminals:
    """Tasks and visitors come in any order; each waits for the other.  By task: job.task.instance.attempt."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._tasks: dict[str, Connection] = {}
        self._visitors: dict[str, asyncio.Future[Connection]] = {}

    def user(self, route: m.Route) -> int:
        """Return the user of the attempt that a visitor comes to.

        Raises:  Unavailable ``no-terminal`` when it is not here.
        """
        uid = self._owner.user_of(route.job, (route.task, route.instance, route.attempt))
        if uid is None:
            raise Unavailable(
                code="no-terminal", what=f"the task of job {route.job} does not run here any more"
            )
        return uid

    def visit(self, route: m.Route, connected: "asyncio.Future[Connection]") -> None:
        """Give a visitor the connection of the task, now or when the task comes."""
        task = _name(route)
        waiting = self._tasks.pop(task, None)
        if waiting is not None:
            connected.set_result(waiting)
        else:
            self._visitors[task] = connected

    def has_dialed(self, task: str, uid: int, connection: Connection) -> bool:
        """Keep the connection of a task for its visitor; False when it is none of ours, or another user's."""
        words = task.split(".")
        if len(words) != 4 or not all(word.isascii() and word.isdigit() and len(word) < 19 for word in words):
            return False
        job, number, instance, attempt = map(int, words)
        if self._owner.user_of(JobId(job), (number, instance, attempt)) != uid:
            return False
        visitor = self._visitors.pop(task, None)
        if visitor is not None and not visitor.done():
            visitor.set_result(connection)
            return True
        self.over(task)
        self._tasks[task] = connection
        return True

    def over(self, task: str) -> None:
        """A task is over, or has come anew: forget what is kept of it."""
        self._visitors.pop(task, None)
        waiting = self._tasks.pop(task, None)
        if waiting is not None:
            waiting[1].close()


def at_terminal(route: m.Route) -> bool:
    """Tell whether somebody comes to the terminal of a task."""
    return route.first == HEAD and route.task > 0


def size_in_words(terminal: m.Terminal | None) -> str:
    """Return how a terminal is told to who makes it; nothing for none."""
    return "" if terminal is None else f"{terminal.rows} {terminal.columns} {terminal.kind}"


def _name(route: m.Route) -> str:
    return f"{route.job}.{route.task}.{route.instance}.{route.attempt}"
