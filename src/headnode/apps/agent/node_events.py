"""What happens on this node: its parts ask for things and tell what became of jobs, tasks and commands."""

from collections.abc import Callable

from headnode.adapters.processes import shepherd_protocol
from headnode.adapters.processes.job_journal import EndedRecord, Key
from headnode.adapters.wire.agent_messages import AttemptStart, Launch, Started, Suspended
from headnode.adapters.wire.messages import FromAgent
from headnode.apps.agent.client_door import AgentClientDoor, Dial
from headnode.apps.agent.job_starts import JobStarts
from headnode.apps.agent.job_table import JobEndings, JobTable, NodeParts
from headnode.apps.agent.launching import LaunchRouter
from headnode.apps.agent.node_services import NodeServices
from headnode.apps.agent.places import Places
from headnode.apps.agent.prolog_epilog import PrologEpilog, TaskFilters
from headnode.apps.agent.results import ResultSender
from headnode.apps.agent.shepherd_handle import (
    Failure,
    ShepherdHandle,
    ShepherdPhase,
    result_without_record,
)
from headnode.apps.agent.shepherds import Shepherds
from headnode.apps.agent.task_tools import LaunchPlaces, TaskAccess
from headnode.core.launching.node_filters import NodeFilterResult
from headnode.core.model import faults
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId
from headnode.core.state.job_events import NodeCores

MOST_DEATHS = 3  # of shepherds of a job, one after the other, until its tasks are not tried again here


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
            shepherds=Shepherds(places, facts.boot_id, self),
            visits=visits,
            filters=TaskFilters(visits, self),
            launching=launching,
            access=TaskAccess(launching.places, door),
        )
        self.endings = JobEndings(self.parts, table)
        self.starts = JobStarts(self.parts, table, self.endings)

    # The head and the jobs.

    def say(self, message: FromAgent) -> None:
        self._results.say(message)

    def user_of(self, number: JobId, key: Key) -> int | None:
        return self._table.user_of(number, key)

    def attempt_of(self, uid: int, named: str) -> tuple[JobId, Key] | None:
        return self._table.attempt_of(uid, named)

    # Remote commands.

    def start_launched(self, launch: Launch) -> int:
        return self.starts.start_launched(launch)

    def end_launched(self, number: JobId, launches: list[str], grace: float) -> None:
        job = self._table.jobs.get(number)
        for tended in job.herd.values() if job is not None else ():
            tended.say(shepherd_protocol.end_launches_message(launches, grace))

    def end_launched_by(self, number: JobId, key: Key) -> bool:
        job = self._table.jobs.get(number)
        herd = list(job.herd.values()) if job is not None else []
        for tended in herd:
            tended.say(shepherd_protocol.end_task_launches_message(".".join(map(str, (number, *key)))))
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

    def adopted(self, tended: ShepherdHandle) -> None:
        self._table.job(tended.job).herd[tended.marker] = tended

    def started(self, tended: ShepherdHandle, begun: list[tuple[int, int, int, float]]) -> None:
        if begun:
            self._table.job(tended.job).deaths = 0
        tended.live.update({(task, instance, attempt): at for task, instance, attempt, at in begun})
        if begun:
            said = tuple(
                AttemptStart(task, instance, attempt, Instant(at)) for task, instance, attempt, at in begun
            )
            self.say(Started(job=tended.job, started=said))

    def ended(self, tended: ShepherdHandle, records: list[EndedRecord]) -> None:
        self.endings.ended(tended, records)

    def is_suspended(self, tended: ShepherdHandle, number: int) -> None:
        if not tended.closing:
            self._table.job(tended.job).suspended = number

    def stands_still(self, tended: ShepherdHandle, number: int) -> None:
        job = self._table.job(tended.job)
        if job.at_work is tended and job.suspended == number:
            self.say(Suspended(job=job.id, number=number))

    def not_launched(self, number: str, why: str) -> None:
        self.parts.launching.not_launched(number, why)

    def launches_over(self, job: JobId, said: shepherd_protocol.ShepherdLaunchesEnded) -> None:
        if said.task.partition(".")[0] == str(job):
            self.parts.launching.launches_over(said.task, said.usage)

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
            self.endings.settle(tended.job, tended.marker, 0, result)
        tended.live = {}
        if job.at_work is None:
            job.orders = None
            if job.suspended:
                self.say(Suspended(job=job.id, number=job.suspended))
        self.endings.forget_if_over(job)
