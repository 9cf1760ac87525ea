"""The shortest job first within each priority, but nobody is overtaken by more than so many.

The order is ours; where jobs fit, who may overtake whom and every reason is left to EASY backfill.
"""

from headnode.core.model.quantities import JobId, SortKey
from headnode.core.scheduling.policies import OrderedPolicy, plan_easy
from headnode.testing import View

OVERTAKERS = 20  # a job that so many were submitted after goes in the order of submission
LONGEST = 10**9  # seconds; jobs without a limit go last


def order(view: View) -> dict[JobId, SortKey]:
    """Return the key of each queued job: jobs that were patient first, then the shortest."""
    turns = [(turn, waiting.request.run_time) for waiting in view.queue for turn in waiting.turns]
    orders = [turn.order for turn, _ in turns] + [job.turn.order for job in view.running]
    newest = max(orders, default=0)
    keys: dict[JobId, SortKey] = {}
    for turn, run_time in turns:
        patient = newest - turn.order > OVERTAKERS
        keys[turn.job] = (turn.minus_priority, -1 if patient else min(run_time, LONGEST))
    return keys


plan = OrderedPolicy(order, plan_easy)
