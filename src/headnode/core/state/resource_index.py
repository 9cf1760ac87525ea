"""The resources with their own schedulers, the jobs that are there or go there, and the room they have."""

from collections.abc import Iterable, Mapping

from headnode.core.model.quantities import JobId, QueuePosition, queue_position
from headnode.core.model.resource import BatchResource, is_choice, is_elsewhere
from headnode.core.state.agenda import Agenda
from headnode.core.state.job_record import JobRecord, started_run
from headnode.core.state.transitions import JobState


class ResourceIndex:
    """The resources by name in lower case; what is beside `named` follows from the records of the jobs."""

    def __init__(
        self, resources: Iterable[BatchResource], jobs: Mapping[JobId, JobRecord], agenda: Agenda
    ) -> None:
        self.named = {resource.key: resource for resource in resources}
        self.elsewhere: set[JobId] = set()  # jobs that were handed over; they hold nothing here
        self.outbound: dict[JobId, str] = {}  # queued jobs that are to be, and to which resource
        self.choosing: set[JobId] = set()  # queued jobs that name several places, and are to get one
        self.handed: dict[str, int] = {}  # by resource: attempts that are there, or on their way
        self._jobs, self._agenda = jobs, agenda

    def takes(self, record: JobRecord, resource: str) -> bool:
        """Note where a job in the queue goes by its request; return whether no own node may start it."""
        if record.state is not JobState.QUEUED:
            return False
        chosen = record.placement.resource if record.placement is not None else ""
        if not chosen and is_choice(resource):
            self.choosing.add(record.id)
            return is_elsewhere(resource)
        self.outbound[record.id] = chosen or resource
        self._agenda.dirty_jobs.add(record.id)
        return True

    def leave_queue(self, job: JobId) -> None:
        """A job is not in the queue any more, or is about to be put there anew."""
        self.outbound.pop(job, None)
        self.choosing.discard(job)

    def room(self, resource: str) -> int:
        """Return how many more attempts a resource takes; 0 for one that is not there."""
        known = self.named.get(resource)
        return 0 if known is None else max(0, known.most_jobs - self.handed.get(resource, 0))

    def count(self, resource: str, more: int, waiting: set[JobId]) -> None:
        """So many attempts more are at a resource; the next job may go there as long as there is room."""
        self.handed[resource] = self.handed.get(resource, 0) + more
        if self.room(resource):
            self.wake(resource, waiting)

    def wake(self, resource: str, waiting: set[JobId]) -> None:
        """Let the next go on of the jobs there that have tasks to dispatch, and of those in the queue."""
        there = [job for job in self.elsewhere & waiting if self.resource_of(job) == resource]
        line = [job for job, wanted in self.outbound.items() if wanted == resource]
        for jobs in (there, line):
            if jobs:
                self._agenda.dirty_jobs.add(min(jobs, key=self._turn))

    def resource_of(self, job: JobId) -> str:
        """Return the resource where a job is."""
        return started_run(self._jobs[job]).resource

    def _turn(self, job: JobId) -> QueuePosition:
        record = self._jobs[job]
        return queue_position(record.priority, record.order, record.id)
