"""The jobs that are open on this node: what the head orders, and the table of what is here."""

from collections.abc import Callable
from typing import Any

from headnode.adapters.processes import shepherd_protocol
from headnode.adapters.processes.gpus import NO_GPUS, MachineGpus
from headnode.adapters.processes.job_journal import Key
from headnode.adapters.wire.agent_messages import (
    PROTOCOL,
    Hello,
    JobMeasured,
    ReportedAttempt,
    SignalSent,
    Suspended,
    Table,
)
from headnode.adapters.wire.message_checks import job_mark
from headnode.adapters.wire.messages import (
    CloseJob,
    Continue,
    FromAgent,
    HookFailureAck,
    KillLaunches,
    Launching,
    MeasureJob,
    OpenJob,
    ResultsAck,
    Run,
    SendSignal,
    Stop,
    Suspend,
    Welcome,
)
from headnode.apps.agent.head_link import Dial
from headnode.apps.agent.job_table import JobTable
from headnode.apps.agent.node_events import NodeEvents
from headnode.apps.agent.places import Places
from headnode.apps.agent.results import LedgerEntry, ResultSender
from headnode.apps.agent.shepherd_handle import ShepherdPhase, result_without_record
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId

JobOrder = (
    OpenJob
    | Stop
    | SendSignal
    | MeasureJob
    | Suspend
    | Continue
    | CloseJob
    | ResultsAck
    | HookFailureAck
    | Launching
    | KillLaunches
)
SETTLING = 5.0  # seconds for the shepherds of an earlier agent to dial


