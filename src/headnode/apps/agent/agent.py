"""The agent: carries out the head's orders, supervises the shepherds, and loses no result in any crash."""

import asyncio
import contextlib
import logging
import math
import os
from collections.abc import Callable
from pathlib import Path

from headnode.adapters.processes.agent_link import boot_time
from headnode.adapters.processes.gpus import NO_GPUS, MachineGpus
from headnode.adapters.wire.agent_messages import (
    Health,
    Heartbeat,
    Hello,
    NotUnderstood,
    OutputListed,
    OutputRead,
)
from headnode.adapters.wire.message_checks import digest_of_holdings, health_check_text
from headnode.adapters.wire.messages import (
    CheckHealth,
    CheckProgram,
    FromHead,
    GetTable,
    Goodbye,
    HeartbeatAck,
    ListOutput,
    OpenJob,
    ReadFile,
    ReadOutput,
    RemoveOutput,
    Run,
    Welcome,
)
from headnode.apps.agent.allocation_end import ALLOCATION_ENDS
from headnode.apps.agent.head_link import HeadLink, LocalTransport, Transport
from headnode.apps.agent.jobs import Jobs
from headnode.apps.agent.node_programs import HealthCheck, ProgramTrials
from headnode.apps.agent.output import TaskFileReader, jobs_with_output, read_captured_of, remove_outputs
from headnode.apps.agent.places import Places
from headnode.apps.agent.results import ResultSender
from headnode.core.model.errors import NotFound
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import JobId, Seconds

_FILE = "running"  # there while an agent runs; it says in which boot of the machine


class LastRun:
    """What an earlier agent has left of its run in the state directory."""

    def __init__(self, state: Path, boot: str) -> None:
        self._file, self._boot = state / _FILE, boot

    def begin(self) -> str:
        """Note that an agent runs; return in a sentence how the last one ended, unless it did as told."""
        before = ""
        with contextlib.suppress(OSError):
            before = self._file.read_text(encoding="ascii", errors="replace")
        with contextlib.suppress(OSError):  # a full disk keeps no agent from its work
            self._file.write_text(self._boot, encoding="ascii")
        if not before:
            return ""
        if before != self._boot:
            return "the machine was rebooted while an agent ran: what ran here is lost"
        return "the previous agent was killed or failed; the processes that it started are looked for"

    def end(self) -> None:
        """Note that the agent ends as it was told to."""
        with contextlib.suppress(OSError):
            self._file.unlink()


MAX_UNANSWERED = 100  # heartbeats

Tell = Callable[[float | None], None]
"""Says until when (seconds since the machine was started), or with None that it is for ever."""


class HeldLease:
    """The lease of this node.  Until the head has said how long it is, nothing is said of it."""

    def __init__(self, report: Tell) -> None:
        self._report = report
        self.length = Seconds(0.0)  # 0: there is none
        self._until = math.inf  # when it is over
        self._number = 0
        self._said: dict[int, float] = {}  # when each heartbeat was said that was not answered yet

    @property
    def is_over(self) -> bool:
        """Whether others may be given what runs here."""
        return boot_time() >= self._until

    def next_heartbeat(self) -> int:
        """Return the number of a heartbeat that is said now."""
        self._number += 1
        self._said[self._number] = boot_time()
        self._said.pop(self._number - MAX_UNANSWERED, None)
        return self._number

    def received(self, number: int, length: Seconds) -> None:
        """The head has answered a heartbeat."""
        sent_at = self._said.pop(number, None)
        if sent_at is not None:  # else it comes a second time
            self.length = length
            self._is_over_at(sent_at + length if length else math.inf)

    def head_is_off(self, dialed: float) -> None:
        """Nothing listened at the head's address when it was dialed, so many seconds after the boot."""
        if self.length and dialed < self._until:
            self._is_over_at(dialed + self.length)

    def let_go(self) -> None:
        """The head is stopped, on purpose: tasks go on without it."""
        self._is_over_at(math.inf)

    def _is_over_at(self, until: float) -> None:
        self._until = until
        self._report(None if math.isinf(until) else until)


log = logging.getLogger("headnode.agent")

