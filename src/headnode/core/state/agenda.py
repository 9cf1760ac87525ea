"""What the engine has to do next: jobs to advance, views to make again, and when something is due.

Events and the time put work on the agenda, and the engine takes it off.  The agenda is no part of the state:
it is not kept, and a restart makes a new one from the state.
"""

from collections.abc import Mapping, Set
from heapq import heappop, heappush
from typing import Generic, TypeVar

from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.model.reservation import NodeReservation
from headnode.core.state.job_record import JobRecord

Key = TypeVar("Key")


class Timers(Generic[Key]):
    """Due times: at most one instant for each key."""

    __slots__ = ("_heap", "due")

    def __init__(self) -> None:
        self.due: dict[Key, Instant] = {}
        self._heap: list[tuple[Instant, Key]] = []  # some entries are of times that were changed or dropped

    def __len__(self) -> int:
        """Return how many entries are in memory, dropped ones included."""
        return len(self._heap)

    def set(self, key: Key, at: Instant) -> None:
        """Set or change the time of `key`."""
        if len(self._heap) > 2 * len(self.due) + 64:
            self._heap = sorted((due, other) for other, due in self.due.items())
        self.due[key] = at
        heappush(self._heap, (at, key))

    def drop(self, key: Key) -> None:
        """Remove the time of `key`, if it has one."""
        self.due.pop(key, None)

    def next(self) -> Instant | None:
        """Return the earliest time, or None."""
        heap = self._heap
        while heap:
            at, key = heap[0]
            if self.due.get(key) == at:
                return at
            heappop(heap)
        return None

    def take(self, now: Instant) -> Key | None:
        """Remove and return the key that is due first, if it is due by now; else return None."""
        at = self.next()
        if at is None or at > now:
            return None
        key = heappop(self._heap)[1]
        del self.due[key]
        return key


class Agenda:
    """The pending work of the engine, and when it is due."""

    def __init__(self) -> None:
        self.dirty_jobs: set[JobId] = set()  # something of them changed: `advance_job` decides what follows
        self.dirty_reservations: set[str] = set()  # the same of reservations, by key
        self.dirty_job_views: set[JobId] = set()  # running jobs whose view for the policy may be out of date
        self.dirty_node_views: set[str] = set()  # nodes whose view may be out of date
        self.pass_needed = True
        self.closing = False  # the head ends: nothing starts any more
        self.children_released = False  # the end of a job let others into the queue; no plan has them yet
        self.for_archive: dict[JobId, JobRecord] = {}  # ended jobs that the archive does not have yet
        self.deadlines: Timers[JobId] = Timers()  # run time limits
        self.last_starts: Timers[JobId] = Timers()  # queued jobs that cannot end by their deadline any more
        self.wake_ups: Timers[tuple[JobId, str]] = (
            Timers()
        )  # of a service (""), a node with an epilog, transfers
        self.edges: Timers[Instant] = Timers()  # when a reservation begins or ends

    @property
    def has_dirty(self) -> bool:
        """Whether a job or a reservation is to be looked at."""
        return bool(self.dirty_jobs or self.dirty_reservations)

    def next_due(self) -> Instant:
        """Return the earliest time of all timers, or NEVER."""
        first = NEVER
        for timers in (self.deadlines, self.last_starts, self.wake_ups, self.edges):
            at = timers.next() if timers.due else None
            if at is not None and at < first:
                first = at
        return first

    def set_deadline(self, job: JobId, at: Instant | None) -> None:
        """Set when the run time limit of a job is over; None: it has none."""
        self.dirty_job_views.add(job)
        if at is None:
            self.deadlines.drop(job)
        else:
            self.deadlines.set(job, at)

    def wake(self, now: Instant, jobs: Set[JobId]) -> None:
        """Advance those of `jobs` of which a service may go on now, or an epilog should have ended."""
        while (key := self.wake_ups.take(now)) is not None:
            self.dirty_jobs |= {key[0]} & jobs

    def change_reservation(self, reservation: NodeReservation) -> None:
        """Look at a reservation that is new or has changed, now and when it begins and ends."""
        self.dirty_reservations.add(reservation.key)
        for edge in (reservation.start, reservation.end):
            self.edges.set(edge, edge)

    def begin_and_end_reservations(self, reservations: Mapping[str, NodeReservation], now: Instant) -> None:
        """Look at the reservations that have begun, if one began or ended since the last call."""
        turned = False
        while self.edges.take(now) is not None:
            turned = True
        if turned:
            self.dirty_reservations |= {key for key, each in reservations.items() if each.start <= now}
            self.pass_needed = True
