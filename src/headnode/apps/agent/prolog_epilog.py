"""What a site does on this node around each job and each of its tasks: prolog, epilog, node filters."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Literal

import msgspec

from headnode.adapters.processes.job_journal import Key
from headnode.adapters.processes.site_programs import HookProgram, run_once
from headnode.adapters.wire.agent_messages import HookFailed, JobReady
from headnode.adapters.wire.messages import Hooks, OpenJob
from headnode.apps.agent.node_programs import ask_filter, registered
from headnode.apps.agent.node_services import NodeServices
from headnode.apps.agent.shepherd_handle import trouble_of, words_for
from headnode.core.launching.node_filters import (
    JOB_END,
    JOB_TASK_START,
    TASK_START,
    NodeFilterInput,
    NodeFilterResult,
    question_at_end,
    why_exit,
)
from headnode.core.model import faults
from headnode.core.model.errors import Unavailable
from headnode.core.model.quantities import JobId
from headnode.core.state.job_events import NodeCores

log = logging.getLogger("headnode.agent")

MAX_SAID = 400  # characters of a program's last words that are told
_SUFFIX = ".visit"
_OUTCOMES = (".prolog", f".{JOB_END}", ".epilog")


class VisitStage(StrEnum):
    """Where a visit is."""

    PROLOG = "prolog"  # its prolog runs, or is about to
    READY = "ready"  # tasks may come
    REFUSED = "refused"  # the prolog failed
    EPILOG = "epilog"  # its epilog runs, or is about to
    CLOSED = "closed"  # over; the head has not heard that its epilog failed


class NodeVisit(msgspec.Struct, forbid_unknown_fields=True):
    """One job on this node."""

    job: JobId
    boot: str  # of the machine, when the prolog began
    stage: VisitStage
    hooks: Hooks
    environment: dict[str, str]
    failed: dict[str, str] = {}  # why the prolog or the epilog failed, until the head has heard it
    started: bool = False  # a filter has let the first task start
    prolog: Literal["ended", "failed", "not run"] = "not run"
    node_at_fault: bool = False  # the prolog, or a filter, cannot be run here at all


class PrologEpilog:
    """All visits of this node that are not over."""

    def __init__(self, boot: str, folder: Path, services: NodeServices) -> None:
        self._boot, self._folder, self._services = boot, folder, services
        self._visits: dict[JobId, NodeVisit] = {}
        self._filters: dict[JobId, dict[str, str] | Unavailable] = {}
        self._work: dict[JobId, asyncio.Task[None]] = {}

    def start(self) -> list[JobId]:
        """Go on with what an earlier agent left; return the jobs that have a visit here."""
        for visit in self._kept():
            self._visits[visit.job] = visit
            if visit.boot != self._boot and visit.stage in (
                VisitStage.PROLOG,
                VisitStage.READY,
                VisitStage.REFUSED,
            ):
                self._forget_outcomes(visit.job)  # what was made ready was so until the machine stopped
                visit.stage, visit.boot, visit.started = VisitStage.PROLOG, self._boot, False
                visit.failed.clear()
                visit.node_at_fault = False
            if visit.stage is VisitStage.READY:
                self._look_at_filters(visit)
            if visit.stage in (VisitStage.PROLOG, VisitStage.EPILOG):
                self._go_on(visit)
        return [job for job, visit in self._visits.items() if visit.stage is not VisitStage.CLOSED]

    def _kept(self) -> Iterator[NodeVisit]:
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            try:
                yield msgspec.msgpack.decode(path.read_bytes(), type=NodeVisit)
            except msgspec.DecodeError as error:
                log.error("%s cannot be read and is ignored: %s", path, error)

    def close(self) -> None:
        """Let go; programs that run go on, and the next agent hears how they ended."""
        for work in self._work.values():
            work.cancel()

    def enter(self, opened: OpenJob, environment: dict[str, str]) -> None:
        """A job comes here, or is described anew: from now on its hooks are these."""
        hooks, visit = opened.hooks, self._visits.get(opened.job)
        if visit is None or visit.stage is VisitStage.CLOSED:
            if hooks is None:
                return
            self._forget_outcomes(opened.job)  # an agent that died at the end of the last visit left them
            visit = NodeVisit(opened.job, self._boot, VisitStage.PROLOG, hooks, environment)
            self._visits[opened.job] = visit
            trouble = self._keep(visit)
            if trouble:  # nothing is begun of which another agent would not know
                visit.stage, visit.failed["prolog"], visit.node_at_fault = VisitStage.REFUSED, trouble, True
                self.repeat(visit.job)
            else:
                self._go_on(visit)
        elif visit.stage is not VisitStage.EPILOG:
            changed = visit.hooks.filters != (hooks.filters if hooks is not None else "")
            visit.hooks, visit.environment = hooks or Hooks(), environment
            self._keep(visit)
            if changed and visit.stage is VisitStage.READY:
                self._look_at_filters(visit)

    def is_ready(self, job: JobId) -> bool:
        """Whether tasks of a job may run here."""
        visit = self._visits.get(job)
        return visit is None or visit.stage is VisitStage.READY

    def jobs(self) -> list[JobId]:
        """Return the jobs whose visit is not over, or of which the head has not heard all."""
        return list(self._visits)

    def leave(self, job: JobId) -> bool:
        """Let the epilog of a job run of which nothing is left here; True when nothing is to be done (more).

        Else the owner hears when that may be asked again.
        """
        visit = self._visits.get(job)
        if visit is None or visit.stage is VisitStage.CLOSED:
            return True
        if visit.stage in (VisitStage.READY, VisitStage.REFUSED):
            visit.stage = VisitStage.EPILOG
            self._keep(visit)
            self._go_on(visit)
        return False

    def filters_of(self, job: JobId) -> dict[str, str]:
        """Return the paths of the node filters that see a job's tasks, by the event that each is for.

        Raises:  Unavailable ``node-filters`` when they cannot be used: no task runs unseen for that.
        """
        filters = self._filters.get(job, {})
        if isinstance(filters, Unavailable):
            raise filters
        return filters

    def timeout_of_filters(self, job: JobId) -> float:
        """Return how many seconds a node filter may take."""
        return self._visits[job].hooks.filter_timeout

    def environment(self, job: JobId) -> dict[str, str]:
        """Return what the programs around a job find in their environment."""
        return self._visits[job].environment

    def has_begun(self, job: JobId) -> bool:
        """Whether a filter has let the first task of a job start here."""
        return self._visits[job].started

    def begin(self, job: JobId) -> None:
        """A filter lets the first task of a job start here."""
        visit = self._visits[job]
        if not visit.started:
            visit.started = True
            self._keep(visit)

    def repeat(self, job: JobId) -> None:
        """Say again of a job what the head may not have heard."""
        visit = self._visits[job]
        if visit.stage is VisitStage.READY:
            self._services.send(JobReady(job=job))
        for hook, failure in visit.failed.items():
            of_node = hook == "prolog" and visit.node_at_fault
            self._services.send(HookFailed(job=job, hook=hook, message=failure, node_at_fault=of_node))

    def received(self, job: JobId, hook: str) -> None:
        """The head will never forget that a hook failed."""
        visit = self._visits.get(job)
        if visit is None or visit.failed.pop(hook, None) is None:
            return
        if visit.stage is VisitStage.CLOSED and not visit.failed:
            self._forget(visit)
        else:
            self._keep(visit)

    # What is done.

    def _go_on(self, visit: NodeVisit) -> None:
        doing = self._enter if visit.stage is VisitStage.PROLOG else self._leave
        work = self._work[visit.job] = asyncio.ensure_future(doing(visit))
        work.add_done_callback(lambda done: self._worked(visit.job, done))

    def _worked(self, job: JobId, task: "asyncio.Task[None]") -> None:
        if self._work.get(job) is task:
            del self._work[job]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the preparation or release of this node for job %d failed", job, exc_info=error)

    async def _enter(self, visit: NodeVisit) -> None:
        trouble = ""
        if visit.hooks.prolog:
            trouble = await self._run(visit, "prolog", visit.hooks.prolog, visit.hooks.prolog_timeout)
            visit.prolog = "failed" if trouble else "ended"
        if not trouble and (trouble := self._look_at_filters(visit)):
            visit.node_at_fault = True
        visit.stage = VisitStage.REFUSED if trouble else VisitStage.READY
        if trouble:
            visit.failed["prolog"] = trouble
        self._keep(visit)
        self._services.entered(visit.job)
        self.repeat(visit.job)

    def _look_at_filters(self, visit: NodeVisit) -> str:
        """Find the filters of the node; return why they cannot be used."""
        self._filters.pop(visit.job, None)
        if not visit.hooks.filters:
            return ""
        try:
            self._filters[visit.job] = registered(visit.hooks.filters)
        except Unavailable as error:
            self._filters[visit.job] = error
            return str(error)
        return ""

    async def _leave(self, visit: NodeVisit) -> None:
        if visit.started:
            await self._run_job_end_filter(visit)
        trouble = ""
        if visit.hooks.epilog:
            trouble = await self._run(visit, "epilog", visit.hooks.epilog, visit.hooks.epilog_timeout)
        if trouble:
            visit.failed["epilog"] = trouble
        visit.stage = VisitStage.CLOSED
        if visit.failed:
            self._keep(visit)
            self.repeat(visit.job)
        else:
            self._forget(visit)
        self._forget_outcomes(visit.job)
        self._services.left(visit.job)

    async def _run_job_end_filter(self, visit: NodeVisit) -> None:
        """Run the job end filter of the node after the job has left; its result is ignored."""
        try:
            path = registered(visit.hooks.filters).get(JOB_END) if visit.hooks.filters else None
        except Unavailable as error:
            log.error("job %d ends on this node without its job end filter: %s", visit.job, error)
            return
        if path is not None:
            question = question_at_end(visit.job, visit.environment["HEADNODE_USER"])
            trouble = await self._run(visit, JOB_END, path, visit.hooks.filter_timeout, question)
            if trouble:
                log.error("%s", trouble)

    async def _run(
        self, visit: NodeVisit, hook: str, program: str, timeout: float, question: str = ""
    ) -> str:
        """Run a program of the visit, once; return why it failed, and its last words."""
        around = {"HEADNODE_HOOK": hook, "HEADNODE_PROLOG": visit.prolog}
        called = "the node filter" if question else f"the {hook}"
        kept = HookProgram(program, called, {**visit.environment, **around}, timeout, question)
        ran = await run_once(kept, self._path(visit.job, f".{hook}"))
        if not ran.trouble:
            return ""
        visit.node_at_fault = visit.node_at_fault or (hook == "prolog" and not ran.started)
        why, message = why_exit(ran.status or 0) if question else "", ran.line[-MAX_SAID:]
        return ": ".join(filter(None, (ran.trouble, why, message)))

    # What is kept.

    def _path(self, job: JobId, suffix: str) -> Path:
        return self._folder / f"{job}{suffix}"

    def _keep(self, visit: NodeVisit) -> str:
        """Write down where a visit is; return why that is not possible."""
        path = self._path(visit.job, _SUFFIX)
        scratch = path.with_suffix(".visit-new")
        try:
            scratch.write_bytes(msgspec.msgpack.encode(visit))
            scratch.replace(path)
        except OSError as error:
            why = f"this node cannot record what it does for job {visit.job}: {error.strerror}"
            log.error("%s; free some space in the state directory of its agent", why)
            return why
        return ""

    def _forget(self, visit: NodeVisit) -> None:
        self._visits.pop(visit.job, None)
        self._filters.pop(visit.job, None)
        self._path(visit.job, _SUFFIX).unlink(missing_ok=True)

    def _forget_outcomes(self, job: JobId) -> None:
        for suffix in _OUTCOMES:
            self._path(job, suffix).unlink(missing_ok=True)


Candidate = tuple[Key, NodeFilterInput]
"""An attempt, and what its filter is asked."""


class TaskFilters:
    """All tasks that wait for a filter."""

    def __init__(self, visits: PrologEpilog, services: NodeServices) -> None:
        self._visits, self._services = visits, services
        self._waiting: dict[JobId, dict[Key, None]] = {}
        self._work: dict[JobId, set[asyncio.Task[None]]] = {}
        self._first: dict[JobId, asyncio.Lock] = {}  # held by the task that may be the job's first here
        self._lanes: dict[tuple[JobId, NodeCores], asyncio.Lock] = {}

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
        async with self._lanes.setdefault((job, place), asyncio.Lock()):
            for key, asked in candidates:
                if key in self.waiting(job):
                    await self._take_one(job, place, key, asked)

    async def _take_one(self, job: JobId, place: NodeCores, key: Key, filter_input: NodeFilterInput) -> None:
        try:
            found = await self._asked(job, filter_input)
        except (OSError, Unavailable) as error:
            if self.take_back(job, key):
                self._services.refused(job, key, words_for(error), trouble_of(error))
            return
        if self.take_back(job, key):
            self._services.passed(job, key, place, found)

    async def _asked(self, job: JobId, filter_input: NodeFilterInput) -> NodeFilterResult:
        """Return a task as its filter wants it; while it is not known who is the first, all others wait."""
        if not self._visits.has_begun(job):
            async with self._first.setdefault(job, asyncio.Lock()):
                if not self._visits.has_begun(job):
                    found = await self._filtered(job, JOB_TASK_START, filter_input)
                    self._visits.begin(job)
                    return found
        return await self._filtered(job, TASK_START, filter_input)

    async def _filtered(self, job: JobId, event: str, filter_input: NodeFilterInput) -> NodeFilterResult:
        path = self._visits.filters_of(job).get(event)
        if path is None:
            return NodeFilterResult(filter_input.recipe, filter_input.processors)
        around = {**self._visits.environment(job), "HEADNODE_HOOK": event}
        return await ask_filter(path, filter_input, around, self._visits.timeout_of_filters(job))

    def _worked(self, job: JobId, candidates: Sequence[Candidate], task: "asyncio.Task[None]") -> None:
        self._work.get(job, set()).discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.error("filters of job %d failed", job, exc_info=error)
        for key, _ in candidates:
            if self.take_back(job, key):
                why = "the agent of the node could not run its filters; see its log"
                self._services.refused(job, key, why, faults.NODE_FILTERS)
