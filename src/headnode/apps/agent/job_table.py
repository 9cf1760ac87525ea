"""The jobs of this node that are not settled: their tasks, their shepherds, and when they are
over.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headnode.adapters.processes import shepherd_protocol
from headnode.adapters.processes.agent_link import boot_time
from headnode.adapters.processes.job_journal import EndedRecord, Key
from headnode.adapters.wire.agent_messages import AttemptResult, ReportedAttempt
from headnode.adapters.wire.messages import Continue, FromAgent, OpenJob, Welcome
from headnode.apps.agent.allocation_end import SIGNALED_HOLD, as_lost, ended_with_it
from headnode.apps.agent.gpu_assignments import GpuAssignment, GpuAssignments
from headnode.apps.agent.launching import LaunchRouter
from headnode.apps.agent.places import Places
from headnode.apps.agent.prolog_epilog import PrologEpilog, TaskFilters
from headnode.apps.agent.results import LedgerEntry, ResultSender
from headnode.apps.agent.shepherd_handle import (
    ShepherdHandle,
    ShepherdPhase,
    result_of,
    result_without_record,
    trouble_of,
    words_for,
)
from headnode.apps.agent.shepherds import Shepherds
from headnode.apps.agent.task_orders import TaskOrders
from headnode.apps.agent.task_tools import TaskAccess
from headnode.core.model import faults
from headnode.core.model.errors import Unavailable
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.ranges import Ranges
from headnode.core.state.job_record import decode_spec

log = logging.getLogger("headnode.agent")

PAUSE = 1.0  # seconds until the head hears that a task has no free GPUs
GRACE = 15.0  # seconds, until the head says another
MAX_JOBS = 10_000  # of which the orders are remembered, also when they are closed


class SeenDispatches:
    """The attempts of one connection's orders, as spans of instances."""

    def __init__(self) -> None:
        self._jobs: dict[JobId, dict[tuple[int, int], Ranges]] = {}

    def add(self, job: JobId, task: int, instance: int, attempt: int) -> bool:
        """Note an attempt; False when it was noted before."""
        spans = self._jobs.setdefault(job, {}).setdefault((task, attempt), Ranges())
        if instance in spans:
            return False
        spans.add(instance)
        if len(self._jobs) > MAX_JOBS:
            del self._jobs[next(iter(self._jobs))]
        return True

    def forget(self) -> None:
        """Begin anew: what was said on another connection cannot come any more."""
        self._jobs.clear()


class NodeJob:
    """One job.  It has one shepherd at work; others may still be on their way out."""

    def __init__(self, job: JobId) -> None:
        self.id = job
        self.opened: OpenJob | None = None  # None: closed, or not opened to this agent
        self.herd: dict[str, ShepherdHandle] = {}  # by marker
        self.orders: TaskOrders | None = None  # for the shepherd at work
        self.deaths = 0  # of its shepherds, one after the other without a task that started
        self.held: dict[Key, LedgerEntry] = {}  # results that wait: for other nodes, or if this one ends
        self.at_end: OpenJob | None = None  # how it was opened when the allocation of the node ended
        self.visited = False  # by programs of the site: the head waits until their epilog is over
        self.suspended = 0  # the number of the suspension by which nothing of it runs; 0: by none

    @property
    def at_work(self) -> ShepherdHandle | None:
        """The shepherd that takes orders; None when a new one is needed."""
        for tended in self.herd.values():
            if tended.phase in (ShepherdPhase.AWAITED, ShepherdPhase.HERE) and not tended.closing:
                return tended
        return None

    @property
    def may_run_elsewhere(self) -> bool:
        """Whether the head may let others run what runs here, should it lose this node."""
        return self.opened is None or any(task.rerunnable for task in decode_spec(self.opened.spec).tasks)

    def owner_of(self, key: Key) -> ShepherdHandle | None:
        """Return the shepherd that has this attempt, waiting or running."""
        for tended in self.herd.values():
            if key in tended.live:
                return tended
        return None

    def live(self) -> list[ReportedAttempt]:
        """Return the attempts that are not over."""
        held = [(key, entry.result.outcome.started) for key, entry in self.held.items()]
        return [
            ReportedAttempt(self.id, *key, since is not None, None if since is None else Instant(since))
            for live in (*(tended.live.items() for tended in self.herd.values()), held)
            for key, since in live
        ]


