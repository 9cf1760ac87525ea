"""What the engine asks of activation filters, answered beside it.

Source: HPC filters, "Job activation filters and their return values".
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import NamedTuple

from msgspec.structs import replace

from headnode.adapters.filters.calling import Call, Offered
from headnode.apps.server.desk import Desk
from headnode.apps.server.filtering.asking import Asker
from headnode.apps.server.filtering.papers import write_paper
from headnode.core.filtering.activation import Phase, Verdict, outcome, verdict
from headnode.core.filtering.walking import Walk
from headnode.core.formats.live_jobs import Live
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.records import JobRecord
from headnode.core.model.errors import Unavailable
from headnode.core.model.quantities import JobId, Seconds
from headnode.engine.ports import Question

log = logging.getLogger("headnode.filters")


class _Cleared(NamedTuple):
    """What filters let a job have, and would have to undo."""

    job: JobId
    walk: Walk
    offered: Offered


class Activations:
    """A `Filters` that runs them.  All about one job comes one after the other."""

    def __init__(self, desk: Desk, asker: Asker) -> None:
        self._desk, self._asker = desk, asker
        self._cleared: dict[int, _Cleared] = {}  # by offer
        self._last: dict[JobId, asyncio.Task[None]] = {}  # what is done last about a job

    @property
    def seconds(self) -> float:
        """How long an activation filter may take."""
        return self._desk.engine.settings.number("ActivationFilterTimeout")

    def ask(self, question: Question) -> None:
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

    async def _undo(self, cleared: _Cleared) -> None:
        await self._asker.undo(cleared.walk.to_undo(), cleared.job, self.seconds, cleared.offered)

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

    async def _answer(self, question: Question) -> None:
        """Ask the filters in turn, and tell the engine; whatever happens here, it is told something."""
        other = Verdict.WAIT if question.running or question.backfill else Verdict.KEEP_RESOURCES
        told = c.TakeVerdict(
            job=question.job, offer=question.offer, verdict=other, words="the head could not ask its filters"
        )
        try:
            told = await self._asked(question)
        finally:
            await self._tell(told)

    async def _asked(self, question: Question) -> c.TakeVerdict:
        settings = self._desk.engine.settings
        record = self._desk.cluster.jobs.get(question.job)
        walk, seconds = Walk(question.filters), self.seconds
        offered = Offered(
            question.scheduler_pass,
            question.job_index,
            question.backfill,
            question.resource_count,
            question.offer,
        )
        phase = Phase.RUNNING if question.running else Phase.BACKFILLED if question.backfill else Phase.QUEUED
        told = c.TakeVerdict(job=question.job, offer=question.offer, verdict=Verdict.START)
        while record is not None and (each := walk.next()) is not None:
            spec = self._desk.cluster.written(record)
            paper = await write_paper(spec, self._live(record, question), each.dialect, len(record.spec))
            returned = await self._asker.call(Call(each, "activation", record.id, paper, seconds, offered))
            if returned.answer.ran:
                walk.ran(paper)
            found = verdict(returned.answer, phase, each.rules)
            if found is not Verdict.START:
                await self._asker.undo(walk.to_undo(), record.id, seconds, offered)
                return replace(
                    told,
                    verdict=found,
                    filter=each.name,
                    words=outcome(each, found, returned.answer, seconds),
                    hold=Seconds(settings.number("DefaultHoldDuration")),
                )
        if walk.called:
            self._cleared[question.offer] = _Cleared(question.job, walk, offered)
        return told

    def _live(self, record: JobRecord, question: Question) -> Live:
        """Return what the paper says of a job beside its description."""
        if question.running:
            from headnode.apps.server.exporting import live_of

            return replace(live_of(self._desk, self._desk.lookups.job(record.id)), phase="Running")
        return Live(
            id=record.id,
            state=record.state,
            phase="Queued",
            owner=record.owner,
            created=record.created,
            submitted=record.submitted,
            requeues=record.run.requeues if record.run is not None else 0,
        )

    async def _tell(self, told: c.TakeVerdict) -> None:
        try:
            await self._desk.ask(told)
        except Unavailable as error:  # the engine has read its memory again: there is no such offer any more
            log.error("the answers of filters about job %s are lost: %s", told.job, error)
            self.undo(told.offer)

    async def close(self) -> None:
        """Stop; after a restart the filters are asked again."""
        tasks = list(self._last.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
