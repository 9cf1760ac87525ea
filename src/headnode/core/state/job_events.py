"""Events of jobs and their task instances: what has happened, in the past tense.

A field may be added with a default; nothing may be removed or change its meaning."""

from typing import Literal

import msgspec

from headnode.core.model.outcome import AttemptOfTask, AttemptOutcome
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.task import RecurringOrigin

Outcome = Literal["finished", "failed", "canceled"]
EndState = Literal["finished", "failed", "canceled", "queued"]
Cause = Literal["program", "system", "request", "preempted"]
NodeCores = tuple[tuple[str, tuple[int, ...]], ...]
"""Where something runs: node names, each with the numbers of the processors taken there."""

TaskSpans = tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
"""Numbers of tasks, each with inclusive spans of its instances."""

InstancesAwaiting = tuple[tuple[int, TaskSpans], ...]
"""Ids of jobs, each with the instances of this one that wait for those of the same number there."""


class StateEvent(
    msgspec.Struct,
    frozen=True,
    tag=True,
    omit_defaults=True,
    gc=False,
    forbid_unknown_fields=True,
):
    """The base of all events.  Events and fields that the reader does not know are refused."""

    at: Instant


class JobEvent(StateEvent, frozen=True, gc=False):
    """The base of all job events."""

    job: JobId


class JobCreated(JobEvent, frozen=True, gc=False, tag="JobCreated"):
    """A job is created, in state configuring.  `spec` is an encoded JobSpec."""

    owner: str
    uid: int
    gid: int
    spec: bytes
    by: str = ""  # the administrator who made it for its owner; empty: the owner did
    source: bytes = b""  # the job file that it was read from, compressed; empty: none, or it is too long
    source_job: int = 0  # the job of the same file whose event has the text; 0: this one
    recurring: RecurringOrigin | None = None  # the recurring job that made it


class JobOwnerChanged(JobEvent, frozen=True, gc=False, tag="JobOwnerChanged"):
    """An administrator gives the job to another owner; it is not submitted yet."""

    owner: str
    uid: int
    gid: int
    by: str = ""


class JobModified(JobEvent, frozen=True, gc=False, tag="JobModified"):
    """The job description is replaced: an option has changed, or tasks were added at the end."""

    spec: bytes
    by: str = ""
    changed: str = ""  # the names of what changed, for the history
    waits_for: tuple[int, ...] | None = None  # of a queued job; None: its dependencies have not changed
    satisfied: tuple[int, ...] = ()  # this and what follows as in `JobSubmitted`
    start_after: Instant | None = None


class JobSubmitted(JobEvent, frozen=True, gc=False, tag="JobSubmitted"):
    """The job takes its position in the queue: `order` counts submissions.

    `validating`: submission filters must accept the job first."""

    order: int
    by: str = ""
    waits_for: tuple[int, ...] = ()  # jobs of which something must come true first
    validating: bool = False
    privileged: bool = False  # an administrator submitted it
    host: str = ""  # from which it was submitted: its name, or its address
    awaiting: InstancesAwaiting = ()
    satisfied: tuple[int, ...] = ()  # where any dependency is enough: the parents of which one is satisfied
    start_after: Instant | None = None  # when the delay after the start of a parent is over


class JobValidated(JobEvent, frozen=True, gc=False, tag="JobValidated"):
    """The submission filters accept the job; `spec` is the job as they changed it, empty if unchanged."""

    spec: bytes = b""
    changed: str = ""  # the names of what changed, for the history
    filters: tuple[str, ...] = ()  # those that it passed
    waits_for: tuple[int, ...] = ()
    awaiting: InstancesAwaiting = ()
    satisfied: tuple[int, ...] = ()  # this and what follows as in `JobSubmitted`
    start_after: Instant | None = None


class FilterAnswered(JobEvent, frozen=True, gc=False, tag="FilterAnswered"):
    """An activation filter refuses the job the resources offered to it; `verdict` is the effect on the job.

    `reserved` is what is kept for it, in numbers of processors; `alternative` and `parts` as in `JobStarted`.
    """

    verdict: str
    filter: str
    message: str = ""  # what the filter did and said
    until: Instant | None = None  # of a hold
    reserved: tuple[tuple[str, int], ...] = ()
    alternative: int = 0
    parts: tuple[tuple[tuple[str, int], ...], ...] = ()
    lowered_limit: Seconds | None = None


class JobConfiguring(JobEvent, frozen=True, gc=False, tag="JobConfiguring"):
    """The job goes back to configuring; all its tasks will run again."""

    by: str = ""


