"""How many nodes of a kind the waiting jobs would use now: the answer of the policy itself.

The policy plans for a cluster that has such nodes, idle.  What it would start there, or let grow there, is
the demand: jobs that are held or wait for parents are not in its queue, and a job that may run longer than
such a node is open does not start there.
"""

from typing import NamedTuple

from msgspec.structs import replace

from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.policies import Policy
from headnode.core.scheduling.view import View


class ElasticDemand(NamedTuple):
    """How many nodes would be used, and by which jobs."""

    nodes: int
    jobs: frozenset[JobId]


NO_DEMAND = ElasticDemand(0, frozenset())


def elastic_demand(view: View, policy: Policy, like: NodeFacts, open_for: float, most: int) -> ElasticDemand:
    """Return the demand for up to `most` idle nodes that are open for so many seconds.

    Cost:  one plan.
    """
    if most < 1 or not (view.queue or any(job.wants for job in view.running)):
        return NO_DEMAND
    extra = {
        f":{like.name}:{number}": NodeView(
            facts=replace(like, name=f":{like.name}:{number}"), free=like.processors, open_for=open_for
        )
        for number in range(most)
    }  # no node has such a name
    plan = policy(replace(view, nodes={**view.nodes, **extra}, ground=None, before=None, freed=True))
    used: set[str] = set()
    jobs: set[JobId] = set()
    given = [(each.job, each.allocation) for each in plan.starts]
    given += [(each.job, each.allocation) for each in plan.grows]
    for job, allocation in given:
        there = {node for node, _ in allocation} & extra.keys()
        used |= there
        jobs |= {job} if there else set()
    return ElasticDemand(len(used), frozenset(jobs))
