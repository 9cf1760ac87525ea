"""What the head remembers of a job that is alive, and what it used.  Only `apply_event` changes it.

A queued job is small: its description stays encoded until it is needed."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

import msgspec
from msgspec.structs import replace

from headnode.core.model.errors import Broken, UnknownDescription
from headnode.core.model.job import JobSpec, with_option
from headnode.core.model.outcome import AttemptOfTask
from headnode.core.model.priority_factors import QueuePosition, queue_position
from headnode.core.model.quantities import Instant, JobId, Priority, Seconds
from headnode.core.model.ranges import Ranges
from headnode.core.model.resource import Placement
from headnode.core.model.task import SPECIAL, RecurringOrigin, TaskSpec, TaskType
from headnode.core.state.job_events import Cause, NodeCores, Outcome
from headnode.core.state.job_usage import Usage
from headnode.core.state.transitions import Holding, JobState, TaskState

StagingPhase = Literal["", "in", "ready", "out"]
"""Which way files are transferred for an attempt; ready: they are there, and its job has no processors."""


class LiveAttempt(msgspec.Struct, forbid_unknown_fields=True):
    """An attempt that is dispatched to a node, running or ending."""

    attempt: int
    placement: NodeCores
    state: TaskState = TaskState.DISPATCHED
    started: Instant | None = None
    outcome: Outcome | None = None  # how it ends, once it is ending
    message: str = ""
    cause: Cause = "request"  # why it is being stopped
    moved: bool = False  # it has had other processors there; nothing is handed over to run behind it
    staging: StagingPhase = ""
    foreign: str = ""  # its id at a resource that has accepted it
    after: tuple[AttemptOfTask, ...] = ()  # of parents, which must end well before the node starts it
    requeue: bool = False  # it is being stopped to run again


class InstanceWaits(msgspec.Struct, forbid_unknown_fields=True):
    """Why instances of a task that are not over may not be dispatched, of each for itself."""

    blocked: Ranges  # those that are not in `queued` for it
    held: Ranges  # by request; one that is live is blocked when it is to run again
    awaiting: dict[int, Ranges]  # by job: those whose number has not finished there


class TaskProgress(msgspec.Struct, forbid_unknown_fields=True):
    """The progress of one task: each instance number is in one of the sets, in `live`, or is blocked."""

    queued: Ranges
    finished: Ranges = msgspec.field(default_factory=Ranges)
    failed: Ranges = msgspec.field(default_factory=Ranges)
    canceled: Ranges = msgspec.field(default_factory=Ranges)
    withdrawn: Ranges = msgspec.field(default_factory=Ranges)  # those of `canceled` that were canceled singly
    live: dict[int, LiveAttempt] = {}
    attempts: dict[int, int] = {}  # how many attempts an instance that runs again has used
    attempts_used: int = 0  # how many attempts every instance may have used, whatever `attempts` says
    unstarted: dict[int, int] = {}  # how many of them never started
    retries: dict[int, int] = {}  # how often a failure of the program has been forgiven
    system_retries: dict[int, int] = {}  # how often one of the system has
    attempts_ended: int = 0  # how many attempts ran to their end, and how long they took in all
    ended_run_time: Seconds = Seconds(0.0)
    instances_made: int | None = None  # how many instances a special task has had; None: it is none
    endless: bool = False  # of a service: more instances are made wherever there is room
    waits: InstanceWaits | None = None  # None: no instance that is not over is held or waits for another

    @property
    def made_so_far(self) -> int:
        """How many instances of a special task were made."""
        return self.instances_made or 0

    def used_by(self, instance: int) -> int:
        """Return how many attempts an instance may have used: the next has a greater number."""
        return max(self.attempts_used, self.attempts.get(instance, 0))

    def unstarted_among(self, instances: Iterable[int]) -> tuple[tuple[int, int], ...]:
        """Return those instances of which attempts never started, and how many."""
        if not self.unstarted:
            return ()
        return tuple((each, self.unstarted[each]) for each in instances if each in self.unstarted)

    @property
    def is_done(self) -> bool:
        """Whether every instance is over, and no more will be made."""
        return not self.queued and not self.live and not self.endless and self.waits is None

    @property
    def blocked(self) -> Ranges:
        """The instances that are held, or wait for those of other jobs."""
        return Ranges() if self.waits is None else self.waits.blocked


class JobSuspension(msgspec.Struct, forbid_unknown_fields=True):
    """The suspension of a job that is suspended or about to be."""

    number: int  # counts the suspensions of the job
    since: Instant
    pending_nodes: tuple[str, ...]  # nodes on which not everything stands still yet
    remaining: Seconds | None = None  # of its run time limit, once it stands still; None: it has no end
    allocation: dict[str, tuple[int, ...]] = {}  # what it held, once it was given back
    staging: bool = False  # only until files are there; its programs have not started


class JobHold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A hold: the job does not start until it is released."""

    name: str
    at: Instant
    by: str = ""
    message: str = ""


class FilterReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last answer of an activation filter that refused the job the resources offered to it.

    `reserved` and what follows as in `FilterAnswered`: what is kept for it meanwhile.
    """

    at: Instant
    verdict: str
    filter: str
    message: str = ""
    reserved: tuple[tuple[str, int], ...] = ()
    alternative: int = 0
    parts: tuple[tuple[tuple[str, int], ...], ...] = ()
    lowered_limit: Seconds | None = None


class RunEnd(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The end of a run, decided while something of the job still runs."""

    outcome: Outcome
    requeue: bool = False  # the job goes back to the queue
    uncounted: bool = False  # which is not one of its returns
    preempted_by: int = 0  # the job that is to have what it holds
    skip_release: bool = False  # its nodes are not released


class JobRun(msgspec.Struct, forbid_unknown_fields=True):
    """The run of a job; it exists only after the job has started or one of its tasks was changed."""

    tasks: list[TaskProgress]
    allocation: dict[str, tuple[int, ...]] = {}
    started: Instant | None = None
    ended: Instant | None = None
    deadline: Instant | None = None  # when its run time limit is over
    backfilled: bool = False
    alternative: int = 0  # the request it was given: 0 the job's own, n its n-th alternative
    lowered_limit: Seconds | None = None  # its run time limit, if it started because of a lower one
    parts: tuple[NodeCores, ...] = ()  # of a gang: the processors of each task
    end: RunEnd | None = None  # once it is ending, or no longer dispatches
    requeues: int = 0
    auto_requeues: int = 0  # to the queue because nodes were lost, since the last requeue by request
    percent: int | None = None
    progress_message: str = ""
    starts: int = 0  # how often it was started, through all returns to the queue
    suspension: JobSuspension | None = None  # while it is suspended
    suspensions: int = 0
    suspended_time: Seconds = Seconds(0.0)  # how long it was suspended, in suspensions that are over
    usage: Usage = msgspec.field(default_factory=Usage)
    holdings: dict[str, Holding] = {}  # by node, where there is more than the processors
    refused: dict[str, str] = {}  # nodes that could not be prepared, and why
    prolog: bool = False  # its nodes make themselves ready for it
    recalled_for: tuple[int, ...] = ()  # the jobs that are to have what was recalled
    preempted_by: int = 0  # in the queue: the job by which it was preempted
    clock_shift: Seconds = Seconds(0.0)  # by how much the clock was set while it ran
    stages: bool = False  # files are transferred for its tasks
    staged_since: Instant | None = None  # since when nothing of it runs but transfers
    staged_time: Seconds = Seconds(0.0)  # how long that was before
    detached: dict[str, tuple[int, ...]] = {}  # what it held, once only transfers from there are left of it
    resource: str = ""  # the resource that it was handed over to; it holds nothing here
    follows: tuple[int, ...] = ()  # jobs for whose instances some of its own wait

    @property
    def not_run(self) -> Seconds:
        """The time since its start that is no run time: it was suspended, or the clock was set."""
        return Seconds(self.suspended_time + self.staged_time + self.clock_shift)

    @property
    def places(self) -> dict[str, tuple[int, ...]]:
        """Where its processes are: what it holds, or held before it was suspended or detached."""
        if self.detached:
            return self.detached
        return self.allocation if self.suspension is None else self.suspension.allocation or self.allocation

    @property
    def unready(self) -> tuple[str, ...]:
        """The nodes that have not said that they are ready for it."""
        return tuple(node for node, holding in self.holdings.items() if holding.prolog_due)

    @property
    def cleaning(self) -> dict[str, Instant]:
        """The nodes that are being cleaned, and when that counts as over."""
        if not self.holdings:
            return {}
        return {n: each.clean_by for n, each in self.holdings.items() if each.clean_by is not None}

    @property
    def recalled(self) -> dict[str, int]:
        """By node, how many processors it is still to give up as they become idle."""
        if not self.holdings:
            return {}
        return {node: holding.recalled for node, holding in self.holdings.items() if holding.recalled}


