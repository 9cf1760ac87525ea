"""How many nodes of a kind the waiting jobs would use now: the answer of the policy itself.

The policy plans for a cluster that has such nodes, idle.  What it would start there, or let grow there, is
the demand: jobs that are held or wait for parents are not in its queue, and a job that may run longer than
such a node is open does not start there.  What would start on the nodes that other pools make is left out.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.plan import Start
from headnode.core.scheduling.policies import Policy
from headnode.core.scheduling.request import licences_taken, units_in
from headnode.core.scheduling.view import View


class ElasticDemand(NamedTuple):
    """How many nodes would be used, and by which jobs."""

    nodes: int
    jobs: frozenset[JobId]


NO_DEMAND = ElasticDemand(0, frozenset())


class IdleNodes(NamedTuple):
    """So many nodes that do not exist yet, of one kind, each open for so many seconds once it does."""

    like: NodeFacts
    open_for: float
    number: int


def elastic_demand(
    view: View, policy: Policy, idle_nodes: IdleNodes, coming: Sequence[IdleNodes] = ()
) -> ElasticDemand:
    """Return the demand for up to `wanted.number` nodes, beside those that other pools make already.

    Cost:  one plan; two if other nodes are coming.
    """
    if idle_nodes.number < 1:
        return NO_DEMAND
    for nodes in coming:
        view = _without(view, *_used(view, policy, nodes)[1:])
    used, starts, grows = _used(view, policy, idle_nodes)
    return ElasticDemand(len(used), frozenset(starts.keys() | grows.keys()))


def _used(
    view: View, policy: Policy, nodes: IdleNodes
) -> tuple[set[str], dict[JobId, Start], dict[JobId, int]]:
    """Return which of these nodes the policy would use: for which jobs, and for how many units more."""
    if nodes.number < 1 or not (view.queue or any(job.wants for job in view.running)):
        return set(), {}, {}
    like = nodes.like
    extra = {
        f":{like.name}:{number}": NodeView(
            facts=replace(like, name=f":{like.name}:{number}"), free=like.processors, open_for=nodes.open_for
        )
        for number in range(nodes.number)
    }  # no node has such a name
    view = replace(view, nodes={**view.nodes, **extra}, ground=None, before=None, freed=True)
    plan, table = policy(view), view.node_table()
    given = [(each.job, each.allocation) for each in plan.starts]
    given += [(each.job, each.allocation) for each in plan.grows]
    there = {job: {node for node, _ in allocation} & extra.keys() for job, allocation in given}
    starts = {each.job: each for each in plan.starts if there[each.job]}
    asks = {job.job: job.request for job in view.running}
    grows = {
        each.job: sum(
            units_in(asks[each.job], (table.numbers[node.casefold()], taken), table)
            for node, taken in each.allocation
        )
        for each in plan.grows
        if there[each.job]
    }
    return set().union(*there.values()), starts, grows


def _without(view: View, starts: Mapping[JobId, Start], grows: Mapping[JobId, int]) -> View:
    """Return the view without the jobs that start, and without what the others have grown by.

    Those that start have their licences, and count for the limits of their owners.
    """
    licences = dict(view.licences)
    for each in view.queue:
        for start in (starts[turn.job] for turn in each.turns if turn.job in starts):
            size = sum(count for _, count in start.allocation)
            for name, amount in licences_taken(start.taken(each.request), size).items():
                if name in licences:
                    licences[name] = (licences[name][0], licences[name][1] - amount)
    queue = [
        replace(each, turns=turns)
        for each in view.queue
        if (turns := [turn for turn in each.turns if turn.job not in starts])
    ]
    running = [replace(job, wants=max(0, job.wants - grows.get(job.job, 0))) for job in view.running]
    return replace(view, queue=queue, running=running, licences=licences)
