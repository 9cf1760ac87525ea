"""A cluster as an object: submit jobs, see them, wait for them.

Printed by `make bless` (scripts/sdk_source.py): do not edit.
"""

import os
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Unpack

from headnode.protocol.answers import ListedJob
from headnode.protocol.cluster_answers import ClusterObject
from headnode.protocol.explanation_answers import CheckAnswer, Explanation
from headnode.protocol.node_answers import NodeObject
from headnode.sdk.description import (
    COMMAND,
    DIALECT,
    TASKS,
    Command,
    job_description,
    job_text,
)
from headnode.sdk.options import NumberedJob, SingleTaskOptions, TaskOptions
from headnode.sdk.synchronous.job_handle import JobHandle
from headnode.sdk.synchronous.session import Session, job_number


class HeadnodeClient(Session):
    """Asks a head.  Connects with the first request, and again if the connection is lost.

    `verbs` has every verb of the local protocol as a typed method; the other methods are for everyday use.
    A refusal is raised as `BadRequest`, `NotAllowed`, `NotFound` or `WrongState`, a head that is away as
    `Unavailable`; all are `HeadnodeError` with `code`, `what` and `fix`.
    """

    # ---------------------------------------------------------------- to submit

    def submit(
        self,
        command: Command | None = None,
        *,
        tasks: Sequence[TaskOptions] = (),
        idempotency: str | None = None,
        **options: Unpack[SingleTaskOptions],
    ) -> JobHandle:
        """Submit a job: one command, or several tasks.

        command:     a command line for the shell, or a list of a program and its arguments
        tasks:       the options of each task, with its `command`
        idempotency: a key: the same request with the same key is carried out once
        options:     of the job by their names in the native form; of the task too if there is only one

        As with `hn job submit`, a task runs in the current directory unless `work_directory` says otherwise.
        Raises:  BadRequest with the `path` of the option that is wrong; Unavailable ``no-head``.
        """
        text = self._text(command, tasks, options)
        answer = self.verbs.submit_job(jobfile=text, dialect=DIALECT, idempotency=idempotency)
        return JobHandle(self, answer.job)

    def submit_file(
        self,
        file: str | os.PathLike[str],
        *,
        dialect: str | None = None,
        terms: Mapping[str, str] | None = None,
        idempotency: str | None = None,
    ) -> list[JobHandle]:
        """Submit the jobs of a job file in any language; return all of them.

        dialect: its language; None: recognized by its content
        terms:   options by their names on the command line, {"priority": "Highest"}; they override the file
        Raises:  BadRequest with the place in the file; OSError if it cannot be read.
        """
        text = Path(file).read_text(encoding="utf-8")
        answer = self.verbs.submit_job(
            jobfile=text, dialect=dialect, terms=dict(terms or {}), idempotency=idempotency
        )
        jobs = answer.jobs if isinstance(answer.jobs, list) else [answer.job]
        return [JobHandle(self, job) for job in jobs]

    def check(
        self,
        command: Command | None = None,
        *,
        tasks: Sequence[TaskOptions] = (),
        **options: Unpack[SingleTaskOptions],
    ) -> CheckAnswer:
        """Return what would become of a job, without submitting it: report, explanation, expected start.

        Raises:  what would refuse the submission.
        """
        text = self._text(command, tasks, options)
        return self.verbs.check_job(jobfile=text, dialect=DIALECT)

    def _text(self, command: Command | None, tasks: Sequence[TaskOptions], options: SingleTaskOptions) -> str:
        job = job_description(command, tasks, options)
        if COMMAND in job:
            return job_text(self.complete_task(job))
        return job_text({**job, TASKS: [self.complete_task(task) for task in job[TASKS]]})

    # ---------------------------------------------------------------- to see

    def job(self, id: int) -> JobHandle:  # noqa: A002  (the word of the protocol)
        """Return a job by its number; the head is not asked."""
        return JobHandle(self, id)

    def jobs(
        self,
        *,
        owner: str | None = None,
        states: Sequence[str] = (),
        name: str = "",
        project: str = "",
        group: str | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> Generator[ListedJob, None, None]:
        """Yield jobs, the newest id first; pages are asked for as they are needed.

        owner:        a user; None: all users; "": the requesting user
        states:       such as "Queued", "Running", "Failed"
        name:         a pattern with `*` and `?`
        since, until: of creation, in seconds since 1970
        """
        before: int | None = None
        while True:
            page = self.verbs.jobs(
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

    def explain(self, job: int | NumberedJob) -> Explanation:
        """Return why a job waits, when it may start, and what would let it start sooner."""
        return self.verbs.explain_job(job_number(job))

    def nodes(self, *, states: Sequence[str] = ()) -> list[NodeObject]:
        """Return the nodes, or those in some states."""
        return (self.verbs.nodes(states=list(states))).nodes

    def cluster(self) -> ClusterObject:
        """Return the cluster: its policy, its processors, how many jobs are in each state."""
        return (self.verbs.cluster()).cluster