class JobRecord(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A job and its state, from its creation until it is archived.

    No part of it refers back to it, so the garbage collector need not walk through 100,000 of them.
    """

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
    waits_for: tuple[int, ...] = ()  # jobs of which something must come true first
    group: str = ""  # name of the job group of the job
    satisfied: tuple[int, ...] = ()  # jobs of which it has, as long as this one has not started
    skipped: bool = False  # canceled because the end of a job that it waited for was not the one
    skipped_jobs: tuple[int, ...] = ()  # jobs that were canceled in that way because of how this one ended
    message: str = ""
    run: JobRun | None = None
    holds: tuple[JobHold, ...] = ()
    last_start: Instant | None = None  # in the queue: when it must have started to end by its deadline
    unvalidated: bool = False  # submission filters have not let it into the queue since it was submitted
    filter_reply: FilterReply | None = None  # until it starts, or grows
    privileged: bool = False  # an administrator submitted it
    submit_host: str = ""  # from which it was submitted; "" until it is
    placement: Placement | None = None  # of several places that it named, the one that was chosen
    recurring: RecurringOrigin | None = None  # the recurring job that made it, and the time it stands for
    spare: tuple[int, ...] = ()  # of a job for which any dependency is enough: parents it can do without
    elements: tuple[tuple[int, int], ...] = ()  # of jobs that it depends on, with the number of each
    start_after: Instant | None = None  # when the delay after the start of a parent is over

    @property
    def turn(self) -> QueuePosition:
        """Its place in the queue: smaller goes first."""
        return queue_position(self.priority, self.order, self.id)

    def describe(self, encoded: bytes, spec: JobSpec) -> None:
        """Take another description, and what the record has of it for itself."""
        self.spec, self.priority, self.group = encoded, spec.priority, spec.job_group

    @property
    def parents(self) -> tuple[int, ...]:
        """The jobs whose progress may change whether it may start."""
        return (*self.waits_for, *self.satisfied, *self.spare)

    def forget_parents(self) -> None:
        """Note that nothing is to be waited for any more."""
        self.waits_for = self.satisfied = self.spare = self.elements = ()
        self.start_after = None

    @property
    def is_elsewhere(self) -> bool:
        """Whether the job was handed over to a resource: it holds nothing here."""
        return self.run is not None and bool(self.run.resource)

    @property
    def is_detached(self) -> bool:
        """Whether its processes are where it holds nothing: it is suspended, or ends after it was.

        Or only transfers are left of it.
        """
        if self.state in (JobState.SUSPENDED, JobState.RESUMING):
            return True
        run = self.run
        if run is None:
            return False
        return bool(run.detached) or (run.suspension is not None and bool(run.suspension.allocation))


SMALL = 4096  # bytes of an encoded description, such as jobs have that come by the thousand
MAX_REMEMBERED = 1024  # small descriptions
LARGE = 2**20  # bytes of an encoded description above which it is decoded each time

_spec_encoder = msgspec.msgpack.Encoder()
_spec_decoder = msgspec.msgpack.Decoder(JobSpec)
_record_decoder = msgspec.msgpack.Decoder(JobRecord)


def encode_spec(spec: JobSpec) -> bytes:
    """Return the description as events and records keep it."""
    return _spec_encoder.encode(spec)


def decode_spec(data: bytes) -> JobSpec:
    """Return the description that `data` holds.

    Small ones of late are remembered: many jobs are alike.  Of larger ones the last is, because it is read
    eight times until the job has started.

    Raises:  UnknownDescription if it has a field that this version does not know.
    """
    try:
        if len(data) <= SMALL:
            return _decode_small(data)
        return _decode_last(data) if len(data) <= LARGE else _spec_decoder.decode(data)
    except msgspec.ValidationError as error:
        raise UnknownDescription(str(error)) from None


_decode_small = lru_cache(MAX_REMEMBERED)(_spec_decoder.decode)
_decode_last = lru_cache(1)(_spec_decoder.decode)


def without_texts(spec: JobSpec) -> JobSpec:
    """Return a job of one task without its name and command line; another job as it is.

    Jobs that come by the thousand differ in these two alone, and no request depends on them.
    """
    if len(spec.tasks) != 1:
        return spec
    (task,) = spec.tasks
    return replace(spec, name="", tasks=(replace(task, command=""),))


def spec_of(record: JobRecord) -> JobSpec:
    """Return the description of a job with the request that it was given, or as it is written."""
    return written_spec(record, decode_spec(record.spec))


def awaited_by_instances(record: JobRecord) -> tuple[int, ...]:
    """Return the jobs for whose instances some of this job wait."""
    return () if record.run is None else record.run.follows


def started_run(record: JobRecord) -> JobRun:
    """Return the run of a job that was started.  Raises:  Broken ``no-run`` when it was not."""
    if record.run is None:
        raise Broken(code="no-run", what=f"job {record.id} is {record.state} and has no run")
    return record.run


def written_spec(record: JobRecord, written: JobSpec) -> JobSpec:
    """Return a job's written description with the request that the job was given in place of its own."""
    run = record.run
    if run is None:
        return written
    spec = with_option(written, run.alternative) if run.alternative else written
    return spec if run.lowered_limit is None else replace(spec, run_time=run.lowered_limit)


def encode_record(record: JobRecord) -> bytes:
    """Return the record as the archive keeps it."""
    return _spec_encoder.encode(record)


def decode_record(data: bytes | msgspec.Raw) -> JobRecord:
    """Return the record that `data` holds."""
    return _record_decoder.decode(data)


def untouched(spec: JobSpec) -> list[TaskProgress]:
    """Return the progress of tasks none of which has run."""
    return [not_begun(task) for task in spec.tasks]


def not_begun(task: TaskSpec) -> TaskProgress:
    """Return the progress of one task that has not run."""
    if task.kind in SPECIAL:
        return TaskProgress(queued=Ranges(), instances_made=0, endless=task.kind is TaskType.SERVICE)
    return all_queued(task.instances)


def all_queued(instances: int) -> TaskProgress:
    """Return the progress of one task that has not run and is not special."""
    queued = Ranges([1], [instances], instances) if instances > 0 else Ranges()
    return TaskProgress(queued=queued)


def end_suspension(run: JobRun, at: Instant) -> None:
    """Note how long a job stood still that now goes on, ends, or goes back to the queue.

    What only waited for files was staging all the time.
    """
    suspension, run.suspension = run.suspension, None
    if suspension is None or not suspension.allocation:
        return
    since = suspension.since
    if run.staged_since is not None:
        since = at if suspension.staging else max(since, run.staged_since)
        run.staged_time = Seconds(run.staged_time + max(0.0, since - run.staged_since))
        run.staged_since = at
    run.suspended_time = Seconds(run.suspended_time + max(0.0, at - since))
