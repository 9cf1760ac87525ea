"""What happens on this node: jobs open and their tasks start, by prolog, shepherd, filters and orders.

The parts of the agent ask for things, and tell what became of jobs, tasks and commands.
"""

import logging
from collections.abc import Callable

from headnode.adapters.processes import shepherd_protocol
from headnode.adapters.processes.gpus import MachineGpus
from headnode.adapters.processes.job_journal import EndedRecord, Key
from headnode.adapters.processes.remote_steps import step_name
from headnode.adapters.wire.agent_messages import (
    AttemptStart,
    AttemptTransfers,
    JobReady,
    Launch,
    Staging,
    Started,
    Suspended,
)
from headnode.adapters.wire.messages import FromAgent, OpenJob, Run
from headnode.apps.agent.client_door import AgentClientDoor
from headnode.apps.agent.gpu_confinement import gpu_assignments
from headnode.apps.agent.head_link import Dial
from headnode.apps.agent.job_table import JobEndings, JobTable, NodeJob, NodeParts
from headnode.apps.agent.launch_server import size_in_words
from headnode.apps.agent.launching import LaunchRouter
from headnode.apps.agent.node_programs import hook_environment
from headnode.apps.agent.node_services import NodeServices
from headnode.apps.agent.output import as_here
from headnode.apps.agent.places import Places
from headnode.apps.agent.prolog_epilog import PrologEpilog, TaskFilters
from headnode.apps.agent.results import ResultSender
from headnode.apps.agent.shepherd_handle import Failure, ShepherdHandle, ShepherdPhase, result_without_record
from headnode.apps.agent.shepherds import Shepherds
from headnode.apps.agent.task_orders import TaskOrders
from headnode.apps.agent.task_tools import LaunchPlaces, TaskAccess
from headnode.apps.agent.temporary_names import temporary_name_in
from headnode.core.launching.environment import TASK_MARKER
from headnode.core.launching.node_filters import NodeFilterResult
from headnode.core.model import faults
from headnode.core.model.errors import Unavailable
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId
from headnode.core.state.job_events import NodeCores

log = logging.getLogger("headnode.agent")


