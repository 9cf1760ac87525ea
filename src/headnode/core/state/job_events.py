"""Events of jobs and their task instances: what has happened, in the past tense.

A field may be added with a default; nothing may be removed or change its meaning."""

from typing import Literal

import msgspec

from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.quantities import Instant, JobId

Outcome = Literal["finished", "failed", "canceled"]
EndState = Literal["finished", "failed", "canceled", "queued"]
Cause = Literal["program", "system", "asked", "preempted"]
NodeCores = tuple[tuple[str, tuple[int, ...]], ...]
"""Where something runs: node names, each with the numbers of the processors taken there."""


class StateEvent(
    msgspec.Struct,
    frozen=True,
    tag=True,
    omit_defaults=True,
    array_like=False,
    gc=False,
    forbid_unknown_fields=True,
):
    """What every event has.  A reader refuses events and fields that it does not know."""

    at: Instant


class JobEvent(StateEvent, frozen=True, gc=False):
    """What every event of a job has."""

    job: JobId


class JobCreated(JobEvent, frozen=True, gc=False):
    """A job exists, in state configuring.  `spec` is an encoded JobSpec."""

    owner: str
    uid: int
    gid: int
    spec: bytes
    by: str = ""  # the administrator who made it for its owner; empty: the owner did


class JobGiven(JobEvent, frozen=True, gc=False):
    """An administrator gave it to another user, whose it is from now on; it was not submitted yet."""

    owner: str
    uid: int
    gid: int
    by: str = ""


class JobModified(JobEvent, frozen=True, gc=False):
    """Its description was replaced: a job option changed, or tasks were added at the end."""

    spec: bytes
    by: str = ""
    what: str = ""  # the names of what changed, for the history


class JobSubmitted(JobEvent, frozen=True, gc=False):
    """It took its place in the queue: `order` counts submissions.

    `validating`: it has the place, but submission filters must let it in first.
    """

    order: int
    by: str = ""
    waits_for: tuple[int, ...] = ()  # jobs of which something must come true first
    validating: bool = False
    privileged: bool = False  # an administrator submitted it
    host: str = ""  # from which it was submitted: its name, or its address


class JobValidated(JobEvent, frozen=True, gc=False):
    """The submission filters let it into the queue; `spec` is what they made of it, empty for nothing new."""

    spec: bytes = b""
    what: str = ""  # the names of what changed, for the history
    filters: tuple[str, ...] = ()  # those that it passed
    waits_for: tuple[int, ...] = ()


class FilterAnswered(JobEvent, frozen=True, gc=False):
    """An activation filter did not let it have what it was offered; `verdict` is what that means for it.

    `kept` is what is kept for it, in numbers of processors; `option` and `parts` as in `JobStarted`.
    """

    verdict: str
    filter: str
    words: str = ""  # what the filter did and said
    until: Instant | None = None  # of a hold
    kept: tuple[tuple[str, int], ...] = ()
    option: int = 0
    parts: tuple[tuple[tuple[str, int], ...], ...] = ()


class JobConfigured(JobEvent, frozen=True, gc=False):
    """It went back to configuring; all its tasks will run again."""

    by: str = ""


class JobStarted(JobEvent, frozen=True, gc=False):
    """It holds its allocation.  `backfilled` when it ran ahead of the first job of the queue.

    `option` is the request it was given: 0 its own, n its n-th alternative.  `parts` says, for a gang, which
    processors are for which task.
    """

    allocation: NodeCores
    backfilled: bool = False
    option: int = 0
    parts: tuple[NodeCores, ...] = ()
    readied: bool = (
        False  # its nodes must say that they are ready before anything of it is dispatched to them
    )


class AllocationGrown(JobEvent, frozen=True, gc=False):
    """It was given more processors."""

    added: NodeCores
    readied: bool = False  # as in `JobStarted`, of nodes that are new to it


class AllocationShrunk(JobEvent, frozen=True, gc=False):
    """The job released processors.  `message` is the reason, unless it just did not need them."""

    removed: NodeCores
    message: str = ""


class AllocationLost(JobEvent, frozen=True, gc=False):
    """Processors of a node that was given up are gone.

    `too_small`: what is left is not enough: it starts nothing new, and when what runs has ended it goes back
    to the queue.
    """

    removed: NodeCores
    too_small: bool = False
    message: str = ""
    uncounted: bool = False  # its return to the queue is not counted


class NodeReadied(JobEvent, frozen=True, gc=False):
    """One of its nodes is ready for it: the prolog has ended there."""

    node: str


class NodesCleaning(JobEvent, frozen=True, gc=False):
    """Nothing of it runs on these nodes any more: they are cleaned, and given back afterwards.

    `until`: when they are given back though they have not said that they are clean.
    """

    nodes: tuple[str, ...]
    until: Instant
    message: str = ""


class ProcessorsRecalled(JobEvent, frozen=True, gc=False):
    """It is to give up so many processors of these nodes as they become idle, and starts nothing there.

    In place of what was recalled before; nothing: it may keep what it has.  `for_jobs` are those that are to
    have them.
    """

    processors: tuple[tuple[str, int], ...]
    for_jobs: tuple[int, ...] = ()
    message: str = ""


