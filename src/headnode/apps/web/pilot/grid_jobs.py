"""A job of the head as the grid service sees it: its description, its tasks and the history of its states.

Source:  Pilot service, schema of a job resource: `state` is the whole history of changes.
"""

import tomllib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from headnode.apps.web.pilot.records import GridJobKey
from headnode.apps.web.pilot.requests import GridRequest
from headnode.protocol.event_answers import StateChange

NEW, PENDING, RUNNING, PAUSED = "new", "pending", "running", "paused"
FINISHED, ABORTED = "finished", "aborted"
FINAL: Final = frozenset((FINISHED, ABORTED))
_OF_JOB: Final[Mapping[str, str]] = {
    "configuring": NEW,
    "validating": PENDING,
    "queued": PENDING,
    "handed": PENDING,
    "running": RUNNING,
    "suspending": PAUSED,
    "suspended": PAUSED,
    "resuming": PAUSED,
    "finished": FINISHED,
    "failed": ABORTED,
    "canceled": ABORTED,
}
"""The word for each state of a job; an ending job is still what it was."""
_OF_TASK: Final[Mapping[str, str]] = {
    "queued": PENDING,
    "running": RUNNING,
    "finished": FINISHED,
    "failed": ABORTED,
    "canceled": ABORTED,
}

Entry = dict[str, str]


class GridTaskPlace(NamedTuple):
    """Which instance of which task a grid task is, and the ids of the grid tasks that it waits for."""

    task: int
    instance: int
    parents: tuple[str, ...]


