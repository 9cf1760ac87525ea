"""The answer to why a job waits, when it will start and what would let it.

Times are seconds since 1970.  The comment of a field is what the page of the protocol says of it.
"""

from msgspec import UNSET, UnsetType

from headnode.core.formats.fidelity import FidelityReport
from headnode.protocol.answers import (
    DependencyObject,
    ExpectedStartObject,
    JobObject,
    ProcessorCount,
    VerbAnswer,
)
from headnode.protocol.resource_answers import SiteExplanation
from headnode.protocol.user_answers import PriorityScore


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


class WaitingTask(VerbAnswer, frozen=True):
    """A task of a running job that waits."""

    task: int
    name: str
    instance: int  # the first that waits
    waiting: int
    reasons: list[ReasonObject]


class DeadlineObject(VerbAnswer, frozen=True):
    """The deadline of a job, and the seconds by which it would start too late; 0 or less means in time."""

    at: float
    last_start: float
    by_limits: float | None  # for the promised start
    expected: float | None  # for the median of the expected start
    at_worst: float | None  # for the ninth of ten


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
    score: PriorityScore | None  # within its priority, where parameters weight factors
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
