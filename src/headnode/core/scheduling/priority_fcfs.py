"""First come, first served within each priority: nobody overtakes.

Source: CCS, "Priority-based, first-come, first-served scheduling".
"""

from headnode.core.scheduling.board import Fit
from headnode.core.scheduling.decision import Plan, Reason, Why
from headnode.core.scheduling.standing import Standing
from headnode.core.scheduling.view import View
from headnode.core.scheduling.walk import Rule, walk
from headnode.core.scheduling.wishes import Wish


def plan(view: View) -> Plan:
    """Decide about every queued job; the first that must wait holds up all behind it.

    Only a job that could not run even on the empty cluster with every node open holds up nobody.
    """
    return walk(view, Rule(_overtake, _refusal, closed_blocks=True))


def _overtake(_standing: Standing, _wish: Wish) -> Fit | None:
    return None


def _refusal(standing: Standing, wish: Wish, fits: bool) -> tuple[Reason, ...]:
    head = standing.head_of(wish)
    if head is None or not fits:
        return ()
    job = head.job
    what = f"it would fit, but policy fcfs starts no job before job {job}"
    return (Reason(Why.POLICY, what, str(job)),)
