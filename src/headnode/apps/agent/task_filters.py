"""Tasks on their way through the filters of the node: one after the other where they run so, too."""

import asyncio
import logging
from collections.abc import Sequence

from headnode.adapters.processes.job_journal import Key
from headnode.apps.agent.node_programs import ask_filter
from headnode.apps.agent.node_services import NodeServices
from headnode.apps.agent.prolog_epilog import PrologEpilog
from headnode.apps.agent.shepherd_handle import trouble_of, words_for
from headnode.core.launching.node_filters import JOB_TASK_START, TASK_START, NodeFilterInput, NodeFilterResult
from headnode.core.model import faults
from headnode.core.model.errors import Unavailable
from headnode.core.model.quantities import JobId
from headnode.core.state.job_events import NodeCores

log = logging.getLogger("headnode.agent")

Candidate = tuple[Key, NodeFilterInput]
"""An attempt, and what its filter is asked."""


class TaskFilters:
    """All tasks that wait for a filter."""

    def __init__(self, visits: PrologEpilog, services: NodeServices) -> None:
        self._visits, self._services = visits, services
        self._waiting: dict[JobId, dict[Key, None]] = {}
        self._work: dict[JobId, set[asyncio.Task[None]]] = {}
        self._first: dict[JobId, asyncio.Lock] = {}  # held by the task that may be the job's first here
        self._lanes: dict[tuple[JobId, int, NodeCores], asyncio.Lock] = {}

    def sees(self, job: JobId) -> bool:
        """Whether some filter sees the tasks of a job before they start."""
        filters = self._visits.filters_of(job)
        if not filters:
            return False
        if JOB_TASK_START in filters or TASK_START in filters:
            return True
        self._visits.begin(job)
        return False

    def waiting(self, job: JobId) -> dict[Key, None]:
        """Return the attempts of a job that wait for a filter, or for their turn."""
        return self._waiting.get(job, {})

    def begin(self, job: JobId, place: NodeCores, candidates: Sequence[Candidate]) -> None:
        """Take these through their filters, in this order."""
        self._waiting.setdefault(job, {}).update((key, None) for key, _ in candidates)
        work = asyncio.ensure_future(self._take_through(job, place, candidates))
        self._work.setdefault(job, set()).add(work)
        work.add_done_callback(lambda done: self._worked(job, candidates, done))

    def take_back(self, job: JobId, key: Key) -> bool:
        """Let an attempt not start; False when it does not wait here (any more)."""
        waiting = self._waiting.get(job, {})
        if key not in waiting:
            return False
        del waiting[key]
        return True

    def take_all_back(self, job: JobId) -> list[Key]:
        """Let nothing of a job start that waits; return what that is.  A filter that runs is killed."""
        for work in self._work.get(job, ()):
            work.cancel()
        self._first.pop(job, None)
        self._lanes = {lane: lock for lane, lock in self._lanes.items() if lane[0] != job}
        return list(self._waiting.pop(job, {}))

    async def _take_through(self, job: JobId, place: NodeCores, candidates: Sequence[Candidate]) -> None:
        task = candidates[0][0][0]
        async with self._lanes.setdefault((job, task, place), asyncio.Lock()):
            for key, asked in candidates:
                if key in self.waiting(job):
                    await self._take_one(job, place, key, asked)

    async def _take_one(self, job: JobId, place: NodeCores, key: Key, asked: NodeFilterInput) -> None:
        try:
            found = await self._asked(job, asked)
        except (OSError, Unavailable) as error:
            if self.take_back(job, key):
                self._services.refused(job, key, words_for(error), trouble_of(error))
            return
        if self.take_back(job, key):
            self._services.passed(job, key, place, found)

    async def _asked(self, job: JobId, asked: NodeFilterInput) -> NodeFilterResult:
        """Return a task as its filter wants it; while it is not known who is the first, all others wait."""
        if not self._visits.has_begun(job):
            async with self._first.setdefault(job, asyncio.Lock()):
                if not self._visits.has_begun(job):
                    found = await self._filtered(job, JOB_TASK_START, asked)
                    self._visits.begin(job)
                    return found
        return await self._filtered(job, TASK_START, asked)

    async def _filtered(self, job: JobId, event: str, asked: NodeFilterInput) -> NodeFilterResult:
        path = self._visits.filters_of(job).get(event)
        if path is None:
            return NodeFilterResult(asked.recipe, asked.processors)
        around = {**self._visits.environment(job), "HEADNODE_HOOK": event}
        return await ask_filter(path, asked, around, self._visits.patience_of_filters(job))

    def _worked(self, job: JobId, candidates: Sequence[Candidate], done: "asyncio.Task[None]") -> None:
        self._work.get(job, set()).discard(done)
        if done.cancelled() or (error := done.exception()) is None:
            return
        log.error("filters of job %d failed", job, exc_info=error)
        for key, _ in candidates:
            if self.take_back(job, key):
                why = "the agent of the node could not run its filters; see its log"
                self._services.refused(job, key, why, faults.NODE_FILTERS)
