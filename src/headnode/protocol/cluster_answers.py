"""What the verbs about the cluster, its queue and metrics, filters and templates answer.

The page of the protocol is printed from it.  Times are seconds since 1970.
The comment of a field is what the page says of it.
"""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from headnode.core.formats.fidelity import FidelityReport
from headnode.protocol.answers import ListedJob, ProcessorCount, VerbAnswer
from headnode.protocol.requests import VerbRequest
from headnode.protocol.user_answers import RequestingUser

# ---------------------------------------------------------------- the cluster


class PingAnswer(VerbAnswer, frozen=True):
    """ping."""

    version: str
    cluster: str
    pid: int
    state_directory: str


class DefaultsAnswer(VerbAnswer, frozen=True):
    """submission_defaults: what a job takes from the shell of its submitter by default."""

    work_directory: str  # `Current` or `Home`
    environment: str  # names between commas, `all`, or ""


class PlugInProblem(VerbAnswer, frozen=True):
    """A plug-in, and what is wrong with it."""

    name: str
    problem: str  # or ""


class NoticeCounts(VerbAnswer, frozen=True):
    """Notices that wait to be sent."""

    waiting: int
    problem: str  # why the last one was not sent, or ""


class JournalSize(VerbAnswer, frozen=True):
    """The journal."""

    events: int
    bytes: int
    damage: list[str]  # damaged rows, in sentences
    problem: str = ""  # why nothing can be recorded, so that no job starts or ends; ""


class ProcessorTotals(VerbAnswer, frozen=True):
    """Processors of all nodes."""

    total: int
    ready: int  # of ready nodes
    free: int  # of these
    used: int


class NextReservation(VerbAnswer, frozen=True):
    """The reservation that began first, or will."""

    name: str
    start: float
    end: float
    nodes: int  # their number


class ClusterCounts(VerbAnswer, frozen=True):
    """Counts over all nodes."""

    nodes: dict[str, int]  # by state
    processors: ProcessorTotals
    tasks_running: int
    next_reservation: NextReservation | None


class ClusterObject(VerbAnswer, frozen=True):
    """The cluster."""

    name: str
    version: str
    started: float
    jobs: dict[str, int]  # by state
    policy: str
    mode: str  # `Queued` or `Balanced`
    policy_problem: str  # what is wrong with the policy, or ""
    plug_ins: list[PlugInProblem]
    notices: NoticeCounts
    licence_problem: str  # why the output of the licence program is not used, or ""
    requesting_user: RequestingUser
    state_directory: str
    journal: JournalSize
    nodes: dict[str, int]  # by state
    processors: ProcessorTotals
    tasks_running: int
    next_reservation: NextReservation | None
    failed_parts: dict[str, str] = msgspec.field(default_factory=dict)  # by name, and what happened
    standbys: dict[str, str] = msgspec.field(default_factory=dict)  # by name: `in step`, or how far behind


class ClusterAnswer(VerbAnswer, frozen=True):
    """cluster."""

    cluster: ClusterObject


class ParameterObject(VerbAnswer, frozen=True):
    """A cluster parameter."""

    name: str
    value: str
    default: str
    unit: str
    doc: str
    choices: list[str]


class ParametersAnswer(VerbAnswer, frozen=True):
    """parameters, set_parameters."""

    parameters: list[ParameterObject]
    notes: tuple[str, ...] = ()  # of set_parameters: unknown users and groups in the new values


class ParameterChange(VerbAnswer, frozen=True, rename={"origin": "from"}):
    """A change of a cluster parameter; null for `value` or `before`: the default."""

    at: float
    name: str
    before: str | None
    value: str | None
    by: str | None  # null if the requesting user is not an administrator
    origin: str | None  # null if the requesting user is not an administrator
    unit: str = ""  # of both values


class ParameterHistoryAnswer(VerbAnswer, frozen=True):
    """parameter_history."""

    changes: list[ParameterChange]  # oldest first, the newest `limit`


class BackupAnswer(VerbAnswer, frozen=True):
    """backup."""

    journal: str  # a copy of the journal in the state directory, which the client must remove
    cluster: str
    done: bool


class UnendedJob(VerbAnswer, frozen=True):
    """A job that was canceled, and has not ended yet."""

    id: int
    places: list[str]  # nodes, or `@` and the name of a resource


class DownAnswer(VerbAnswer, frozen=True):
    """stop_head."""

    running_tasks: int  # then the head ends
    unended_jobs: list[UnendedJob]  # with `cancel_jobs`; they end when their nodes or resources answer


class PastJobObject(VerbAnswer, frozen=True):
    """A job that has ended."""

    id: int
    owner: str
    name: str
    project: str
    state: str
    submitted: float
    started: float | None  # null: it never started
    ended: float
    processors: int  # held, on average, rounded up
    minimum: int
    maximum: int
    unit: str
    run_time: float | None
    priority: int
    exclusive: bool
    memory: int | None  # MB for each process
    parents: list[int]
    requeues: int


class PastJobsAnswer(VerbAnswer, frozen=True):
    """ended_jobs.  The last seven only without field `after`."""

    jobs: list[PastJobObject]  # in the order of their ids
    more: int | None  # the id to pass as `after`; null: there are no more
    cluster: str | UnsetType = UNSET
    version: str | UnsetType = UNSET
    processors: int | UnsetType = UNSET
    nodes: int | UnsetType = UNSET
    ended: int | UnsetType = UNSET  # how many jobs have ended
    queued: int | UnsetType = UNSET  # how many jobs are queued
    running: int | UnsetType = UNSET  # how many jobs are running


