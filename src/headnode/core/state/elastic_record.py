"""What is remembered of elastic pools and their allocations, and which decisions follow from that."""

from collections.abc import Iterable
from math import floor, inf
from typing import NamedTuple

import msgspec

from headnode.core.model.outcome import AttemptOutcome, Ending
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.resource import ElasticPool
from headnode.core.state.events import NodeDrained

YOUNG = 60.0  # seconds: an allocation that ends by itself sooner after it became a node has failed
MAX_RETRY = 3600.0  # seconds
ROUNDING = 1e-9  # of an allocation: sums of prices are not exact
MAX_FAILURES = 5  # one after the other, until a pool is paused


class ElasticAllocation(msgspec.Struct, forbid_unknown_fields=True):
    """One allocation: the job at the resource, and the node that it becomes."""

    job: JobId
    node: str
    made: Instant
    digest: str  # of the secret with which its agent joins
    joined: Instant | None = None
    leaving: str = ""  # why the head gives it back
    ending: Ending | None = None  # how its job ended
    started: Instant | None = None  # set with `ending`, as are these
    ended: Instant | None = None
    message: str = ""

    def end(self, outcome: AttemptOutcome, at: Instant) -> None:
        """Its job is over at the resource."""
        self.ending, self.message = outcome.kind, outcome.message
        self.started, self.ended = outcome.started or self.joined, outcome.ended or at

    @property
    def ran(self) -> Seconds:
        """How long it had a node of the resource."""
        if self.started is None or self.ended is None:
            return Seconds(0.0)
        return Seconds(max(0.0, self.ended - self.started))

    @property
    def trouble(self) -> str:
        """Why it was of no use, once it is over; empty if it was."""
        if self.leaving:
            return ""
        if self.joined is None:
            return f"its agent never joined: {self.message or 'its job ended'}"
        if self.ending in ("timed-out", "lost") or (self.ended or inf) - self.joined >= YOUNG:
            return ""
        return f"its agent ended at once: {self.message or 'see the output of its job'}"


