"""The jobs that are open on this node: what the head orders, and what becomes of their shepherds."""

import logging
import math
import time
from collections.abc import Callable
from typing import Any

from headnode.adapters.processes import shepherd_protocol
from headnode.adapters.processes.agent_link import boot_time
from headnode.adapters.processes.job_journal import EndedRecord, Key
from headnode.adapters.processes.remote_steps import step_name
from headnode.adapters.wire.agent_messages import (
    PROTOCOL,
    AttemptResult,
    AttemptStart,
    Hello,
    JobClosed,
    JobReady,
    Launch,
    ReportedAttempt,
    Started,
    Suspended,
    Table,
)
from headnode.adapters.wire.message_checks import job_mark
from headnode.adapters.wire.messages import (
    Continue,
    FromAgent,
    HookHeard,
    OpenJob,
    Run,
    Stop,
    Suspend,
    Welcome,
)
from headnode.apps.agent.client_door import AgentClientDoor, Dial
from headnode.apps.agent.job import (
    Failure,
    NodeJob,
    SeenDispatches,
    ShepherdHandle,
    ShepherdPhase,
    result_of,
    result_without_record,
    trouble_of,
    used_there,
    words_for,
)
from headnode.apps.agent.launch_server import size_in_words
from headnode.apps.agent.launching import LaunchRouter
from headnode.apps.agent.node_programs import hook_environment
from headnode.apps.agent.output import as_here
from headnode.apps.agent.places import Places
from headnode.apps.agent.prolog_epilog import PrologEpilog
from headnode.apps.agent.results import LedgerEntry, ResultSender
from headnode.apps.agent.shepherds import Shepherds
from headnode.apps.agent.task_filters import TaskFilters
from headnode.apps.agent.task_orders import TaskOrders
from headnode.apps.agent.task_tools import LaunchPlaces, TaskAccess
from headnode.core.launching.environment import TASK_MARKER
from headnode.core.launching.node_filters import NodeFilterResult
from headnode.core.model import faults
from headnode.core.model.errors import Unavailable
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.state.job_events import NodeCores

log = logging.getLogger("headnode.agent")

GRACE = 15.0  # seconds, until the head says another
MOST_DEATHS = 3  # of shepherds of a job, one after the other, until its tasks are not tried again here
SETTLING = 5.0  # seconds for the shepherds of an earlier agent to dial