class JobStarts:
    """Opens jobs on this node and starts their tasks."""

    def __init__(self, parts: NodeParts, table: JobTable, endings: JobEndings) -> None:
        self._parts, self._table, self._endings = parts, table, endings

    def open_job(self, message: OpenJob) -> None:
        """Make ready for a job, or hear of it anew."""
        self._table.set_head_time(message.now)
        job = self._table.job(message.job)
        if message == job.opened:
            return
        job.opened, job.orders = message, None
        job.visited = job.visited or message.hooks is not None
        try:
            opened = self._as_here(message)
        except Unavailable:
            if message.hooks is not None:
                self._parts.results.send(JobReady(job=job.id))
            return  # each task that is to run there gets the reason
        try:
            self._enter(job, opened)
            if message.hooks is None:
                self._parts.places.keep_soon(message)
            else:  # the programs around it may have begun
                self._parts.places.keep(message)
            tended = job.at_work
            if tended is None and self._parts.visits.is_ready(job.id):
                self._order_shepherd(job, opened)
            elif tended is not None:
                deadline = self._table.end_of(message)
                tended.send(shepherd_protocol.deadline_message(deadline, self._table.head.grace))
        except (OSError, Unavailable) as error:
            log.error("job %d cannot be opened here: %s", message.job, error)

    def _as_here(self, opened: OpenJob) -> OpenJob:
        return as_here(opened, self._parts.facts.name, far=self._table.head.remote)

    def _enter(self, job: NodeJob, opened: OpenJob) -> None:
        """Let the visit of a job begin, or go by what the head says of it now."""
        visits = self._parts.visits
        if opened.hooks is not None or not visits.is_ready(job.id) or job.id in visits.jobs():
            visits.enter(opened, hook_environment(opened, self._parts.facts, self._table.head))

    def entered(self, number: JobId) -> None:
        """Order a shepherd for a job whose prolog is over."""
        job = self._table.job(number)
        if job.opened is None:
            self._endings.forget_if_over(job)
        elif self._parts.visits.is_ready(number) and job.at_work is None:
            try:
                self._order_shepherd(job, self._as_here(job.opened))
            except (OSError, Unavailable) as error:
                log.error("job %d has no shepherd yet: %s", number, error)

    def left(self, number: JobId) -> None:
        """Forget a job whose epilog is over, or open it anew if it has come back meanwhile."""
        job = self._table.job(number)
        if job.opened is None:
            self._endings.forget_if_over(job)
            return
        opened, job.opened = job.opened, None
        self.open_job(opened)

    def _order_shepherd(self, job: NodeJob, opened: OpenJob) -> ShepherdHandle:
        job.orders = None
        tended = self._parts.shepherds.order(opened, self._table.end_of(opened), self._table.head.grace)
        job.herd[tended.marker] = tended
        self._table.send_lease(job, tended)
        if job.suspended:
            tended.send(shepherd_protocol.suspend_message(job.suspended))
        return tended

    def run(self, message: Run) -> bool:
        """Run instances that are not here yet; False when the job is not open here: it was not to be run.

        Then the head's word that opens it is lost, or this one comes after the job was closed.
        """
        job = self._table.jobs.get(message.job)
        if job is None or job.opened is None:
            return False
        fresh = self._fresh(job, message)
        if fresh and not self._parts.visits.is_ready(job.id):  # the head believes otherwise
            self._never_ran(job, message.task, fresh)
        elif fresh:
            self._start(job, message, fresh)
        return True

    def _never_ran(self, job: NodeJob, task: int, attempts: list[tuple[int, int]]) -> None:
        for attempt in attempts:
            self._endings.settle(job.id, "", 0, result_without_record((task, *attempt), "never-ran", ""))

    def _fresh(self, job: NodeJob, message: Run) -> list[tuple[int, int]]:
        over, task = self._parts.results.ledger.over(job.id), message.task
        return [
            attempt
            for attempt in message.attempts
            if not self._is_here(job, over, (task, *attempt))
            and self._table.taken.add(job.id, task, *attempt)
        ]

    def _is_here(self, job: NodeJob, over: dict[Key, None], key: Key) -> bool:
        on_its_way = key in job.held or key in self._parts.filters.waiting(job.id)
        return key in over or on_its_way or job.owner_of(key) is not None

    def _start(self, job: NodeJob, message: Run, fresh: list[tuple[int, int]]) -> None:
        filters, launching = self._parts.filters, self._parts.launching
        try:
            tended, orders = self._ready(job, message.task)
            orders.note_unstarted(message.task, message.unstarted)
            if filters.sees(job.id):
                if message.after:  # a filter may take longer than the parents, whose ends are forgotten then
                    self._never_ran(job, message.task, fresh)
                    return
                asked = orders.questions(message.task, message.placement, fresh, launching)
                filters.begin(job.id, message.placement, asked)
                return
            order = orders.run(message, fresh, launching)
        except (OSError, Unavailable) as error:
            self._endings.refuse(job.id, [(message.task, *attempt) for attempt in fresh], error)
            return
        keys = [(message.task, *who) for who in fresh]
        tended.live.update(dict.fromkeys(keys))
        tended.send(order, keys)

    def passed(self, number: JobId, key: Key, place: NodeCores, filtered: NodeFilterResult) -> None:
        """Start a task as its filter wants it."""
        job, (task, *attempt) = self._table.job(number), key
        try:
            tended, orders = self._ready(job, task)
            order = orders.run_filtered(
                task, place, (attempt[0], attempt[1]), filtered, self._parts.launching
            )
        except (OSError, Unavailable) as error:
            self._endings.refuse(number, [key], error)
            return
        tended.live[key] = None
        tended.send(order, [key])

    def refused(self, number: JobId, key: Key, why: str, trouble: str) -> None:
        """Settle a task that cannot start."""
        result = result_without_record(key, "not-started", why, trouble=trouble)
        self._endings.settle(number, "", 0, result)

    def _ready(self, job: NodeJob, task: int) -> tuple[ShepherdHandle, TaskOrders]:
        """Return a shepherd for the job and what it needs to know.

        Raises:  Unavailable, OSError, when this node cannot run the job.
        """
        opened, facts = job.opened, self._parts.facts
        if opened is None:
            raise Unavailable(
                code="not-open",
                what=f"job {job.id} is not open on node {facts.name!r}",
                fix=f"see where it runs: hn job view {job.id}",
            )
        if not self._parts.visits.is_ready(job.id):
            raise Unavailable(
                code="not-ready",
                what=f"node {facts.name!r} is not ready for job {job.id}: its prolog has not ended",
                fix="try again when it has",
            )
        own = self._as_here(opened)
        tended = job.at_work or self._order_shepherd(job, own)
        if job.orders is None:
            access, gpus = self._parts.access, self._parts.gpus
            job.orders = TaskOrders(own, facts, self._table.head, tended.marker, access, gpus)
        if not job.orders.has(task):
            raise Unavailable(
                code="no-such-task",
                what=f"job {job.id} has no task {task}",
                fix=f"see its tasks: hn job listtasks {job.id}",
            )
        return tended, job.orders

    def start_launched(self, launch: Launch) -> int:
        """Let the job's shepherd run a command of an attempt of another node; return its user.

        Raises:  OSError, Unavailable when that cannot be.
        """
        tended, orders = self._ready(self._table.job(launch.route.job), launch.route.task)
        environment, directory = orders.launched(launch, self._parts.launching)
        terminal = size_in_words(launch.terminal)
        number, bounds = launch.route.number, orders.bounds_for(launch)
        elsewhere = launch.route.task and launch.route.first  # else it is beside the tasks on their node
        outpost = step_name(environment[TASK_MARKER]) if elsewhere else ""
        limits = orders.limits_for(launch)
        temporary = orders.temporary_of(launch, self._parts.access.places) if outpost else ""
        message = shepherd_protocol.launch_message(
            number, launch.command, environment, directory, terminal, bounds, outpost, limits, temporary
        )
        tended.send(message)
        return tended.uid


