"""Jobs on their way into the queue: through the submission filters, beside everything else.

A job that is submitted is durable before any filter sees it.  After a restart the filters are called again.
Source: HPC filters, "Job submission filters and their return values".
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headnode.adapters.identity.users import Account
from headnode.apps.server.api.job_submission import refuse_unfit_change
from headnode.apps.server.filtering.filter_documents import FilterCaller, changed_spec, write_document
from headnode.apps.server.server_context import ServerContext, SubmissionChain
from headnode.core.filtering import (
    ChainRun,
    FilterChain,
    FilterRequest,
    SubmissionVerdict,
    submission_failure,
    submission_verdict,
    wrong_change,
)
from headnode.core.model.errors import NotAllowed, Refused, Unavailable
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.events import Event
from headnode.core.state.filters import RejectJob, ValidateJob
from headnode.core.state.job_events import JobEnded, JobSubmitted, JobValidated
from headnode.core.state.job_record import JobRecord
from headnode.core.state.templates import queued_spec, submission_filters
from headnode.core.state.transitions import JobState

if TYPE_CHECKING:
    from headnode.core.formats.job_views import ExportedJob


class ArrivalBatch:
    """Batches requests that arrive while others are announced, so that all need one write."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._coming = 0
        self._here: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        """Announce one more request."""
        self._coming += 1

    def __exit__(self, *_: object) -> None:
        """End the announcement: the request has arrived, or does not come."""
        self._coming -= 1
        if not self._coming:
            self._go()

    async def arrive(self) -> None:
        """Wait for the announced requests, at most `longest` seconds."""
        if not self._coming:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._here.append(future)
        if self._timer is None:
            self._timer = loop.call_later(self._longest, self._go)
        await future

    def _go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        futures, self._here = self._here, []
        for future in futures:
            if not future.done():
                future.set_result(None)


class ConcurrencyLimit:
    """Lets in as many at once as its limit says now, in the order they came."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn, and give it up at the end."""
        while self._inside >= self._limit():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            self._admit_next()

    def _admit_next(self) -> None:
        for _ in range(max(0, self._limit() - self._inside)):
            while self._waiting and self._waiting[0].done():
                self._waiting.popleft()
            if self._waiting:
                self._waiting.popleft().set_result(None)


log = logging.getLogger("headnode.filters")

MAX_WAIT = 0.01  # seconds that one who has passed waits for others, so that one write serves all
AFTER_TROUBLE = 1.0  # seconds until the journal is tried again


class FilteredJob(NamedTuple):
    """A job after its filters: the job as they changed it, and the calls to undo if it is refused later."""

    spec: JobSpec
    walk: ChainRun
    failed: str  # why it does not go on; empty: it does