class Jobs:
    """All jobs of this node that are not settled."""

    def __init__(
        self,
        places: Places,
        facts: NodeFacts,
        results: ResultSender,
        say: Callable[[FromAgent], None],
        dial: Dial | None = None,
    ) -> None:
        """`dial` returns connections for what tasks ask the head; None: it is on this machine."""
        self._places, self._facts, self._results, self._say = places, facts, results, say
        self._jobs: dict[JobId, NodeJob] = {}
        self._shepherds = Shepherds(places, facts.boot_id, self)
        self._visits = PrologEpilog(facts.boot_id, places.jobs, self, self.say)
        self._filtering = TaskFilters(self._visits, self)
        self.launching = LaunchRouter(facts.name, LaunchPlaces(places.state, places.run), self)
        door = None if dial is None else AgentClientDoor(facts.name, self, dial)
        self._way = TaskAccess(self.launching.places, door)
        self.head = Welcome(cluster="", heartbeat=Seconds(0.0), grace=Seconds(GRACE))
        self.when_empty: Callable[[], None] = lambda: None
        self.taken = SeenDispatches()
        self._head_started = Instant(time.time() - boot_time())  # what time the head had at our start
        self._lease: float | None = None  # until when tasks may go on without the head; None: nobody said

    async def start(self) -> None:
        """Find what an earlier agent has left."""
        for opened in self._places.kept():
            self._job(opened.job).opened = opened
        await self._shepherds.open(SETTLING)
        await self.launching.open()
        self._way.open()
        for number in self._visits.start():
            if self._job(number).opened is None:
                self._forget_if_over(self._job(number))

    async def close(self) -> None:
        """Let go of everything; what runs goes on."""
        self.launching.close()
        self._way.close()
        self._visits.close()
        await self._shepherds.close()

    @property
    def name(self) -> str:
        """The name of this node."""
        return self._facts.name

    def hello(self, check: str) -> Hello:
        """Return the first words of a connection; `check` is the health check that was ordered."""
        return Hello(protocol=PROTOCOL, facts=self._facts, **self._holdings(check))

    def table(self, number: int, check: str) -> Table:
        """Return the answer to a question for all that is here."""
        return Table(number=number, **self._holdings(check))

    def _holdings(self, check: str) -> dict[str, Any]:
        """Return the full table of what is here, as the fields of a message."""
        ledger = self._results.ledger
        live = [each for job in self._jobs.values() for each in job.live()]
        live += [
            ReportedAttempt(job, *key, False) for job in self._jobs for key in self._filtering.waiting(job)
        ]
        ended = [ReportedAttempt(job, *key, False) for job in ledger.jobs() for key in ledger.over(job)]
        opened = [(job.id, job_mark(job.opened)) for job in self._jobs.values() if job.opened is not None]
        return {
            "open_jobs": tuple(sorted(self.open_jobs())),
            "live": tuple(live),
            "ended": tuple(ended),
            "suspended": tuple(job.id for job in self._jobs.values() if job.suspended),
            "launched": tuple(self.launching.launched()),
            "opened": tuple(opened),
            "check": check,
        }

    def open_jobs(self) -> frozenset[JobId]:
        """Return the jobs that something is left of here."""
        return frozenset({*self._jobs, *self._results.ledger.jobs()})

    @property
    def is_empty(self) -> bool:
        """Whether nothing is here, nor anything of which the head does not know the end."""
        return not self._jobs

    def counted(self) -> str:
        """Return how many jobs are here, and how many of their tasks."""
        tasks = sum(len(list(job.live())) for job in self._jobs.values())
        return f"{len(self._jobs)} jobs with {tasks} tasks that have not ended"

    def renew(self, until: float | None) -> None:
        """Let tasks that may be run elsewhere go on until then (seconds since the boot); None: for ever."""
        self._lease = until
        for job in self._jobs.values():
            said = shepherd_protocol.lease_message(until if job.may_run_elsewhere else None)
            for tended in job.herd.values():
                tended.say(said)

    def end_all(self) -> None:
        """End everything that is here."""
        for number in list(self._jobs):
            self.close_job(number)
        self._tell_if_empty()

    # What the head orders.

    def open_job(self, message: OpenJob) -> None:
        """Make ready for a job, or hear of it anew."""
        self.hear_time(message.now)
        job = self._job(message.job)
        if message == job.opened:
            return
        job.opened, job.orders = message, None
        try:
            here = as_here(message, self.name, far=self.head.far)
        except Unavailable:
            if message.hooks is not None:
                self.say(JobReady(job=job.id))
            return  # whoever is to run there hears why
        try:
            self._enter(job, here)
            self._places.keep(message)
            tended = job.at_work
            if tended is None and self._visits.is_ready(job.id):
                self._order_shepherd(job, here)
            elif tended is not None:
                tended.say(shepherd_protocol.deadline_message(self._ends(message), self.head.grace))
        except (OSError, Unavailable) as error:
            log.error("job %d cannot be opened here: %s", message.job, error)

    def _order_shepherd(self, job: NodeJob, opened: OpenJob) -> ShepherdHandle:
        job.orders = None
        tended = self._shepherds.order(opened, self._ends(opened), self.head.grace)
        job.herd[tended.marker] = tended
        if self._lease is not None and job.may_run_elsewhere:
            tended.say(shepherd_protocol.lease_message(self._lease))
        if job.suspended:
            tended.say(shepherd_protocol.suspend_message(job.suspended))
        return tended

    def run(self, message: Run) -> bool:
        """Run instances that are not here yet; False when the job is not open here: it was not to be run.

        Then the head's word that opens it is lost, or this one comes after the job was closed.
        """
        job = self._jobs.get(message.job)
        if job is None or job.opened is None:
            return False
        fresh = self._fresh(job, message)
        if fresh and not self._visits.is_ready(job.id):  # the head believes otherwise
            for who in fresh:
                self._settle(job.id, "", 0, result_without_record((message.task, *who), "never-ran", ""))
        elif fresh:
            self._start(job, message, fresh)
        return True

    def _fresh(self, job: NodeJob, message: Run) -> list[tuple[int, int]]:
        over, task = self._results.ledger.over(job.id), message.task
        return [
            who
            for who in message.attempts
            if not self._is_here(job, over, (task, *who)) and self.taken.add(job.id, task, *who)
        ]

    def _start(self, job: NodeJob, message: Run, fresh: list[tuple[int, int]]) -> None:
        try:
            tended, orders = self._ready(job, message.task)
            if self._filtering.sees(job.id):
                asked = orders.questions(message.task, message.place, fresh, self.launching)
                self._filtering.begin(job.id, message.place, asked)
                return
            said = orders.run(message.task, message.place, fresh, self.launching)
        except (OSError, Unavailable) as error:
            for who in fresh:
                self.refused(job.id, (message.task, *who), words_for(error), trouble_of(error))
            return
        keys = [(message.task, *who) for who in fresh]
        tended.live.update(dict.fromkeys(keys))
        tended.say(said, keys)

    def _is_here(self, job: NodeJob, over: dict[Key, None], key: Key) -> bool:
        on_its_way = key in job.held or key in self._filtering.waiting(job.id)
        return key in over or on_its_way or job.owner_of(key) is not None

    def _ready(self, job: NodeJob, task: int) -> tuple[ShepherdHandle, TaskOrders]:
        """Return a shepherd for the job and what it needs to know.

        Raises:  Unavailable, OSError, when this node cannot run the job.
        """
        opened = job.opened
        if opened is None:
            raise Unavailable(code="not-open", what=f"job {job.id} is not open on node {self._facts.name!r}")
        if not self._visits.is_ready(job.id):
            raise Unavailable(
                code="not-ready",
                what=f"node {self._facts.name!r} is not ready for job {job.id}: its prolog has not ended",
                fix="try again when it has",
            )
        here = as_here(opened, self.name, far=self.head.far)
        tended = job.at_work or self._order_shepherd(job, here)
        if job.orders is None:
            job.orders = TaskOrders(here, self._facts, self.head, tended.marker, self._way)
        if not job.orders.has(task):
            raise Unavailable(code="no-such-task", what=f"job {job.id} has no task {task}")
        return tended, job.orders

    async def open_file(self, path: str, uid: int, gid: int) -> int:
        """Open a plain file as a user of this machine; return its descriptor.

        Raises:  as `Factory.open_file`.
        """
        return await self._shepherds.open_file(path, uid, gid)

    # What tasks launch on other nodes.

    def say(self, message: FromAgent) -> None:
        """Say something to the head, if it listens."""
        if self._results.welcome:
            self._say(message)

    def user_of(self, number: JobId, key: Key) -> int | None:
        """Return the user whose attempt lives here; None when there is no such attempt."""
        job = self._jobs.get(number)
        owner = job.owner_of(key) if job is not None else None
        return None if owner is None else owner.uid

    def attempt_of(self, uid: int, named: str) -> tuple[JobId, Key] | None:
        """Return the attempt of a user (job.task.instance.attempt), if it may be here, else another of his.

        Whether it runs is for the head to say: what an attempt of another node has launched here is its, too.
        """
        words = named.split(".")
        if len(words) == 4 and all(word.isascii() and word.isdigit() and len(word) < 19 for word in words):
            number, task, instance, attempt = map(int, words)
            job = self._jobs.get(JobId(number))
            if job is not None and any(tended.uid == uid for tended in job.herd.values()):
                return JobId(number), (task, instance, attempt)
        for job in self._jobs.values():
            for tended in job.herd.values():
                if job.id > 0 and tended.uid == uid and tended.live:
                    return job.id, next(iter(tended.live))
        return None

    def start_launched(self, launch: Launch) -> int:
        """Let the job's shepherd run a command; return its user.

        Raises:  OSError, Unavailable when that cannot be.
        """
        tended, orders = self._ready(self._job(launch.route.job), launch.route.task)
        environment, directory = orders.launched(launch)
        terminal = size_in_words(launch.terminal)
        number, bounds = launch.route.number, orders.bounds_for(launch)
        outpost = step_name(environment[TASK_MARKER]) if launch.route.task else ""
        limits = orders.limits_for(launch)
        said = shepherd_protocol.launch_message(
            number, launch.command, environment, directory, terminal, bounds, outpost, limits
        )
        tended.say(said)
        return tended.uid

    def end_launched(self, number: JobId, launches: list[str], grace: float) -> None:
        """Let the job's shepherd end commands."""
        job = self._jobs.get(number)
        for tended in job.herd.values() if job is not None else ():
            tended.say(shepherd_protocol.end_launches_message(launches, grace))

    def end_launched_by(self, number: JobId, key: Key) -> bool:
        """Let the job's shepherd kill whatever an attempt of another node has running here.

        False when the job has no shepherd here; else it tells when that is done, and what was used.
        """
        job = self._jobs.get(number)
        herd = list(job.herd.values()) if job is not None else []
        for tended in herd:
            tended.say(shepherd_protocol.end_task_launches_message(".".join(map(str, (number, *key)))))
        return any(tended.phase in (ShepherdPhase.AWAITED, ShepherdPhase.HERE) for tended in herd)

    def launches_over(self, job: JobId, said: shepherd_protocol.ToldLaunchesOver) -> None:
        """Nothing runs any more of what an attempt of another node launched here."""
        if said.task.partition(".")[0] == str(job):
            self.launching.launches_over(said.task, used_there(said))

    def not_launched(self, number: str, why: str) -> None:
        """A shepherd could not start a command."""
        self.launching.not_launched(number, why)

    def stop(self, message: Stop) -> None:
        """Stop what is here of these."""
        job = self._jobs.get(message.job)
        if job is None:
            return
        by_owner: dict[str, list[Key]] = {}
        for key in message.attempts:
            owner = job.owner_of(key)
            if self._filtering.take_back(job.id, key):
                self._settle(job.id, "", 0, result_without_record(key, "never-ran", ""))
            elif owner is not None:
                by_owner.setdefault(owner.marker, []).append(key)
        for marker, keys in by_owner.items():
            job.herd[marker].say(
                shepherd_protocol.stop_message(keys, 0.0 if message.force else self.head.grace)
            )

    def suspend(self, message: Suspend) -> None:
        """Let everything of a job stand still."""
        job = self._job(message.job)
        job.suspended = message.number
        if job.at_work is None:
            self._say(Suspended(job=job.id, number=job.suspended))
        else:
            job.at_work.say(shepherd_protocol.suspend_message(job.suspended))

    def go_on(self, message: Continue) -> None:
        """Let everything of a job go on."""
        self.hear_time(message.now)
        job = self._jobs.get(message.job)
        if job is None:
            return
        job.suspended = 0
        if job.at_work is not None:
            grace = self.head.grace
            job.at_work.say(shepherd_protocol.continue_message(self._ends(message), grace))

    def close_job(self, number: JobId) -> None:
        """Kill whatever is left of a job, and forget it."""
        job = self._job(number)
        job.opened, job.orders, job.suspended = None, None, 0
        self._places.forget(number)
        self.launching.job_over(number)
        for key in self._filtering.take_all_back(number):
            self._settle(number, "", 0, result_without_record(key, "never-ran", ""))
        for entry in job.held.values():
            self._settle(job.id, *entry)
        job.held.clear()
        for tended in job.herd.values():
            self._shepherds.dismiss(tended)
        self._forget_if_over(job)

    def acknowledged(self, number: int) -> None:
        """Forget results that the head will never lose."""
        found = self._results.ledger.acknowledge(number)
        if found is None:
            return
        job = self._job(found[0])
        for marker, first, last in _spans(found[1]):
            tended = job.herd.get(marker)
            if tended is not None and tended.phase is not ShepherdPhase.GONE:
                tended.say(shepherd_protocol.told_message(first, last))
        self._forget_if_over(job)

    # What is done before and after, and what filters say.

    def _enter(self, job: NodeJob, here: OpenJob) -> None:
        """Let the visit of a job begin, or go by what the head says of it now."""
        if here.hooks is not None or not self._visits.is_ready(job.id) or job.id in self._visits.jobs():
            self._visits.enter(here, hook_environment(here, self._facts, self.head))

    def entered(self, number: JobId) -> None:
        """The prolog of a job is over, well or not."""
        job = self._job(number)
        if job.opened is None:
            self._forget_if_over(job)
        elif self._visits.is_ready(number) and job.at_work is None:
            try:
                self._order_shepherd(job, as_here(job.opened, self.name, far=self.head.far))
            except (OSError, Unavailable) as error:
                log.error("job %d has no shepherd yet: %s", number, error)

    def left(self, number: JobId) -> None:
        """The epilog of a job is over; meanwhile it may have come back."""
        job = self._job(number)
        if job.opened is None:
            self._forget_if_over(job)
            return
        opened, job.opened = job.opened, None
        self.open_job(opened)

    def repeat_visits(self) -> None:
        """Say again what the head may not have heard of prologs and epilogs."""
        for number in self._visits.jobs():
            job = self._jobs.get(number)
            if job is None or not any(tended.live for tended in job.herd.values()):
                self._visits.repeat(number)

    def hook_heard(self, message: HookHeard) -> None:
        """The head will never forget that a hook failed."""
        self._visits.heard(message.job, message.hook)

    def passed(self, number: JobId, key: Key, place: NodeCores, filtered: NodeFilterResult) -> None:
        """A task may start, as its filter wants it."""
        job, (task, *who) = self._job(number), key
        try:
            tended, orders = self._ready(job, task)
            said = orders.run_filtered(task, place, (who[0], who[1]), filtered, self.launching)
        except (OSError, Unavailable) as error:
            self.refused(number, key, words_for(error), trouble_of(error))
            return
        tended.live[key] = None
        tended.say(said, [key])

    def refused(self, number: JobId, key: Key, why: str, trouble: str) -> None:
        """A task cannot start."""
        self._settle(number, "", 0, result_without_record(key, "not-started", why, trouble=trouble))

    # What becomes of the shepherds.

    def started(self, tended: ShepherdHandle, begun: list[tuple[int, int, int, float]]) -> None:
        """These attempts run."""
        if begun:
            self._job(tended.job).deaths = 0
        tended.live.update({(task, instance, attempt): at for task, instance, attempt, at in begun})
        if self._results.welcome and begun:
            said = tuple(
                AttemptStart(task, instance, attempt, Instant(at)) for task, instance, attempt, at in begun
            )
            self._say(Started(job=tended.job, begun=said))

    def ended(self, tended: ShepherdHandle, records: list[EndedRecord]) -> None:
        """These attempts are over."""
        job = self._job(tended.job)
        for record in records:
            entry = LedgerEntry(tended.marker, record.number, result_of(record))
            targets = self.launching.targets(job.id, record.key)
            if targets:
                self._hold(job, entry, targets)
            elif record.key not in job.held:
                self._settle(job.id, *entry)
            tended.live.pop(record.key, None)

    def is_suspended(self, tended: ShepherdHandle, number: int) -> None:
        """A shepherd lets nothing run, or soon nothing."""
        if not tended.closing:
            self._job(tended.job).suspended = number

    def stands_still(self, tended: ShepherdHandle, number: int) -> None:
        """Nothing that a shepherd has runs any more."""
        job = self._job(tended.job)
        if self._results.welcome and job.at_work is tended and job.suspended == number:
            self._say(Suspended(job=job.id, number=number))

    def adopted(self, tended: ShepherdHandle) -> None:
        """A shepherd of an earlier agent is here, dead or alive."""
        self._job(tended.job).herd[tended.marker] = tended

    def never_arrived(self, tended: ShepherdHandle, keys: list[Key]) -> None:
        """These were lost on the way to a shepherd that lives."""
        for key in keys:
            self._settle(tended.job, tended.marker, 0, result_without_record(key, "never-ran", ""))

    def vanished(
        self, tended: ShepherdHandle, started: dict[Key, float], failure: Failure | None, *, rebooted: bool
    ) -> None:
        """It is gone and nothing of it runs: what had started is lost, the rest never ran.

        With a failure it never came to be.
        """
        job = self._job(tended.job)
        job.deaths = 0 if started or failure or rebooted else job.deaths + 1
        if job.deaths >= MOST_DEATHS:
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
            self._settle(tended.job, tended.marker, 0, result)
        tended.live = {}
        if job.at_work is None:
            job.orders = None
            if job.suspended and self._results.welcome:
                self._say(Suspended(job=job.id, number=job.suspended))
        self._forget_if_over(job)

    def _hold(self, job: NodeJob, entry: LedgerEntry, targets: frozenset[str]) -> None:
        """Keep a result back until it is known what its attempt used on other nodes."""
        job.held[entry.key] = entry
        self.launching.attempt_over(job.id, entry.key)

        def settle(result: AttemptResult) -> None:
            if job.held.pop(entry.key, None) is not None:
                self._settle(job.id, entry.marker, entry.number, result)
                self._forget_if_over(job)

        self.launching.gather(job.id, entry.result, targets, settle)

    def _settle(self, job: JobId, marker: str, number: int, result: AttemptResult) -> None:
        self.launching.attempt_over(job, (result.task, result.instance, result.attempt))
        self._results.take(job, LedgerEntry(marker, number, result))

    def hear_time(self, now: Instant) -> None:
        """Learn what time the head has.  This machine's own may be another, and may be set."""
        if now:
            self._head_started = Instant(now - boot_time())

    def _ends(self, message: OpenJob | Continue) -> float | None:
        """Return when the limit of a job is over, in seconds since this machine was started; None: never."""
        return None if math.isinf(message.deadline) else message.deadline - self._head_started

    def _job(self, number: JobId) -> NodeJob:
        return self._jobs.setdefault(number, NodeJob(number))

    def _forget_if_over(self, job: NodeJob) -> None:
        """Drop the shepherds that are settled, and the job when it is closed and none is left.

        Before that its epilog runs.
        """
        gone = all(tended.phase is ShepherdPhase.GONE for tended in job.herd.values())
        if job.opened is None and gone and not self._visits.leave(job.id):
            return
        waiting = job.held or self._results.ledger.over(job.id)
        for marker, tended in list(job.herd.items()):
            if tended.phase is ShepherdPhase.GONE and not waiting:
                self._shepherds.forget(tended)
                self._results.ledger.forget_shepherd(marker)
                del job.herd[marker]
        if job.opened is None and not job.herd and not waiting:
            self._jobs.pop(job.id, None)
            if job.id < 0:
                self._places.forget_output(job.id)
            self._say(JobClosed(job=job.id))
            self._tell_if_empty()

    def _tell_if_empty(self) -> None:
        if not self._jobs:
            self.when_empty()


def _spans(entries: list[LedgerEntry]) -> list[tuple[str, int, int]]:
    """Return the numbers of the entries as (marker, first, last), neighbours together."""
    spans: list[tuple[str, int, int]] = []
    for marker, number in sorted((entry.marker, entry.number) for entry in entries if entry.number):
        if spans and spans[-1][0] == marker and spans[-1][2] == number - 1:
            spans[-1] = (marker, spans[-1][1], number)
        else:
            spans.append((marker, number, number))
    return spans
