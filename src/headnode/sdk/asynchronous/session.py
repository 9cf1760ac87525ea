"""What a client and its jobs share: the verbs, waiting, and what tasks take from the submitting process."""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self

from headnode.apps.client.head_location import head_for_program
from headnode.apps.client.submitter import CURRENT, below, current_directory, variables_for_tasks
from headnode.core.model.errors import NotFound, Unavailable
from headnode.protocol.answers import WatchedJob
from headnode.protocol.cluster_answers import DefaultsAnswer
from headnode.protocol.event_answers import EventObject
from headnode.sdk.asynchronous.connection import AsyncHeadTransport, pause
from headnode.sdk.description import SWEEP, WORK_DIRECTORY
from headnode.sdk.options import NumberedJob
from headnode.sdk.patience import Patience
from headnode.sdk.verbs.cluster_verbs import ClusterVerbs
from headnode.sdk.verbs.job_verbs import JobVerbs
from headnode.sdk.verbs.job_view_verbs import JobViewVerbs
from headnode.sdk.verbs.node_verbs import NodeVerbs
from headnode.sdk.verbs.recurring_verbs import RecurringVerbs
from headnode.sdk.verbs.task_verbs import TaskVerbs
from headnode.sdk.verbs.verb_methods import Answer, AsyncVerbCaller, typed_answer


class AsyncVerbs(JobVerbs, JobViewVerbs, TaskVerbs, NodeVerbs, RecurringVerbs, ClusterVerbs, AsyncVerbCaller):
    """Asks a head for verbs: each is a method with the fields of its request, and returns its answer."""

    def __init__(self, transport: AsyncHeadTransport) -> None:
        self._transport = transport

    async def _ask(self, verb: str, fields: dict[str, Any], answer: type[Answer]) -> Answer:
        return typed_answer(await self._transport.ask(verb, fields), answer)

    async def _follow(
        self, verb: str, fields: dict[str, Any], answer: type[Answer], timeout: float | None
    ) -> AsyncGenerator[Answer, None]:
        async with aclosing(self._transport.follow(verb, fields, timeout)) as answers:
            async for found in answers:
                yield typed_answer(found, answer)


if TYPE_CHECKING:
    from headnode.apps.client.head_location import Head

ENVIRONMENT = "environment"
FINAL = ("Finished", "Failed", "Canceled")
"""The states of a job that has ended."""


