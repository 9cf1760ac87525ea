"""A cluster as an object: submit jobs, see them, wait for them."""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Unpack

from headnode.protocol.answers import ListedJob
from headnode.protocol.cluster_answers import ClusterObject
from headnode.protocol.explanation_answers import CheckAnswer, Explanation
from headnode.protocol.node_answers import NodeObject
from headnode.sdk.asynchronous.job_handle import AsyncJobHandle
from headnode.sdk.asynchronous.session import AsyncSession, job_number
from headnode.sdk.description import (
    COMMAND,
    DIALECT,
    TASKS,
    Command,
    job_description,
    job_text,
)
from headnode.sdk.options import NumberedJob, SingleTaskOptions, TaskOptions


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
        answer = await self.verbs.submit_job(jobfile=text, dialect=DIALECT, idempotency=idempotency)
        return AsyncJobHandle(self, answer.job)

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
        """Return a job by its number; the head is not asked."""
        return AsyncJobHandle(self, id)

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