NEVER_MET = 30.0  # seconds that an agent looks for a head that refuses connections, if it never met one
ENDED = 2.0  # seconds without the socket of a head; one that starts has none for a moment
ALONE = 600.0  # seconds without a head, after which an allocation without tasks is given back
LAST_WORDS = 10.0  # seconds until an allocation ends although the head has not heard of all its tasks
MAX_OUTPUT = 1 << 20  # bytes of captured output in one message


class Agent:
    """One node's agent.  Everything happens in the event loop's one thread."""

    def __init__(
        self,
        places: Places,
        facts: NodeFacts,
        transport: Transport,
        *,
        allocation: bool = False,
        gpus: MachineGpus = NO_GPUS,
    ) -> None:
        """`allocation`: the node is a job of another scheduler, and nothing may stay behind."""
        self._places, self._allocation = places, allocation
        self._alone_since: float | None = None
        self._head = HeadLink(transport, self)
        self._results = ResultSender(self._head)
        self._jobs = Jobs(
            places,
            facts,
            self._results,
            self._head.send,
            transport.dial_for_tasks,
            gpus,
            allocation=allocation,
        )
        self._reading = TaskFileReader(facts.name, self._jobs.open_file, self._head.send)
        self._trials = ProgramTrials(self._head.send)
        self._health = HealthCheck(facts.name, self._report_health)
        self._lease = HeldLease(self._jobs.renew)
        self._told_of_lease = False
        self._last_run = LastRun(places.state, facts.boot_id)
        self._leave, self._leaving = asyncio.Event(), False
        self._removing: set[asyncio.Future[list[str]]] = set()
        # Since when it looks for a head of this machine; None: it has met one, or is to wait for ever.
        self._unmet = boot_time() if isinstance(transport, LocalTransport) else None
        self._ended_since: float | None = None  # since when the socket of a head of this machine is not there

    async def run(self) -> None:
        """Work until told to leave.  Tasks go on without us, unless the head said to cancel them."""
        if ended := self._last_run.begin():
            log.warning("%s", ended)
        await self._jobs.start()
        if not self._jobs.is_empty:
            log.info("found %s of an earlier agent", self._jobs.counted())
        talking = asyncio.ensure_future(self._head.talk())
        leaving = asyncio.ensure_future(self._leave.wait())
        await asyncio.wait((talking, leaving), return_when=asyncio.FIRST_COMPLETED)
        if talking.done():
            talking.result()
        talking.cancel()
        await self._head.finish()
        self._health.stop()
        await self._reading.close()
        await self._jobs.close()
        self._last_run.end()
        log.info("the agent ends, as requested")

    def leave(self) -> None:
        """End soon; tasks go on, unless the node ends with its agent."""
        if not self._allocation:
            self._leave.set()
            return
        if not self._leaving and not self._jobs.is_empty:  # what ran here must not be started here again
            self._health.stop()
            self._report_health(False, ALLOCATION_ENDS)
        self._leaving = True
        self._jobs.end_allocation(then=self._leave.set)
        asyncio.get_running_loop().call_later(LAST_WORDS, self._leave.set)

    # What the head hears and says.

    def hello(self) -> Hello:
        """Return the full table of what is here."""
        return self._jobs.hello(health_check_text(*self._health.ordered))

    def head_is_away(self) -> None:
        """Keep what happens for the next connection."""
        self._results.welcome = False
        self._alone_since = self._alone_since or boot_time()
        if self._allocation and self._jobs.is_empty and boot_time() - self._alone_since > ALONE:
            log.warning("the head was unreachable for too long: the allocation is released")
            self.leave()
        if self._lease.is_over and not self._told_of_lease and not self._jobs.is_empty:
            log.warning("the lease of this node has expired: jobs that may run elsewhere are stopped here")
            self._told_of_lease = True

    def head_is_off(self, dialed: float, *, ended: bool) -> None:
        """Nothing listened where the head does when it was dialed (seconds since the machine was started)."""
        self._lease.head_is_off(dialed)
        self._ended_since = (self._ended_since or dialed) if ended else None
        if self._unmet is None and self._ended_since is not None and dialed - self._ended_since > ENDED:
            log.info("the head was stopped while it could not be reached")
            self._lease.let_go()
            self.leave()
        if self._unmet is not None and dialed - self._unmet > NEVER_MET and self._jobs.is_empty:
            log.warning("the agent has never reached a head; it ends and can be started again")
            self.leave()

    def beat(self) -> None:
        """Say that we live and what we have, and again what may be lost."""
        self._results.repeat()
        self._jobs.repeat_visits()
        table = self._jobs.table(0, health_check_text(*self._health.ordered))
        number = self._lease.next_heartbeat()
        digest = digest_of_holdings(table)
        self._head.send(
            Heartbeat(
                number=number,
                digest=digest,
                lease=self._lease.length,
                launched=table.launched,
                load=os.getloadavg()[0],
                mark=self._head.mark,
            )
        )

    def obey(self, message: FromHead) -> None:
        """Do what the head says."""
        match message:
            case Welcome():
                self._welcomed(message)
            case HeartbeatAck(number=number, lease=lease, now=now):
                self._jobs.set_head_time(now)
                self._head.set_head_time(now)
                self._lease.received(number, lease)
                self._told_of_lease = False
                self._head.beat(_between_heartbeats(self._jobs.head.heartbeat, lease))
            case GetTable(number=number):
                self._head.send(self._jobs.table(number, health_check_text(*self._health.ordered)))
            case OpenJob() | Run() | CheckHealth() if self._leaving:
                pass  # the head will see that the node is gone
            case Run():
                if not self._jobs.run(message):
                    self.beat()  # the head will see what was lost
            case ReadOutput():
                self._read_output(message)
            case ReadFile():
                self._reading.start(message, far=self._jobs.head.remote)
            case ListOutput(number=number, after=after, limit=most):
                jobs = jobs_with_output(self._places.output, after, most)
                self._head.send(OutputListed(number=number, jobs=tuple(map(JobId, jobs))))
            case RemoveOutput(jobs=jobs_over):
                self._remove_output(jobs_over)
            case CheckProgram():
                self._trials.start(message)
            case CheckHealth(program=program, interval=every):
                self._health.order(program, every)
            case NotUnderstood(message=complaint):
                log.warning("the head refused a message of this node: %s", complaint)
            case Goodbye(reason=reason):
                self._goodbye(reason)
            case _:
                self._jobs.obey(message)

    def _report_health(self, well: bool, message: str) -> None:
        self._head.send(Health(healthy=well, message=message))

    def _welcomed(self, message: Welcome) -> None:
        self._unmet, self._alone_since, self._ended_since = None, None, None
        self._jobs.welcomed(message)
        self._head.set_head_time(message.now)
        self._head.beat(message.heartbeat)
        self._results.head_is_here()
        self.beat()

    def _read_output(self, message: ReadOutput) -> None:
        instance = message.task, message.instance
        folder, most = Path(self._places.captured(message.job)), min(message.limit, MAX_OUTPUT)
        try:
            data, size = read_captured_of(folder, instance, message.offset, most)
            gone = not size and not folder.exists()
            self._head.send(OutputRead(number=message.number, data=data, size=size, missing=gone))
        except NotFound as error:
            self._head.send(OutputRead(number=message.number, data=b"", size=0, problem=error.what))

    def _remove_output(self, jobs: tuple[JobId, ...]) -> None:
        """Remove old output beside everything else: there may be much of it."""
        task = asyncio.ensure_future(
            asyncio.to_thread(remove_outputs, self._places.output, jobs, self._jobs.open_jobs())
        )
        self._removing.add(task)
        task.add_done_callback(self._removed)

    def _removed(self, task: "asyncio.Future[list[str]]") -> None:
        self._removing.discard(task)
        for trouble in [] if task.cancelled() else task.result():
            log.warning("old output could not be removed: %s", trouble)

    def _goodbye(self, reason: str) -> None:
        log.info("the head ended the connection: %s", reason)
        if reason == "cancel":
            self._jobs.end_all(then=self.leave)
        else:
            if self._results.welcome:  # else the head refuses this agent, and may run its tasks elsewhere
                self._lease.let_go()
            self.leave()


def _between_heartbeats(requested: float, lease: float) -> float:
    """Return how many seconds to let pass: a lease must not end because one heartbeat was lost."""
    return min(requested, lease / 3) if lease else requested
