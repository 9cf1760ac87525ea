"""A cluster and its jobs as objects: submit jobs, see them, wait for them, control them."""

import os
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from operator import index
from pathlib import Path
from typing import Any, Literal, Unpack

from msgspec import to_builtins

from headnode.apps.client.failures import refusal_in
from headnode.core.model.errors import HeadnodeError, WrongState
from headnode.core.model.signals import SignalTarget
from headnode.protocol.answers import (
    DetailedJob,
    HistoryEntry,
    JobStateAnswer,
    ListedJob,
    RequeuedJob,
    TaskObject,
    WatchedJob,
)
from headnode.protocol.cluster_answers import ClusterObject
from headnode.protocol.explanations import CheckAnswer, Explanation
from headnode.protocol.job_answers import EfficiencyObject, JobUsageAnswer, SignalJobAnswer, SubmissionRefusal
from headnode.protocol.node_answers import NodeObject
from headnode.sdk.asynchronous.session import AsyncSession, job_number
from headnode.sdk.description import (
    COMMAND,
    DIALECT,
    TASKS,
    Command,
    JobSubmission,
    in_requests,
    job_description,
    job_text,
    naming_arguments,
    task_description,
    without_position,
)
from headnode.sdk.options import NumberedJob, SingleTaskOptions, TaskOptions

Stream = Literal["captured", "standard_output", "standard_error"]
OUTPUT_LIMIT = 16 << 20
"""Bytes of output that are read at most, unless the caller says otherwise."""


