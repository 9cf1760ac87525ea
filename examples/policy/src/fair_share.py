"""Fair share: within each priority, the owner who has used least of the cluster goes first.

The head counts what owners have used, in processor-seconds that count half after `UsageHalfLife`.  Jobs that
run or go first in the queue are charged in advance, so owners take turns also within one pass.
Placement, backfill and reasons are those of EASY backfill.
"""

from collections import defaultdict

from headnode.core.model.quantities import JobId, SortKey
from headnode.core.scheduling.policies import OrderedPolicy, plan_easy
from headnode.testing import View

SHARES = {"ann": 2.0}  # an owner with the share 2 may use twice as much as one with the share 1
OTHERS = 1.0  # the share of every owner who is not named
CHARGED = 3600.0  # seconds at most for which a job is charged in advance


def order(view: View) -> dict[JobId, SortKey]:
    """Return the key of each queued job: its priority, and what its owner has used of the share by then."""
    used = charged(view)
    waiting = [(turn, each) for each in view.queue for turn in each.turns]
    keys: dict[JobId, SortKey] = {}
    for turn, each in sorted(waiting, key=lambda one: one[0]):
        keys[turn.job] = (turn.minus_priority, used[each.owner] / SHARES.get(each.owner, OTHERS))
        used[each.owner] += each.request.minimum * min(each.request.run_time, CHARGED)
    return keys


def charged(view: View) -> dict[str, float]:
    """Return the processor-seconds of each owner until now, and in advance those of running jobs."""
    used: dict[str, float] = defaultdict(float)
    for (owner, _project), amount in view.usage.items():
        used[owner] += amount
    for job in view.running:
        processors = sum(count for _node, count in job.allocation)
        used[job.owner] += processors * min(max(0.0, job.end - view.now), CHARGED)
    return used


plan = OrderedPolicy(order, plan_easy)
