"""EASY backfill: jobs overtake as long as the first blocked job is not delayed by it.

The first job that does not fit is promised its shadow time, the earliest at which it fits when running
jobs end at their limits.  A later one starts if it is over by then, or if the promise can still be kept
with the later one in place.

Where running jobs without a limit are in the way, the shadow time is NEVER: nothing is over by then
(`inf <= inf` must not count), so only jobs that leave the promise possible overtake.  A job whose nodes
are closed (paused, unreachable) is not promised anything and holds up nobody: no end of a job helps it.

Source: CCS, "Backfilling".
"""

from math import inf

from headnode.core.scheduling.decision import Plan, Reason, Why
from headnode.core.scheduling.overtaking import without_delay
from headnode.core.scheduling.standing import Standing
from headnode.core.scheduling.view import View
from headnode.core.scheduling.walk import Rule, walk
from headnode.core.scheduling.wishes import Wish


def plan(view: View) -> Plan:
    """Decide about every queued job and every running job that would grow."""
    return walk(view, Rule(without_delay, _refusal, closed_blocks=False))


def _refusal(standing: Standing, wish: Wish, fits: bool) -> tuple[Reason, ...]:
    """Say that it would delay the head: if that is all, or if it would even were there more room."""
    head = standing.head_of(wish)
    if head is None or not (fits or standing.surely_delays(wish)):
        return ()
    job = head.job
    what = f"{'it would fit, but' if fits else 'it'} could delay job {job}, which holds the reservation"
    if wish.end == inf:
        what += "; with a run time limit it may be backfilled"
    return (Reason(Why.RESERVATION, what, str(job)),)
