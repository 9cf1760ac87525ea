"""What all instances of a job or of a sweep have printed: in order, or as they print it.

Memory:  a page of instances at a time; of those that run, where each was read up to.
"""

import time

from headnode.apps.cli.task_files import source_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

    Address = tuple[int, int, int | None]  # job, task, instance
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
        read: dict[Address, int] = {}  # of those that are not over, up to where
        over: dict[int, set[int]] = {}  # by task, the instances that are printed up to their end
        below: dict[int, int] = {}  # by task, the number up to which all are
        while True:
            done = self._is_over()  # asked before reading: nothing is written after it said yes
            for address, state in self._begun(below):
                _, task, instance = address
                if (instance or 1) in over.setdefault(task, set()):
                    continue
                read[address] = self._print_from(address, read.get(address, 0))
                if state in OVER:
                    over[task].add(instance or 1)
                    del read[address]
            for task, numbers in over.items():
                while below.get(task, 0) + 1 in numbers:
                    below[task] = below.get(task, 0) + 1
                    numbers.remove(below[task])
            if done:
                return
            time.sleep(PAUSE)

    def _is_over(self) -> bool:
        if self._task is None:
            return self._client.ask("job", job=self._job)["job"]["state"] in OVER
        return self._client.ask("task", job=self._job, task=self._task)["task"]["state"] in OVER

    def _begun(self, below: "dict[int, int] | None" = None) -> "Iterator[tuple[Address, str]]":
        """Yield the instances that have begun, in order; of each task only those above the number `below`."""
        for task in self._tasks():
            after = (below or {}).get(task["task"], 0)
            if not task.get("instances"):
                if task["state"] in BEGUN and not after:
                    yield (self._job, task["task"], None), task["state"]
                continue
            for each in self._pages(expand=task["task"], after=after, states=BEGUN):
                yield (self._job, task["task"], each["instance"]), each["state"]

    def _tasks(self) -> "Iterator[Task]":
        if self._task is None:
            yield from self._pages(after=0)
        else:
            yield self._client.ask("task", job=self._job, task=self._task)["task"]

    def _pages(self, after: int | None, **fields: "Any") -> "Iterator[Task]":
        while after is not None:
            answer = self._client.ask("tasks", job=self._job, limit=PAGE, after=after, **fields)
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
