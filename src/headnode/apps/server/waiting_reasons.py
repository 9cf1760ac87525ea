"""Why a job waits for filters, files or because of preemption, and how far the files of a task are."""

from collections.abc import Mapping
from math import log
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from headnode.adapters.wire.agent_messages import AttemptTransfers
from headnode.core.model.job import JobRequest, JobSpec
from headnode.core.model.owner_limits import is_limit, is_spent, limit_owner
from headnode.core.model.quantities import Instant, JobId, instant_text
from headnode.core.model.task import TaskSpec, program_url
from headnode.core.scheduling.plan import Plan, Reason, Why
from headnode.core.scheduling.view import QueueArrival, View
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_record import JobHold, JobRecord, TaskProgress
from headnode.core.state.job_request import request_to_resume, suspension_of
from headnode.core.state.templates import submission_filters
from headnode.core.state.transitions import JobState
from headnode.engine.activation_offer import ActivationOffer, OfferStage
from headnode.engine.activation_pending import PendingOffers
from headnode.protocol.answers import TaskObject

MAX_HOSTS = 3  # of which files come that are told one by one
MAX_FILES_LOOKED_AT = 100  # for the hosts of a task
MAX_ARRIVALS = 100  # jobs whose files come that are in a prediction
MAX_RESERVED_TOLD = 5  # jobs for which something is kept that are told one by one


class TransfersAt(Protocol):
    """A place, such as a node, that knows how far the files of its attempts are."""

    @property
    def transfers(self) -> Mapping[tuple[JobId, int, int], AttemptTransfers]:
        """How far they are, by job, task and instance."""
        ...


def filter_reasons(cluster: ClusterState, offers: PendingOffers, record: JobRecord) -> list[Reason]:
    """Return what filters have to do with it that a job waits; nothing without filters."""
    if record.state is JobState.VALIDATING:
        names = [each.name for each in submission_filters(cluster, cluster.written(record))]
        filters = ", ".join(map(repr, names)) or "its submission filters"
        what = f"it waits for the answer of the submission filters {filters}"
        return [Reason(Why.FILTER, what, names[0] if names else "")]
    if record.state is not JobState.QUEUED or not offers.chains.rules:
        return []
    if offers.chains.of(cluster, record):
        answer = _filter_answer(record)
        return answer or _filters_running(cluster, offers, record) or _behind_blocker(cluster, offers, record)
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
    kept.sort(key=lambda each: offers.order.key(each[0]))
    sentences = [_reserved_for(record, offer) for record, offer in kept[:MAX_RESERVED_TOLD]]
    if len(kept) > MAX_RESERVED_TOLD:
        sentences.append(
            Reason(Why.PROCESSORS, f"processors are kept for {len(kept) - MAX_RESERVED_TOLD} more jobs")
        )
    return sentences


def _reserved_for(record: JobRecord, offer: ActivationOffer) -> Reason:
    count = sum(number for _, number in offer.giving.shares)
    what = "1 processor is" if count == 1 else f"{count} processors are"
    name = (
        "its filter"
        if record.filter_reply is None
        else f"the activation filter {record.filter_reply.filter!r}"
    )
    text = f"{what} kept for job {record.id} until {name} accepts it"
    return Reason(Why.PROCESSORS, text, str(record.id))


def why_unpredictable(cluster: ClusterState, offers: PendingOffers, record: JobRecord) -> str:
    """Return why a filter makes the start of a queued job unpredictable; empty if none does."""
    if record.state is not JobState.QUEUED or not offers.chains.rules:
        return ""
    if record.filter_reply is not None and offers.chains.of(cluster, record):
        return f"the activation filter {record.filter_reply.filter!r} keeps it waiting"
    behind = _behind_blocker(cluster, offers, record)
    return f"job {behind[0].what} blocks the queue ahead of it" if behind else ""


