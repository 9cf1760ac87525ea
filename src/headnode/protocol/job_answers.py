"""Answers about jobs: why they wait, their submission, output and parts, and the jobs of a site.

The page of the protocol is printed from it.  Times are seconds since 1970.
The comment of a field is what the page says of it.
"""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headnode.core.formats.fidelity import FidelityReport
from headnode.protocol.answers import (
    DependencyObject,
    ExpectedStartObject,
    InstanceCounts,
    JobObject,
    ProcessorCount,
    VerbAnswer,
)
from headnode.protocol.requests import JobIdRequest, Name, Names, UnixTime, VerbRequest


class SiteJobsRequest(VerbRequest, frozen=True):
    """site_jobs."""

    ended: bool = False  # those that have ended, newest first
    user: Name | None = None  # only of this user
    limit: int = 1000


class SiteJobObject(VerbAnswer, frozen=True):
    """A job of the site, of any user. One of ours names its job here."""

    id: str  # there
    user: str
    name: str
    state: str  # waiting, running, ended or unknown
    word: str  # the site's word for its state
    reason: str  # the site's, for which it waits
    priority: int
    partitions: list[str]
    submitted: float | None
    started: float | None
    ended: float | None
    run_time: float | None  # its time limit, in seconds
    processors: int
    nodes: str
    elements: int  # of an array, that wait
    job: int | None  # here, if it is ours
    p50: float | None  # the expected start
    p90: float | None
    site_start: float | None  # the start that the site expects


class SitePartitionObject(VerbAnswer, frozen=True):
    """A partition of the site; times are in seconds, null for no limit."""

    name: str
    default: bool
    state: str
    run_time: float | None
    default_run_time: float | None
    nodes: int
    processors: int


class SiteObject(VerbAnswer, frozen=True):
    """The site under the overlay, and how far it is known."""

    resource: str
    cluster: str  # what the site calls itself
    version: str
    scheduler: str
    partitions: list[SitePartitionObject]
    polled: float | None  # the last time that it answered
    problem: str  # why it does not answer
    running: int  # jobs
    waiting: int
    left_out: int  # jobs of the site beyond those that are kept
    hides_jobs: bool  # it shows each user only the user's own jobs
    accounting: bool  # its history can be read
    judged: int  # predicted starts that were compared with what happened


class SiteJobsAnswer(VerbAnswer, frozen=True):
    """site_jobs."""

    site: SiteObject
    jobs: list[SiteJobObject]
    total: int


class SiteNodeObject(VerbAnswer, frozen=True):
    """A node of the site; memory is in MB."""

    name: str
    state: str  # the site's word
    partitions: list[str]
    processors: int
    used: int
    memory: int
    features: list[str]
    closed: bool  # it starts no jobs


class SiteNodesAnswer(VerbAnswer, frozen=True):
    """site_nodes."""

    site: SiteObject
    nodes: list[SiteNodeObject]


class SiteExplanation(VerbAnswer, frozen=True):
    """Why a job of ours waits at the site."""

    resource: str
    id: str  # there
    reason: str  # the site's code
    text: str  # in a sentence
    priority: int
    partitions: list[str]
    ahead: int  # jobs there that go first
    jobs_ahead: list[SiteJobObject]  # the first five
    site_start: float | None  # the start that the site expects
    polled: float
    judged: int  # predicted starts that were compared with what happened


class RefusalObject(VerbAnswer, frozen=True):
    """Why a job that was created could not be submitted."""

    code: str
    what: str
    fix: str


class NodeHolder(VerbAnswer, frozen=True):
    """A job that holds processors of a busy node."""

    job: int
    processors: int
    until: float | None  # the end of its time limit
    owner: str


class ReasonObject(VerbAnswer, frozen=True):
    """A reason for which a job waits.

    `kind` is priority, processors, node (one for each that does not fit), licences, limit (of its user or
    project), reservation, policy, alternative (one for each), never-fits, staging (its files are being
    copied, and it holds no processors), or hold, filter and dependency. With one of the last three the job
    is not considered; the other keys of the explanation describe the job as if it were released.
    """

    kind: str
    text: str  # in a sentence
    subject: str  # the node, licence, limit, job or alternative that it is about
    holders: list[NodeHolder] | UnsetType = UNSET  # of a busy node, up to 5
    more_holders: int | UnsetType = UNSET  # the number of the others


