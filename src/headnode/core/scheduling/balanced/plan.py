"""A pass in balanced mode: everybody who can run has the minimum first, then the rest is shared out.

The pass knows nothing of passes before it: what jobs were asked for already it is shown, and asks for again
as long as somebody needs it.  What nobody needs any more is not asked for, and its jobs keep it.
Source: HPC Pack scheduling mode Balanced, with its parameters PriorityBias, RebalancingInterval and
PreemptionBalancedMode; preemption type and automatic growth and shrinkage have no effect.
"""

from collections.abc import Iterator, Mapping

from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.balanced.growing import Growing
from headnode.core.scheduling.balanced.lenders import Ease, Lender, lenders_of
from headnode.core.scheduling.balanced.lending import Asked, Lending
from headnode.core.scheduling.balanced.minimums import Minimums, as_if_given_up, modest_classes
from headnode.core.scheduling.balanced.sharers import Balancing
from headnode.core.scheduling.board import Board
from headnode.core.scheduling.decision import Plan, Reason, Recall, Why
from headnode.core.scheduling.policies import Policy
from headnode.core.scheduling.terrain import Terrain
from headnode.core.scheduling.view import View


def in_mode(policy: Policy, view: View) -> Plan:
    """Return what a policy would do in the mode that the cluster is in."""
    return policy(view) if view.balancing is None else plan(view, policy, view.balancing)


def plan(view: View, policy: Policy, balancing: Balancing) -> Plan:
    """Decide about every queued job and every running job.  `policy` says who may overtake whom.

    Cost:  a plan of the policy, and O(log(pieces)) placements for each job for which others give up some.
    """
    terrain = view.terrain()
    lenders = lenders_of(view, terrain, balancing)
    free = {feature: left for feature, (_, left) in view.licences.items()}
    lending = Lending(Board.now(terrain, view.nodes, free), lenders)
    minimums = Minimums(view, policy, lending, immediate=balancing.immediate)
    growing = Growing(lending, balancing, minimums.inner.reservations)
    return Plan(
        starts=tuple(minimums.starts),
        grows=tuple(growing.grows()),
        waits=minimums.waits(),
        reservations=minimums.inner.reservations,
        wake=min(minimums.inner.wake, _wake(balancing, growing)),
        recalls=tuple(_recalls(lending, terrain)),
        claims=tuple(minimums.claims),
        shares={job: _in_all(lenders[job], extra) for job, extra in growing.shares.items()},
    )


def minimums_only(view: View) -> View:
    """Return the view for looking ahead: who waits starts with the minimum, and nobody has more.

    In queued mode the view itself.
    """
    if view.balancing is None:
        return view
    terrain = view.terrain()
    free = {feature: left for feature, (_, left) in view.licences.items()}
    lending = Lending(Board.now(terrain, view.nodes, free), lenders_of(view, terrain, view.balancing))
    return as_if_given_up(view, modest_classes(view), lending, Ease.WAIT)


def _wake(balancing: Balancing, growing: Growing) -> Instant:
    return balancing.next_due if growing.lacking else NEVER


def _in_all(lender: Lender, extra: int) -> int:
    """Return how many processors a job should have, its minimum included."""
    return lender.least + extra


def _recalls(lending: Lending, terrain: Terrain) -> Iterator[Recall]:
    """Yield what jobs are asked for, where that is not what they were asked for before.

    As long as anybody waits for what is given up, all that was asked for is: else who waits for one thing
    today and for another tomorrow would be the cause of endless asking.
    """
    still = lending.unclaimed() if lending.asked else {}
    for job, lender in sorted(lending.lenders.items()):
        asked = lending.asked.get(job, Asked())
        counts = asked.counts()
        for node, count in still.get(job, {}).items():
            counts[node] = counts.get(node, 0) + count
        wanted = {terrain.names[node]: count for node, count in sorted(counts.items()) if count}
        before = {
            part.node: part.leaving + part.awaited
            for part in lender.sharer.held
            if part.leaving or part.awaited
        }
        if wanted != before:
            for_jobs = tuple(asked.for_jobs)
            yield Recall(job, tuple(wanted.items()), _why(for_jobs), asked.stops, for_jobs)


def _why(for_jobs: Mapping[JobId, None] | tuple[JobId, ...]) -> Reason:
    """Say for whom something is asked for."""
    if not for_jobs:
        return Reason(Why.SHARE, "other jobs no longer need its processors")
    first = ", ".join(map(str, tuple(for_jobs)[:5]))
    named = f"job{'s' if len(for_jobs) > 1 else ''} {first}{' and others' if len(for_jobs) > 5 else ''}"
    hold = "hold" if len(for_jobs) > 1 else "holds"
    return Reason(Why.SHARE, f"it holds more than its share, or {named} {hold} less than the minimum", first)