def _filter_answer(record: JobRecord) -> list[Reason]:
    word = record.filter_reply
    return [] if word is None else [Reason(Why.FILTER, word.message, word.filter)]


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
    blocker = offers.blocker_of(cluster, record)
    if blocker is None:
        return []
    word = blocker.filter_reply
    message = "" if word is None else f": {word.message}"
    return [Reason(Why.FILTER, f"job {blocker.id} blocks the queue{message}", str(blocker.id))]


def hold_reasons(record: JobRecord) -> list[Reason]:
    """Return the holds of a job, with who set each, when and why, and what its instances wait for."""
    reasons = [Reason(Why.HOLD, _hold_in_words(hold), hold.name) for hold in record.holds]
    for index, progress in enumerate(record.run.tasks if record.run is not None else ()):
        reasons += instance_reasons(record, index, progress)
    return reasons


def _hold_in_words(hold: JobHold) -> str:
    at = instant_text(hold.at)
    by = f" by {hold.by}" if hold.by else ""
    why = f": {hold.message}" if hold.message else ""
    return f"it has the hold {hold.name!r}, set{by} at {at}{why}"


def preemption_reasons(plan: Plan | None, record: JobRecord) -> list[Reason]:
    """Return the jobs preempted for this job, or the job it is preempted for; `plan` is the latest plan."""
    if record.state.is_queued:
        claims = [] if plan is None else [claim.why for claim in plan.claims if claim.job == record.id]
        return claims + _gave_way(record)
    return _being_preempted(record)


def _gave_way(record: JobRecord) -> list[Reason]:
    if record.run is None or not record.run.preempted_by:
        return []
    other = record.run.preempted_by
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
    text = f"it releases {left} processor{'s' if left > 1 else ''} for {jobs} as its tasks end"
    if sum(map(len, run.allocation.values())) == left:
        text = f"it releases all its processors for {jobs} as its tasks end and will be requeued"
    return [Reason(Why.PREEMPTION, text, str(run.recalled_for[0]))]


def staging_reason(
    links: Mapping[str, TransfersAt], record: JobRecord, spec: JobSpec, now: Instant
) -> Reason:
    """Return how many files a job waits for, at which rate they come, and whether it holds processors."""
    from headnode.apps.readable_values import duration  # imported with the first such job

    transfers = _transfers_in(links, record)
    known = [each for _, each in transfers if each is not None]
    hosts = {host for task, _ in transfers for host in source_hosts(spec, spec.tasks[task - 1])}
    files, of_files = sum(each.files for each in known), sum(each.of_files for each in known)
    size = sum(each.size for each in known)
    silent = len(known) < len(transfers) or not all(each.of_size for each in known)
    of_size = 0 if silent else sum(each.of_size for each in known)
    missing = f"{of_files - files} of {of_files} input files" if of_files else "its input files"
    named = sorted(hosts)
    sources = ", ".join(named[:MAX_HOSTS]) + (" and others" if len(named) > MAX_HOSTS else "")
    text = f"it waits for {missing}" + (f" from {sources}" if sources else "")
    copied = f"{size / 1e6:.1f} of {of_size / 1e6:.1f} MB" if of_size else f"{size / 1e6:.1f} MB"
    took = now - min((each.at for each in known), default=now)
    rate = f" at {_rate_words(size / took)}" if size > 0 and took > 0 else ""
    whole = files_arrive(links, record, now).whole
    soon = f", the rest in about {duration(max(1.0, round(whole - now)))}{rate}" if whole is not None else ""
    held = sum(map(len, record.run.allocation.values())) if record.run is not None else 0
    holds = f"It holds {held} processor{'s' if held > 1 else ''}" if held else "It holds no processors"
    return Reason(Why.STAGING, f"{text}; {copied} are copied{soon or rate}. {holds}")


def _rate_words(rate: float) -> str:
    """Return bytes per second in words.

    >>> _rate_words(12_345_678), _rate_words(1_234)
    ('12.3 MB/s', '1.2 kB/s')
    """
    return f"{rate / 1e6:.1f} MB/s" if rate >= 1e6 else f"{rate / 1e3:.1f} kB/s"