class JobAhead(VerbAnswer, frozen=True):
    """A job ahead in the queue."""

    job: int
    owner: str
    name: str
    priority: int
    priority_name: str
    minimum: int
    maximum: int
    unit: str
    run_time: float | None


class BlockingReservation(JobAhead, frozen=True):
    """The reservation of another job that is in the way."""

    at: float | None  # null: when jobs without a limit have ended
    nodes: list[ProcessorCount]


class ReservedStart(VerbAnswer, frozen=True):
    """The reservation of the job itself."""

    at: float | None
    nodes: list[ProcessorCount]


class HelpfulChange(VerbAnswer, frozen=True):
    """A change with which a job would start, confirmed by a plan of the policy itself."""

    text: str
    now: bool  # at once, on `nodes`
    at: float | None  # earlier than without the change
    nodes: list[ProcessorCount]
    options: dict[str, str]  # terms
    command: str  # makes the change; empty if the job must be submitted again with the options


class DeadlineObject(VerbAnswer, frozen=True):
    """The deadline of a job, and the seconds by which it would start too late; 0 or less means in time."""

    at: float
    last_start: float
    by_limits: float | None  # for the promised start
    expected: float | None  # for the median of the expected start
    at_worst: float | None  # for the ninth of ten


class WaitingTask(VerbAnswer, frozen=True):
    """A task of a running job that waits."""

    task: int
    name: str
    instance: int  # the first that waits
    waiting: int
    reasons: list[ReasonObject]


class Explanation(VerbAnswer, frozen=True):
    """Why a job waits, and when it may start. Keys that do not apply are null, empty or false."""

    job: int | None  # null: not submitted
    name: str
    state: str
    policy: str
    refused: RefusalObject | None  # a job that was created could not be submitted
    reasons: list[ReasonObject]  # all reasons
    ahead: int  # the number of jobs ahead of it
    jobs_ahead: list[JobAhead]  # the first five
    planned_start: float | None  # its latest start by time limits, if the plan has one
    would_start: list[ProcessorCount]  # it would start now, there
    reservation: ReservedStart | None  # its own
    blocked_by: BlockingReservation | None  # the reservation in its way
    changes: list[HelpfulChange]
    searched: bool  # changes were looked for
    incomplete: bool  # the search ended before it was complete: after one second of planning or 20 plans
    expected: ExpectedStartObject | None  # before submission only `promise`
    deadline: DeadlineObject | None
    tasks: list[WaitingTask]  # the first 20 waiting tasks of a running job
    dependencies: list[DependencyObject]  # if the job was created
    site: SiteExplanation | None  # why it waits at the site under the overlay


class PredictedJob(VerbAnswer, frozen=True):
    """What would become of a job."""

    job: JobObject
    explanation: Explanation


class CheckAnswer(VerbAnswer, frozen=True):
    """check_job."""

    report: FidelityReport
    job: JobObject | UnsetType = UNSET  # of one job
    explanation: Explanation | UnsetType = UNSET  # of one job
    jobs: list[PredictedJob] | UnsetType = UNSET  # of a file with several jobs, the first 20
    count: int | UnsetType = UNSET  # of a file with several jobs: how many


class SubmissionRefusal(VerbAnswer, frozen=True):
    """Why a submission was refused; the fields of an error."""

    code: str
    what: str
    fix: str
    exit_status: int
    error_class: str = msgspec.field(name="class")
    path: list[str | int]  # begins with `submissions` and the number of the submission, from 0


class SubmissionOutcome(VerbAnswer, frozen=True):
    """The jobs of a submission, or why there are none."""

    job: int | UnsetType = UNSET  # of a file with several jobs the last one
    jobs: list[int] | UnsetType = UNSET  # all, of a file with several jobs
    report: FidelityReport | UnsetType = UNSET  # if there is something to report
    refused: SubmissionRefusal | UnsetType = UNSET  # with `job`: its submission filters refused the job


