"""A cluster as an object: submit jobs, see them, wait for them.

Printed by `make bless` (scripts/sdk_source.py): do not edit.
"""

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from headnode.apps.client.head_location import head_to_ask
from headnode.apps.client.submitter import CURRENT, below, current_directory, variables_for_tasks
from headnode.core.model.errors import NotFound, Unavailable
from headnode.protocol.answers import ListedJob, WatchedJob
from headnode.protocol.cluster_answers import ClusterObject, DefaultsAnswer
from headnode.protocol.explanation_answers import CheckAnswer, Explanation
from headnode.protocol.node_answers import NodeObject
from headnode.sdk.description import (
    COMMAND,
    DIALECT,
    SWEEP,
    TASKS,
    WORK_DIRECTORY,
    Command,
    job_description,
    job_text,
)
from headnode.sdk.options import NumberedJob, SingleTaskOptions, TaskOptions
from headnode.sdk.patience import Patience
from headnode.sdk.synchronous.connection import Transport, pause
from headnode.sdk.synchronous.job_handle import JobHandle
from headnode.sdk.synchronous.verbs import Verbs

if TYPE_CHECKING:
    from headnode.apps.client.head_location import Head

ENVIRONMENT = "environment"
FINAL = ("Finished", "Failed", "Canceled")
"""The states of a job that has ended."""


class HeadnodeClient:
    """Asks a head.  Connects with the first request, and again if the connection is lost.

    `verbs` has every verb of the local protocol as a typed method; the other methods are for everyday use.
    A refusal is raised as `BadRequest`, `NotAllowed`, `NotFound` or `WrongState`, a head that is away as
    `Unavailable`; all are `HeadnodeError` with `code`, `what` and `fix`.
    """

    def __init__(
        self,
        state: str | os.PathLike[str] | None = None,
        *,
        scheduler: str | None = None,
        patience: float = 600.0,
    ) -> None:
        """Choose the head as `hn` does; `state` or `scheduler` name it.

        state:     the state directory of a head on this machine
        scheduler: a head by its cluster, host or address, to which the user has logged in: `hn login`
        patience:  seconds for which waiting goes on while the head is away
        Raises:    NotFound ``not-logged-in``, BadRequest ``several-heads``.
        """
        named = None if state is None else os.fspath(state)
        self.head: Head = head_to_ask(os.environ, os.getuid(), state=named, scheduler=scheduler)
        self.patience = patience
        self._transport = Transport(self.head)
        self._defaults: DefaultsAnswer | None = None
        self.verbs = Verbs(self._transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up; the next request connects anew."""
        self._transport.close()

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

    def complete_task(self, task: dict[str, Any]) -> dict[str, Any]:
        """Return a task with the work directory and variables that the cluster wants tasks to take from here.

        Raises:  BadRequest ``usage`` if the current directory cannot be the work directory of a task.
        """
        if self._defaults is None:
            self._defaults = self.verbs.defaults()
        shared = isinstance(self.head, str) or getattr(self.head, "shared", True)
        given, found = str(task.get(WORK_DIRECTORY, "")), dict(task)
        if self._defaults.work_directory == CURRENT and shared and not given.startswith(("/", "%", "$")):
            found[WORK_DIRECTORY] = below(current_directory(), given, swept=SWEEP in task)
        variables = variables_for_tasks(self._defaults.environment)
        if variables:
            found[ENVIRONMENT] = {**variables, **task.get(ENVIRONMENT, {})}
        return found

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
        return self.verbs.explain_job(_number(job))

    def nodes(self, *, states: Sequence[str] = ()) -> list[NodeObject]:
        """Return the nodes, or those in some states."""
        return (self.verbs.nodes(states=list(states))).nodes

    def cluster(self) -> ClusterObject:
        """Return the cluster: its policy, its processors, how many jobs are in each state."""
        return (self.verbs.cluster()).cluster

    # ---------------------------------------------------------------- to wait

    def wait(self, *jobs: int | NumberedJob, timeout: float | None = None) -> list[WatchedJob]:
        """Wait for the end of all jobs; return them in this order.

        The head reports changes: nothing is polled.  If the head goes away, this waits for `patience` seconds
        until it is back.
        Unit:    seconds (`timeout`).
        Raises:  TimeoutError; Unavailable ``head-gone``; NotFound ``no-such-job``.
        """
        last: dict[int, WatchedJob] = {}
        with closing(self.watch(*jobs, timeout=timeout)) as changes:
            for job in changes:
                last[job.id or 0] = job
        return [last[_number(job)] for job in jobs]

    def watch(
        self, *jobs: int | NumberedJob, timeout: float | None = None
    ) -> Generator[WatchedJob, None, None]:
        """Yield all jobs now, then those that change when they change, and all when all have ended.

        Raises:  TimeoutError; Unavailable ``head-gone`` after `patience` seconds; NotFound ``no-such-job``.
        """
        numbers = [_number(job) for job in jobs]
        if not numbers:
            raise NotFound(code="no-jobs", what="there is no job to watch", fix="name at least one job")
        patience = Patience(self.patience, timeout)
        while True:
            try:
                answers = self.verbs.watch_job(numbers, timeout=patience.left)
                with closing(answers):
                    for answer in answers:
                        patience.answered()
                        for job in answer.jobs:
                            yield job
                return
            except Unavailable as away:
                pause(patience.pause_after(away))

    def as_completed(
        self, *jobs: int | NumberedJob, timeout: float | None = None
    ) -> Generator[WatchedJob, None, None]:
        """Yield each job when it has ended.

        Raises:  as `watch`.
        """
        ended: set[int] = set()
        with closing(self.watch(*jobs, timeout=timeout)) as changes:
            for job in changes:
                if job.state in FINAL and job.id not in ended:
                    ended.add(job.id or 0)
                    yield job


def _number(job: int | NumberedJob) -> int:
    return job if isinstance(job, int) else job.id