def with_decay_time(cluster: ClusterState, request: JobRequest, reason: Reason, view: View) -> Reason:
    """Return the reason; of a limit of minutes with when there is enough."""
    if reason.why is not Why.LIMIT or not is_spent(reason.what):
        return reason
    from headnode.apps.readable_values import duration  # few clusters have such limits
    from headnode.engine.usage_decay import enough_at

    at = enough_at(cluster, request, reason.what, view)
    decays = limit_owner(reason.what).amount.counts_usage
    halves = f"usage halves every {duration(cluster.usage.decay_time * log(2))}" if decays else "it decreases"
    if at is None:
        return replace(reason, text=f"{reason.text}; {halves}, but running jobs must end first")
    when = instant_text(at)
    return replace(reason, text=f"{reason.text}; {halves}, and leaves enough at {when} at the latest")


def kind_of_wait(reason: Reason | None) -> dict[str, Any]:
    """Return the kind of the reason for which a job waits, as lists show it, and the key of the limit."""
    if reason is None:
        return {"pending_kind": ""}
    kind = {"pending_kind": reason.why.value}
    above = reason.why is Why.NEVER_FITS and is_limit(reason.what)
    return kind | {"pending_limit": reason.what} if above or reason.why is Why.LIMIT else kind


def awaits_files(record: JobRecord) -> bool:
    """Whether nothing of a job goes on but transfers to its nodes, whether or not it holds processors."""
    run = record.run
    if run is None or not run.stages or run.end is not None:
        return False
    if record.state is JobState.SUSPENDED:
        return run.suspension is not None and run.suspension.staging
    lives = [live for progress in run.tasks for live in progress.live.values()]
    return record.state is JobState.RUNNING and bool(lives) and all(live.staging == "in" for live in lives)


def waits_for_files(record: JobRecord) -> bool:
    """Return True if a job was suspended by the system, or is not handed over, until files are copied."""
    run = record.run
    if run is None:
        return False
    if record.state is JobState.HANDED:
        lives = [live for progress in run.tasks for live in progress.live.values()]
        return bool(lives) and all(live.staging == "in" for live in lives)
    return record.state is JobState.SUSPENDED and run.suspension is not None and run.suspension.staging


class FilesArrive(NamedTuple):
    """When the input files of a job are there at the rate so far.  None: that is not known.

    `first`: those of one of its tasks, with which the job goes on; `whole`: all of them.
    """

    first: Instant | None
    whole: Instant | None


def files_arrive(links: Mapping[str, TransfersAt], record: JobRecord, now: Instant) -> FilesArrive:
    """Return when the files will be there for which a job waits."""
    ends = [
        None if transfers is None else _arrival(transfers, now)
        for _, transfers in _transfers_in(links, record)
    ]
    known = [end for end in ends if end is not None]
    return FilesArrive(min(known, default=None), max(known) if known and len(known) == len(ends) else None)


def _arrival(transfers: AttemptTransfers, now: Instant) -> Instant | None:
    """Return when the files of an attempt are there, at the rate of those that have come.

    >>> _arrival(AttemptTransfers(1, 1, 1, "in", 100.0, 0, 1, 1_000_000, 4_000_000), 120.0)
    180.0
    >>> _arrival(AttemptTransfers(1, 1, 1, "in", 100.0, 0, 1, 0, 4_000_000), 120.0) is None
    True
    """
    if transfers.size <= 0 or transfers.of_size < transfers.size or now <= transfers.at:
        return None
    return Instant(now + (now - transfers.at) * (transfers.of_size - transfers.size) / transfers.size)


def arrivals(links: Mapping[str, TransfersAt], cluster: ClusterState, now: Instant) -> list[QueueArrival]:
    """Return the jobs that have released their processors until files are there, and when that will be."""
    instants = []
    for job in sorted(cluster.detached)[:MAX_ARRIVALS]:
        record = cluster.jobs[job]
        at = files_arrive(links, record, now).first if awaits_files(record) else None
        if at is not None:
            request = request_to_resume(cluster.spec(record), suspension_of(record.run))
            instants.append(QueueArrival(at, record.turn, cluster.admit_request(record, request)))
    return instants


