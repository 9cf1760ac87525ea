"""The agent: obeys the head, looks after the shepherds, and loses no result whoever dies."""

import asyncio
import logging
import os

from headnode.adapters.nodes import messages as m
from headnode.adapters.nodes.identity import Identity
from headnode.adapters.nodes.tables import check_text, digest_of_holdings
from headnode.adapters.processes.captured import jobs_with_output, read_captured, remove_outputs
from headnode.adapters.processes.lease import boot_time
from headnode.apps.agent.head_link import HeadLink, LocalSocket, Transport
from headnode.apps.agent.health import HealthCheck
from headnode.apps.agent.jobs import Jobs
from headnode.apps.agent.last_run import LastRun
from headnode.apps.agent.lease import HeldLease
from headnode.apps.agent.places import Places
from headnode.apps.agent.program_trials import ProgramTrials
from headnode.apps.agent.reading import Reading
from headnode.apps.agent.results import Results
from headnode.core.launching.output import captured_name
from headnode.core.model.errors import NotFound
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import JobId

log = logging.getLogger("headnode.agent")

NEVER_MET = 30.0  # seconds that an agent looks for a head that refuses connections, if it never met one
MOST_OUTPUT = 1 << 20  # bytes of captured output in one message


class Agent:
    """One node's agent.  Everything happens in the event loop's one thread."""

    def __init__(self, places: Places, facts: NodeFacts, transport: Transport) -> None:
        self._places = places
        self._head = HeadLink(transport, self)
        self._results = Results(self._head)
        dial = transport.dial_for_tasks if isinstance(transport, Identity) else None
        self._jobs = Jobs(places, facts, self._results, self._head.say, dial)
        self._reading = Reading(facts.name, self._jobs.open_file, self._head.say)
        self._trials = ProgramTrials(self._head.say)
        self._health = HealthCheck(facts.name, self._tell_health)
        self._lease = HeldLease(self._jobs.renew)
        self._told_of_lease = False
        self._last_run = LastRun(places.state, facts.boot_id)
        self._leave = asyncio.Event()
        self._removing: set[asyncio.Future[list[str]]] = set()
        # Since when it looks for a head of this machine; None: it has met one, or is to wait for ever.
        self._unmet = boot_time() if isinstance(transport, LocalSocket) else None

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
        """End soon; tasks go on."""
        self._leave.set()

    # What the head hears and says.

    def hello(self) -> m.Hello:
        """Return the full table of what is here."""
        self._jobs.taken.forget()
        return self._jobs.hello(check_text(*self._health.ordered))

    def head_is_away(self) -> None:
        """Keep what happens for the next connection."""
        self._results.welcome = False
        if self._lease.is_over and not self._told_of_lease and not self._jobs.is_empty:
            log.warning("the lease of this node has expired: jobs that may run elsewhere are stopped here")
            self._told_of_lease = True

    def head_is_off(self, dialed: float) -> None:
        """Nothing listened where the head does when it was dialed (seconds since the machine was started)."""
        self._lease.head_is_off(dialed)
        if self._unmet is not None and dialed - self._unmet > NEVER_MET and self._jobs.is_empty:
            log.warning("the agent has never reached a head; it ends and can be started again")
            self.leave()

    def beat(self) -> None:
        """Say that we live and what we have, and again what may be lost."""
        self._results.repeat()
        self._jobs.repeat_visits()
        table = self._jobs.table(0, check_text(*self._health.ordered))
        number = self._lease.next_heartbeat()
        digest = digest_of_holdings(table)
        self._head.say(
            m.Heartbeat(
                number=number,
                digest=digest,
                lease=self._lease.length,
                launched=table.launched,
                load=os.getloadavg()[0],
            )
        )

    def obey(self, message: m.FromHead) -> None:
        """Do what the head says."""
        match message:
            case m.Welcome():
                self._welcomed(message)
            case m.Heard(number=number, lease=lease, now=now):
                self._jobs.hear_time(now)
                self._lease.heard(number, lease)
                self._told_of_lease = False
                self._head.beat(_between_heartbeats(self._jobs.head.heartbeat, lease))
            case m.TellTable(number=number):
                self._head.say(self._jobs.table(number, check_text(*self._health.ordered)))
            case m.OpenJob():
                self._jobs.open_job(message)
            case m.Run():
                if not self._jobs.run(message):
                    self.beat()  # the head will see what was lost
            case m.Stop():
                self._jobs.stop(message)
            case m.Suspend():
                self._jobs.suspend(message)
            case m.Continue():
                self._jobs.go_on(message)
            case m.CloseJob(job=job):
                self._jobs.close_job(job)
            case m.HookHeard():
                self._jobs.hook_heard(message)
            case m.Ack(number=number):
                self._jobs.acknowledged(number)
            case m.ReadOutput():
                self._read_output(message)
            case m.ReadFile():
                self._reading.start(message, far=self._jobs.head.far)
            case m.ListOutput(number=number, after=after, most=most):
                jobs = jobs_with_output(self._places.output, after, most)
                self._head.say(m.OutputListed(number=number, jobs=tuple(map(JobId, jobs))))
            case m.RemoveOutput(jobs=jobs_over):
                self._remove_output(jobs_over)
            case m.Launch() | m.LaunchPiece() | m.LaunchTaken() | m.LaunchesOver() | m.EndLaunched():
                self._jobs.launching.hear(message)
            case m.TryProgram():
                self._trials.start(message)
            case m.CheckHealth(program=program, every=every):
                self._health.order(program, every)
            case m.NotUnderstood(said=said):
                log.warning("the head refused a message of this node: %s", said)
            case m.Goodbye(reason=reason):
                self._goodbye(reason)

    def _tell_health(self, well: bool, said: str) -> None:
        self._head.say(m.Health(well=well, said=said))

    def _welcomed(self, message: m.Welcome) -> None:
        self._jobs.head, self._unmet = message, None
        self._jobs.hear_time(message.now)
        self._head.beat(message.heartbeat)
        self._jobs.launching.beat(message.heartbeat)
        self._results.head_is_here()
        self.beat()

    def _read_output(self, message: m.ReadOutput) -> None:
        name = captured_name(message.task, message.instance)
        folder, most = self._places.captured(message.job), min(message.most, MOST_OUTPUT)
        try:
            data, size = read_captured(folder, name, message.offset, most)
            gone = not size and not folder.exists()
            self._head.say(m.OutputRead(number=message.number, data=data, size=size, gone=gone))
        except NotFound as error:
            self._head.say(m.OutputRead(number=message.number, data=b"", size=0, problem=error.what))

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
            self._jobs.when_empty = self.leave
            self._jobs.end_all()
        else:
            self._lease.let_go()
            self.leave()


def _between_heartbeats(wished: float, lease: float) -> float:
    """Return how many seconds to let pass: a lease must not end because one heartbeat was lost."""
    return min(wished, lease / 3) if lease else wished
