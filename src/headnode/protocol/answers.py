"""What the verbs about jobs and tasks answer.  The page of the protocol is printed from it.
Times are seconds since 1970.  The comment of a field is what the page says of it.
"""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from headnode.core.formats.fidelity import FidelityReport
from headnode.core.model.bank import BankObject


class VerbAnswer(msgspec.Struct, frozen=True, gc=False):
    """What every answer and object in one has: nothing.  Readers ignore keys that only a newer head knows."""


class HistoryEntry(VerbAnswer, frozen=True):
    """Something that happened, in a sentence."""

    at: float
    text: str


class HistoryAnswer(VerbAnswer, frozen=True):
    """job_history, node_history."""

    history: list[HistoryEntry]  # oldest first, the newest `limit`


class InstanceCounts(VerbAnswer, frozen=True):
    """How many instances are in each state."""

    total: int
    queued: int
    running: int
    finished: int
    failed: int
    canceled: int


class ExpectedStartObject(VerbAnswer, frozen=True):
    """The expected start of a job that waits only for processors or its files; null where it is not known."""

    promise: float | None  # the start if all jobs run to their limits and no other job overtakes
    p50: float | None  # half of such jobs start by then, from run times of the past
    p90: float | None  # nine of ten such jobs start by then
    predicted_at: float | None  # when it was predicted
    policy: str
    reason: str  # why something is not known, or ""
    files_by: float | None = None  # when all its input files are copied at the rate so far


class PredictionObject(VerbAnswer, frozen=True):
    """The first prediction of a job, and when it started."""

    predicted_at: float
    policy: str
    promise: float | None
    p50: float | None
    p90: float | None
    started: float | None  # null until it has


class JobObject(VerbAnswer, frozen=True):
    """A job, as lists show it."""

    id: int | None  # null for a job that is not made
    owner: str
    name: str
    project: str
    minimum: int  # requested, calculated
    maximum: int
    unit: str
    run_time: float | None  # seconds; null without a limit
    minimum_run_time: float | None  # to which the limit may be lowered for an earlier start; null: it is not
    group: str
    state: str  # Configuring, Queued, Running, Suspended, Finished, Failed, Canceled
    priority: int
    priority_name: str
    created: float
    submitted: float | None
    started: float | None
    ended: float | None
    allocated: int  # processors now
    message: str
    skipped: bool  # canceled because the end of a job that it depends on did not satisfy the condition
    tasks: InstanceCounts
    pending_reason: str  # one sentence, or ""
    progress: int | None  # percent
    progress_message: str


class WatchedJob(JobObject, frozen=True):
    """A job, as those that watch it see it."""

    expected: ExpectedStartObject | None  # null unless the job waits only for processors or its files


class ProcessorCount(VerbAnswer, frozen=True):
    """How many processors of a node."""

    node: str
    processors: int


class ListedJob(JobObject, frozen=True):
    """A job with its command, nodes and expected start."""

    command: str  # of the first task, cut
    nodes: str  # a node set: its nodes now, or at its end
    held: bool  # it has a hold, or its earliest start is later
    held_until: float | None  # its earliest start, if that is later
    pending_kind: str  # priority, processors, node, dependency, hold, ...: that of `pending_reason`, or ""
    array: str  # the numbers of its instances, as batch scripts write them: 1-9:2%4; empty: it is no array
    node_groups: list[str]
    template: str  # its job template, or ""
    node_count: int  # of `nodes`; before it starts, those that it requests at least
    expected: ExpectedStartObject | None  # null unless the job waits only for processors or its files
    pending_limit: str | UnsetType = UNSET  # the limit it waits for: `user,processors,ann`, `project,jobs,x`


class CoresOnNode(VerbAnswer, frozen=True):
    """Processors of a node that a job has."""

    node: str
    processors: list[int]


class HoldObject(VerbAnswer, frozen=True):
    """A hold of a job: its name, who set it and when, and why."""

    name: str
    by: str
    at: float
    message: str


class JobUsage(VerbAnswer, frozen=True):
    """The resources of a job in its last run, and its usage in all ended runs and instances."""

    processors: int
    nodes: list[str]
    cpu_time: float  # seconds
    wall_time: float  # seconds
    peak_memory: int | None  # kB, of one task
    average_memory: int | None  # kB, of one task
    bytes_read: int | None
    bytes_written: int | None
    exit_code: int | None


class DependencyObject(VerbAnswer, frozen=True):
    """A job that a job depends on."""

    job: int
    condition: str  # OnSuccess, OnFailure, OnExit or OnStart
    name: str
    state: str  # of the element, if it depends on one
    status: str  # met, open or never
    element: int | None = None  # the number of an instance of a sweep of that job; null: the whole job
    delay: float | None = None  # seconds after the start of that job; null: none


class DependentObject(VerbAnswer, frozen=True):
    """A job that depends on a job."""

    job: int
    condition: str
    name: str
    state: str
    element: int | None = None  # the number of the instance that it depends on; null: the whole job


class RecurringOriginObject(VerbAnswer, frozen=True):
    """The recurring job that made a job."""

    number: int
    name: str
    time: float  # that the job stands for