def time_text(at: float) -> str:
    """Return a time as the service writes it: ISO 8601, UTC, whole seconds."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class _History:
    """States in their order, each once."""

    def __init__(self) -> None:
        self.states: list[tuple[str, float, str]] = []

    def add(self, state: str, at: float, info: str = "") -> None:
        """Add a state unless it is the last one."""
        if not self.states or self.states[-1][0] != state:
            self.states.append((state, at, info))

    @property
    def state(self) -> str:
        return self.states[-1][0] if self.states else ""

    def entries(self) -> list[Entry]:
        """Return the states as the service tells them."""
        return [
            {"s": state, "ts": time_text(at), **({"info": info} if info else {})}
            for state, at, info in self.states
        ]


def job_states(changes: Iterable[StateChange], held_since: float | None = None) -> list[Entry]:
    """Return the states of a job.  A queued job that has been held since some time is paused."""
    history = _History()
    for change in changes:
        if change.task is msgspec.UNSET and (state := _OF_JOB.get(change.state)):
            history.add(state, change.at, _why(change) if state == ABORTED else "")
    if held_since is not None and history.state == PENDING:
        history.add(PAUSED, max(held_since, history.states[-1][1]))
    return history.entries()


def task_states(
    changes: Sequence[StateChange], places: Mapping[str, GridTaskPlace], chosen: Iterable[str]
) -> dict[str, list[Entry]]:
    """Return the states of the grid tasks in `chosen`.

    A task is pending when its job is in the queue and the tasks that it waits for have finished.  A running
    task is paused while its job is suspended.  One that never started stays new or pending when its job is
    aborted, as in the service.
    """
    history = _GridTaskHistory(changes, places)
    return {name: history.history(name).entries() for name in chosen}


class _GridTaskHistory:
    """What the changes of a job say of its grid tasks; each history is worked out once."""

    def __init__(self, changes: Sequence[StateChange], places: Mapping[str, GridTaskPlace]) -> None:
        self._places = places
        self._of_job = [change for change in changes if change.task is msgspec.UNSET]
        self._of_task: dict[int, list[StateChange]] = {}
        for change in changes:
            if isinstance(change.task, int):
                self._of_task.setdefault(change.task, []).append(change)
        self._known: dict[str, _History] = {}

    def history(self, name: str) -> _History:
        """Return the history of a grid task.  Those that it waits for come first; chains may be long."""
        waiting = [name]
        while waiting:
            last = waiting[-1]
            missing = [each for each in self._places[last].parents if each not in self._known]
            if missing:
                waiting += missing
            else:
                waiting.pop()
                if last not in self._known:
                    self._known[last] = self._work_out(self._places[last])
        return self._known[name]

    def _work_out(self, place: GridTaskPlace) -> _History:
        history = _History()
        own = [change for change in self._of_task.get(place.task, ()) if _is_about(change, place.instance)]
        free = self._free(place)
        for change in sorted((*self._of_job, *own), key=lambda each: each.number):
            if change.task is msgspec.UNSET:
                self._follow_job(history, change, free)
            else:
                _follow_own(history, change, free)
        if history.state == NEW and free is not None and self._is_queued():
            history.add(PENDING, max(free, history.states[-1][1]))
        return history

    def _free(self, place: GridTaskPlace) -> float | None:
        """Return since when nothing keeps a task waiting for another; None: something does."""
        parents = [self._known[name] for name in place.parents]
        if any(parent.state != FINISHED for parent in parents):
            return None
        return max((parent.states[-1][1] for parent in parents), default=0.0)

    def _is_queued(self) -> bool:
        return bool(self._of_job) and _OF_JOB.get(self._of_job[-1].state) in (PENDING, RUNNING, PAUSED)

    @staticmethod
    def _follow_job(history: _History, change: StateChange, free: float | None) -> None:
        state = _OF_JOB.get(change.state)
        if state == NEW and history.state != FINISHED:
            history.add(NEW, change.at)
        elif state == PENDING and history.state != FINISHED and free is not None:
            if history.state == NEW and free > change.at:
                return
            history.add(PENDING, change.at)
        elif state in (RUNNING, PAUSED) and history.state in (RUNNING, PAUSED):
            history.add(state, change.at)


def _follow_own(history: _History, change: StateChange, free: float | None) -> None:
    started = change.started if isinstance(change.started, float) else None
    state = _OF_TASK[change.state]
    if state == RUNNING or (started is not None and history.state not in (RUNNING, PAUSED, *FINAL)):
        began = change.at if started is None else started
        if history.state == NEW:
            history.add(PENDING, min(began, max(free or 0.0, history.states[-1][1])))
        history.add(RUNNING, began)
    if state == ABORTED and history.state in ("", NEW, PENDING) and change.state == "canceled":
        return
    history.add(state, change.at, _why(change) if state == ABORTED else "")


def _is_about(change: StateChange, instance: int) -> bool:
    return isinstance(change.first, int) and change.first <= instance <= (change.last or change.first)


def _why(change: StateChange) -> str:
    return change.why if isinstance(change.why, str) else ""


Object = dict[str, Any]
PAGE: Final = 1_000


class GridJob:
    """A job that a client may see, with its description as the grid form has it."""

    def __init__(self, request: GridRequest, job: Object) -> None:
        self._request, self.shown = request, job
        self.id = int(job["id"])
        self.key = GridJobKey(self.id, float(job["created"]))
        self._definition: Object | None = None

    async def definition(self) -> Object:
        """Return the description."""
        if self._definition is None:
            answer = await self._request.ask("export_job", job=self.id, dialect="grid")
            self._definition = msgspec.json.decode(answer["text"])
        return self._definition

    async def credential(self) -> str:
        """Return the name of the credential for the files of all tasks; "" without one."""
        answer = await self._request.ask("export_job", job=self.id, dialect="native")
        return str(tomllib.loads(answer["text"]).get("credential", ""))

    async def changes(self) -> list[StateChange]:
        """Return all changes of states, oldest first."""
        return [change async for change in self._changes()]

    async def own_changes(self) -> list[StateChange]:
        """Return the changes of the job itself, oldest first."""
        return [change async for change in self._changes() if change.task is msgspec.UNSET]

    async def _changes(self) -> AsyncIterator[StateChange]:
        after, more = 0, True
        while more:
            answer = await self._request.ask("job_states", job=self.id, after=after, limit=PAGE)
            for change in msgspec.convert(answer["changes"], list[StateChange]):
                yield change
            after, more = answer["after"], answer["more"]

    async def places(self) -> dict[str, GridTaskPlace]:
        """Return which task, or instance of a sweep, each grid task is.

        The grid form writes the tasks in their order, and each instance of a sweep as a task.
        """
        items = (await self.definition())["tasks"]
        parents: dict[str, list[str]] = {}
        for item in items:
            for child in item.get("children", ()):
                parents.setdefault(child, []).append(item["id"])
        numbers = await self._numbers()
        return {
            item["id"]: GridTaskPlace(task, instance, tuple(parents.get(item["id"], ())))
            for item, (task, instance) in zip(items, numbers, strict=True)
        }

    async def _numbers(self) -> list[tuple[int, int]]:
        numbers: list[tuple[int, int]] = []
        after: int | None = 0
        while after is not None:
            answer = await self._request.ask("tasks", job=self.id, after=after, limit=PAGE)
            for task in answer["tasks"]:
                if task["kind"] in ("basic", "sweep"):
                    total = task["instances"]["total"] if "instances" in task else 1
                    numbers += [(task["task"], number) for number in range(1, total + 1)]
            after = answer["more"]
        return numbers

    def states(self, changes: list[StateChange]) -> list[Entry]:
        """Return the states of the job."""
        holds = [float(hold["at"]) for hold in self.shown["holds"]]
        return job_states(changes, min(holds) if holds else None)


async def job_of(request: GridRequest) -> GridJob:
    """Return the job of the path, if it is one of the user.

    Raises:  NotFound ``no-such-job``; NotAllowed ``not-owner``.
    """
    number = request.job_number()
    job = (await request.ask("job", job=number))["job"]
    await request.admit_owner(number, job["owner"])
    return GridJob(request, job)


def listed_job(request: GridRequest, job: int) -> Object:
    """Return a job as lists show it."""
    return {"uri": request.uri(f"jobs/{job}/"), "job_id": str(job)}
