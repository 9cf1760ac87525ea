"""One offer of resources to a job with activation filters: its filters, its validity, its recovery.

Source: HPC filters, "Job activation filters and their return values",
"Cluster-wide and job template filters"."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

import msgspec

from headnode.core.filtering import ActivationVerdict, FilterChain
from headnode.core.model.job import JobRequest, units_in
from headnode.core.model.node import NodeState
from headnode.core.model.owner_limits import LimitShare, is_of_one_job
from headnode.core.model.priority_factors import QueuePosition
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.plan import Plan
from headnode.core.state import start as c
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_record import FilterReply, JobRecord
from headnode.core.state.start import exclusive_holder
from headnode.core.state.task_graph import is_blocked
from headnode.core.state.templates import activation_filters, activation_rules
from headnode.core.state.transitions import JobState

Grant = c.StartJob | c.GrowJob
"""What a plan gives to one job."""


def grants_of(plan: Plan) -> list[Grant]:
    """Return the plan as wishes; `decide` refuses those that are stale."""
    grows: list[Grant] = [c.GrowJob(job=JobId(g.job), shares=g.allocation) for g in plan.grows]
    return grows + [
        c.StartJob(
            job=start.job,
            shares=start.allocation,
            backfilled=start.ahead_of is not None,
            option=start.option,
            parts=start.parts,
            lowered_limit=start.lowered_limit,
        )
        for start in plan.starts
    ]


class OfferStage(Enum):
    """The stage of an offer."""

    ASKED = 1  # the filters have not answered
    CLEARED = 2  # they let the job have it
    KEPT = 3  # they do not, and it is kept for the job


class ActivationOffer(msgspec.Struct):
    """An offer of resources to a job.  `firm`: policies see the resources as held by the job."""

    number: int
    job: JobId
    giving: Grant
    units: int
    request: JobRequest  # of the job, when it was offered: a job that was changed is asked about again
    firm: bool = False
    stage: OfferStage = OfferStage.ASKED
    again: Instant = NEVER  # when its filters are asked again

    @property
    def grows(self) -> bool:
        """Whether it is for a running job."""
        return isinstance(self.giving, c.GrowJob)

    @property
    def backfilled(self) -> bool:
        """Whether the job would start before a job ahead of it (backfill)."""
        return isinstance(self.giving, c.StartJob) and self.giving.backfilled


class QueueOrder:
    """The order of the queue: that of the policy at the latest pass, if the policy orders the queue.

    `positions`: from the view of that pass; None without such a policy.  Later jobs are behind.
    """

    def __init__(self) -> None:
        self.positions: Mapping[JobId, QueuePosition] | None = None

    def key(self, record: JobRecord) -> tuple[bool, QueuePosition]:
        """Return the sort key of a job; smaller goes first."""
        known = None if self.positions is None else self.positions.get(record.id)
        return (known is None, record.turn if known is None else known)

    def is_behind(self, record: JobRecord, blocker: JobRecord) -> bool:
        """Return whether a job is behind another, or beside it with the same priority."""
        (new, mine), (other_new, other) = self.key(record), self.key(blocker)
        if new != other_new:
            return record.priority <= blocker.priority
        return mine.rank >= other.rank

    def place(self, cluster: ClusterState, record: JobRecord) -> int:
        """Return the place of a job in the queue, from 1; of a running one, where it would be."""
        if self.positions is None:
            turn = record.turn
            return 1 + sum(bisect_left(turns, turn) for turns in cluster.queue.by_request.values())
        mine = self.key(record)
        queued = (each for each in cluster.jobs.values() if each.state is JobState.QUEUED)
        return 1 + sum(self.key(each) < mine for each in queued)


def units_of(cluster: ClusterState, record: JobRecord, requested: Grant) -> int:
    """Return how many of its units a job is offered."""
    option = requested.option if isinstance(requested, c.StartJob) else 0
    request = cluster.request(record).option(option)
    return sum(units_in(request, count, cluster.nodes[node].facts) for node, count in requested.shares)


def in_line(cluster: ClusterState, record: JobRecord) -> bool:
    """Return whether a job is queued and waits only for filters and other jobs."""
    return (
        record.state is JobState.QUEUED
        and record.id not in cluster.queue.held
        and not record.holds
        and not record.waits_for
        and not is_blocked(record)
    )


def is_still_valid(cluster: ClusterState, offer: ActivationOffer) -> bool:
    """Return whether an offer is still valid for its job and its nodes."""
    record = cluster.jobs.get(offer.job)
    if record is None or cluster.request(record) != offer.request:
        return False
    if not (record.state is JobState.RUNNING if offer.grows else in_line(cluster, record)):
        return False
    if not offer.firm:
        return True
    nodes = (cluster.nodes.get(node) for node, _ in offer.giving.shares)
    return all(node is not None and node.state is NodeState.READY for node in nodes)


def limits_have_room(
    cluster: ClusterState, offer: ActivationOffer, offers: Iterable[ActivationOffer], now: Instant
) -> bool:
    """Return whether the limits of its user and project have room for an offer beside what others hold.

    Two offers that no policy sees as held may be for the same room.
    """
    if not cluster.limit_index.any:
        return True
    from headnode.core.state.limit_use import limits_in_use  # few clusters have limits

    used = limits_in_use(cluster, [share.key for share, _ in _taken_of_limits(offer)], now)
    for other in offers:
        if other.firm and other is not offer:
            taken = _taken_of_limits(other)
            for share, amount in (each for each in taken if not is_of_one_job(each[0].key)):
                used[share.key] = used.get(share.key, 0) + amount
    return all(used.get(share.key, 0) + amount <= share.limit for share, amount in _taken_of_limits(offer))


def _taken_of_limits(offer: ActivationOffer) -> Iterator[tuple[LimitShare, int]]:
    request = offer.giving.taken(offer.request) if isinstance(offer.giving, c.StartJob) else offer.request
    size = sum(count for _, count in offer.giving.shares)
    for share in request.limits:
        yield share, share.held(size) - (share.held(0) if offer.grows else 0)


ChainRules = tuple[tuple[str, str], ...]


class ActivationChains:
    """The filter chain of each job, computed once for each job description until the rules change.

    `rules` lists the registered filters, as of the last `refresh`; if it is empty, no filter is called.
    """

    def __init__(self) -> None:
        self.rules: ChainRules = ()
        self._known: dict[JobId, tuple[bytes, ChainRules, FilterChain]] = {}

    def refresh(self, cluster: ClusterState) -> None:
        """Look which filters the cluster and its templates have now."""
        rules = activation_rules(cluster)
        if rules != self.rules:
            self.rules = rules

    def of(self, cluster: ClusterState, record: JobRecord) -> FilterChain:
        """Return the activation filters of a job."""
        if not self.rules:
            return ()
        known = self._known.get(record.id)
        if known is None or known[0] is not record.spec or known[1] is not self.rules:
            if len(self._known) > 2 * len(cluster.jobs) + 64:
                self._known = {job: kept for job, kept in self._known.items() if job in cluster.jobs}
            chain = activation_filters(cluster, record)
            known = self._known[record.id] = (record.spec, self.rules, chain)
        return known[2]

    def blocker(self, cluster: ClusterState, order: QueueOrder) -> JobRecord | None:
        """Return the job that blocks the queue for those behind it; of several the first."""
        if not cluster.filtered or not self.rules:
            return None
        blocking = [
            record
            for job in cluster.filtered
            if (record := cluster.jobs[job]).filter_reply is not None
            and record.filter_reply.verdict == ActivationVerdict.BLOCK_QUEUE.value
            and in_line(cluster, record)
            and self.of(cluster, record)
        ]
        return min(blocking, key=lambda record: order.key(record), default=None)


AT_ONCE = Instant(0.0)


def restored_offers(cluster: ClusterState, now: Instant) -> Iterator[ActivationOffer]:
    """Yield the reserved units of each job that are free, in the order of the queue.

    What was given up without a word in the journal, as when its node was away for a while, others may have.
    """
    waiting = [cluster.jobs[job] for job in cluster.filtered]
    taken: dict[str, set[JobId]] = {}
    counts: dict[str, int] = {}
    before: list[ActivationOffer] = []
    for record in sorted(waiting, key=lambda record: record.turn):
        word = record.filter_reply
        if word is None or word.verdict != ActivationVerdict.KEEP_RESOURCES.value or not word.reserved:
            continue
        if not in_line(cluster, record) or not _is_free(cluster, record, word, counts, taken):
            continue
        offer = _offer(cluster, record, word)
        if not limits_have_room(cluster, offer, before, now):
            continue
        before.append(offer)
        for node, count in word.reserved:
            counts[node] = counts.get(node, 0) + count
            taken.setdefault(node, set()).add(record.id)
        yield offer


def _is_free(
    cluster: ClusterState,
    record: JobRecord,
    word: FilterReply,
    counts: dict[str, int],
    taken: dict[str, set[JobId]],
) -> bool:
    alone = cluster.request(record).option(word.alternative).exclusive
    for node, count in word.reserved:
        others = taken.get(node, set())
        if count + counts.get(node, 0) > len(cluster.cores.free_on(node)):
            return False
        if exclusive_holder(cluster, node) is not None or (
            alone and (others or cluster.cores.holders.get(node))
        ):
            return False
        if any(cluster.request(cluster.jobs[other]).exclusive for other in others):
            return False
    return True


def _offer(cluster: ClusterState, record: JobRecord, word: FilterReply) -> ActivationOffer:
    giving = c.StartJob(
        job=record.id,
        shares=word.reserved,
        option=word.alternative,
        parts=word.parts,
        lowered_limit=word.lowered_limit,
    )
    return ActivationOffer(
        number=0,
        job=record.id,
        giving=giving,
        units=units_of(cluster, record, giving),
        request=cluster.request(record),
        firm=True,
        stage=OfferStage.KEPT,
        again=AT_ONCE,
    )