class DetailedJob(JobObject, frozen=True):
    """A job with everything that the user may know of it."""

    spec: dict[str, Any]  # the job as JSON, field names of the native form
    allocation: list[CoresOnNode]  # of a suspended job where its processes are stopped; it holds none of it
    backfilled: bool
    requeues: int
    submit_host: str  # the host from which it was submitted, or the address of a client; empty before
    alternatives: int  # their number
    alternative: int | None  # the request it started with: 0 its own, n its n-th alternative; null before
    state_detail: str  # configuring, queued, handed, running, suspending, suspended, staging in, ...
    history: list[HistoryEntry]
    usage: JobUsage | None  # null before it started
    hold_until: float | None
    holds: list[HoldObject]
    starts: int  # how often it was started
    suspended_since: float | None  # null unless all its processes are stopped now
    suspended_for: float  # seconds, in ended suspensions of its last run
    end_by: float | None  # its deadline
    reservation: str
    resource: str  # the resource with its own scheduler that it is for; empty: own nodes
    resource_jobs: list[str]  # the ids there of tasks that are not over, at most 100
    waits_for: list[int]  # the ids of the jobs that it still waits for
    any_dependency: bool  # one of its dependencies is enough
    preparing: list[str]  # nodes on which its prolog has not ended
    cleaning: list[str]  # nodes on which its epilog has not ended
    bank: BankObject | None  # null if no bank was asked about it
    environment_hidden: bool  # its environment is private, and left out
    expected: ExpectedStartObject | None  # null unless the job waits only for processors or its files
    prediction: PredictionObject | None  # null if the job never waited for long
    share: int | None  # in balanced mode the processors that a running job should have; otherwise null
    dependencies: list[DependencyObject]  # all that it depends on
    dependents: list[DependentObject]  # the jobs of its group that depend on it, and others not started
    recurring: RecurringOriginObject | UnsetType = UNSET  # if a recurring job made it


class JobAnswer(VerbAnswer, frozen=True):
    """job."""

    job: DetailedJob


class GroupObject(VerbAnswer, frozen=True):
    """A job group."""

    group: str  # its name
    state: str  # NotQueued, Unstarted, Active, Completed
    jobs: list[int]  # its current jobs: not ended, and those submitted with or after them; or the last ones
    counts: dict[str, int]  # the number of jobs in each state
    open: list[int]  # those that have not ended
    skipped: list[int]  # those that were canceled because a dependency could no longer be satisfied


class JobsAnswer(VerbAnswer, frozen=True):
    """jobs."""

    jobs: list[ListedJob]  # newest id first
    more: int | None  # the id to pass as `before`; null: there are no more
    total: int
    damage: list[str] | UnsetType = UNSET  # damaged rows of the journal, which are left out, in sentences
    group: GroupObject | UnsetType = UNSET  # with field `group`


class WatchAnswer(VerbAnswer, frozen=True):
    """watch_jobs."""

    jobs: list[WatchedJob]
    done: bool  # all have ended: the last answer


class SubmitAnswer(VerbAnswer, frozen=True):
    """create_job, submit_job, clone_job."""

    job: int  # of a file with several jobs the last one
    report: FidelityReport
    jobs: list[int] | UnsetType = UNSET  # all, of a file with several jobs
    owner: str | UnsetType = UNSET  # of a job that is made for another user
    repeated: bool | UnsetType = UNSET  # true: an earlier request with this key made it


class AddTasksAnswer(VerbAnswer, frozen=True):
    """add_tasks."""

    job: int
    tasks: list[int]  # the numbers of the new ones
    report: FidelityReport
    repeated: bool | UnsetType = UNSET  # true: an earlier request with this key made it


class ModifiedJob(VerbAnswer, frozen=True):
    """modify_job."""

    job: int
    changed: list[str]  # the fields that differ now


class JobIdAnswer(VerbAnswer, frozen=True):
    """set_progress."""

    job: int


class JobStateAnswer(VerbAnswer, frozen=True):
    """cancel_job, finish_job, end_allocation, suspend_job, resume_job."""

    job: int
    state: str  # the internal state


class RequeuedJob(VerbAnswer, frozen=True):
    """requeue_job."""

    job: int
    reopened: list[int]  # the jobs that had been skipped for its end and are requeued with it


class JobFileAnswer(VerbAnswer, frozen=True):
    """export_job."""

    text: str
    report: FidelityReport


class SubmittedGroup(VerbAnswer, frozen=True):
    """submit_group."""

    group: str
    jobs: list[int]  # its created jobs, which are submitted now, all or none
    repeated: bool | UnsetType = UNSET  # true: an earlier request with this key made it


class StoppedJob(VerbAnswer, frozen=True):
    """A job of a group that was stopped."""

    job: int
    state: str


class RefusedJob(VerbAnswer, frozen=True):
    """A job of a group that could not be stopped."""

    job: int
    code: str
    what: str
    fix: str


class StoppedGroup(VerbAnswer, frozen=True):
    """cancel_group, finish_group."""

    group: str
    jobs: list[StoppedJob]  # all in one step
    refused: list[RefusedJob]


# ---------------------------------------------------------------- tasks


class TaskObject(VerbAnswer, frozen=True, kw_only=True):
    """A task, or an instance of one."""

    job: int
    task: int
    instance: int | None  # null for the master row of a sweep and for a basic task
    name: str
    state: str
    command: str  # in lists cut
    kind: str
    minimum: int
    maximum: int
    pending_reason: str
    exit_code: int | None
    signal: int | None
    node: str
    processors: list[list[int]]  # of each node
    started: float | None
    ended: float | None
    user_time: float | None  # seconds
    system_time: float | None  # seconds
    peak_memory: int | None  # kB
    average_memory: int | None  # kB
    bytes_read: int | None
    bytes_written: int | None
    message: str
    attempt: int | None
    instances: InstanceCounts | UnsetType = UNSET  # of a master row
    cause: str = ""  # of the end of the attempt: program, system (lost), request (it was stopped), preempted


class DetailedTask(TaskObject, frozen=True, kw_only=True):
    """A task with everything that the user may know of it."""

    spec: dict[str, Any]  # the task as JSON, field names of the native form
    standard_input: str
    standard_output: str
    standard_error: str
    work_directory: str
    environment: dict[str, str]
    environment_hidden: bool  # its environment is private, and left out
