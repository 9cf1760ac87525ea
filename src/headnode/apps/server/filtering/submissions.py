"""Jobs on their way into the queue: through the submission filters, beside everything else.

A job that is submitted is durable before any filter sees it.  After a restart the filters are asked again.
Source: HPC filters, "Job submission filters and their return values".
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

from headnode.adapters.filters.calling import Call
from headnode.adapters.identity.users import Account
from headnode.apps.server.desk import Desk
from headnode.apps.server.filtering.asking import Asker, Together, Turnstile
from headnode.apps.server.filtering.papers import changed, write_paper
from headnode.apps.server.fitting import refuse_unfit_change
from headnode.core.filtering.registration import Chain
from headnode.core.filtering.submission import Passage, failure, passage, wrong_change
from headnode.core.filtering.walking import Walk
from headnode.core.formats.live_jobs import Live
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.events import Event, JobEnded, JobSubmitted, JobValidated
from headnode.core.lifecycle.filters import submission_filters
from headnode.core.lifecycle.records import JobRecord
from headnode.core.lifecycle.states import JobState
from headnode.core.lifecycle.templates import shaped
from headnode.core.model.errors import NotAllowed, Refused, Unavailable
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User

log = logging.getLogger("headnode.filters")

LONGEST_WAIT = 0.01  # seconds that one who has passed waits for others, so that one write serves all
AFTER_TROUBLE = 1.0  # seconds until the journal is tried again


class Passed(NamedTuple):
    """A job behind its filters: as they made it, and who is to undo what if it gets no further."""

    spec: JobSpec
    walk: Walk
    failed: str  # why it does not go on; empty: it does


class Submissions:
    """Takes every job that is validating through its filters."""

    def __init__(self, desk: Desk, asker: Asker) -> None:
        self._desk, self._asker = desk, asker
        self._turnstile = Turnstile(lambda: int(desk.engine.settings.number("FiltersAtOnce")))
        self._together = Together(LONGEST_WAIT)
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[JobId, list[asyncio.Future[str]]] = {}

    @property
    def seconds(self) -> float:
        """How long a submission filter may take."""
        return self._desk.engine.settings.number("SubmissionFilterTimeout")

    def begin(self) -> None:
        """Take up the jobs that an earlier head has left in validation."""
        for record in list(self._desk.cluster.jobs.values()):
            if record.state is JobState.VALIDATING:
                self._start(record.id, record.order)

    def perform(self, events: Sequence[Event], cluster: Cluster) -> None:  # noqa: ARG002  (it is an Effects)
        """Begin with jobs that were submitted; tell those who wait what became of others."""
        for event in events:
            if isinstance(event, JobSubmitted):
                if event.validating:
                    self._start(event.job, event.order)
            elif isinstance(event, JobValidated | JobEnded) and event.job in self._waiting:
                message = "" if isinstance(event, JobValidated) else event.message or event.outcome
                for future in self._waiting.pop(event.job):
                    if not future.done():
                        future.set_result(message)

    async def wait(self, jobs: Collection[int]) -> None:
        """Wait until these jobs have come into the queue.

        Raises:  NotAllowed ``submission-filter`` when some of them did not; the others have.
        """
        messages = await asyncio.gather(*(self._message(JobId(job)) for job in jobs))
        failed = [(job, message) for job, message in zip(jobs, messages, strict=True) if message]
        if failed:
            told = "; ".join(f"job {job} failed: {message}" for job, message in failed[:5])
            raise NotAllowed(
                code="submission-filter",
                what=told,
                fix=f"change that, and submit a copy: hn job clone {failed[0][0]}",
            )

    def _message(self, job: JobId) -> "asyncio.Future[str]":
        """Return what will be the message of a job that does not come into the queue; empty if it does."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        record = self._desk.lookups.record(job)
        if record is not None and record.state is JobState.VALIDATING:
            self._waiting.setdefault(job, []).append(future)
        else:
            never_came = record is not None and record.unvalidated
            future.set_result((record.message or record.state.value) if record and never_came else "")
        return future

    @asynccontextmanager
    async def changing(self, record: JobRecord, spec: JobSpec) -> AsyncIterator[JobSpec]:
        """Give what filters make of a change to a job that was submitted; undo it if it is refused inside.

        Raises:  NotAllowed ``submission-filter`` when one of them refuses it.
        """
        chain = submission_filters(self._desk.cluster, spec)
        if not chain:
            yield spec
            return
        async with self._turnstile.turn():
            passed = await self.through(chain, record, spec, change=True)
        undo = partial(self._asker.undo, passed.walk.to_undo(), record.id, self.seconds, change=True)
        if passed.failed:
            await undo()
            raise NotAllowed(
                code="submission-filter",
                what=f"job {record.id} stays as it was: {passed.failed}",
                fix="change it as the filter wants, or submit another job",
            )
        try:
            yield passed.spec
        except (Refused, Unavailable):
            await undo()
            raise

    def _start(self, job: JobId, order: int) -> None:
        task = asyncio.get_running_loop().create_task(self._take_through(job, order))
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.critical("filters were not run for a job", exc_info=task.exception())

    async def _take_through(self, job: JobId, order: int) -> None:
        async with self._turnstile.turn():
            record = self._record(job, order)
            if record is None:
                return
            spec = self._desk.cluster.written(record)
            chain = submission_filters(self._desk.cluster, spec)
            with self._together:
                passed = await self.through(chain, record, spec, lambda: self._record(job, order) is not None)
        await self._together.arrive()
        failed = passed.failed or await self._let_in(job, order, chain, passed.spec)
        if failed and passed.walk.called:
            await self._asker.undo(passed.walk.to_undo(), job, self.seconds)
        if failed:
            await self._insist(c.RejectJob(job=job, order=order, message=failed))

    def _record(self, job: JobId, order: int) -> JobRecord | None:
        record = self._desk.cluster.jobs.get(job)
        if record is None or record.state is not JobState.VALIDATING or record.order != order:
            return None
        return record

    async def through(
        self,
        chain: Chain,
        record: JobRecord,
        spec: JobSpec,
        goes_on: Callable[[], bool] = lambda: True,
        *,
        change: bool = False,
    ) -> Passed:
        """Take a description through filters; stop at the first that fails it, or when it must not go on.

        `change`: the job has been submitted, and is to be as `spec` says from now on.
        """
        walk, seconds = Walk(chain), self.seconds
        while (each := walk.next()) is not None:
            if not goes_on():
                return Passed(spec, walk, "it was canceled")
            live = Live(
                id=record.id,
                state=JobState.VALIDATING,
                phase="Validating",
                owner=record.owner,
                created=record.created,
                submitted=record.submitted,
            )
            paper = await write_paper(spec, live, each.dialect, len(record.spec), change=change)
            returned = await self._asker.call(
                Call(each, "submission", record.id, paper, seconds, change=change)
            )
            if returned.answer.ran:
                walk.ran(paper)
            found = passage(returned.answer)
            if found is Passage.FAILED:
                return Passed(spec, walk, failure(each, returned.answer, seconds))
            if found is Passage.CHANGED:
                try:
                    spec = await changed(spec, paper, returned.paper, each.dialect)
                except Refused as no:
                    return Passed(spec, walk, wrong_change(each, no.what))
        return Passed(spec, walk, "")

    async def _let_in(self, job: JobId, order: int, chain: Chain, spec: JobSpec) -> str:
        """Let a job into the queue that has passed; return why it cannot be there."""
        record = self._record(job, order)
        if record is None:
            return "it was canceled"
        by = self._desk.roles.of(Account(record.owner, record.uid, record.gid))
        try:
            made = shaped(self._desk.cluster.templates, by, spec)
            refuse_unfit_change(self._desk, record.owner, made)
            await self._insist(self._validation(record, order, chain, spec, by))
        except Refused as no:
            return str(no)
        return "" if self._record(job, order) is None and _is_alive(self._desk, job) else "it was canceled"

    def _validation(
        self, record: JobRecord, order: int, chain: Chain, spec: JobSpec, by: User
    ) -> c.ValidateJob:
        return c.ValidateJob(
            by=by,
            job=record.id,
            order=order,
            filters=tuple(each.name for each in chain),
            spec=None if spec == self._desk.cluster.written(record) else spec,
            parents=self._desk.lookups.ended_parents(spec),
        )

    async def _insist(self, command: c.Command) -> None:
        """Give a command until the journal takes it."""
        while True:
            try:
                await self._desk.ask(command)
            except Unavailable:
                await asyncio.sleep(AFTER_TROUBLE)
            else:
                return

    async def close(self) -> None:
        """Stop; what is validating stays so."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _is_alive(desk: Desk, job: JobId) -> bool:
    """Whether a job is in the queue, or was: what is canceled in its validation never came there."""
    found = desk.lookups.record(job)
    return found is not None and not found.unvalidated
