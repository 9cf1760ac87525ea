"""Passes that are sure to start nothing, by counting processors.

A plan says which jobs start and why the others wait.  Where none can start, only readers need it, so it is
made when it is read.
"""

from collections.abc import Mapping

from headnode.core.model.job import JobRequest
from headnode.core.scheduling.limit_checks import fewest_processors
from headnode.core.scheduling.policies import Policy, plan_easy, plan_fcfs
from headnode.core.state.cluster_state import ClusterState
from headnode.engine.activation_pending import PendingOffers
from headnode.engine.policy_registry import PassRules

_FORGETFUL = (plan_easy, plan_fcfs)
"""Policies whose plans do not depend on the plan before, where no limits are set."""


def starts_nothing(
    cluster: ClusterState, policies: Mapping[str, Policy], rules: PassRules, offers: PendingOffers
) -> bool:
    """Return whether a pass surely starts nothing, takes nothing from a job, and time alone changes nothing.

    False where jobs may give up processors, or where filters or limits have a say.
    Cost:  O(nodes + kinds of waiting job).
    """
    if rules.balanced or rules.preempts or rules.order is not None or cluster.releasing:
        return False
    if offers.chains.rules or offers.are_in_play or cluster.limit_index.any:
        return False
    if policies[rules.policy] not in _FORGETFUL or not cluster.waiting.isdisjoint(cluster.running):
        return False
    free = sum(map(len, cluster.cores.free.values()))
    for request in cluster.queue.by_request:
        if (request.minimum <= free or request.alternatives) and _fewest(request) <= free:
            return False
    return True


def _fewest(request: JobRequest) -> int:
    """Return how many processors a job has at least, whichever alternative it gets."""
    return min(map(fewest_processors, (request, *request.alternatives)))
