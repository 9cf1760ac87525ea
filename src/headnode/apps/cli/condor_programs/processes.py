"""The jobs of this cluster as HTCondor counts them: clusters with processes."""

from contextlib import contextmanager

from headnode.apps.cli.batch_programs.rows import LIVING, JobSource
from headnode.apps.client.client import Client
from headnode.protocol.state_names import ENDED_STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    Answer = dict[str, Any]

IDLE, RUNNING, REMOVED, COMPLETED, HELD, TRANSFERRING, SUSPENDED = range(1, 8)
LETTERS = {
    IDLE: "I",
    RUNNING: "R",
    REMOVED: "X",
    COMPLETED: "C",
    HELD: "H",
    TRANSFERRING: ">",
    SUSPENDED: "S",
}
"""The state of a process, JobStatus, as a letter."""
OVER = (REMOVED, COMPLETED)
NEUTRAL_PRIORITY = 2000  # of a job of HTCondor with priority 0


class CondorSource(JobSource):
    """Asks the head for jobs and their tasks."""

    def process(self, job: "Answer", number: int) -> "CondorProcess | None":
        """Return a process of a job by its number; None if there is none."""
        left = number
        for task in self._pages(job["id"], None):
            count = task["instances"]["total"] if task.get("instances") else 1
            if left < count:
                if task.get("instances"):
                    answer = self.client.ask("tasks", job=job["id"], expand=task["task"], after=left, limit=1)
                    task = answer["tasks"][0]
                return CondorProcess(self, job, number, task)
            left -= count
        return None

    def processes(self, job: "Answer") -> "Iterator[CondorProcess]":
        """Yield all processes of a job."""
        number = 0
        for task in self._pages(job["id"], None):
            rows = self._pages(job["id"], task["task"]) if task.get("instances") else [task]
            for row in rows:
                yield CondorProcess(self, job, number, row)
                number += 1

    def clusters(self, *, owner: str | None, ended: bool = False) -> "Iterator[Answer]":
        """Yield the jobs that have not ended, or those that have, newest first."""
        return self.pages(ENDED_STATES if ended else LIVING, owner=owner)

    @contextmanager
    def beside(self) -> "Iterator[CondorSource]":
        """Ask on a connection of its own, while answers come on this one."""
        client = Client(self.client.head)
        try:
            yield CondorSource(client)
        finally:
            client.close()

    def answers_of(self, ids: "Sequence[int]") -> "dict[int, Answer]":
        """Return the jobs of these ids."""
        return {int(job["id"]): job for job in self.listed(ids)}


class CondorProcess:
    """A process: its job, its number in it, and its task."""

    __slots__ = ("job", "number", "source", "task")

    def __init__(self, source: CondorSource, job: "Answer", number: int, task: "Answer") -> None:
        self.source, self.job, self.number, self.task = source, job, number, task

    @property
    def cluster(self) -> int:
        """The number of its job."""
        return int(self.job["id"])

    @property
    def id(self) -> str:
        """Its name: ``12.0``."""
        return f"{self.cluster}.{self.number}"

    @property
    def status(self) -> int:
        """Its state, JobStatus."""
        word, job = self.task["state"], self.job
        if word == "Running":
            return SUSPENDED if job["state"] == "Suspended" else RUNNING
        if word in ("Queued", "Configuring"):
            return HELD if job["held"] or job["state"] == "Configuring" else IDLE
        if word == "Suspended":
            return SUSPENDED
        if word == "Finished":
            return COMPLETED
        ran = self.task["exit_code"] is not None or self.task["signal"] is not None
        return COMPLETED if word == "Failed" and ran and self.task["cause"] in ("", "program") else REMOVED

    @property
    def is_over(self) -> bool:
        """Whether it has left the queue."""
        return self.status in OVER
