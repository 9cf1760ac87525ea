"""A job as an object: what was submitted, to wait for and to control.

Printed by `make bless` (scripts/sdk_source.py): do not edit.
"""

from collections.abc import Generator, Sequence
from typing import Literal

from headnode.core.model.errors import WrongState
from headnode.protocol.answers import (
    DetailedJob,
    HistoryEntry,
    JobStateAnswer,
    RequeuedJob,
    TaskObject,
    WatchedJob,
)
from headnode.protocol.explanation_answers import Explanation
from headnode.sdk.description import TASKS, job_text, task_description
from headnode.sdk.options import TaskOptions
from headnode.sdk.synchronous.session import Session

Stream = Literal["captured", "standard_output", "standard_error"]
OUTPUT_LIMIT = 16 << 20
"""Bytes of output that are read at most, unless the caller says otherwise."""


class JobHandle:
    """A job of the cluster, by its number.  To make one asks the head nothing."""

    def __init__(self, session: Session, id: int) -> None:  # noqa: A002  (the word of the protocol)
        self.session, self.id = session, id

    def __repr__(self) -> str:
        return f"<job {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobHandle) and (other.session, other.id) == (self.session, self.id)

    def __hash__(self) -> int:
        return hash((id(self.session), self.id))

    def show(self) -> DetailedJob:
        """Return the job with everything that the user may know of it."""
        return (self.session.verbs.job(self.id)).job

    def wait(self, *, timeout: float | None = None, check: bool = False) -> WatchedJob:
        """Wait for the end of the job; return it.  The head reports changes: nothing is polled.

        Unit:    seconds (`timeout`).
        Raises:  TimeoutError; WrongState ``job-not-finished`` with `check` if it has failed or was canceled.
        """
        (job,) = self.session.wait(self, timeout=timeout)
        if check and job.state != "Finished":
            raise WrongState(
                code="job-not-finished",
                what=f"job {self.id} is {job.state}" + (f": {job.message}" if job.message else ""),
                fix=f"see why: hn job view {self.id}; hn task output {self.id}.1",
            )
        return job

    def watch(self, *, timeout: float | None = None) -> Generator[WatchedJob, None, None]:
        """Return an iterator over the job now, and again whenever it changes, up to its end.

        Raises:  TimeoutError, from the iterator.
        """
        return self.session.watch(self, timeout=timeout)

    def tasks(
        self, *, states: Sequence[str] = (), expand: int | None = None
    ) -> Generator[TaskObject, None, None]:
        """Yield the tasks in order; with `expand` the instances of the sweep with that number."""
        after: int | None = 0
        while after is not None:
            page = self.session.verbs.tasks(self.id, after=after, states=list(states), expand=expand)
            for task in page.tasks:
                yield task
            after = page.more

    def output(
        self,
        task: int = 1,
        instance: int | None = None,
        *,
        stream: Stream = "captured",
        limit: int = OUTPUT_LIMIT,
    ) -> str:
        """Return the last `limit` bytes that a task has written, as text.

        Bytes that are not UTF-8 are replaced; `output_bytes` returns them.
        """
        return (self.output_bytes(task, instance, stream=stream, limit=limit)).decode(errors="replace")

    def output_bytes(
        self,
        task: int = 1,
        instance: int | None = None,
        *,
        stream: Stream = "captured",
        limit: int = OUTPUT_LIMIT,
    ) -> bytes:
        """Return the last `limit` bytes that a task has written: captured, or in the files that it named."""
        read = self.session.verbs.read_output
        size = (read(self.id, task, instance=instance, limit=0, stream=stream)).size
        end, parts = size, []
        offset = max(0, size - limit)
        while offset < end:
            piece = (read(self.id, task, instance=instance, offset=offset, stream=stream)).data
            if not piece:
                break  # the file is shorter now
            parts.append(piece)
            offset += len(piece)
        return b"".join(parts)[:limit]

    def explain(self) -> Explanation:
        """Return why the job waits, when it may start, and what would let it start sooner."""
        return self.session.verbs.explain_job(self.id)

    def history(self, *, limit: int = 200) -> list[HistoryEntry]:
        """Return what happened to the job, oldest first."""
        return (self.session.verbs.job_history(self.id, limit=limit)).history

    def add_tasks(self, *tasks: TaskOptions) -> list[int]:
        """Add tasks at the end; return their numbers.

        Raises:  BadRequest; WrongState ``job-over``.
        """
        text = job_text({TASKS: [self.session.complete_task(task_description(None, each)) for each in tasks]})
        return (self.session.verbs.add_tasks(self.id, jobfile=text)).tasks

    def cancel(self, message: str = "", *, force: bool = False) -> JobStateAnswer:
        """Cancel the job; with `force` its processes are killed at once."""
        return self.session.verbs.cancel_job(self.id, message=message, force=force)

    def finish(self, message: str = "") -> JobStateAnswer:
        """Stop the job, and count it as finished."""
        return self.session.verbs.finish_job(self.id, message=message)

    def requeue(self) -> RequeuedJob:
        """Run the job again, except for what has finished."""
        return self.session.verbs.requeue_job(self.id)

    def suspend(self) -> JobStateAnswer:
        """Stop the processes of the running job, and release its processors."""
        return self.session.verbs.suspend_job(self.id)

    def resume(self) -> JobStateAnswer:
        """Let the suspended job go on when its processors are free."""
        return self.session.verbs.resume_job(self.id)

    def hold(self, message: str = "") -> None:
        """Keep the job from starting until the hold is released."""
        self.session.verbs.hold_job(self.id, message=message)

    def release(self) -> None:
        """Release all holds of the job."""
        self.session.verbs.release_job(self.id, all=True)

    def export(self, dialect: str | None = None) -> str:
        """Return the job as a job file; `dialect` as `hn job export` has it."""
        return (self.session.verbs.export_job(self.id, dialect=dialect)).text