class JobTable:
    """All jobs of this node that are not settled, and what the head has said for all of them."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, NodeJob] = {}
        self.head = Welcome(cluster="", heartbeat=Seconds(0.0), grace=Seconds(GRACE))
        self.taken = SeenDispatches()
        self.allocation = False  # the node is a job of another scheduler, which may end it at any time
        self.allocation_ends = False
        self._head_started = Instant(time.time() - boot_time())  # what time the head had at our start
        self._lease: float | None = None  # until when tasks may run without the head; None: no lease
        self._when_empty: Callable[[], None] = lambda: None

    def when_empty(self, act: Callable[[], None]) -> None:
        """Do this when no job is left."""
        self._when_empty = act

    def call_when_empty(self) -> None:
        """Do what is to be done when no job is left, if none is."""
        if not self.jobs:
            self._when_empty()

    def job(self, number: JobId) -> NodeJob:
        """Return a job, from now on known."""
        job = self.jobs.get(number)
        if job is None:
            job = self.jobs[number] = NodeJob(number)
        return job

    def forget_questions(self) -> None:
        """Forget what a head has asked that is not connected any more: the next one counts from 1, too."""
        for job in self.jobs.values():
            for tended in job.herd.values():
                tended.questions.clear()

    def user_of(self, number: JobId, key: Key) -> int | None:
        """Return the user whose attempt lives here; None when there is no such attempt."""
        job = self.jobs.get(number)
        owner = job.owner_of(key) if job is not None else None
        return None if owner is None else owner.uid

    def attempt_of(self, uid: int, named: str) -> tuple[JobId, Key] | None:
        """Return the attempt of a user (job.task.instance.attempt), if it may be here, else another of his.

        Whether it runs is for the head to say: what an attempt of another node has launched here is its, too.
        """
        parts = named.split(".")
        if len(parts) == 4 and all(word.isascii() and word.isdigit() and len(word) < 19 for word in parts):
            number, task, instance, attempt = map(int, parts)
            job = self.jobs.get(JobId(number))
            if job is not None and any(tended.uid == uid for tended in job.herd.values()):
                return JobId(number), (task, instance, attempt)
        for job in self.jobs.values():
            for tended in job.herd.values():
                if job.id > 0 and tended.uid == uid and tended.live:
                    return job.id, next(iter(tended.live))
        return None

    def renew(self, until: float | None) -> None:
        """Let tasks that may be run elsewhere go on until then (seconds since the boot); None: for ever."""
        self._lease = until
        for job in self.jobs.values():
            message = shepherd_protocol.lease_message(until if job.may_run_elsewhere else None)
            for tended in job.herd.values():
                tended.send(message)

    def send_lease(self, job: NodeJob, tended: ShepherdHandle) -> None:
        """Tell a new shepherd until when its tasks may go on without the head, if that is limited."""
        if self._lease is not None and job.may_run_elsewhere:
            tended.send(shepherd_protocol.lease_message(self._lease))

    def set_head_time(self, now: Instant) -> None:
        """Learn what time the head has.  This machine's own may be another, and may be set."""
        if now:
            self._head_started = Instant(now - boot_time())

    def end_of(self, message: OpenJob | Continue) -> float | None:
        """Return when the limit of a job is over, in seconds since this machine was started; None: never."""
        return None if math.isinf(message.deadline) else message.deadline - self._head_started


@dataclass(frozen=True)
class NodeParts:
    """What serves the jobs of this node."""

    send: Callable[[FromAgent], None]  # to the head, also before it has answered
    places: Places
    facts: NodeFacts
    results: ResultSender
    shepherds: Shepherds
    visits: PrologEpilog
    filters: TaskFilters
    launching: LaunchRouter
    access: TaskAccess
    gpus: GpuAssignments

    def uses_gpus(self, table: JobTable, assignment: GpuAssignment) -> bool:
        """Tell whether something of the owner of GPUs waits or runs here, or may do so."""
        job, key = table.jobs.get(assignment.job), assignment.key
        if job is None:
            return False
        shepherd = job.herd.get(assignment.lane.partition(":")[0])
        if shepherd is not None and shepherd.phase is ShepherdPhase.AWAITED:
            # It may have been told of an attempt that its journal does not have yet.
            return key not in self.results.ledger.over(assignment.job)
        owner = job.owner_of(key)
        if owner is not None or key in self.filters.waiting(assignment.job):
            return owner is None or key not in owner.leaving
        launched = self.launching.launched()
        return (assignment.job, *key) in (
            (each.job, each.task, each.instance, each.attempt) for each in launched
        )


