"""What all instances of a job or of a sweep have printed: in order, or as they print it.

Memory:  a page of instances; of those that run, where each was read up to; what is printed, as intervals.
"""

import time
from types import MappingProxyType

from headnode.apps.cli.task_files import source_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client
    from headnode.core.model.ranges import Ranges

    Address = tuple[int, int, int | None]  # job, task, instance
    Begun = tuple[Address, str]  # an instance, and its state
    Task = dict[str, Any]  # a task object of the local protocol

PAGE = 500  # tasks or instances
PAUSE = 0.5  # seconds between two looks at what grows
BEGUN = ["Running", "Finished", "Failed", "Canceled"]
OVER = ("Finished", "Failed", "Canceled")


class WholeOutput:
    """Prints the output of many instances; `task` None means all tasks of the job."""

    def __init__(
        self, client: "Client", out: "Output", job: int, task: int | None, stream: str, *, headers: bool
    ) -> None:
        self._client, self._out = client, out
        self._job, self._task, self._stream = job, task, stream
        self._headers = headers
        self._latest: Address | None = None
        self._line_begins = True
        self.troubles = 0  # outputs that could not be read

    def print_all(self, most: int | None = None) -> int:
        """Print what there is, instance by instance; with `most`, of the first so many.  Return how many."""
        count = 0
        for count, (address, _) in enumerate(self._begun(), start=1):
            if most is not None and count > most:
                return count
            self._print_from(address, 0)
        return count

    def files(self) -> "Iterator[tuple[Address, dict[str, Any]]]":
        """Yield where the output of each instance is that has one."""
        for address, _ in self._begun():
            yield address, self._client.ask("output", **_question(address))

    def follow(self) -> None:
        """Print what comes, until the job is over, or all instances of the task are."""
        from headnode.core.model.ranges import Ranges

        read: dict[Address, int] = {}  # of those that are not over, up to where
        printed: dict[int, Ranges] = {}  # by task, the instances that are printed up to their end
        while True:
            began = time.monotonic()
            done = self._is_over()  # asked before reading: nothing is written after it said yes
            for address, state in self._begun(printed):
                read[address] = self._print_from(address, read.get(address, 0))
                if state in OVER:
                    printed.setdefault(address[1], Ranges()).add(address[2] or 1)
                    del read[address]
            if done:
                return
            time.sleep(max(PAUSE, time.monotonic() - began))  # a large job is looked at less often

    def _is_over(self) -> bool:
        if self._task is None:
            return self._client.ask("job", job=self._job)["job"]["state"] in OVER
        return self._client.ask("task", job=self._job, task=self._task)["task"]["state"] in OVER

    def _begun(self, printed: "Mapping[int, Ranges]" = MappingProxyType({})) -> "Iterator[Begun]":
        """Yield the instances that have begun, in order; those of `printed` are not even asked for."""
        for task in self._tasks():
            spans = list(printed[task["task"]].spans()) if task["task"] in printed else []
            if not task.get("instances"):
                if task["state"] in BEGUN and not spans:
                    yield (self._job, task["task"], None), task["state"]
                continue
            before = [0, *(last for _, last in spans)]
            behind = [*(first for first, _ in spans), None]
            for after, end in zip(before, behind, strict=True):
                yield from self._between(task["task"], after, end)

    def _between(self, task: int, after: int, end: int | None) -> "Iterator[Begun]":
        """Yield the instances that have begun with numbers above `after`, and below `end` if there is one."""
        if end == after + 1:
            return
        limit = PAGE if end is None else min(PAGE, end - after - 1)
        for each in self._pages(expand=task, after=after, states=BEGUN, limit=limit):
            if end is not None and each["instance"] >= end:
                return
            yield (self._job, task, each["instance"]), each["state"]

    def _tasks(self) -> "Iterator[Task]":
        if self._task is None:
            yield from self._pages(after=0)
        else:
            yield self._client.ask("task", job=self._job, task=self._task)["task"]

    def _pages(self, after: int | None, limit: int = PAGE, **fields: "Any") -> "Iterator[Task]":
        while after is not None:
            answer = self._client.ask("tasks", job=self._job, limit=limit, after=after, **fields)
            yield from answer["tasks"]
            after = answer["more"]

    def _print_from(self, address: "Address", start: int) -> int:
        """Print what an instance has written from `start` on; return where the next look begins."""
        from headnode.core.model.errors import Refused

        question, at = _question(address), start
        try:
            files = self._client.ask("output", **question)
            path = files.get(self._stream)
            if path is None or (files.get("gone") and path == files.get("kept")):
                return start
            for piece, behind in source_of(self._client, question, files, path).pieces(start):
                self._write(address, piece)
                at = behind
        except FileNotFoundError:
            return start  # it has not written anything
        except Refused as refused:
            self.troubles += 1
            self._out.problem(refused)
        return at

    def _write(self, address: "Address", piece: bytes) -> None:
        if self._headers and address != self._latest:
            gap = "" if self._latest is None else "\n" if self._line_begins else "\n\n"
            name = ".".join(str(part) for part in address if part is not None)
            self._out.raw(f"{gap}==> {name} <==\n".encode())
        self._latest, self._line_begins = address, piece.endswith(b"\n")
        self._out.raw(piece)


def _question(address: "Address") -> "dict[str, Any]":
    job, task, instance = address
    return {"job": job, "task": task, "instance": instance}