class JobStarted(JobEvent, frozen=True, gc=False, tag="JobStarted"):
    """The job starts with its allocation; `backfilled` if it starts before the first job of the queue.

    `alternative` is the request it was given: 0 its own, n its n-th.  `parts` of a gang: those of each task.
    `lowered_limit` is its run time limit, if it started because of a lower one than it asks for.
    """

    allocation: NodeCores
    backfilled: bool = False
    alternative: int = 0
    parts: tuple[NodeCores, ...] = ()
    prolog: bool = False  # its nodes must say that they are ready before anything of it is dispatched to them
    resource: str = ""  # it is handed over to this resource and holds nothing here; nothing of it runs yet
    lowered_limit: Seconds | None = None


class AllocationGrown(JobEvent, frozen=True, gc=False, tag="AllocationGrown"):
    """The job gets more processors."""

    added: NodeCores
    prolog: bool = False  # as in `JobStarted`, of nodes that are new to it


class AllocationShrunk(JobEvent, frozen=True, gc=False, tag="AllocationShrunk"):
    """The job releases processors.  `message` is the reason; it is empty if the job did not need them."""

    removed: NodeCores
    message: str = ""


class AllocationReleased(JobEvent, frozen=True, gc=False, tag="AllocationReleased"):
    """Nothing is left of the job but transfers from its nodes: it releases all its processors."""


class AllocationLost(JobEvent, frozen=True, gc=False, tag="AllocationLost"):
    """The job loses the processors of a node that was given up.

    `too_small`: too few are left for it.  It starts nothing new, and is requeued when what runs has ended."""

    removed: NodeCores
    too_small: bool = False
    message: str = ""
    uncounted: bool = False  # its return to the queue is not counted


class NodePrepared(JobEvent, frozen=True, gc=False, tag="NodePrepared"):
    """A node of the job is ready for it: the prolog has ended there."""

    node: str


class NodesCleaning(JobEvent, frozen=True, gc=False, tag="NodesCleaning"):
    """No process of the job runs on these nodes any more: they are cleaned, then released.

    `until`: when they are released even without a report that they are clean."""

    nodes: tuple[str, ...]
    until: Instant
    message: str = ""


class ProcessorsRecalled(JobEvent, frozen=True, gc=False, tag="ProcessorsRecalled"):
    """The job must give up processors of these nodes as they become idle, and starts nothing there.

    This replaces an earlier recall; if empty, the job keeps its processors.  `for_jobs` will get them.
    """

    processors: tuple[tuple[str, int], ...]
    for_jobs: tuple[int, ...] = ()
    message: str = ""


class InstancesDispatched(JobEvent, frozen=True, gc=False, tag="InstancesDispatched"):
    """Instances of one task are dispatched to a place, to run there one after the other."""

    task: int
    placement: NodeCores
    attempts: tuple[tuple[int, int], ...]  # (instance, attempt); no number is used twice for an instance
    after: tuple[AttemptOfTask, ...] = ()  # of parents on the same node, which must end well first