class JobEndings:
    """Settles the results of attempts, and forgets jobs of which nothing is left."""

    def __init__(self, parts: NodeParts, table: JobTable) -> None:
        self._parts, self._table = parts, table

    def ended(self, tended: ShepherdHandle, records: list[EndedRecord]) -> None:
        """Settle what a shepherd recorded; a result waits for what was used on other nodes."""
        job, launching = self._table.job(tended.job), self._parts.launching
        settled: list[LedgerEntry] = []
        for record in records:
            key, entry = record.key, LedgerEntry(tended.marker, record.number, result_of(record))
            targets = launching.targets(job.id, key)
            if targets:
                self._hold(job, entry, targets)
            elif key not in job.held:
                launching.attempt_over(job.id, key)
                settled.append(entry)
            tended.live.pop(key, None)
            tended.leaving.discard(key)
        self._take(job, settled, idle=not any(other.live for other in job.herd.values()))
        self._parts.results.report_at_once()

    def _hold(self, job: NodeJob, entry: LedgerEntry, targets: frozenset[str]) -> None:
        """Keep a result back until it is known what its attempt used on other nodes."""
        job.held[entry.key] = entry
        self._parts.launching.attempt_over(job.id, entry.key)

        def settle(result: AttemptResult) -> None:
            if job.held.pop(entry.key, None) is not None:
                self.settle(job.id, entry.marker, entry.number, result)
                self.forget_if_over(job)

        self._parts.launching.gather(job.id, entry.result, targets, settle)

    def settle(self, job: JobId, marker: str, number: int, result: AttemptResult) -> None:
        """Take in the result of an attempt, with its number of the shepherd; 0: no shepherd gave it."""
        self._parts.launching.attempt_over(job, (result.task, result.instance, result.attempt))
        known = self._table.jobs.get(job) or NodeJob(job)
        self._take(known, [LedgerEntry(marker, number, result)])

    def _take(self, job: NodeJob, entries: list[LedgerEntry], *, idle: bool = True) -> None:
        """Take results in.

        In an allocation, a result that its end may have caused waits for a moment: if the agent is ended
        too, the task is lost with its node, and did not fail.
        """
        if self._table.allocation and not self._table.allocation_ends:
            for entry in entries:
                if ended_with_it(entry.result, job.opened):
                    job.held[entry.key] = entry
                    asyncio.get_running_loop().call_later(SIGNALED_HOLD, self._lives_on, job, entry)
            entries = [entry for entry in entries if entry.key not in job.held]
        self._pass_on(job, entries, idle=idle)

    def _lives_on(self, job: NodeJob, entry: LedgerEntry) -> None:
        """Tell the result of a task that was signaled, as the allocation goes on."""
        if job.held.get(entry.key) is entry:
            del job.held[entry.key]
            self._pass_on(job, [entry], idle=not any(other.live for other in job.herd.values()))
            self.forget_if_over(job)

    def _pass_on(self, job: NodeJob, entries: list[LedgerEntry], *, idle: bool = True) -> None:
        if self._table.allocation_ends:
            entries = [
                entry._replace(result=as_lost(entry.result, job.opened or job.at_end)) for entry in entries
            ]
        self._parts.results.take(job.id, *entries, idle=idle)

    def refuse(self, job: JobId, keys: Iterable[Key], error: OSError | Unavailable) -> None:
        """Settle tasks that cannot start here; those without free GPUs after a pause."""
        trouble, why = trouble_of(error), words_for(error)
        for key in keys:
            result = result_without_record(key, "not-started", why, trouble=trouble)
            if trouble == faults.GPUS_HELD:
                log.warning("job %d: %s", job, why)
                asyncio.get_running_loop().call_later(PAUSE, self.settle, job, "", 0, result)
            else:
                self.settle(job, "", 0, result)

    def settle_held(self, job: NodeJob) -> None:
        """Take in the results that wait, as they are: the job is closed."""
        held, job.held = list(job.held.values()), {}
        for entry in held:
            self._parts.launching.attempt_over(job.id, entry.key)
        self._pass_on(job, held)

    def forget_if_over(self, job: NodeJob) -> None:
        """Drop the shepherds that are settled, and the job when it is closed and none is left.

        Before that its epilog runs.
        """
        gone = all(tended.phase is ShepherdPhase.GONE for tended in job.herd.values())
        if job.opened is None and gone and not self._parts.visits.leave(job.id):
            return
        ledger = self._parts.results.ledger
        waiting = job.held or ledger.over(job.id)
        for marker, tended in list(job.herd.items()):
            if tended.phase is ShepherdPhase.GONE and not waiting:
                self._parts.shepherds.forget(tended)
                ledger.forget_shepherd(marker)
                del job.herd[marker]
        if job.opened is None and not job.herd and not waiting:
            self._table.jobs.pop(job.id, None)
            if job.id < 0:
                self._parts.places.forget_output(job.id)
            self._parts.results.closed(job.id, soon=job.visited)
            self._table.call_when_empty()