class SubmitJobsAnswer(VerbAnswer, frozen=True):
    """submit_jobs."""

    submissions: list[SubmissionOutcome]  # in the order of the request
    jobs: list[int]  # all that were made
    owner: str | UnsetType = UNSET  # of jobs that are made for another user
    repeated: bool | UnsetType = UNSET  # true: an earlier request with this key made them


class ReplacedJob(VerbAnswer, frozen=True):
    """replace_job."""

    job: int
    changed: list[str]  # names of options
    report: FidelityReport  # what was not understood, or understood otherwise


class OutputAnswer(VerbAnswer, frozen=True):
    """task_output."""

    standard_output: str | None  # a path on `node`
    standard_error: str | None  # a path on `node`
    captured: bool  # output that the task did not redirect is in one file
    captured_path: str | None  # the path of that
    node: str | UnsetType = UNSET
    state: str | UnsetType = UNSET
    requesting_user: str | UnsetType = UNSET  # who asks
    remote: bool | UnsetType = UNSET  # the node is another machine
    removed: str | UnsetType = UNSET  # the output was removed: a sentence, or ""


class OutputBytesAnswer(VerbAnswer, frozen=True):
    """read_output."""

    data: bytes  # base64
    size: int
    missing: bool | UnsetType = UNSET  # the file does not exist


class InstanceCountsRequest(JobIdRequest, frozen=True):
    """instance_counts."""

    task: int
    parts: Annotated[int, Meta(ge=1, le=1000)] = 1000  # at most so many


class SweepPart(VerbAnswer, frozen=True):
    """Consecutive instances of a task, by state."""

    first: int
    last: int
    counts: InstanceCounts


class InstanceCountsAnswer(VerbAnswer, frozen=True):
    """instance_counts."""

    parts: list[SweepPart]  # of the same size, but the last one
    total: int  # instances


class EfficiencyRequest(VerbRequest, frozen=True):
    """job_efficiency.  All fields but `job` as for `jobs`."""

    job: int | None = None  # only this one
    owner: Name | None = None  # null: all; "": the requesting user
    states: Names = msgspec.field(default_factory=list)
    before: int | None = None  # an id
    limit: int = 100
    name: Name = ""  # a pattern with `*` and `?`; for a job without a name: for its command
    project: Name = ""
    since: UnixTime | None = None  # of creation
    until: UnixTime | None = None  # of creation


class SuggestedRequest(VerbAnswer, frozen=True):
    """A smaller request for the next such job; null: as before."""

    processors: int | None
    run_time: float | None  # seconds
    process_memory: int | None  # MB, for each processor


class EfficiencyObject(VerbAnswer, frozen=True):
    """What a job used of what it held and requested. Shares are 1 for all of it; null: not measured."""

    id: int
    owner: str
    name: str
    command: str  # of the first task, cut
    project: str
    state: str
    so_far: bool  # it has not ended: attempts that run are not counted
    exclusive: bool
    gpus: int  # that it held at least; their use is not measured
    processors: int  # the most that it held at once; 0: it never started on own nodes
    processor_time: float | None  # seconds that its tasks used
    held_time: float  # processor seconds that it held
    wall_time: float  # seconds of all its runs
    run_time: float  # seconds of its last run
    run_time_limit: float | None  # seconds; null without a limit
    peak_memory: int | None  # kB, of the task with the largest peak
    process_memory: int | None  # MB, requested for each processor
    task_processors: int | None  # of the task with the largest peak; null: not known
    processor_share: float | None  # of the processors that it held, how much it used
    memory_share: float | None  # of the memory that the task with the largest peak requested
    run_time_share: float | None  # of the limit, how much its last run took
    unused: float | None  # processor seconds that it held and did not use
    suggestion: SuggestedRequest | None
    no_suggestion: str  # why there is none; empty: there is one, or nothing smaller is worthwhile


class EfficiencyAnswer(VerbAnswer, frozen=True):
    """job_efficiency."""

    jobs: list[EfficiencyObject]  # newest id first
    more: int | None  # the id to pass as `before`; null: there are no more
