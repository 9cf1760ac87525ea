"""The journal of a head on another machine, followed event by event: what a standby head has."""

import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from headnode.core.model.errors import BadRequest, Broken, Refused, UnknownDescription
from headnode.core.model.quantities import Instant, JobId
from headnode.core.state.apply_events import apply_event
from headnode.core.state.command import Command
from headnode.core.state.decide import decide
from headnode.core.state.events import Event, JobsPurged, decode
from headnode.core.state.job_events import JobUnarchived
from headnode.engine.batch_write import ended_job
from headnode.engine.ports import EndedJob, StandbyStore
from headnode.engine.recovery import check_inside, recover, save, unknown

PURGED_ROWS: Final = 500  # rows of purged jobs that are removed with a batch: the head waits meanwhile
MAX_PENDING: Final = 512 * 1024 * 1024  # bytes of events that no end of a batch has followed


class _Pending(NamedTuple):
    """Events that are applied and not stored yet, and the jobs that they ended or brought back."""

    events: list[Event]
    ended: dict[JobId, EndedJob]
    revived: list[JobId]


class Replica:
    """A store that gets the events of another one, and the cluster as it is after them.

    The state is in memory: it tells what of an ended job goes into the archive, its digest shows that both
    machines have the same cluster, and it is stored as a snapshot, from which a takeover begins.
    """

    def __init__(self, store: StandbyStore) -> None:
        """Read the store.

        Raises:  Unavailable ``journal-damaged``, ``journal-unknown``.
        """
        self.store = store
        self.read_again()

    def read_again(self) -> None:
        """Forget memory, and read what is on the disk: after an error.

        Raises:  Unavailable, as at first.
        """
        self._is_whole, self._purges = False, True
        self.cluster, self.number, _ = recover(self.store)
        self._pending, self._pending_bytes = _Pending([], {}, []), 0
        self._is_whole = True

    @property
    def is_settled(self) -> bool:
        """Whether the state in memory equals the journal on the disk.  After an error it may be neither."""
        return self._is_whole and not self._pending.events

    def follow(self, after: int, bodies: Sequence[bytes], ends: Sequence[int]) -> None:
        """Apply the encoded events after number `after`, and store those that end a batch of the head.

        ends:  the numbers of the events that end a batch; what comes after the last one is not stored yet
        Raises:  BadRequest ``standby-events`` if they do not follow what is here, ``standby-batch`` if too
                 many come without an end; Broken if one cannot happen to this cluster; Unavailable
                 ``journal-unknown`` for an event that this version does not know, or what the store raises.
                 After an error, `read_again`.
        """
        here = self.number + len(self._pending.events)
        if after != here:
            raise BadRequest(code="standby-events", what=f"events after {after} came, and {here} is the last")
        self._is_whole = False  # an error in the middle leaves half of something
        self._pending_bytes += sum(map(len, bodies))
        if self._pending_bytes > MAX_PENDING:
            raise BadRequest(
                code="standby-batch", what=f"events after {self.number} came without an end of their batch"
            )
        known = frozenset(ends)
        for number, body in enumerate(bodies, after + 1):
            self._apply(number, body)
            if number in known:
                self._end_batch()
        if after + len(bodies) in known:
            self._store()
        self._is_whole = True

    def _apply(self, number: int, body: bytes) -> None:
        try:
            event = decode(body)
            check_inside(event)  # not at a takeover: then it would be too late
        except (msgspec.DecodeError, UnknownDescription) as error:
            raise unknown(f"event {number}", error, self.store.written_by()) from None
        if isinstance(event, JobUnarchived):
            self._pending.revived.append(event.job)
        try:
            apply_event(self.cluster, event)
        except (LookupError, Refused, Broken) as error:
            what = f"event {number} ({type(event).__name__}) cannot happen to the cluster here: {error!r}"
            raise Broken(code="standby-differs", what=what) from error
        self._pending.events.append(event)

    def _end_batch(self) -> None:
        """Note which jobs the batch has ended: the archive gets them as they are at its end."""
        over, alive = self.cluster.agenda.for_archive, self.cluster.jobs
        ended = {job: ended_job(record) for job, record in over.items() if job not in alive}
        self._pending.ended.update(ended)
        agenda = self.cluster.agenda
        for commands in (
            agenda.dirty_jobs,
            agenda.dirty_job_views,
            agenda.dirty_node_views,
            agenda.dirty_reservations,
        ):  # of an engine, which is not here: they would grow for ever
            commands.clear()
        over.clear()

    def _store(self) -> None:
        pending, alive = self._pending, self.cluster.jobs
        if not pending.events:
            return
        revived = [job for job in dict.fromkeys(pending.revived) if self.store.ended_job(job) is not None]
        ended = [one for job, one in pending.ended.items() if job not in alive]
        self.number = self.store.append(pending.events, ended, revived)
        self._pending, self._pending_bytes = _Pending([], {}, []), 0
        if self._purges or any(isinstance(event, JobsPurged) for event in pending.events):
            self._purges = self.store.purge(PURGED_ROWS).more

    def is_same(self, number: int, digest: str) -> bool:
        """Return whether the state after event `number` has this SHA-256; if so, it is kept as a snapshot.

        A state other than the present one cannot be compared, and counts as the same.
        """
        if number != self.number or not self.is_settled:
            return True
        state = save(self.cluster)
        if hashlib.sha256(state).hexdigest() != digest:
            return False
        self.store.keep_snapshot(number, state)
        self._purges = True
        return True

    def keep_snapshot(self, number: int) -> None:
        """Keep the state after event `number`, if that is the present one, without a comparison."""
        if number == self.number and self.is_settled:
            self.store.keep_snapshot(number, save(self.cluster))
            self._purges = True

    def carry_out(self, command: Command, now: Instant) -> None:
        """Decide a command here, as the head: the takeover.  A batch that has not come whole does not count.

        Raises:  what refuses it; what the store raises: then nothing was recorded.  `read_again` after that.
        """
        if not self.is_settled:
            self.read_again()
        events = decide(self.cluster, command, now)
        self._is_whole = False
        for event in events:
            apply_event(self.cluster, event)
        self.number = self.store.append(events)
        self._is_whole = True

    def last_event(self) -> Event | None:
        """Return the last event on the disk; None: there is none."""
        return next((event for _, event in self.store.replay(self.number - 1)), None)