class ElasticRecord(msgspec.Struct, forbid_unknown_fields=True):
    """A pool, its allocations, and what became of earlier ones."""

    pool: ElasticPool
    paused: str = ""  # why; empty: it is not
    removing: bool = False
    used: Seconds = Seconds(0.0)  # by allocations that are over
    failures: int = 0  # one after the other
    failed_at: Instant | None = None
    trouble: str = ""  # of the last failure
    allocations: list[ElasticAllocation] = []
    spent: float = 0.0  # for allocations that are over, each at the price at its end

    @property
    def not_before(self) -> Instant:
        """When the next allocation may be made."""
        if self.failed_at is None or not self.failures:
            return Instant(0.0)
        return Instant(self.failed_at + min(self.pool.retry * 2 ** (self.failures - 1), MAX_RETRY))

    @property
    def pending(self) -> list[ElasticAllocation]:
        """The allocations that are to become nodes, the oldest first."""
        return [each for each in self.allocations if each.joined is None and not each.leaving]

    @property
    def affordable(self) -> float:
        """How many allocations more the node-hours and the cost allow, if all of them last to their end."""
        return min(self._within_hours, self._within_cost)

    @property
    def _within_hours(self) -> float:
        if self.pool.most_node_hours is None:
            return inf
        length = self.pool.allocation_time
        left = self.pool.most_node_hours * 3600.0 - self.used - len(self.allocations) * length
        return max(0, left // length)

    @property
    def _within_cost(self) -> float:
        if self.pool.most_cost is None:
            return inf
        each = self.pool.allocation_time / 3600.0 * self.pool.node_price
        left = (self.pool.most_cost - self.spent) / each - len(self.allocations)
        return max(0, floor(left + ROUNDING))

    @property
    def too_dear(self) -> str:
        """Which limit allows no further allocation; empty if there is one more."""
        if self._within_hours < 1:
            return f"its {self.pool.most_node_hours:g} node-hours are not enough for another allocation"
        if self._within_cost < 1:
            costs = self.pool.allocation_time / 3600.0 * self.pool.node_price
            return (
                f"its cost of {self.pool.most_cost:g} is not enough for another allocation, which may "
                f"cost {costs:g}: {self.spent:g} is spent, and {len(self.allocations)} allocations exist"
            )
        return ""

    def release(self, allocation: ElasticAllocation, at: Instant) -> None:
        """Forget an allocation that is over, and learn from it.  Failures at the same time are one."""
        self.allocations.remove(allocation)
        self.used = Seconds(self.used + allocation.ran)
        self.spent += allocation.ran / 3600.0 * self.pool.node_price
        if not allocation.trouble:
            if allocation.joined is not None:
                self.failures, self.trouble = 0, ""
            return
        if self.failed_at is not None and allocation.made <= self.failed_at:
            return
        since = -inf if self.failed_at is None else self.failed_at
        well = any(
            each.made > since and each.joined is not None and at - each.joined >= YOUNG
            for each in self.allocations
        )
        self.failures = 1 if well else self.failures + 1
        self.failed_at, self.trouble = at, allocation.trouble
        if self.failures >= MAX_FAILURES and not self.paused:
            self.paused = f"{self.failures} allocations failed one after the other: {allocation.trouble}"


class ElasticIndex:
    """The elastic pools by name in lower case."""

    def __init__(self, records: Iterable[ElasticRecord]) -> None:
        self.named = {record.pool.key: record for record in records}

    @property
    def is_personal(self) -> bool:
        """Whether the nodes of a pool serve one user only."""
        return any(record.pool.only_user for record in self.named.values())

    def allocation(self, name: str, job: JobId) -> tuple[ElasticRecord, ElasticAllocation] | None:
        """Return a pool and its allocation; None if that is not there."""
        record = self.named.get(name.lower())
        found = next((each for each in record.allocations if each.job == job), None) if record else None
        return (record, found) if record is not None and found is not None else None

    def of_job(self, job: JobId) -> tuple[ElasticRecord, ElasticAllocation] | None:
        """Return the pool and the allocation that a job is; None for any other job."""
        found = (self.allocation(name, job) for name in self.named)
        return next((each for each in found if each is not None), None)

    def of_secret(self, digest: str) -> tuple[ElasticRecord, ElasticAllocation] | None:
        """Return the pool and the allocation whose agent joins with this secret."""
        for record in self.named.values():
            for each in record.allocations:
                if each.digest == digest:
                    return record, each
        return None

    def note_end(self, job: JobId, outcome: AttemptOutcome, at: Instant) -> None:
        """A job has ended at its resource."""
        found = self.of_job(job)
        if found is not None:
            found[1].end(outcome, at)

    def note_joined(self, digest: str, at: Instant) -> None:
        """A node has joined with this secret."""
        found = self.of_secret(digest)
        if found is not None:
            found[1].joined = at


class ElasticStep(NamedTuple):
    """What is to be done for a pool now, and why not more."""

    make: int
    give_back: tuple[JobId, ...]
    reason: str


def obstacle(record: ElasticRecord, now: Instant) -> str:
    """Return why a pool makes no allocation now, whatever is wanted; empty if it may."""
    pool = record.pool
    if record.removing:
        return "it is being removed"
    if record.paused:
        return f"it is paused: {record.paused}"
    if now < record.not_before:
        left = record.not_before - now
        return f"it waits {left:.0f} s after {record.failures} failed allocations: {record.trouble}"
    if len(record.allocations) >= pool.most_nodes:
        return f"it has all of its {pool.most_nodes} nodes"
    if len(record.pending) >= (1 if record.failures else pool.most_queued):
        return f"{len(record.pending)} allocations have not become nodes yet"
    return record.too_dear


def next_step(record: ElasticRecord, nodes: int, unwanted: float, now: Instant) -> ElasticStep:
    """Return what follows from demand for `nodes` nodes more than have joined.

    `unwanted`: for so many seconds fewer have been wanted than are pending.  What nobody has wanted for
    the idle time is given back, the youngest first.
    """
    pending = record.pending
    surplus = len(pending) - nodes
    if surplus >= 0:
        late = unwanted >= record.pool.idle_time and surplus
        back = tuple(each.job for each in pending[-surplus:]) if late else ()
        words = "no waiting job wants more nodes" if not nodes else f"{nodes} wanted nodes are on their way"
        return ElasticStep(0, back, obstacle(record, now) or words)
    why = obstacle(record, now)
    if why:
        return ElasticStep(0, (), why)
    most_pending = 1 if record.failures else record.pool.most_queued
    room = min(-surplus, record.pool.most_nodes - len(record.allocations), most_pending - len(pending))
    make = int(min(room, record.affordable))
    return ElasticStep(make, (), f"{nodes} more nodes are wanted")


def closing(record: ElasticRecord, one: ElasticAllocation, started: Instant, now: Instant) -> NodeDrained:
    """Return the drain of a node for the end of its allocation, which began at `started`.

    So no job starts there that may run longer than what is left of it.
    """
    closes = max(now, Instant(started + record.pool.usable_time))
    return NodeDrained(at=now, node=one.node, closes=closes, reason=CLOSES, by=record.pool.name)


CLOSES = "its allocation ends soon after that"
