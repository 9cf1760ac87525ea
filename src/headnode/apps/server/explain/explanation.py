"""An explanation as clients get it, and why a job waits for filters or because of preemption."""

from msgspec import UNSET, UnsetType

from headnode.apps.server.api.answers import DependencyObject, ExpectedStartObject, JobObject, VerbAnswer
from headnode.core.formats.fidelity import FidelityReport
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.plan import Plan, Reason, Why
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_record import JobRecord
from headnode.core.state.templates import submission_filters
from headnode.core.state.transitions import JobState
from headnode.engine.activation_offer import ActivationOffer, OfferStage
from headnode.engine.activation_pending import PendingOffers


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

    `why` is priority, processors, node (one for every node that does not fit), licences, reservation, policy,
    alternative (one for each), never-fits, or hold, filter and dependency. With one of the last three the job
    is not considered; the other keys of the explanation describe the job as if it were released.
    """

    why: str
    text: str  # in a sentence
    what: str  # the node, licence, job or alternative that it is about
    holders: list[NodeHolder] | UnsetType = UNSET  # of a busy node, up to 5
    more_holders: int | UnsetType = UNSET  # the number of the others


class ProcessorCount(VerbAnswer, frozen=True):
    """How many processors of a node."""

    node: str
    processors: int


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
    not_before: float | None  # its latest start by time limits, if the plan has one
    would_start: list[ProcessorCount]  # it would start now, there
    reservation: ReservedStart | None  # its own
    behind: BlockingReservation | None  # the reservation in its way
    changes: list[HelpfulChange]
    searched: bool  # changes were looked for
    cut: bool  # the search ended before it was complete: after one second of planning or 20 plans
    expected: ExpectedStartObject | None  # before submission only `promise`
    deadline: DeadlineObject | None
    tasks: list[WaitingTask]  # the first 20 waiting tasks of a running job
    dependencies: list[DependencyObject]  # if the job was created


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


MOST_RESERVED_TOLD = 5  # jobs for which something is kept that are told one by one


def filter_reasons(cluster: ClusterState, offers: PendingOffers, record: JobRecord) -> list[Reason]:
    """Return what filters have to do with it that a job waits; nothing without filters."""
    if record.state is JobState.VALIDATING:
        names = [each.name for each in submission_filters(cluster, cluster.written(record))]
        told = ", ".join(map(repr, names)) or "its submission filters"
        what = f"it waits for the answer of the submission filters {told}"
        return [Reason(Why.FILTER, what, names[0] if names else "")]
    if record.state is not JobState.QUEUED or not offers.chains.rules:
        return []
    if offers.chains.of(cluster, record):
        said = _filter_answer(record)
        return said or _filters_running(cluster, offers, record) or _behind_blocker(cluster, offers, record)
    return _behind_blocker(cluster, offers, record)


def reserved_for_others(cluster: ClusterState, offers: PendingOffers, job: JobId) -> list[Reason]:
    """Return what is kept for other jobs that filters do not let start yet, the first of the queue first."""
    kept = [
        (cluster.jobs[offer.job], offer)
        for offer in offers.of.values()
        if offer.job != job
        and offer.firm
        and offer.stage is not OfferStage.CLEARED
        and offer.job in cluster.jobs
    ]
    kept.sort(key=lambda each: cluster.turn(each[0]))
    told = [_reserved_for(record, offer) for record, offer in kept[:MOST_RESERVED_TOLD]]
    if len(kept) > MOST_RESERVED_TOLD:
        told.append(
            Reason(Why.PROCESSORS, f"processors are kept for {len(kept) - MOST_RESERVED_TOLD} more jobs")
        )
    return told


def _reserved_for(record: JobRecord, offer: ActivationOffer) -> Reason:
    count = sum(number for _, number in offer.giving.shares)
    what = "1 processor is" if count == 1 else f"{count} processors are"
    name = "its filter" if record.filtered is None else f"the activation filter {record.filtered.filter!r}"
    text = f"{what} kept for job {record.id} until {name} accepts it"
    return Reason(Why.PROCESSORS, text, str(record.id))


def why_unpredictable(cluster: ClusterState, offers: PendingOffers, record: JobRecord) -> str:
    """Return why a filter makes the start of a queued job unpredictable; empty if none does."""
    if record.state is not JobState.QUEUED or not offers.chains.rules:
        return ""
    if record.filtered is not None and offers.chains.of(cluster, record):
        return f"the activation filter {record.filtered.filter!r} keeps it waiting"
    behind = _behind_blocker(cluster, offers, record)
    return f"job {behind[0].what} blocks the queue before it" if behind else ""


def _filter_answer(record: JobRecord) -> list[Reason]:
    word = record.filtered
    return [] if word is None else [Reason(Why.FILTER, word.words, word.filter)]


def _filters_running(cluster: ClusterState, offers: PendingOffers, record: JobRecord) -> list[Reason]:
    """Return the reason that the activation filters have not answered yet."""
    chain = offers.chains.of(cluster, record)
    names = ", ".join(repr(each.name) for each in chain)
    offer = offers.of.get(record.id)
    if offer is not None and offer.stage is OfferStage.ASKED:
        what = f"it is offered {offer.units} units; the activation filters {names} have not answered yet"
        return [Reason(Why.FILTER, what, chain[0].name)]
    if record.id in offers.aside or record.id in offers.crowded:
        what = f"the activation filters {names} are busy with other jobs"
        return [Reason(Why.FILTER, what, chain[0].name)]
    return []


def _behind_blocker(cluster: ClusterState, offers: PendingOffers, record: JobRecord) -> list[Reason]:
    """Return the job that a filter lets block the queue, if this job is behind it."""
    blocker = offers.blocker(cluster)
    if blocker is None or blocker.id == record.id or record.priority > blocker.priority:
        return []
    word = blocker.filtered
    said = "" if word is None else f": {word.words}"
    return [Reason(Why.FILTER, f"job {blocker.id} blocks the queue{said}", str(blocker.id))]


def preemption_reasons(plan: Plan | None, record: JobRecord) -> list[Reason]:
    """Return the jobs preempted for this job, or the job it is preempted for; `plan` is the latest plan."""
    if record.state.is_queued:
        claims = [] if plan is None else [claim.why for claim in plan.claims if claim.job == record.id]
        return claims + _gave_way(record)
    return _being_preempted(record)


def _gave_way(record: JobRecord) -> list[Reason]:
    if record.run is None or not record.run.gave_way_to:
        return []
    other = record.run.gave_way_to
    return [Reason(Why.PREEMPTION, f"it was preempted by job {other} and is queued again", str(other))]


def _being_preempted(record: JobRecord) -> list[Reason]:
    run = record.run
    if run is None:
        return []
    if record.state is JobState.ENDING and run.end is not None and run.end.preempted_by:
        other = run.end.preempted_by
        text = f"it is being preempted by job {other} and will be requeued"
        return [Reason(Why.PREEMPTION, text, str(other))]
    if not run.recalled or not run.recalled_for:
        return []
    names = ", ".join(map(str, run.recalled_for))
    jobs = f"job{'s' if len(run.recalled_for) > 1 else ''} {names}"
    left = sum(run.recalled.values())
    text = f"it gives up {left} processor{'s' if left > 1 else ''} for {jobs} as its tasks end"
    if sum(map(len, run.allocation.values())) == left:
        text = f"it gives up all its processors for {jobs} as its tasks end and will be requeued"
    return [Reason(Why.PREEMPTION, text, str(run.recalled_for[0]))]
