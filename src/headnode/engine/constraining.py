"""What policies see while activation filters have a say: fewer jobs in the queue, and less that is free.

What is kept for a job is shown as if the job ran there from now on; who blocks the queue stands alone in it
with those of higher priority; whom filters are asked about, or who rests after an answer, is not in it.
Whoever explains, or looks ahead, for others sees what is kept, too, but not who is only asked about.
Source: HPC filters, exit codes 1 and 2.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.allocating import Shares
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import Instant, JobId
from headnode.core.scheduling.need import held_with
from headnode.core.scheduling.terrain import Ground
from headnode.core.scheduling.view import NodeView, RunningJob, Turn, View, WaitingClass
from headnode.engine.balancing import resting
from headnode.engine.offer import Offer, Stage
from headnode.engine.offers import Offers
from headnode.engine.settings import Settings


def constrain(view: View, offers: Offers, cluster: Cluster) -> View:
    """Return what a policy may know of a view; the same object when no filter has a say."""
    if not offers.chains.rules:
        return view
    blocker = offers.blocker(cluster)
    left_out = offers.left_out(cluster)
    firm = _firm(offers)
    still = {job for job, offer in offers.of.items() if offer.grows and offer.stage is not Stage.CLEARED}
    still |= offers.resting.keys() & cluster.running
    if blocker is None and not left_out and not firm and not still:
        return view
    line = _line(view, left_out, None if blocker is None else cluster.turn(blocker))
    running = [replace(job, wants=0) if job.job in still else job for job in view.running]
    balancing = resting(view.balancing, still)
    return _holding(replace(view, queue=line, running=running, balancing=balancing), firm, cluster)


def with_kept(view: View, offers: Offers, cluster: Cluster, job: JobId) -> View:
    """Return a view for explaining a job: what filters keep for others is held, and these do not wait.

    What is kept for the job itself is free in it.
    """
    firm = [offer for offer in _firm(offers) if offer.job != job]
    if not firm:
        return view
    line = _line(view, _waiting_for(firm, cluster), None)
    return _holding(replace(view, queue=line, freed=True), firm, cluster)


def ahead(view: View, offers: Offers, cluster: Cluster) -> View:
    """Return a view for looking ahead: what filters keep is held as if those jobs started now.

    When a filter will let a job go that blocks the queue, nobody knows: it is not in the queue, and neither
    are those behind it.
    """
    firm, blocker = _firm(offers), offers.chains.blocker(cluster)
    if not firm and blocker is None:
        return view
    line = _line(view, _waiting_for(firm, cluster), None if blocker is None else cluster.turn(blocker))
    if blocker is not None:
        line = _line(replace(view, queue=line), {cluster.request(blocker): {blocker.id}}, None)
    return _holding(replace(view, queue=line, freed=True), firm, cluster)


def _firm(offers: Offers) -> list[Offer]:
    return [offer for offer in offers.of.values() if offer.firm and offer.stage is not Stage.CLEARED]


def _waiting_for(firm: Sequence[Offer], cluster: Cluster) -> Mapping[JobRequest, set[int]]:
    found: dict[JobRequest, set[int]] = {}
    for offer in firm:
        if offer.job in cluster.jobs and not offer.grows:
            found.setdefault(cluster.request(cluster.jobs[offer.job]), set()).add(offer.job)
    return found


def _holding(view: View, firm: Sequence[Offer], cluster: Cluster) -> View:
    """Return the view in which jobs hold what is firm for them."""
    here = [offer for offer in firm if offer.job in cluster.jobs]
    if not here:
        return view
    nodes = _nodes_with(view.nodes, here)
    return replace(
        view,
        nodes=nodes,
        ground=None if view.ground is None else Ground(nodes, view.terrain()),
        running=_running_with(view.running, here, cluster, view.now),
        licences=_licences_with(view.licences, here),
    )


def _line(
    view: View, left_out: Mapping[JobRequest, set[int]], blocker: Turn | None
) -> Sequence[WaitingClass]:
    """Return the queue without those that are not considered now; behind a blocker, with it as the last."""
    found = []
    for each in view.queue:
        turns: Sequence[Turn] = each.turns
        if blocker is not None:
            at = bisect_left(turns, blocker)
            last = [blocker] if at < len(turns) and turns[at] == blocker else []
            turns = [*turns[: bisect_left(turns, (blocker[0],))], *last]
        without = left_out.get(each.request)
        if without:
            turns = [turn for turn in turns if turn[2] not in without]
        if turns:
            found.append(each if turns is each.turns else WaitingClass(each.request, turns))
    return found


def _asks(offer: Offer) -> JobRequest:
    return (
        offer.request.option(offer.giving.option) if isinstance(offer.giving, c.StartJob) else offer.request
    )


def _nodes_with(nodes: Mapping[str, NodeView], firm: Sequence[Offer]) -> Mapping[str, NodeView]:
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


def _running_with(
    running: Sequence[RunningJob], firm: Sequence[Offer], cluster: Cluster, now: Instant
) -> list[RunningJob]:
    """Return the running jobs, and with them those that hold an offer, as if they started now.

    What is kept grows to the maximum of the job in queued mode; in balanced mode it stays at the minimum.
    """
    growing = {offer.job: offer for offer in firm if offer.grows}
    found = [
        replace(job, allocation=_merged(job.allocation, growing[job.job].giving.shares))
        if job.job in growing
        else job
        for job in running
    ]
    to_maximum = Settings(cluster.parameters).text("SchedulingMode") != "Balanced"
    for offer in firm:
        if not offer.grows:
            request = _asks(offer)
            grows = to_maximum and offer.stage is Stage.KEPT and not request.together
            more = request.maximum - offer.units if grows else 0
            found.append(
                RunningJob(
                    job=offer.job,
                    turn=cluster.turn(cluster.jobs[offer.job]),
                    request=request,
                    end=Instant(now + request.run_time),
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
    licences: Mapping[str, tuple[int, int]], firm: Sequence[Offer]
) -> Mapping[str, tuple[int, int]]:
    if not licences:
        return licences
    found = dict(licences)
    for offer in firm:
        held = sum(count for _, count in offer.giving.shares)
        for wish in _asks(offer).licences:
            if wish.feature in found and (wish.amount is None or not offer.grows):
                there, free = found[wish.feature]
                found[wish.feature] = (there, max(0, free - (held if wish.amount is None else wish.amount)))
    return found