class AsyncJobHandle:
    """A job of the cluster, by its number.  To make one asks the head nothing."""

    def __init__(self, session: AsyncSession, id: int) -> None:  # noqa: A002  (the word of the protocol)
        self.session, self.id = session, id

    def __repr__(self) -> str:
        return f"<job {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncJobHandle) and (other.session, other.id) == (self.session, self.id)

    def __hash__(self) -> int:
        return hash((id(self.session), self.id))

    async def show(self) -> DetailedJob:
        """Return the job with everything that the user may know of it."""
        return (await self.session.verbs.job(self.id)).job

    async def wait(self, *, timeout: float | None = None, check: bool = False) -> WatchedJob:
        """Wait for the end of the job; return it.  The head reports changes: nothing is polled.

        Unit:    seconds (`timeout`).
        Raises:  TimeoutError; WrongState ``job-not-finished`` with `check` if it has failed or was canceled.
        """
        (job,) = await self.session.wait(self, timeout=timeout)
        if check and job.state != "Finished":
            raise WrongState(
                code="job-not-finished",
                what=f"job {self.id} is {job.state}" + (f": {job.message}" if job.message else ""),
                fix=f"see why: hn job view {self.id}; hn task output {self.id}.1",
            )
        return job

    def watch(self, *, timeout: float | None = None) -> AsyncGenerator[WatchedJob, None]:
        """Return an iterator over the job now, and again whenever it changes, up to its end.

        Raises:  TimeoutError, from the iterator.
        """
        return self.session.watch(self, timeout=timeout)

    async def tasks(
        self, *, states: Sequence[str] = (), expand: int | None = None
    ) -> AsyncGenerator[TaskObject, None]:
        """Yield the tasks in order; with `expand` the instances of the sweep with that number."""
        after: int | None = 0
        while after is not None:
            page = await self.session.verbs.tasks(self.id, after=after, states=list(states), expand=expand)
            for task in page.tasks:
                yield task
            after = page.more

    async def output(
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
        return (await self.output_bytes(task, instance, stream=stream, limit=limit)).decode(errors="replace")

    async def output_bytes(
        self,
        task: int = 1,
        instance: int | None = None,
        *,
        stream: Stream = "captured",
        limit: int = OUTPUT_LIMIT,
    ) -> bytes:
        """Return the last `limit` bytes that a task has written: captured, or in the files that it named."""
        read = self.session.verbs.read_output
        size = (await read(self.id, task, instance=instance, limit=0, stream=stream)).size
        end, parts = size, []
        offset = max(0, size - limit)
        while offset < end:
            piece = (await read(self.id, task, instance=instance, offset=offset, stream=stream)).data
            if not piece:
                break  # the file is shorter now
            parts.append(piece)
            offset += len(piece)
        return b"".join(parts)[:limit]

    async def explain(self) -> Explanation:
        """Return why the job waits, when it may start, and what would let it start sooner."""
        return await self.session.verbs.explain_job(self.id)

    async def history(self, *, limit: int = 200) -> list[HistoryEntry]:
        """Return what happened to the job, oldest first."""
        return (await self.session.verbs.job_history(self.id, limit=limit)).history

    async def efficiency(self) -> EfficiencyObject:
        """Return what the job used of what it held and requested, and a smaller request."""
        return (await self.session.verbs.job_efficiency(job=self.id)).jobs[0]

    async def usage(self) -> JobUsageAnswer:
        """Measure what the running tasks of the job use now.

        Raises:  WrongState ``not-running``; Unavailable ``node-away``.
        """
        return await self.session.verbs.job_usage(self.id)

    async def add_tasks(self, *tasks: TaskOptions) -> list[int]:
        """Add tasks at the end; return their numbers.

        Raises:  BadRequest; WrongState ``job-over``.
        """
        text = job_text(
            {TASKS: [await self.session.complete_task(task_description(None, each)) for each in tasks]}
        )
        with naming_arguments():
            return (await self.session.verbs.add_tasks(self.id, jobfile=text)).tasks

    async def cancel(self, message: str = "", *, force: bool = False) -> JobStateAnswer:
        """Cancel the job; with `force` its processes are killed at once."""
        return await self.session.verbs.cancel_job(self.id, message=message, force=force)

    async def finish(self, message: str = "") -> JobStateAnswer:
        """Stop the job, and count it as finished."""
        return await self.session.verbs.finish_job(self.id, message=message)

    async def requeue(self) -> RequeuedJob:
        """Run the job again, except for what has finished."""
        return await self.session.verbs.requeue_job(self.id)

    async def suspend(self) -> JobStateAnswer:
        """Stop the processes of the running job, and release its processors."""
        return await self.session.verbs.suspend_job(self.id)

    async def resume(self) -> JobStateAnswer:
        """Let the suspended job go on when its processors are free."""
        return await self.session.verbs.resume_job(self.id)

    async def signal(
        self, signal: str, *, target: SignalTarget = "all", task: int | None = None
    ) -> SignalJobAnswer:
        """Send a signal (USR1, 10) to the processes of the running job, or of one of its tasks."""
        return await self.session.verbs.signal_job(self.id, signal=signal, target=target, task=task)

    async def hold(self, message: str = "") -> None:
        """Keep the job from starting until the hold is released."""
        await self.session.verbs.hold_job(self.id, message=message)

    async def release(self) -> None:
        """Release all holds of the job."""
        await self.session.verbs.release_job(self.id, all=True)

    async def export(self, dialect: str | None = None) -> str:
        """Return the job as a job file; `dialect` as `hn job export` has it."""
        return (await self.session.verbs.export_job(self.id, dialect=dialect)).text


class AsyncHeadnodeClient(AsyncSession):
    """Asks a head.  Connects with the first request, and again if the connection is lost.

    `verbs` has every verb of the local protocol as a typed method; the other methods are for everyday use.
    A refusal is raised as `BadRequest`, `NotAllowed`, `NotFound` or `WrongState`, a head that is away as
    `Unavailable`; all are `HeadnodeError` with `code`, `what` and `fix`.
    """

    # ---------------------------------------------------------------- to submit

    async def submit(
        self,
        command: Command | None = None,
        *,
        tasks: Sequence[TaskOptions] = (),
        idempotency: str | None = None,
        **options: Unpack[SingleTaskOptions],
    ) -> AsyncJobHandle:
        """Submit a job: one command, or several tasks.

        command:     a command line for the shell, or a list of a program and its arguments
        tasks:       the options of each task, with its `command`
        idempotency: a key: the same request with the same key is carried out once
        options:     of the job by their names in the native form; of the task too if there is only one

        As with `hn job submit`, a task runs in the current directory unless `work_directory` says otherwise.
        Raises:  BadRequest with the `path` of the option that is wrong; Unavailable ``no-head``.
        """
        text = await self._text(command, tasks, options)
        with naming_arguments():
            answer = await self.verbs.submit_job(jobfile=text, dialect=DIALECT, idempotency=idempotency)
        return AsyncJobHandle(self, answer.job)

    async def submit_many(
        self, jobs: Iterable[JobSubmission], *, all_or_none: bool = False, idempotency: str | None = None
    ) -> list[AsyncJobHandle | HeadnodeError]:
        """Submit many jobs, 1,000 in a request; return each job, or what refused it, in the same order.

        jobs:        the options of each as in `submit`, with its `command` or its `tasks`
        all_or_none: if one is refused, none is submitted, and the refusal is raised; for 1,000 jobs at most
        idempotency: a key: the same jobs with the same key are submitted once, also after a part was
        Raises:      BadRequest for options that are none; Unavailable ``no-head``.
        """
        texts = []
        for job in jobs:
            options: Any = {name: value for name, value in job.items() if name not in (COMMAND, TASKS)}
            texts.append(await self._text(job.get("command"), job.get("tasks", ()), options))
        found: list[AsyncJobHandle | HeadnodeError] = []
        for number, request in enumerate(in_requests(texts, all_or_none=all_or_none)):
            key = f"{idempotency}.{number}" if idempotency and number else idempotency
            with naming_arguments():
                answer = await self.verbs.submit_jobs(request, all_or_none=all_or_none, idempotency=key)
            found += [
                AsyncJobHandle(self, each.job)
                if isinstance(each.job, int) and not isinstance(each.refused, SubmissionRefusal)
                else without_position(refusal_in(to_builtins(each.refused)))
                for each in answer.submissions
            ]
        return found

    async def submit_file(
        self,
        file: str | os.PathLike[str],
        *,
        dialect: str | None = None,
        terms: Mapping[str, str] | None = None,
        idempotency: str | None = None,
    ) -> list[AsyncJobHandle]:
        """Submit the jobs of a job file in any language; return all of them.

        dialect: its language; None: recognized by its content
        terms:   options by their names on the command line, {"priority": "Highest"}; they override the file
        Raises:  BadRequest with the place in the file; OSError if it cannot be read.
        """
        text = Path(file).read_text(encoding="utf-8")
        answer = await self.verbs.submit_job(
            jobfile=text, dialect=dialect, terms=dict(terms or {}), idempotency=idempotency
        )
        jobs = answer.jobs if isinstance(answer.jobs, list) else [answer.job]
        return [AsyncJobHandle(self, job) for job in jobs]

    async def check(
        self,
        command: Command | None = None,
        *,
        tasks: Sequence[TaskOptions] = (),
        **options: Unpack[SingleTaskOptions],
    ) -> CheckAnswer:
        """Return what would become of a job, without submitting it: report, explanation, expected start.

        Raises:  what would refuse the submission.
        """
        text = await self._text(command, tasks, options)
        with naming_arguments():
            return await self.verbs.check_job(jobfile=text, dialect=DIALECT)

    async def _text(
        self, command: Command | None, tasks: Sequence[TaskOptions], options: SingleTaskOptions
    ) -> str:
        job = job_description(command, tasks, options)
        if COMMAND in job:
            return job_text(await self.complete_task(job))
        return job_text({**job, TASKS: [await self.complete_task(task) for task in job[TASKS]]})

    # ---------------------------------------------------------------- to see

    def job(self, id: int) -> AsyncJobHandle:  # noqa: A002  (the word of the protocol)
        """Return a job by its number; the head is not asked.

        Raises:  TypeError if it is no number.
        """
        return AsyncJobHandle(self, index(id))

    async def jobs(
        self,
        *,
        owner: str | None = None,
        states: Sequence[str] = (),
        name: str = "",
        project: str = "",
        group: str | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> AsyncGenerator[ListedJob, None]:
        """Yield jobs, the newest id first; pages are asked for as they are needed.

        owner:        a user; None: all users; "": the requesting user
        states:       such as "Queued", "Running", "Failed"
        name:         a pattern with `*` and `?`
        since, until: of creation, in seconds since 1970
        """
        before: int | None = None
        while True:
            page = await self.verbs.jobs(
                owner=owner,
                states=list(states),
                before=before,
                name=name,
                project=project,
                group=group,
                since=since,
                until=until,
            )
            for job in page.jobs:
                yield job
            before = page.more
            if before is None:
                return

    async def explain(self, job: int | NumberedJob) -> Explanation:
        """Return why a job waits, when it may start, and what would let it start sooner."""
        return await self.verbs.explain_job(job_number(job))

    async def nodes(self, *, states: Sequence[str] = ()) -> list[NodeObject]:
        """Return the nodes, or those in some states."""
        return (await self.verbs.nodes(states=list(states))).nodes

    async def cluster(self) -> ClusterObject:
        """Return the cluster: its policy, its processors, how many jobs are in each state."""
        return (await self.verbs.cluster()).cluster