class AsyncSession:
    """A head that is asked.  It connects with the first request, and again if the connection is lost."""

    def __init__(
        self,
        state: str | os.PathLike[str] | None = None,
        *,
        scheduler: str | None = None,
        url: str | None = None,
        token: str | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        patience: float = 600.0,
    ) -> None:
        """Choose the head as `hn` does; `state`, `scheduler` or `url` name it.

        state:     the state directory of a head on this machine; or the `url` of a gateway
        scheduler: a head by its cluster, host or address, to which the user has logged in: `hn login`
        url:       https://HOST:PORT of a gateway; None: HEADNODE_URL, if nothing else is named
        token:     of `hn token new --web`, for the gateway; None: HEADNODE_TOKEN
        ca_file:   certificates of the authorities that vouch for the gateway, in PEM; None: HEADNODE_CA_FILE,
                   else those of the system
        patience:  seconds for which waiting goes on while the head is away
        Raises:    NotFound ``not-logged-in``, BadRequest ``several-heads``, ``gateway-address``; NotAllowed
                   ``token``.
        """
        named = None if state is None else os.fspath(state)
        self.head: Head = head_for_program(named, scheduler, url, token, ca_file)
        self.patience = patience
        self._transport = AsyncHeadTransport(self.head)
        self._defaults: DefaultsAnswer | None = None
        self.verbs = AsyncVerbs(self._transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Hang up; the next request connects anew."""
        await self._transport.close()

    async def complete_task(self, task: dict[str, Any]) -> dict[str, Any]:
        """Return a task with the work directory and variables that the cluster wants tasks to take from here.

        Raises:  BadRequest ``usage`` if the current directory cannot be the work directory of a task.
        """
        if self._defaults is None:
            self._defaults = await self.verbs.submission_defaults()
        shared = isinstance(self.head, str) or getattr(self.head, "shared", True)
        directory, found = str(task.get(WORK_DIRECTORY, "")), dict(task)
        if directory == "~" or directory.startswith("~/"):
            found[WORK_DIRECTORY] = (
                directory[2:].lstrip("/") or "."
            )  # relative to the home directory on the node
        elif (
            self._defaults.work_directory == CURRENT and shared and not directory.startswith(("/", "%", "$"))
        ):
            found[WORK_DIRECTORY] = below(current_directory(), directory, swept=SWEEP in task)
        variables = variables_for_tasks(self._defaults.environment)
        if variables:
            found[ENVIRONMENT] = {**variables, **task.get(ENVIRONMENT, {})}
        return found

    async def wait(self, *jobs: int | NumberedJob, timeout: float | None = None) -> list[WatchedJob]:
        """Wait for the end of all jobs; return them in this order.

        The head reports changes: nothing is polled.  If the head goes away, this waits for `patience` seconds
        until it is back.
        Unit:    seconds (`timeout`).
        Raises:  TimeoutError; Unavailable ``head-gone``; NotFound ``no-such-job``.
        """
        last: dict[int, WatchedJob] = {}
        async with aclosing(self.watch(*jobs, timeout=timeout)) as changes:
            async for job in changes:
                last[job.id or 0] = job
        return [last[job_number(job)] for job in jobs]

    async def watch(
        self, *jobs: int | NumberedJob, timeout: float | None = None
    ) -> AsyncGenerator[WatchedJob, None]:
        """Yield all jobs now, then those that change when they change, and all when all have ended.

        Raises:  TimeoutError; Unavailable ``head-gone`` after `patience` seconds; NotFound ``no-such-job``.
        """
        numbers = [job_number(job) for job in jobs]
        if not numbers:
            raise NotFound(code="no-jobs", what="there is no job to watch", fix="name at least one job")
        patience = Patience(self.patience, timeout)
        while True:
            try:
                answers = self.verbs.watch_jobs(numbers, timeout=patience.left)
                async with aclosing(answers):
                    async for answer in answers:
                        patience.answered()
                        for job in answer.jobs:
                            yield job
                return
            except Unavailable as away:
                await pause(patience.pause_after(away))

    async def events(
        self,
        *,
        after: int | None = None,
        jobs: Sequence[int | NumberedJob] = (),
        owner: str = "",
        types: Sequence[str] = (),
        timeout: float | None = None,
    ) -> AsyncGenerator[EventObject, None]:
        """Yield what happens in the cluster, each event once, also when the head was away meanwhile.

        after: the number of the last event that is known; 0: from the first; None: from now on
        jobs:  only those about these jobs
        owner: only those about jobs of this user
        types: such as "job.ended"; "job" means all that begin with "job."
        Raises:  TimeoutError; Unavailable ``head-gone`` after `patience` seconds; WrongState ``events-gone``.
        """
        numbers, wanted = tuple(job_number(job) for job in jobs), tuple(types)
        patience = Patience(self.patience, timeout)
        while True:
            try:
                answers = self.verbs.watch_events(
                    after=after, jobs=numbers, owner=owner, types=wanted, timeout=patience.left
                )
                async with aclosing(answers):
                    async for answer in answers:
                        patience.answered()
                        for event in answer.events:
                            yield event
                        after = answer.after
            except Unavailable as away:
                await pause(patience.pause_after(away))

    async def as_completed(
        self, *jobs: int | NumberedJob, timeout: float | None = None
    ) -> AsyncGenerator[WatchedJob, None]:
        """Yield each job when it has ended.

        Raises:  as `watch`.
        """
        ended: set[int] = set()
        async with aclosing(self.watch(*jobs, timeout=timeout)) as changes:
            async for job in changes:
                if job.state in FINAL and job.id not in ended:
                    ended.add(job.id or 0)
                    yield job


def job_number(job: int | NumberedJob) -> int:
    """Return the number of a job."""
    return job if isinstance(job, int) else job.id
