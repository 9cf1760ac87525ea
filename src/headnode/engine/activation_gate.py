"""The gate of activation filters: grants to filtered jobs become offers, and views count the offers.

Jobs with filters are never offered the same: what one is asked about is not there for the next.
What is kept for a job is shown as if the job ran there from now on.  A job that blocks the queue stands alone
in it with jobs of higher priority; a job that filters are asked about, or that rests after an answer, is not
in it.  Explanations and predictions for other jobs see what is kept, but not which jobs are only asked about.

Source: HPC filters, exit codes 1 and 2.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from headnode.core.model.job import JobRequest
from headnode.core.model.priority_factors import QueuePosition
from headnode.core.model.quantities import Instant, JobId
from headnode.core.scheduling.node_table import KnownNodes
from headnode.core.scheduling.node_view import NodeView, held_with
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.request import licences_taken
from headnode.core.scheduling.view import RunningJob, View, WaitingClass
from headnode.core.state import start as c
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_record import JobRecord
from headnode.core.state.start import Shares
from headnode.core.state.transitions import JobState
from headnode.engine.activation_offer import ActivationOffer, Grant, OfferStage, grants_of, units_of
from headnode.engine.activation_pending import NO_ROOM_TO_ASK, PendingOffers
from headnode.engine.preemption import keeping, resting
from headnode.engine.settings import Settings


def gate_plan(offers: PendingOffers, plan: Plan, cluster: ClusterState, now: Instant) -> list[Grant]:
    """Return what of a plan is given now; about the rest filters are asked."""
    requested = grants_of(plan)
    if not offers.chains.rules and not offers.of:
        return requested
    offers.read_limit(cluster)
    sieve = _PlanGate(offers, cluster, now)
    given = [each for each in requested if sieve.passes(each)]
    offers.lose_untaken({each.job for each in given})
    if not sieve.calls_filters:
        offers.admit_all()
    return given


class _PlanGate:
    """One plan, looked through."""

    def __init__(self, offers: PendingOffers, cluster: ClusterState, now: Instant) -> None:
        self._offers, self._cluster, self._now = offers, cluster, now
        self.calls_filters = False
        self._promised: dict[str, int] = {}  # processors offered to those asked about, which others may take
        self._given: dict[str, int] = {}  # processors that this plan gives
        for offer in offers.of.values():
            self._note(offer.giving.shares)

    def _note(self, shares: Shares) -> None:
        for node, count in shares:
            self._promised[node] = self._promised.get(node, 0) + count

    def passes(self, requested: Grant) -> bool:
        """Return whether the resources are given at once; if not, the filters are called if possible."""
        offers, cluster = self._offers, self._cluster
        record = cluster.jobs[requested.job]
        offer = offers.of.get(record.id)
        if offer is not None and offer.stage is OfferStage.KEPT:
            _extend(cluster, offer, requested)
            return False
        if record.state not in (JobState.QUEUED, JobState.RUNNING) or not offers.chains.of(cluster, record):
            for node, count in requested.shares:
                self._given[node] = self._given.get(node, 0) + count
            return True
        units = units_of(cluster, record, requested)
        if offer is not None and offer.stage is OfferStage.CLEARED:
            if offer.grows == isinstance(requested, c.GrowJob) and offer.units == units:
                offer.giving = requested
                return True
            offers.lose(offer)
        self._ask_or_put_aside(record, requested, units)
        return False

    def _ask_or_put_aside(self, record: JobRecord, requested: Grant, units: int) -> None:
        offers = self._offers
        if isinstance(requested, c.GrowJob):
            if not offers.can_ask() or not self._is_beside(record, requested.shares):
                offers.postpone(record.id, Instant(self._now + NO_ROOM_TO_ASK))
            else:
                self._ask(record, requested, units)
        elif not offers.can_ask():
            self._put_aside(record)
        elif not self._is_beside(record, requested.shares):
            offers.put_aside([record.id], crowded=True)
        else:
            self._ask(record, requested, units)
        offers.restless = True

    def _ask(self, record: JobRecord, requested: Grant, units: int) -> None:
        if not self.calls_filters:
            self._offers.new_pass()
        self.calls_filters = True
        self._offers.offer(self._cluster, record, requested, units)
        self._note(requested.shares)

    def _is_beside(self, record: JobRecord, shares: Shares) -> bool:
        """Return whether the grant takes no resources offered to earlier jobs."""
        alone = self._cluster.request(record).exclusive
        return all(
            count + self._promised.get(node, 0) + self._given.get(node, 0)
            <= len(self._cluster.cores.free_on(node))
            and not (alone and self._promised.get(node))
            for node, count in shares
        )

    def _put_aside(self, record: JobRecord) -> None:
        """Put a job aside, and all that ask for the same and would have to be asked about, too."""
        offers, cluster = self._offers, self._cluster
        request = cluster.request(record)
        others = (cluster.jobs[turn.job] for turn in cluster.queue.by_request.get(request, ()))
        alike = [each.id for each in others if each.id not in offers.of and offers.chains.of(cluster, each)]
        offers.put_aside([record.id, *alike])


def _extend(cluster: ClusterState, offer: ActivationOffer, requested: Grant) -> None:
    """Keep more for a job for which something is kept: up to its maximum."""
    both = dict(offer.giving.shares)
    for node, count in requested.shares:
        both[node] = both.get(node, 0) + count
    offer.giving = msgspec.structs.replace(offer.giving, shares=tuple(both.items()))
    offer.units = units_of(cluster, cluster.jobs[offer.job], offer.giving)


def constrained_view(view: View, offers: PendingOffers, cluster: ClusterState) -> View:
    """Return what a policy may know of a view; the same object when no filter has a say."""
    offers.order.positions = view.positions
    if not offers.chains.rules:
        return view
    blocker = offers.blocker(cluster)
    left_out = offers.left_out(cluster)
    firm = _firm(offers)
    still = {job for job, offer in offers.of.items() if offer.grows and offer.stage is not OfferStage.CLEARED}
    still |= offers.resting.keys() & cluster.running
    if blocker is None and not left_out and not firm and not still:
        return view
    line = _line(view, left_out, None if blocker is None else view.position(blocker.turn))
    running = [replace(job, wants=0) if job.job in still else job for job in view.running]
    balancing = resting(view.balancing, still)
    return _holding(replace(view, queue=line, running=running, balancing=balancing), firm, cluster)


def explanation_view(view: View, offers: PendingOffers, cluster: ClusterState, job: JobId) -> View:
    """Return a view for explaining a job: what filters keep for others is held, and these do not wait.

    What is kept for the job itself is free in it.
    """
    firm = [offer for offer in _firm(offers) if offer.job != job]
    if not firm:
        return view
    line = _line(view, _waiting_for(firm, cluster), None)
    return _holding(replace(view, queue=line, freed=True), firm, cluster)


def look_ahead_view(view: View, offers: PendingOffers, cluster: ClusterState) -> View:
    """Return a view for predictions: resources that filters keep for jobs are held as if these started now.

    It is unknown when a filter will let a job start that blocks the queue.  So this job and those behind it
    are not in the queue of the view.
    """
    firm, blocker = _firm(offers), offers.blocker(cluster)
    if not firm and blocker is None:
        return view
    line = _line(view, _waiting_for(firm, cluster), None if blocker is None else view.position(blocker.turn))
    if blocker is not None:
        line = _line(replace(view, queue=line), {cluster.request(blocker): {blocker.id}}, None)
    return _holding(replace(view, queue=line, freed=True), firm, cluster)


def _firm(offers: PendingOffers) -> list[ActivationOffer]:
    return [offer for offer in offers.of.values() if offer.firm and offer.stage is not OfferStage.CLEARED]


def _waiting_for(firm: Sequence[ActivationOffer], cluster: ClusterState) -> Mapping[JobRequest, set[int]]:
    found: dict[JobRequest, set[int]] = {}
    for offer in firm:
        if offer.job in cluster.jobs and not offer.grows:
            found.setdefault(cluster.request(cluster.jobs[offer.job]), set()).add(offer.job)
    return found


def _holding(view: View, firm: Sequence[ActivationOffer], cluster: ClusterState) -> View:
    """Return the view in which jobs hold what is firm for them."""
    here = [offer for offer in firm if offer.job in cluster.jobs]
    if not here:
        return view
    nodes = _nodes_with(view.nodes, here)
    return replace(
        view,
        nodes=nodes,
        ground=None if view.ground is None else KnownNodes(nodes, view.node_table()),
        running=_running_with(view, here, cluster),
        balancing=keeping(view.balancing, {each.job: each.giving.shares for each in here if each.grows}),
        licences=_licences_with(view.licences, here),
    )


def _line(
    view: View, left_out: Mapping[JobRequest, set[int]], blocker: QueuePosition | None
) -> Sequence[WaitingClass]:
    """Return the queue without those that are not considered now; behind a blocker, with it as the last."""
    found = []
    for each in view.queue:
        turns: Sequence[QueuePosition] = each.turns
        if blocker is not None:
            at = bisect_left(turns, blocker)
            last = [blocker] if at < len(turns) and turns[at] == blocker else []
            turns = [*turns[: bisect_left(turns, blocker.rank, key=attrgetter("rank"))], *last]
        without = left_out.get(each.request)
        if without:
            turns = [turn for turn in turns if turn.job not in without]
        if turns:
            found.append(
                each if turns is each.turns else WaitingClass(each.request, turns, each.owner, each.project)
            )
    return found


def _asks(offer: ActivationOffer) -> JobRequest:
    giving = offer.giving
    return giving.taken(offer.request) if isinstance(giving, c.StartJob) else offer.request


def _nodes_with(nodes: Mapping[str, NodeView], firm: Sequence[ActivationOffer]) -> Mapping[str, NodeView]:
    """Return the nodes with what is held for jobs that have not got it yet."""
    found = dict(nodes)
    for offer in firm:
        request = _asks(offer)
        for node, count in offer.giving.shares:
            seen = found.get(node)
            if seen is not None:
                found[node] = replace(
                    held_with(seen, request, count, first=not offer.grows),
                    free=max(0, seen.free - count),
                    jobs=seen.jobs + (not offer.grows),
                    exclusive_to=offer.job if request.exclusive else seen.exclusive_to,
                )
    return found


def _running_with(view: View, firm: Sequence[ActivationOffer], cluster: ClusterState) -> list[RunningJob]:
    """Return the running jobs, and with them those that hold an offer, as if they started now.

    What is kept grows to the maximum of the job in queued mode; in balanced mode it stays at the minimum.
    """
    growing = {offer.job: offer for offer in firm if offer.grows}
    found = [
        replace(job, allocation=_merged(job.allocation, growing[job.job].giving.shares))
        if job.job in growing
        else job
        for job in view.running
    ]
    to_maximum = Settings(cluster.parameters).text("SchedulingMode") != "Balanced"
    for offer in firm:
        if not offer.grows:
            request = _asks(offer)
            grows = to_maximum and offer.stage is OfferStage.KEPT and not request.together
            more = request.maximum - offer.units if grows else 0
            found.append(
                RunningJob(
                    job=offer.job,
                    turn=view.position(cluster.jobs[offer.job].turn),
                    request=request,
                    end=Instant(view.now + request.run_time),
                    allocation=offer.giving.shares,
                    wants=max(0, more),
                )
            )
    return found


def _merged(one: Shares, other: Shares) -> Shares:
    both = dict(one)
    for node, count in other:
        both[node] = both.get(node, 0) + count
    return tuple(both.items())


def _licences_with(
    licences: Mapping[str, tuple[int, int]], firm: Sequence[ActivationOffer]
) -> Mapping[str, tuple[int, int]]:
    if not licences:
        return licences
    found = dict(licences)
    for offer in firm:
        request, size = _asks(offer), sum(count for _, count in offer.giving.shares)
        had = licences_taken(request, 0) if offer.grows else {}
        for feature, amount in licences_taken(request, size).items():
            if feature in found:
                there, free = found[feature]
                found[feature] = (there, max(0, free - amount + had.get(feature, 0)))
    return found