class Jobs:
    """All jobs of this node that are not settled."""

    def __init__(
        self,
        places: Places,
        facts: NodeFacts,
        results: ResultSender,
        send: Callable[[FromAgent], None],
        dial: Dial | None = None,
        gpus: MachineGpus = NO_GPUS,
        *,
        allocation: bool = False,
    ) -> None:
        """`dial` returns connections for what tasks ask the head; None: it is on this machine.

        `allocation`: the node is a job of another scheduler.
        """
        self._facts = facts
        self._table = JobTable()
        self._table.allocation = allocation
        events = NodeEvents(places, facts, self._table, results, send, dial, gpus)
        self._parts, self._starts, self._endings = events.parts, events.starts, events.endings

    async def start(self) -> None:
        """Find what an earlier agent has left."""
        for opened in self._parts.places.kept():
            self._table.job(opened.job).opened = opened
        self._parts.gpus.restore()
        await self._parts.shepherds.open(SETTLING)
        await self._parts.launching.open()
        self._parts.access.open()
        for number in self._parts.visits.start():
            job = self._table.job(number)
            job.visited = True
            if job.opened is None:
                self._endings.forget_if_over(job)

    async def close(self) -> None:
        """Let go of everything; what runs goes on."""
        self._parts.places.keep_waiting()
        self._parts.launching.close()
        self._parts.access.close()
        self._parts.visits.close()
        await self._parts.shepherds.close()

    @property
    def head(self) -> Welcome:
        """The last welcome of the head."""
        return self._table.head

    def welcomed(self, message: Welcome) -> None:
        """Go by what the head says of itself."""
        self._table.head = message
        self.set_head_time(message.now)
        self._parts.launching.beat(message.heartbeat)

    def set_head_time(self, now: Instant) -> None:
        """Learn what time the head has."""
        self._table.set_head_time(now)

    def renew(self, until: float | None) -> None:
        """Let tasks that may be run elsewhere go on until then (seconds since the boot); None: for ever."""
        self._table.renew(until)

    # What is here.

    def hello(self, check: str) -> Hello:
        """Return the first words of a connection; `check` is the health check that was ordered."""
        self._table.taken.forget()
        self._table.forget_questions()
        return Hello(protocol=PROTOCOL, facts=self._facts, **self._holdings(check))

    def table(self, number: int, check: str) -> Table:
        """Return the answer to a question for all that is here."""
        return Table(number=number, **self._holdings(check))

    def _holdings(self, check: str) -> dict[str, Any]:
        """Return the full table of what is here, as the fields of a message."""
        ledger, jobs = self._parts.results.ledger, self._table.jobs
        live = [each for job in jobs.values() for each in job.live()]
        live += [
            ReportedAttempt(job, *key, False) for job in jobs for key in self._parts.filters.waiting(job)
        ]
        ended = [ReportedAttempt(job, *key, False) for job in ledger.jobs() for key in ledger.over(job)]
        opened = [(job.id, job_mark(job.opened)) for job in jobs.values() if job.opened is not None]
        return {
            "open_jobs": tuple(sorted(self.open_jobs())),
            "live": tuple(live),
            "ended": tuple(ended),
            "suspended": tuple(job.id for job in jobs.values() if job.suspended),
            "launched": tuple(self._parts.launching.launched()),
            "opened": tuple(opened),
            "health_check": check,
        }

    def open_jobs(self) -> frozenset[JobId]:
        """Return the jobs that something is left of here."""
        return frozenset({*self._table.jobs, *self._parts.results.ledger.jobs()})

    @property
    def is_empty(self) -> bool:
        """Whether nothing is here, nor anything of which the head does not know the end."""
        return not self._table.jobs

    def counted(self) -> str:
        """Return how many jobs are here, and how many of their tasks."""
        jobs = self._table.jobs
        tasks = sum(len(list(job.live())) for job in jobs.values())
        return f"{len(jobs)} jobs with {tasks} tasks that have not ended"

    # What the head orders.

    def obey(self, message: JobOrder) -> None:
        """Do what the head orders for a job that may be here."""
        match message:
            case OpenJob():
                self._starts.open_job(message)
            case Stop():
                self._stop(message)
            case SendSignal():
                asked = message.number, message.attempts, message.signal, message.target
                self._ask(message, shepherd_protocol.signal_message(*asked), SignalSent(message.number, 0))
            case MeasureJob(number=number):
                self._ask(message, shepherd_protocol.measure_message(number), JobMeasured(number))
            case Suspend():
                self._suspend(message)
            case Continue():
                self._go_on(message)
            case CloseJob(job=job):
                self._close_job(job)
            case ResultsAck(number=number):
                self._acknowledged(number)
            case HookFailureAck(job=job, hook=hook):
                self._parts.visits.received(job, hook)
            case _:
                self._parts.launching.receive(message)

    def run(self, message: Run) -> bool:
        """Run instances that are not here yet; False when the job is not open here."""
        return self._starts.run(message)

    def _stop(self, message: Stop) -> None:
        """Stop what is here of these."""
        job = self._table.jobs.get(message.job)
        if job is None:
            return
        by_owner: dict[str, list[Key]] = {}
        for key in message.attempts:
            owner = job.owner_of(key)
            if self._parts.filters.take_back(job.id, key):
                self._endings.settle(job.id, "", 0, result_without_record(key, "never-ran", ""))
            elif owner is not None:
                by_owner.setdefault(owner.marker, []).append(key)
        grace = 0.0 if message.force else self.head.grace
        for marker, keys in by_owner.items():
            job.herd[marker].send(shepherd_protocol.stop_message(keys, grace))

    def _ask(self, message: SendSignal | MeasureJob, question: bytes, none: SignalSent | JobMeasured) -> None:
        """Pass a question on to the shepherd of a job; answer `none` if nothing of the job runs here."""
        job = self._table.jobs.get(message.job)
        shepherd = job.at_work if job is not None else None
        if shepherd is None or shepherd.phase is not ShepherdPhase.HERE:
            self._parts.send(none)
            return
        shepherd.questions.add(message.number)
        shepherd.send(question)

    def _suspend(self, message: Suspend) -> None:
        """Stop all processes of a job."""
        job = self._table.job(message.job)
        job.suspended = message.number
        if job.at_work is None:
            self._parts.send(Suspended(job=job.id, number=job.suspended))
        else:
            job.at_work.send(shepherd_protocol.suspend_message(job.suspended))

    def _go_on(self, message: Continue) -> None:
        """Let everything of a job go on."""
        self.set_head_time(message.now)
        job = self._table.jobs.get(message.job)
        if job is None:
            return
        job.suspended = 0
        if job.at_work is not None:
            deadline = self._table.end_of(message)
            job.at_work.send(shepherd_protocol.continue_message(deadline, self.head.grace))

    def end_all(self, then: Callable[[], None]) -> None:
        """End everything that is here; when nothing is left, do this."""
        self._table.when_empty(then)
        for number in list(self._table.jobs):
            self._close_job(number)
        self._table.call_when_empty()

    def end_allocation(self, then: Callable[[], None]) -> None:
        """End everything, as the other scheduler wants it: tasks that ran are lost with the node."""
        self._table.allocation_ends = True
        for job in self._table.jobs.values():
            job.at_end = job.opened
        self.end_all(then)

    def _close_job(self, number: JobId) -> None:
        """Kill whatever is left of a job, and forget it."""
        job = self._table.job(number)
        job.opened, job.orders, job.suspended = None, None, 0
        self._parts.places.forget(number)
        self._parts.launching.job_over(number)
        for key in self._parts.filters.take_all_back(number):
            self._endings.settle(number, "", 0, result_without_record(key, "never-ran", ""))
        self._endings.settle_held(job)
        for tended in job.herd.values():
            self._parts.shepherds.dismiss(tended)
        self._endings.forget_if_over(job)

    def _acknowledged(self, number: int) -> None:
        """Forget results that the head will never lose."""
        result = self._parts.results.ledger.acknowledge(number)
        if result is None:
            return
        job = self._table.job(result[0])
        for marker, first, last in _spans(result[1]):
            tended = job.herd.get(marker)
            if tended is not None and tended.phase is not ShepherdPhase.GONE and not tended.closing:
                tended.send(shepherd_protocol.acknowledge_message(first, last))
        self._endings.forget_if_over(job)

    def repeat_visits(self) -> None:
        """Say again what the head may not have heard of prologs and epilogs."""
        for number in self._parts.visits.jobs():
            job = self._table.jobs.get(number)
            if job is None or not any(tended.live for tended in job.herd.values()):
                self._parts.visits.repeat(number)

    async def open_file(self, path: str, uid: int, gid: int) -> int:
        """Open a plain file as a user of this machine; return its descriptor.

        Raises:  as `ShepherdFactory.open_file`.
        """
        return await self._parts.shepherds.open_file(path, uid, gid)


def _spans(entries: list[LedgerEntry]) -> list[tuple[str, int, int]]:
    """Return the numbers of the entries as (marker, first, last), neighbours together."""
    spans: list[tuple[str, int, int]] = []
    for marker, number in sorted((entry.marker, entry.number) for entry in entries if entry.number):
        if spans and spans[-1][0] == marker and spans[-1][2] == number - 1:
            spans[-1] = (marker, spans[-1][1], number)
        else:
            spans.append((marker, number, number))
    return spans
