"""A job of the head as the grid service sees it: its description, its tasks and its changes of state."""

import tomllib
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec

from headnode.apps.web.pilot.histories import Entry, GridTaskPlace, job_states
from headnode.apps.web.pilot.records import GridJobKey
from headnode.apps.web.pilot.requests import GridRequest
from headnode.protocol.event_answers import StateChange

Object = dict[str, Any]
PAGE: Final = 1_000
OVER: Final = ("Finished", "Failed", "Canceled")


class GridJob:
    """A job that a client may see, with its description as the grid form has it."""

    def __init__(self, request: GridRequest, shown: Object) -> None:
        self._request, self.shown = request, shown
        self.id = int(shown["id"])
        self.key = GridJobKey(self.id, float(shown["created"]))
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
        found: list[tuple[int, int]] = []
        after: int | None = 0
        while after is not None:
            answer = await self._request.ask("tasks", job=self.id, after=after, limit=PAGE)
            for task in answer["tasks"]:
                if task["kind"] in ("basic", "sweep"):
                    total = task["instances"]["total"] if "instances" in task else 1
                    found += [(task["task"], number) for number in range(1, total + 1)]
            after = answer["more"]
        return found

    def states(self, changes: list[StateChange]) -> list[Entry]:
        """Return the states of the job."""
        holds = [float(hold["at"]) for hold in self.shown["holds"]]
        return job_states(changes, min(holds) if holds else None)


async def job_of(request: GridRequest) -> GridJob:
    """Return the job of the path, if it is one of the user.

    Raises:  NotFound ``no-such-job``; NotAllowed ``not-owner``.
    """
    number = request.job_number()
    shown = (await request.ask("job", job=number))["job"]
    await request.admit_owner(number, shown["owner"])
    return GridJob(request, shown)


def listed_job(request: GridRequest, job: int) -> Object:
    """Return a job as lists show it."""
    return {"uri": request.uri(f"jobs/{job}/"), "job_id": str(job)}