class InstanceStart(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """The start of one instance."""

    task: int
    instance: int
    attempt: int
    at: Instant


class InstancesStarted(JobEvent, frozen=True, gc=False, tag="InstancesStarted"):
    """Dispatched instances have started."""

    started: tuple[InstanceStart, ...]


class InstanceStage(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """The transfers of one attempt, in to its node or out of it, have begun."""

    task: int
    instance: int
    attempt: int
    direction: Literal["in", "out", "ready"]  # ready: they are there, and wait for processors
    at: Instant


class InstancesStaging(JobEvent, frozen=True, gc=False, tag="InstancesStaging"):
    """Files of live instances are transferred: before their programs start, or after they have ended."""

    staging: tuple[InstanceStage, ...]


class InstanceEnd(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """The end of one attempt of an instance; the message of the outcome is written by the head."""

    task: int
    instance: int
    attempt: int
    state: EndState  # queued: it will run again
    outcome: AttemptOutcome
    node: str = ""
    cause: Cause = "program"  # of a failure or a rerun
    nodes: tuple[str, ...] = ()  # all that it ran on, where there were several


class InstancesEnded(JobEvent, frozen=True, gc=False, tag="InstancesEnded"):
    """Instances have ended, or are queued to run again."""

    ended: tuple[InstanceEnd, ...]


class InstancesStopping(JobEvent, frozen=True, gc=False, tag="InstancesStopping"):
    """Live instances of one task are being stopped; `outcome` is their outcome when they have ended.

    With the cause ``system``, they run again if rerunnable; with ``preempted``, always, and uncounted.
    """

    task: int
    instances: tuple[int, ...]
    outcome: Outcome
    message: str = ""
    force: bool = False
    cause: Cause = "request"
    requeue: bool = False  # they run again, by request


class InstancesCanceled(JobEvent, frozen=True, gc=False, tag="InstancesCanceled"):
    """Queued instances of one task are canceled; spans are inclusive."""

    task: int
    spans: tuple[tuple[int, int], ...]
    outcome: Outcome = "canceled"
    message: str = ""
    withdrawn: bool = False  # canceled singly by request: requeueing the job leaves them out


class TasksCanceled(JobEvent, frozen=True, gc=False, tag="TasksCanceled"):
    """All that is queued of a job is canceled: of each task its number, and inclusive spans of instances.

    Without `tasks`, nothing of the job was ever dispatched or changed, and all its instances are canceled.
    """

    tasks: TaskSpans = ()
    message: str = ""


class InstancesRequeued(JobEvent, frozen=True, gc=False, tag="InstancesRequeued"):
    """Ended instances of one task are requeued; spans are inclusive."""

    task: int
    spans: tuple[tuple[int, int], ...]
    by: str = ""


class InstancesHeld(JobEvent, frozen=True, gc=False, tag="InstancesHeld"):
    """Instances of one task are held; spans are inclusive.  One that is live is held when it runs again."""

    task: int
    spans: tuple[tuple[int, int], ...]
    by: str = ""


class InstancesReleased(JobEvent, frozen=True, gc=False, tag="InstancesReleased"):
    """The holds of instances of one task are released; spans are inclusive."""

    task: int
    spans: tuple[tuple[int, int], ...]
    by: str = ""


class JobEnding(JobEvent, frozen=True, gc=False, tag="JobEnding"):
    """The job is being stopped with this outcome; it ends when nothing of it runs any more."""

    outcome: Outcome
    message: str = ""
    by: str = ""
    force: bool = False
    requeue: bool = False  # when over it goes back to the queue instead
    preempted_by: int = 0  # the job that is to have what it holds
    uncounted: bool = False  # its return to the queue is not counted, and failed tasks stay failed


class DispatchStopped(JobEvent, frozen=True, gc=False, tag="DispatchStopped"):
    """The job starts no new tasks; it ends with `outcome` when the running tasks have ended (graceful)."""

    outcome: Outcome
    message: str = ""
    by: str = ""


class JobEnded(JobEvent, frozen=True, gc=False, tag="JobEnded"):
    """The job ends and holds no resources.

    `skipped`: the job never started, because the end of its parent job `parent` did not meet the condition.
    """

    outcome: Outcome
    message: str = ""
    skipped: bool = False
    parent: JobId = JobId(0)


class JobRequeued(JobEvent, frozen=True, gc=False, tag="JobRequeued"):
    """The job is requeued at its old position; finished tasks stay finished."""

    by: str = ""
    message: str = ""
    waits_for: tuple[int, ...] = ()  # jobs of which something must come true first
    awaiting: InstancesAwaiting = ()
    satisfied: tuple[int, ...] = ()  # this and what follows as in `JobSubmitted`
    start_after: Instant | None = None


class JobAutoRequeued(JobEvent, frozen=True, gc=False, tag="JobAutoRequeued"):
    """The job is requeued because it lost too many of its nodes; failed tasks stay failed.

    Or because it was preempted, which is not counted.
    """

    message: str = ""
    preempted_by: int = 0
    uncounted: bool = False  # this return is not counted


class JobUnarchived(JobEvent, frozen=True, gc=False, tag="JobUnarchived"):
    """An ended job comes back from the archive, as it ended.  `record` is an encoded JobRecord."""

    record: bytes
    by: str = ""


class JobHeld(JobEvent, frozen=True, gc=False, tag="JobHeld"):
    """A hold is put on the job; the job waits until all its holds are released."""

    name: str
    by: str = ""
    message: str = ""


class JobReleased(JobEvent, frozen=True, gc=False, tag="JobReleased"):
    """Holds of the job are released."""

    names: tuple[str, ...]
    by: str = ""


class ProgressSet(JobEvent, frozen=True, gc=False, tag="ProgressSet"):
    """The owner sets the progress of the job."""

    percent: int | None = None
    message: str | None = None