def source_hosts(spec: JobSpec, task: TaskSpec) -> set[str]:
    """Return the hosts from which the first files of a task come; the node itself is none."""
    from headnode.core.model.staging import StorageBase, host_of

    base = StorageBase(task.storage_base or spec.storage_base)
    files = [base.resolve(one.url) for one in task.stage_in[:MAX_FILES_LOOKED_AT]]
    return {host_of(url) for url in (program_url(task.command), *files)} - {""}


def _transfers_in(
    links: Mapping[str, TransfersAt], record: JobRecord
) -> list[tuple[int, AttemptTransfers | None]]:
    """Return the task of each attempt whose files come, and how far they are if its node has said so."""
    found: list[tuple[int, AttemptTransfers | None]] = []
    for number, progress in enumerate(record.run.tasks if record.run is not None else (), 1):
        for instance, live in progress.live.items():
            if live.staging == "in":
                link = links.get(live.placement[0][0])
                transfers = link.transfers.get((record.id, number, instance)) if link is not None else None
                current = transfers is not None and transfers.attempt == live.attempt
                found.append((number, transfers if current else None))
    return found


def with_transfers(links: Mapping[str, TransfersAt], record: JobRecord, task: TaskObject) -> TaskObject:
    """Return a task or instance with how far the transfers of its files are, if they go on."""
    if record.run is None or not record.run.stages:
        return task
    instance = task.instance or 1
    live = record.run.tasks[task.task - 1].live.get(instance)
    link = links.get(live.placement[0][0]) if live is not None and live.staging else None
    transfers = link.transfers.get((record.id, task.task, instance)) if link is not None else None
    if live is None or transfers is None or transfers.attempt != live.attempt or live.message:
        return task
    return replace(task, message=transfer_words(transfers))


def transfer_words(transfers: AttemptTransfers) -> str:
    """Return in one sentence how far the transfers of an attempt are.

    >>> transfer_words(AttemptTransfers(1, 1, 1, "in", 0.0, 2, 5, 3_000_000, 0, "example.org"))
    '2 of 5 input files are copied, 3.0 MB; it waits for example.org'
    """
    if transfers.direction == "ready":
        return (
            f"{transfers.files} of {transfers.of_files} input files are copied; it waits for its processors"
        )
    which = "input" if transfers.direction == "in" else "output"
    size = f"{transfers.size / 1e6:.1f} MB" + (
        f" of {transfers.of_size / 1e6:.1f} MB" if transfers.of_size else ""
    )
    waits = f"; it waits for {transfers.waits_for}" if transfers.waits_for else ""
    return f"{transfers.files} of {transfers.of_files} {which} files are copied, {size}{waits}"


def instance_reasons(record: JobRecord, index: int, progress: TaskProgress) -> list[Reason]:
    """Return for which instances of other jobs those of a task wait, and which are held."""
    waits, task = progress.waits, f"{record.id}.{index + 1}"
    if waits is None:
        return []
    reasons = []
    for parent, waiting in waits.awaiting.items():
        more = f", like {len(waiting) - 1:,} others" if len(waiting) > 1 else ""
        text = (
            f"{task}.{waiting.firsts[0]} waits for the instance of its number in job {parent} to finish{more}"
        )
        reasons.append(Reason(Why.DEPENDENCY, text, str(parent)))
    if waits.held:
        first, more = (
            waits.held.firsts[0],
            f", and {len(waits.held) - 1:,} others" if len(waits.held) > 1 else "",
        )
        text = f"{task}.{first} is held{more}; release it: hn task release {task}.{first}"
        reasons.append(Reason(Why.HOLD, text, f"{task}.{first}"))
    return reasons