class ScoreObject(VerbAnswer, frozen=True):
    """How good predictions were.  Null if there are no such jobs."""

    jobs: int
    p50_held: float | None  # the part of jobs, 0 to 1
    p50_error: float | None  # seconds: the median of the distance to the start
    p90_held: float | None  # the part of jobs, 0 to 1
    spread: float | None  # seconds: the mean from P50 to P90
    promised: int  # the number of jobs with a promise
    promise_held: float | None  # the part of jobs, 0 to 1
    promise_error: float | None  # seconds


class ScoresOfPredictions(VerbAnswer, frozen=True, rename={"everything": "all"}):
    """Scores of predictions, of the jobs that had to wait and started since an instant."""

    everything: ScoreObject
    by_predicted_wait: dict[str, ScoreObject]
    by_policy: dict[str, ScoreObject]


class PredictionsAnswer(VerbAnswer, frozen=True, rename={"everything": "all"}):
    """predictions: of the jobs that had to wait and started since then."""

    since: float | None
    policy: str  # the current one
    everything: ScoreObject
    by_predicted_wait: dict[str, ScoreObject]
    by_policy: dict[str, ScoreObject]


# ---------------------------------------------------------------- filters and templates


class RefundAnswer(VerbAnswer, frozen=True):
    """refund_job."""

    job: int
    amount: float  # of its charges, in the unit of the bank, which is asked to refund them


class RemovedAnswer(VerbAnswer, frozen=True):
    """remove_node, remove_template, remove_resource."""

    removed: str


class FilterObject(VerbAnswer, frozen=True):
    """A registered filter."""

    name: str
    kind: str  # submission or activation
    program: list[str]
    plug_in: str
    dialect: str
    rules: str
    revert: bool
    template: str


class FiltersAnswer(VerbAnswer, frozen=True):
    """filters."""

    filters: list[FilterObject]  # in calling order
    plug_ins: list[str]  # names of the installed ones


class FilterChange(VerbAnswer, frozen=True):
    """A field of the job that a filter changed."""

    name: str
    before: str
    after: str


class FilterTrial(VerbAnswer, frozen=True):
    """test_filter."""

    filter: str
    kind: str
    result: str
    exit_code: int | None
    message: str
    text: str
    seconds: float
    outcome: str
    reverted: bool
    changes: list[FilterChange]


class TemplateObject(VerbAnswer, frozen=True):
    """A job template."""

    name: str
    description: str
    users: list[str]
    groups: list[str]
    submission_filters: str
    activation_filters: str
    rules: dict[str, Any]


class TemplatesAnswer(VerbAnswer, frozen=True):
    """templates."""

    templates: list[TemplateObject]  # Default is always among them


class TemplateAnswer(VerbAnswer, frozen=True):
    """template."""

    template: TemplateObject
    text: str  # its file
    report: FidelityReport


class StoredTemplate(VerbAnswer, frozen=True):
    """set_template."""

    template: TemplateObject
    report: FidelityReport


class HistogramObject(VerbAnswer, frozen=True):
    """Durations in seconds: `counts` of those up to each bound, the last of longer ones."""

    bounds: list[float]
    counts: list[int]
    total: float


class CoverageObject(VerbAnswer, frozen=True):
    """The parts of the newest judged predictions that held; null where there are none."""

    jobs: int  # that were judged
    p50: float | None
    p90: float | None
    promise: float | None


class MetricsAnswer(VerbAnswer, frozen=True):
    """metrics."""

    cluster: str
    version: str
    policy: str
    started: float
    jobs: dict[str, int]  # by state; of jobs that are over, all in the archive
    nodes: dict[str, int]  # by state
    processors: ProcessorTotals
    tasks_running: int
    jobs_submitted: int
    jobs_started: int
    jobs_backfilled: int  # of those that started
    jobs_ended: dict[str, int]  # by outcome
    tasks_ended: dict[str, int]  # by outcome; queued: it ran again
    waits: dict[str, HistogramObject]  # by job template: from submission to start
    runs: dict[str, HistogramObject]  # by job template: from start to end
    passes: HistogramObject  # of the scheduler
    commits: HistogramObject  # of the journal
    event_number: int  # of the newest event
    agents_connected: int
    notices_waiting: int
    coverage: CoverageObject  # of predicted starts
    failed_parts: int = 0  # parts of the head that failed, and begin again
    standbys_behind: dict[str, int] = msgspec.field(default_factory=dict)  # events, by standby head
    standby_waits: dict[str, HistogramObject] = msgspec.field(default_factory=dict)  # of writes, by standby
    recurring_jobs: dict[str, int] = msgspec.field(default_factory=dict)  # active and suspended ones
    recurring_jobs_refused: int = 0  # recurring jobs whose newest time made no job, because it was refused


class QueueRequest(VerbRequest, frozen=True):
    """queue."""

    limit: int = 100  # jobs, at most 1,000


class QueuedJob(ListedJob, frozen=True, kw_only=True):
    """A job in the queue."""

    position: int  # 1 for the first
    places: list[ProcessorCount]  # the processors that the plan reserves for it; empty: none yet


class QueueAnswer(VerbAnswer, frozen=True):
    """queue."""

    jobs: list[QueuedJob]  # in the order of the queue
    waiting: int  # all jobs in the queue
    held: int  # queued jobs that are held, or wait for others: they have no place in the queue
