"""What the engine asks of activation filters, answered beside it.

Source: HPC filters, "Job activation filters and their return values".
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from headnode.apps.server.filtering.filter_documents import FilterCaller, write_document
from headnode.apps.server.server_context import ServerContext
from headnode.core.filtering import (
    ActivationPhase,
    ActivationVerdict,
    ChainRun,
    FilterOffer,
    FilterRequest,
    activation_outcome,
    activation_verdict,
)
from headnode.core.model.errors import Unavailable
from headnode.core.model.quantities import JobId, Seconds
from headnode.core.state import filters as c
from headnode.core.state.job_record import JobRecord
from headnode.engine.ports import FilterQuestion

if TYPE_CHECKING:
    from headnode.core.formats.job_views import ExportedJob

log = logging.getLogger("headnode.filters")


class _AcceptedOffer(NamedTuple):
    """Resources that filters have granted to a job, and that they undo if it does not get them."""

    job: JobId
    walk: ChainRun
    offered: FilterOffer


class ActivationFilters:
    """A `Filters` that runs activation filters.  The calls about one job follow each other."""

    def __init__(self, context: ServerContext, asker: FilterCaller) -> None:
        self._context, self._filter_caller = context, asker
        self._cleared: dict[int, _AcceptedOffer] = {}  # by offer
        self._last: dict[JobId, asyncio.Task[None]] = {}  # what is done last about a job

    @property
    def seconds(self) -> float:
        """How long an activation filter may take."""
        return self._context.engine.settings.number("ActivationFilterTimeout")

    def ask(self, question: FilterQuestion) -> None:
        """Begin to ask."""
        self._after(question.job, self._answer(question))

    def done(self, offer: int) -> None:
        """Forget how to undo what has come true."""
        self._cleared.pop(offer, None)

    def undo(self, offer: int) -> None:
        """Undo what has not come true."""
        cleared = self._cleared.pop(offer, None)
        if cleared is not None:
            self._after(cleared.job, self._undo(cleared))

    async def _undo(self, cleared: _AcceptedOffer) -> None:
        await self._filter_caller.undo(cleared.walk.to_undo(), cleared.job, self.seconds, cleared.offered)

    def _after(self, job: JobId, doing: Coroutine[None, None, None]) -> None:
        before = self._last.get(job)

        async def in_turn() -> None:
            if before is not None:
                await asyncio.wait([before])
            await doing

        task = self._last[job] = asyncio.get_running_loop().create_task(in_turn())
        task.add_done_callback(lambda done: self._over(job, done))

    def _over(self, job: JobId, task: "asyncio.Task[None]") -> None:
        if self._last.get(job) is task:
            del self._last[job]
        if not task.cancelled() and task.exception() is not None:
            log.critical("filters were not run for job %s", job, exc_info=task.exception())

    async def _answer(self, question: FilterQuestion) -> None:
        """Ask the filters in turn, and tell the engine; whatever happens here, it is told something."""
        other = (
            ActivationVerdict.WAIT
            if question.running or question.backfill
            else ActivationVerdict.KEEP_RESOURCES
        )
        verdict = c.TakeVerdict(
            job=question.job, offer=question.offer, verdict=other, words="the head could not ask its filters"
        )
        try:
            verdict = await self._asked(question)
        finally:
            await self._send_verdict(verdict)

    async def _asked(self, question: FilterQuestion) -> c.TakeVerdict:
        settings = self._context.engine.settings
        record = self._context.cluster.jobs.get(question.job)
        walk, seconds = ChainRun(question.filters), self.seconds
        offered = FilterOffer(
            question.scheduler_pass,
            question.job_index,
            question.backfill,
            question.resource_count,
            question.offer,
        )
        phase = (
            ActivationPhase.RUNNING
            if question.running
            else ActivationPhase.BACKFILLED
            if question.backfill
            else ActivationPhase.QUEUED
        )
        verdict = c.TakeVerdict(job=question.job, offer=question.offer, verdict=ActivationVerdict.START)
        while record is not None and (each := walk.next()) is not None:
            spec = self._context.cluster.written(record)
            paper = await write_document(spec, self._live(record, question), each.dialect, len(record.spec))
            returned = await self._filter_caller.call(
                FilterRequest(each, "activation", record.id, paper, seconds, offered)
            )
            if returned.answer.ran:
                walk.ran(paper)
            result = activation_verdict(returned.answer, phase, each.rules)
            if result is not ActivationVerdict.START:
                await self._filter_caller.undo(walk.to_undo(), record.id, seconds, offered)
                return replace(
                    verdict,
                    verdict=result,
                    filter=each.name,
                    words=activation_outcome(each, result, returned.answer, seconds),
                    hold=Seconds(settings.number("DefaultHoldDuration")),
                )
        if walk.calls:
            self._cleared[question.offer] = _AcceptedOffer(question.job, walk, offered)
        return verdict

    def _live(self, record: JobRecord, question: FilterQuestion) -> "ExportedJob":
        """Return what the paper says of a job beside its description."""
        if question.running:
            from headnode.apps.server.api.job_export import live_of

            return replace(live_of(self._context, self._context.lookups.job(record.id)), phase="Running")
        from headnode.core.formats.job_views import ExportedJob

        return ExportedJob(
            id=record.id,
            state=record.state,
            phase="Queued",
            owner=record.owner,
            created=record.created,
            submitted=record.submitted,
            requeues=record.run.requeues if record.run is not None else 0,
        )

    async def _send_verdict(self, verdict: c.TakeVerdict) -> None:
        try:
            await self._context.ask(verdict)
        except Unavailable as error:  # the engine has read its memory again: there is no such offer any more
            log.error("the answers of filters about job %s are lost: %s", verdict.job, error)
            self.undo(verdict.offer)

    async def close(self) -> None:
        """Stop; after a restart the filters are asked again."""
        tasks = list(self._last.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
