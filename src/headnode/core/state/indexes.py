"""What follows from the records of jobs: free processors, the queue, and the jobs for resources."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping

from headnode.core.model.errors import Broken
from headnode.core.model.job import JobRequest
from headnode.core.model.priority_factors import QueuePosition
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.resource import BatchResource, is_choice, is_elsewhere
from headnode.core.state.agenda import Agenda, Timers
from headnode.core.state.job_record import JobRecord, started_run
from headnode.core.state.node_record import NodeRecord
from headnode.core.state.task_graph import merge_cores, remove_cores
from headnode.core.state.transitions import JobState


class FreeCores:
    """The free processors of each node, derived from the allocations in `jobs`."""

    def __init__(
        self, jobs: Mapping[JobId, JobRecord], nodes: Mapping[str, NodeRecord], agenda: Agenda
    ) -> None:
        self._jobs, self._nodes, self._agenda = jobs, nodes, agenda
        self.free: dict[str, list[int]] = {}
        self.count = 0  # free processors of all nodes together
        self.holders: dict[str, set[JobId]] = {}
        self.reduced: set[str] = set()  # nodes of which jobs may hold what is out of service

    # Reading

    def usable(self, node: str) -> int:
        """Return how many processors of a node jobs may keep, those with the lowest numbers."""
        known = self._nodes.get(node)
        return 0 if known is None else known.usable

    def overdrawn(self, node: str) -> dict[JobId, int]:
        """Return how many processors that a node no longer has jobs still hold of it."""
        if node not in self.reduced or node not in self._nodes:
            return {}
        there = self._nodes[node].facts.processors
        held = {
            job: sum(number >= there for number in numbers)
            for job, numbers in sorted(self._held_of(node).items())
        }
        return {job: count for job, count in held.items() if count}

    def free_on(self, node: str) -> list[int]:
        """Return what others may have of a node.

        A job on processors that the node no longer has runs on others: as many of them are not free.
        """
        free = self.free.get(node, [])
        if node not in self.reduced:
            return free
        return free[: max(0, len(free) - sum(self.overdrawn(node).values()))]

    def _held_of(self, node: str) -> dict[JobId, tuple[int, ...]]:
        """Return the processors of a node that each of its jobs holds."""
        return {
            job: run.allocation.get(node, ())
            for job in self.holders.get(node, ())
            if (run := self._jobs[job].run) is not None
        }

    # For `apply_event` only

    def take(self, job: JobId, node: str, processors: tuple[int, ...]) -> None:
        """Mark processors of a node as held by a job."""
        self._agenda.dirty_job_views.add(job)
        self._agenda.dirty_node_views.add(node)
        self._set_free(node, remove_cores(self.free.get(node, []), processors))
        if processors and max(processors) >= self.usable(node):
            self.reduced.add(node)
        self.holders.setdefault(node, set()).add(job)

    def give_back(self, job: JobId, node: str, processors: tuple[int, ...]) -> None:
        """Mark processors of a node as free.  What the job keeps there, the caller takes again."""
        self._agenda.dirty_job_views.add(job)
        self._agenda.dirty_node_views.add(node)
        record = self._nodes.get(node)
        there = record.facts.processors if record else 0
        back = sorted([number for number in processors if number < there])  # after a move they may not ascend
        self._set_free(node, merge_cores(self.free.get(node, []), back))
        self.holders.setdefault(node, set()).discard(job)
        self._agenda.pass_needed = True

    def open_node(self, node: NodeRecord) -> None:
        """Derive what is free of a node that is new or has changed."""
        name = node.facts.name
        self._agenda.dirty_node_views.add(name)
        held = {number for numbers in self._held_of(name).values() for number in numbers}
        self._set_free(name, [number for number in range(node.facts.processors) if number not in held])
        self.holders.setdefault(name, set())
        self._agenda.pass_needed = True

    def close_node(self, node: str) -> None:
        """Forget what is free of a node that was removed."""
        self.count -= len(self.free.pop(node, ()))
        self.reduced.discard(node)

    def _set_free(self, node: str, numbers: list[int]) -> None:
        self.count += len(numbers) - len(self.free.get(node, ()))
        self.free[node] = numbers

    def update_reduced(self, node: str) -> None:
        """Advance the jobs of a node of which something is out of service, or is in service again."""
        self.reduced.discard(node)
        if any(number >= self.usable(node) for numbers in self._held_of(node).values() for number in numbers):
            self.reduced.add(node)
        self._agenda.dirty_jobs |= self.holders.get(node, set())


class RequestTable:
    """The requests of jobs by job id.

    Ids of queued jobs follow each other, so a page holds those of `_PAGE` ids.  For 100,000 jobs this takes
    12 bytes for each job, a dictionary 52.
    """

    _PAGE = 32

    def __init__(self) -> None:
        self._pages: dict[int, list[JobRequest | None]] = {}

    def get(self, job: JobId) -> JobRequest | None:
        """Return the request of a job, or None."""
        page = self._pages.get(job // self._PAGE)
        return None if page is None else page[job % self._PAGE]

    def __getitem__(self, job: JobId) -> JobRequest:
        found = self.get(job)
        if found is None:
            raise KeyError(job)
        return found

    def __contains__(self, job: JobId) -> bool:
        return self.get(job) is not None

    def __setitem__(self, job: JobId, request: JobRequest) -> None:
        page = self._pages.get(job // self._PAGE)
        if page is None:
            page = self._pages[job // self._PAGE] = [None] * self._PAGE
        page[job % self._PAGE] = request

    def pop(self, job: JobId) -> JobRequest | None:
        """Remove and return the request of a job; None if there is none."""
        found = self.get(job)
        if found is not None:
            page = self._pages[job // self._PAGE]
            page[job % self._PAGE] = None
            if page.count(None) == self._PAGE:
                del self._pages[job // self._PAGE]
        return found

    def items(self) -> Iterator[tuple[JobId, JobRequest]]:
        """Yield each job with its request, in the order in which the pages were made."""
        for number, page in self._pages.items():
            for at, request in enumerate(page):
                if request is not None:
                    yield JobId(number * self._PAGE + at), request


class JobQueue:
    """The queued jobs of each request, in queue order; a pass looks at each request once."""

    def __init__(self) -> None:
        self.by_request: dict[JobRequest, list[QueuePosition]] = {}
        self.requests = RequestTable()  # of the jobs in `by_request`
        self._holds: Timers[JobId] = Timers()
        self.held: Mapping[JobId, Instant] = self._holds.due  # until when; they are not in `by_request`

    def insert(self, turn: QueuePosition, request: JobRequest) -> None:
        """Put a job in its place.  Equal requests share one object: 100,000 alike jobs hold it once."""
        turns = self.by_request.get(request)
        if turns is None:
            turns = self.by_request[request] = []
        else:
            request = self.requests[turns[0].job]
        self.requests[turn.job] = request
        insort(turns, turn)

    def remove(self, turn: QueuePosition) -> None:
        """Remove a job, if it is in the queue or held.

        Raises:  Broken ``queue`` when it is not in its place.
        """
        job = turn.job
        self._holds.drop(job)
        request = self.requests.pop(job)
        if request is None:
            return
        turns = self.by_request[request]
        at = bisect_left(turns, turn)
        if at == len(turns) or turns[at] != turn:
            raise Broken(code="queue", what=f"job {job} is not in the queue where it should be")
        del turns[at]
        if not turns:
            del self.by_request[request]

    def hold(self, job: JobId, until: Instant) -> None:
        """Hold a job until a time, when `release` returns it."""
        self._holds.set(job, until)

    def next_release(self) -> Instant | None:
        """Return when the next job is held no longer, or None."""
        return self._holds.next()

    def release(self, now: Instant) -> JobId | None:
        """Return a job that is held no longer, each once; None when there is none."""
        return self._holds.take(now)


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

    def note_place(self, record: JobRecord, resource: str) -> bool:
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
                self._agenda.dirty_jobs.add(min(jobs, key=lambda job: self._jobs[job].turn))

    def resource_of(self, job: JobId) -> str:
        """Return the resource where a job is."""
        return started_run(self._jobs[job]).resource


def note_children(
    children: dict[int, set[JobId]], of_elements: dict[int, dict[int, set[JobId]]], record: JobRecord
) -> None:
    """Note which jobs, and which elements of them, a queued job depends on."""
    for parent in record.parents:
        children.setdefault(parent, set()).add(record.id)
    for parent, number in record.elements:
        of_elements.setdefault(parent, {}).setdefault(number, set()).add(record.id)


def drop_children(
    children: dict[int, set[JobId]], of_elements: dict[int, dict[int, set[JobId]]], record: JobRecord
) -> None:
    """Forget what `note_children` noted."""
    for parent in record.parents:
        _leave(children, parent, record.id)
    for parent, number in record.elements:
        numbers = of_elements.get(parent, {})
        _leave(numbers, number, record.id)
        if not numbers:
            of_elements.pop(parent, None)


def _leave(groups: dict[int, set[JobId]], key: int, job: JobId) -> None:
    """Remove a job from one of the groups, and the group if nothing is left of it."""
    group = groups.get(key, set())
    group.discard(job)
    if not group:
        groups.pop(key, None)
