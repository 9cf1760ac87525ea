"""What the head remembers of jobs and nodes that are alive.  Only `fold` changes it.

A queued job is small: its description stays encoded until somebody needs it.
"""

from functools import lru_cache

import msgspec

from headnode.core.lifecycle.events import Cause, Outcome, Place
from headnode.core.lifecycle.states import JobState, TaskState
from headnode.core.model.job import JobSpec
from headnode.core.model.node import NodeFacts, NodeState
from headnode.core.model.quantities import Instant, JobId, Priority, Seconds
from headnode.core.model.ranges import Ranges


class LiveInstance(msgspec.Struct):
    """An attempt that a node has: dispatched, running or ending."""

    attempt: int
    place: Place
    state: TaskState = TaskState.DISPATCHED
    started: Instant | None = None
    outcome: Outcome | None = None  # how it ends, once it is ending
    message: str = ""
    cause: Cause = "asked"  # why it is being stopped


class TaskProgress(msgspec.Struct):
    """How far the instances of one task are: each number is in one of the sets, or in `live`."""

    queued: Ranges
    finished: Ranges = msgspec.field(default_factory=Ranges)
    failed: Ranges = msgspec.field(default_factory=Ranges)
    canceled: Ranges = msgspec.field(default_factory=Ranges)
    withdrawn: Ranges = msgspec.field(default_factory=Ranges)  # those of `canceled` somebody asked for singly
    live: dict[int, LiveInstance] = {}
    attempts: dict[int, int] = {}  # how many attempts an instance that runs again has used
    used: int = 0  # how many attempts every instance may have used, whatever `attempts` says
    retries: dict[int, int] = {}  # how often a failure of the program has been forgiven
    losses: dict[int, int] = {}  # how often one of the system has
    ended: int = 0  # how many attempts ran to their end, and how long they took in all
    ended_time: Seconds = Seconds(0.0)

    def used_by(self, instance: int) -> int:
        """Return how many attempts an instance may have used: the next has a greater number."""
        return max(self.used, self.attempts.get(instance, 0))

    @property
    def is_done(self) -> bool:
        """Whether every instance is over."""
        return not self.queued and not self.live


class Run(msgspec.Struct):
    """What only a job has that was started, or one of whose tasks was touched."""

    tasks: list[TaskProgress]
    allocation: dict[str, tuple[int, ...]] = {}
    started: Instant | None = None
    ended: Instant | None = None
    deadline: Instant | None = None  # when its run time limit is over
    backfilled: bool = False
    outcome: Outcome | None = None  # how it ends, once it is ending or no longer dispatches
    requeue: bool = False  # once it has ended it goes back to the queue
    requeues: int = 0
    returns: int = 0  # to the queue, because nodes were lost, since somebody asked for it last
    percent: int | None = None
    progress_message: str = ""


class JobRecord(msgspec.Struct):
    """A job that is alive."""

    id: JobId
    owner: str
    uid: int
    gid: int
    spec: bytes  # an encoded JobSpec
    state: JobState
    priority: Priority
    created: Instant
    submitted: Instant | None = None
    order: int = 0
    hold_until: Instant | None = None
    waits_for: tuple[int, ...] = ()  # parents that have not finished
    message: str = ""
    run: Run | None = None


class NodeRecord(msgspec.Struct):
    """A node and where it is in its life."""

    facts: NodeFacts
    state: NodeState
    since: Instant  # when it came into this state


SMALL = 4096  # bytes of an encoded description, such as jobs have that come by the thousand
MOST_REMEMBERED = 1024  # small descriptions

_spec_encoder = msgspec.msgpack.Encoder()
_spec_decoder = msgspec.msgpack.Decoder(JobSpec)
_record_decoder = msgspec.msgpack.Decoder(JobRecord)


def encode_spec(spec: JobSpec) -> bytes:
    """Return the description as events and records keep it."""
    return _spec_encoder.encode(spec)


def decode_spec(data: bytes) -> JobSpec:
    """Return the description that `data` holds.  Small ones of late are remembered: many jobs are alike."""
    return _decode_small(data) if len(data) <= SMALL else _spec_decoder.decode(data)


@lru_cache(MOST_REMEMBERED)
def _decode_small(data: bytes) -> JobSpec:
    return _spec_decoder.decode(data)


def encode_record(record: JobRecord) -> bytes:
    """Return the record as the archive keeps it."""
    return _spec_encoder.encode(record)


def decode_record(data: bytes) -> JobRecord:
    """Return the record that `data` holds."""
    return _record_decoder.decode(data)


def untouched(spec: JobSpec) -> list[TaskProgress]:
    """Return the progress of tasks none of which has run."""
    return [all_queued(task.instances) for task in spec.tasks]


def all_queued(instances: int) -> TaskProgress:
    """Return the progress of one task that has not run."""
    queued = Ranges([1], [instances], instances) if instances > 0 else Ranges()
    return TaskProgress(queued=queued)