class SubmissionFilters(SubmissionChain):
    """Takes every job that is validating through its filters."""

    def __init__(self, context: ServerContext, asker: FilterCaller) -> None:
        self._context, self._filter_caller = context, asker
        self._turnstile = ConcurrencyLimit(lambda: int(context.engine.settings.number("FiltersAtOnce")))
        self._together = ArrivalBatch(MAX_WAIT)
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[JobId, list[asyncio.Future[str]]] = {}

    @property
    def seconds(self) -> float:
        """How long a submission filter may take."""
        return self._context.engine.settings.number("SubmissionFilterTimeout")

    def begin(self) -> None:
        """Take up the jobs that an earlier head has left in validation."""
        for record in list(self._context.cluster.jobs.values()):
            if record.state is JobState.VALIDATING:
                self._start(record.id, record.order)

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:  # noqa: ARG002  (it is an Effects)
        """Begin with submitted jobs; answer the clients that wait for jobs which ended or were accepted."""
        for event in events:
            if isinstance(event, JobSubmitted):
                if event.validating:
                    self._start(event.job, event.order)
            elif self._waiting and isinstance(event, JobValidated | JobEnded) and event.job in self._waiting:
                message = "" if isinstance(event, JobValidated) else event.message or event.outcome
                for future in self._waiting.pop(event.job):
                    if not future.done():
                        future.set_result(message)

    async def messages(self, jobs: Collection[int]) -> list[str]:
        asked = [self._message(JobId(job)) for job in jobs]
        return [each if isinstance(each, str) else await each for each in asked]

    async def wait(self, jobs: Collection[int]) -> None:
        messages = await self.messages(jobs)
        failed = [(job, message) for job, message in zip(jobs, messages, strict=True) if message]
        if failed:
            failures = "; ".join(f"job {job} failed: {message}" for job, message in failed[:5])
            raise NotAllowed(
                code="submission-filter",
                what=failures,
                fix=f"change that, and submit a copy: hn job clone {failed[0][0]}",
            )

    def _message(self, job: JobId) -> "str | asyncio.Future[str]":
        """Return the message of a job that does not come into the queue, or what will be it.

        It is empty if the job comes into the queue.
        """
        record = self._context.lookups.record(job)
        if record is not None and record.state is JobState.VALIDATING:
            future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(job, []).append(future)
            return future
        return (record.message or record.state.value) if record and record.unvalidated else ""

    @asynccontextmanager
    async def changing(self, record: JobRecord, spec: JobSpec) -> AsyncIterator[JobSpec]:
        chain = submission_filters(self._context.cluster, spec)
        if not chain:
            yield spec
            return
        async with self._turnstile.turn():
            passed = await self.through(chain, record, spec, change=True)
        undo = partial(self._filter_caller.undo, passed.walk.to_undo(), record.id, self.seconds, change=True)
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
            spec = self._context.cluster.written(record)
            chain = submission_filters(self._context.cluster, spec)
            with self._together:
                passed = await self.through(chain, record, spec, lambda: self._record(job, order) is not None)
        await self._together.arrive()
        failed = passed.failed or await self._admit(job, order, chain, passed.spec)
        if failed and passed.walk.calls:
            await self._filter_caller.undo(passed.walk.to_undo(), job, self.seconds)
        if failed:
            await self._insist(RejectJob(job=job, order=order, message=failed))

    def _record(self, job: JobId, order: int) -> JobRecord | None:
        record = self._context.cluster.jobs.get(job)
        if record is None or record.state is not JobState.VALIDATING or record.order != order:
            return None
        return record

    async def through(
        self,
        chain: FilterChain,
        record: JobRecord,
        spec: JobSpec,
        goes_on: Callable[[], bool] = lambda: True,
        *,
        change: bool = False,
    ) -> FilteredJob:
        """Take a description through filters; stop at the first that fails it, or when it must not go on.

        `change`: the job has been submitted, and is to be as `spec` says from now on.
        """
        walk, seconds = ChainRun(chain), self.seconds
        while (each := walk.next()) is not None:
            if not goes_on():
                return FilteredJob(spec, walk, "it was canceled")
            paper = await write_document(
                spec, _validating(record), each.dialect, len(record.spec), change=change
            )
            returned = await self._filter_caller.call(
                FilterRequest(each, "submission", record.id, paper, seconds, change=change)
            )
            if returned.answer.ran:
                walk.ran(paper)
            verdict = submission_verdict(returned.answer)
            if verdict is SubmissionVerdict.FAILED:
                return FilteredJob(spec, walk, submission_failure(each, returned.answer, seconds))
            if verdict is SubmissionVerdict.CHANGED:
                try:
                    spec = await changed_spec(spec, paper, returned.paper, each.dialect)
                except Refused as no:
                    return FilteredJob(spec, walk, wrong_change(each, no.what))
        return FilteredJob(spec, walk, "")

    async def _admit(self, job: JobId, order: int, chain: FilterChain, spec: JobSpec) -> str:
        """Let a job into the queue that has passed; return why it cannot be there."""
        record = self._record(job, order)
        if record is None:
            return "it was canceled"
        by = self._context.roles.of(Account(record.owner, record.uid, record.gid))
        try:
            made = queued_spec(self._context.cluster, by, spec)
            refuse_unfit_change(self._context, record.owner, made)
            await self._insist(self._validation(record, order, chain, spec, by))
        except Refused as no:
            return str(no)
        return "" if self._record(job, order) is None and _is_alive(self._context, job) else "it was canceled"

    def _validation(
        self, record: JobRecord, order: int, chain: FilterChain, spec: JobSpec, by: User
    ) -> ValidateJob:
        return ValidateJob(
            by=by,
            job=record.id,
            order=order,
            filters=tuple(each.name for each in chain),
            spec=None if spec == self._context.cluster.written(record) else spec,
            parents=self._context.lookups.ended_parents(spec),
        )

    async def _insist(self, command: Command) -> None:
        """Give a command until the journal takes it."""
        while True:
            try:
                await self._context.ask(command)
            except Unavailable:
                await asyncio.sleep(AFTER_TROUBLE)
            else:
                return

    async def close(self) -> None:
        """Stop; what is validating stays so."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _is_alive(context: ServerContext, job: JobId) -> bool:
    """Whether a job is in the queue, or was: what is canceled in its validation never came there."""
    record = context.lookups.record(job)
    return record is not None and not record.unvalidated


def _validating(record: JobRecord) -> "ExportedJob":
    """Return what a submission filter gets of a job beside its description."""
    from headnode.core.formats.job_views import ExportedJob

    return ExportedJob(
        id=record.id,
        state=JobState.VALIDATING,
        phase="Validating",
        owner=record.owner,
        created=record.created,
        submitted=record.submitted,
    )