class InstancesDispatched(JobEvent, frozen=True, gc=False):
    """Instances of one task were handed to a place, to run there one after the other.

    `attempts` holds (instance, attempt); an attempt number is never used twice for an instance.
    """

    task: int
    place: NodeCores
    attempts: tuple[tuple[int, int], ...]


class InstanceStart(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """One instance began to run."""

    task: int
    instance: int
    attempt: int
    at: Instant


class InstancesStarted(JobEvent, frozen=True, gc=False):
    """Some dispatched instances are running."""

    begun: tuple[InstanceStart, ...]


class InstanceEnd(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """How one attempt of an instance ended; the message of the outcome is that of the head."""

    task: int
    instance: int
    attempt: int
    state: EndState  # queued: it will run again
    outcome: AttemptOutcome
    node: str = ""
    cause: Cause = "program"  # of a failure or a rerun
    nodes: tuple[str, ...] = ()  # all that it ran on, where there were several


class InstancesEnded(JobEvent, frozen=True, gc=False):
    """Some instances are over, or are queued to run again."""

    ended: tuple[InstanceEnd, ...]


class InstancesStopping(JobEvent, frozen=True, gc=False):
    """Live instances of one task are being stopped; `outcome` is how they will end.

    With the cause ``system`` they will run again if they may run twice; with ``preempted`` they will, and
    that is not counted.
    """

    task: int
    instances: tuple[int, ...]
    outcome: Outcome
    message: str = ""
    force: bool = False
    cause: Cause = "asked"


class TaskCanceled(JobEvent, frozen=True, gc=False):
    """Queued instances of one task will not run; spans are inclusive."""

    task: int
    spans: tuple[tuple[int, int], ...]
    outcome: Outcome = "canceled"
    message: str = ""
    withdrawn: bool = False  # somebody asked for just these: requeueing the job leaves them out


class TaskRequeued(JobEvent, frozen=True, gc=False):
    """Ended instances of one task will run again; spans are inclusive."""

    task: int
    spans: tuple[tuple[int, int], ...]
    by: str = ""


class JobEnding(JobEvent, frozen=True, gc=False):
    """It is being stopped.  How it ends is decided; it is over when nothing of it runs any more."""

    outcome: Outcome
    message: str = ""
    by: str = ""
    force: bool = False
    requeue: bool = False  # when over it goes back to the queue instead
    preempted_by: int = 0  # the job that is to have what it holds


class DispatchStopped(JobEvent, frozen=True, gc=False):
    """No new tasks of it start; it ends with `outcome` when the running ones have ended (graceful)."""

    outcome: Outcome
    message: str = ""
    by: str = ""


class JobEnded(JobEvent, frozen=True, gc=False):
    """It is over and holds nothing.

    `skipped`: it never started, because the end of a job that it waited for, `because`, was not the one.
    """

    outcome: Outcome
    message: str = ""
    skipped: bool = False
    because: JobId = JobId(0)


class JobRequeued(JobEvent, frozen=True, gc=False):
    """It is back in the queue with its old place in order; finished tasks stay finished."""

    by: str = ""
    message: str = ""
    waits_for: tuple[int, ...] = ()  # jobs of which something must come true first


class JobReturned(JobEvent, frozen=True, gc=False):
    """It is back in the queue because it lost too many of its nodes; what has failed stays failed.

    Or because it was preempted, which is not counted.
    """

    message: str = ""
    preempted_by: int = 0
    uncounted: bool = False  # this return is not counted


class JobRevived(JobEvent, frozen=True, gc=False):
    """An ended job came back from the archive, as it was when it ended.  `record` is an encoded JobRecord."""

    record: bytes
    by: str = ""


class JobHeld(JobEvent, frozen=True, gc=False):
    """A hold was put on it: it waits until every one is released."""

    name: str
    by: str = ""
    message: str = ""


class JobReleased(JobEvent, frozen=True, gc=False):
    """Holds were taken off it."""

    names: tuple[str, ...]
    by: str = ""


class JobSuspending(JobEvent, frozen=True, gc=False):
    """Its nodes stop its processes.  `number` counts the suspensions of the job."""

    number: int
    by: str = ""


class ProcessesStopped(JobEvent, frozen=True, gc=False):
    """All its processes on one of its nodes stand still; those on others do not yet."""

    node: str


class JobSuspended(JobEvent, frozen=True, gc=False):
    """All its processes stand still, and it gave back what it held; its run time limit stands still too.

    A job that waited to go on waits no more.
    """

    by: str = ""


class JobResuming(JobEvent, frozen=True, gc=False):
    """It waits in its old place of the queue for the processors it held."""

    by: str = ""


class JobResumed(JobEvent, frozen=True, gc=False):
    """It holds as many processors of the same nodes as before, and its processes go on."""

    allocation: NodeCores
    by: str = ""


class ProgressSet(JobEvent, frozen=True, gc=False):
    """Its owner said how far it is."""

    percent: int | None = None
    message: str | None = None