MAX_DEATHS = 3  # of shepherds of a job, one after the other, until its tasks are not tried again here


class NodeEvents(NodeServices):
    """Makes the parts of the agent that serve jobs, and does what they ask of it."""

    def __init__(
        self,
        places: Places,
        facts: NodeFacts,
        table: JobTable,
        results: ResultSender,
        send: Callable[[FromAgent], None],
        dial: Dial | None,
        gpus: MachineGpus,
    ) -> None:
        """`dial` returns connections for what tasks ask the head; None: it is on this machine."""
        self._facts, self._table, self._results = facts, table, results
        visits = PrologEpilog(facts.boot_id, places.jobs, self)
        launching = LaunchRouter(facts.name, LaunchPlaces(places.state, places.run), self)
        door = None if dial is None else AgentClientDoor(facts.name, self, dial)
        self.parts = NodeParts(
            send=send,
            places=places,
            facts=facts,
            results=results,
            shepherds=Shepherds(places, facts.name, facts.boot_id, self),
            visits=visits,
            filters=TaskFilters(visits, self),
            launching=launching,
            access=TaskAccess(launching.places, door),
            gpus=gpu_assignments(gpus, places, table, lambda share: self.parts.uses_gpus(table, share)),
        )
        self.endings = JobEndings(self.parts, table)
        self.starts = JobStarts(self.parts, table, self.endings)

    # The head and the jobs.

    def send(self, message: FromAgent) -> None:
        self._results.send(message)

    def user_of(self, number: JobId, key: Key) -> int | None:
        return self._table.user_of(number, key)

    def attempt_of(self, uid: int, named: str) -> tuple[JobId, Key] | None:
        return self._table.attempt_of(uid, named)

    def temporary_name(self, number: JobId, key: Key) -> str:
        opened = self._table.job(number).opened
        return "" if opened is None else temporary_name_in(opened, key, self.parts.access.places)

    # Remote commands.

    def start_launched(self, launch: Launch) -> int:
        return self.starts.start_launched(launch)

    def end_launched(self, number: JobId, launches: list[str], grace: float) -> None:
        job = self._table.jobs.get(number)
        for tended in job.herd.values() if job is not None else ():
            tended.send(shepherd_protocol.end_launches_message(launches, grace))

    def end_launched_by(self, number: JobId, key: Key) -> bool:
        job = self._table.jobs.get(number)
        herd = list(job.herd.values()) if job is not None else []
        for tended in herd:
            tended.send(shepherd_protocol.end_task_launches_message(".".join(map(str, (number, *key)))))
        return any(tended.phase in (ShepherdPhase.AWAITED, ShepherdPhase.HERE) for tended in herd)

    # Prolog, epilog and filters.

    def entered(self, number: JobId) -> None:
        self.starts.entered(number)

    def left(self, number: JobId) -> None:
        self.starts.left(number)

    def passed(self, number: JobId, key: Key, place: NodeCores, filtered: NodeFilterResult) -> None:
        self.starts.passed(number, key, place, filtered)

    def refused(self, number: JobId, key: Key, why: str, trouble: str) -> None:
        self.starts.refused(number, key, why, trouble)

    # Shepherds.

    def takes_over(self, tended: ShepherdHandle) -> None:
        self.parts.gpus.confine(tended.job)

    def adopted(self, tended: ShepherdHandle) -> None:
        self._table.job(tended.job).herd[tended.marker] = tended

    def started(self, tended: ShepherdHandle, begun: list[tuple[int, int, int, float]]) -> None:
        tended.live.update({(task, instance, attempt): at for task, instance, attempt, at in begun})
        if begun:
            self._table.job(tended.job).deaths = 0
            starts = tuple(
                AttemptStart(task, instance, attempt, Instant(at)) for task, instance, attempt, at in begun
            )
            self.send(Started(job=tended.job, started=starts))

    def staging(self, tended: ShepherdHandle, transfers: list[AttemptTransfers]) -> None:
        gone = (each for each in transfers if each.direction == "out")
        tended.leaving.update((each.task, each.instance, each.attempt) for each in gone)
        self.send(Staging(job=tended.job, transfers=tuple(transfers)))

    def ended(self, tended: ShepherdHandle, records: list[EndedRecord]) -> None:
        self.endings.ended(tended, records)

    def is_suspended(self, tended: ShepherdHandle, number: int) -> None:
        if not tended.closing:
            self._table.job(tended.job).suspended = number

    def stands_still(self, tended: ShepherdHandle, number: int) -> None:
        job = self._table.job(tended.job)
        if job.at_work is tended and job.suspended == number:
            self.send(Suspended(job=job.id, number=number))

    def not_launched(self, number: str, why: str) -> None:
        self.parts.launching.not_launched(number, why)

    def launches_over(self, job: JobId, message: shepherd_protocol.ShepherdLaunchesEnded) -> None:
        if message.task.partition(".")[0] == str(job):
            self.parts.launching.launches_over(message.task, message.usage)

    def never_arrived(self, tended: ShepherdHandle, keys: list[Key]) -> None:
        for key in keys:
            self.endings.settle(tended.job, tended.marker, 0, result_without_record(key, "never-ran", ""))

    def vanished(
        self, tended: ShepherdHandle, started: dict[Key, float], failure: Failure | None, *, rebooted: bool
    ) -> None:
        """It is gone and nothing of it runs: what had started is lost, the rest never ran.

        With a failure it never came to be.
        """
        job = self._table.job(tended.job)
        job.deaths = 0 if started or failure or rebooted else job.deaths + 1
        if job.deaths >= MAX_DEATHS:
            why = f"its shepherd on node {self._facts.name} died {job.deaths} times before any task started"
            failure = Failure(why, faults.SHEPHERD_DIED)
        for key in tended.live:
            if key in started:
                lost = "its shepherd on the node died; how the task ended is not known"
                lost = f"node {self._facts.name} rebooted" if rebooted else lost
                result = result_without_record(key, "lost", lost, started[key])
            elif failure is not None:
                result = result_without_record(key, "not-started", failure.why, trouble=failure.trouble)
            else:
                result = result_without_record(key, "never-ran", "")
            self.endings.settle(tended.job, tended.marker, 0, result)
        tended.live = {}
        if job.at_work is None:
            job.orders = None
            if job.suspended:
                self.send(Suspended(job=job.id, number=job.suspended))
        self.endings.forget_if_over(job)
