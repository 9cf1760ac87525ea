"""Requests and answers about jobs that most heads need late: submissions, tasks, output, signals, efficiency.

The page of the protocol is printed from it.  Times are seconds since 1970.
The comment of a field is what the page says of it.
"""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headnode.core.formats.fidelity import FidelityReport
from headnode.core.model.signals import SignalTarget
from headnode.core.model.value_checks import DEFAULT_HOLD
from headnode.protocol.answers import DetailedTask, HoldObject, InstanceCounts, TaskObject, VerbAnswer
from headnode.protocol.requests import JobIdRequest, Name, Names, Note, UnixTime, VerbRequest, Word


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
    node_memory: int | None  # MB, requested on each node beside that
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


class TaskUsageNow(VerbAnswer, frozen=True):
    """What a running instance uses now on a node, or what it launched there."""

    task: int
    instance: int | None  # null for a basic task
    node: str
    processors: int  # that it holds there
    run_time: float | None  # seconds since its start; null: not known
    user_time: float  # seconds of its processes
    system_time: float  # seconds of its processes
    memory: int  # kB, resident; pages that processes share count for each
    peak_memory: int  # kB
    requested_memory: int | None  # kB, for its processors there
    processes: int


class JobUsageAnswer(VerbAnswer, frozen=True):
    """job_usage."""

    job: int
    tasks: list[TaskUsageNow]  # by task, instance and node
    silent: list[str]  # nodes that did not answer


class TasksAnswer(VerbAnswer, frozen=True):
    """tasks."""

    tasks: list[TaskObject]  # 2,000 at most, with command lines of up to 4,096 characters
    more: int | None  # the number to pass as `after`; null: there are no more


class TaskAnswer(VerbAnswer, frozen=True):
    """task."""

    task: DetailedTask


class TaskStateAnswer(VerbAnswer, frozen=True):
    """cancel_task, finish_task, requeue_task, hold_task, release_task."""

    state: str


class ModifiedTask(VerbAnswer, frozen=True):
    """modify_task."""

    job: int
    task: int
    changed: list[str]  # the fields that differ now


class SignalJobRequest(JobIdRequest, frozen=True, kw_only=True):
    """signal_job."""

    signal: Word  # a name or a number: USR1, 10
    target: SignalTarget = "all"  # which processes; program: the first of a task; steps: of `srun`
    task: int | None = None  # its running instances; null: all tasks
    instance: int | None = None  # this one


class SignalJobAnswer(VerbAnswer, frozen=True):
    """signal_job."""

    job: int
    signal: str  # its name
    processes: int  # to which it was sent; at a resource: jobs there
    nodes: list[str]  # on which it was sent; at a resource: its place, such as @physics
    silent: list[str]  # nodes that did not answer: it may have arrived there


class EndAllocationRequest(JobIdRequest, frozen=True, kw_only=True):
    """end_allocation."""

    exit_code: Annotated[int, Meta(ge=0, le=255)]  # of its command; 128 and more: the signal that ended it


class HoldJobRequest(JobIdRequest, frozen=True):
    """hold_job.  `name` is that of the hold."""

    name: Name = DEFAULT_HOLD  # of the hold
    message: Note = ""
    requeue: bool = False  # a running job is stopped and goes back to the queue


class ReleaseJobRequest(JobIdRequest, frozen=True):
    """release_job.  With `all` every hold, else that of the name."""

    name: Name = DEFAULT_HOLD  # of the hold
    all: bool = False  # every hold


class HoldsAnswer(VerbAnswer, frozen=True):
    """hold_job, release_job."""

    job: int
    holds: list[HoldObject]  # all holds that the job has now
