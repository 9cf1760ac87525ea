"""Why a job waits for filters, in words that name them."""

from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.filters import submission_filters
from headnode.core.lifecycle.records import JobRecord
from headnode.core.lifecycle.states import JobState
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.decision import Reason, Why
from headnode.engine.offer import Offer, Stage
from headnode.engine.offers import Offers

MOST_KEPT = 5  # jobs for which something is kept that are told one by one


def filter_reasons(cluster: Cluster, offers: Offers, record: JobRecord) -> list[Reason]:
    """Return what filters have to do with it that a job waits; nothing without filters."""
    if record.state is JobState.VALIDATING:
        names = [each.name for each in submission_filters(cluster, cluster.written(record))]
        told = ", ".join(map(repr, names)) or "its submission filters"
        what = f"it waits for the answer of the submission filters {told}"
        return [Reason(Why.FILTER, what, names[0] if names else "")]
    if record.state is not JobState.QUEUED or not offers.chains.rules:
        return []
    if offers.chains.of(cluster, record):
        said = _said(record)
        return said or _asked(cluster, offers, record) or _behind(cluster, offers, record)
    return _behind(cluster, offers, record)


def kept_for_others(cluster: Cluster, offers: Offers, job: JobId) -> list[Reason]:
    """Return what is kept for other jobs that filters do not let start yet, the first of the queue first."""
    kept = [
        (cluster.jobs[offer.job], offer)
        for offer in offers.of.values()
        if offer.job != job and offer.firm and offer.stage is not Stage.CLEARED and offer.job in cluster.jobs
    ]
    kept.sort(key=lambda each: cluster.turn(each[0]))
    told = [_kept(record, offer) for record, offer in kept[:MOST_KEPT]]
    if len(kept) > MOST_KEPT:
        told.append(Reason(Why.PROCESSORS, f"processors are kept for {len(kept) - MOST_KEPT} more jobs"))
    return told


def _kept(record: JobRecord, offer: Offer) -> Reason:
    count = sum(number for _, number in offer.giving.shares)
    what = "1 processor is" if count == 1 else f"{count} processors are"
    name = "its filter" if record.filtered is None else f"the activation filter {record.filtered.filter!r}"
    text = f"{what} kept for job {record.id} until {name} accepts it"
    return Reason(Why.PROCESSORS, text, str(record.id))


def nobody_knows(cluster: Cluster, offers: Offers, record: JobRecord) -> str:
    """Return why nobody can say when a queued job starts, if that is for a filter; empty if not."""
    if record.state is not JobState.QUEUED or not offers.chains.rules:
        return ""
    if record.filtered is not None and offers.chains.of(cluster, record):
        return f"the activation filter {record.filtered.filter!r} keeps it waiting"
    behind = _behind(cluster, offers, record)
    return f"job {behind[0].what} blocks the queue before it" if behind else ""


def _said(record: JobRecord) -> list[Reason]:
    word = record.filtered
    return [] if word is None else [Reason(Why.FILTER, word.words, word.filter)]


def _asked(cluster: Cluster, offers: Offers, record: JobRecord) -> list[Reason]:
    """Say that nobody has answered yet."""
    chain = offers.chains.of(cluster, record)
    names = ", ".join(repr(each.name) for each in chain)
    offer = offers.of.get(record.id)
    if offer is not None and offer.stage is Stage.ASKED:
        what = f"it is offered {offer.units} units; the activation filters {names} have not answered yet"
        return [Reason(Why.FILTER, what, chain[0].name)]
    if record.id in offers.aside or record.id in offers.crowded:
        what = f"the activation filters {names} are busy with other jobs"
        return [Reason(Why.FILTER, what, chain[0].name)]
    return []


def _behind(cluster: Cluster, offers: Offers, record: JobRecord) -> list[Reason]:
    """Say behind whom it waits whom a filter lets block the queue."""
    blocker = offers.blocker(cluster)
    if blocker is None or blocker.id == record.id or record.priority > blocker.priority:
        return []
    word = blocker.filtered
    said = "" if word is None else f": {word.words}"
    return [Reason(Why.FILTER, f"job {blocker.id} blocks the queue{said}", str(blocker.id))]
