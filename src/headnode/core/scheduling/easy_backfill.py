"""EASY backfill: jobs overtake as long as the first blocked job is not delayed by it.

The first job that does not fit is promised its shadow time, the earliest at which it fits when running
jobs end at their limits.  A later one starts if it is over by then, or if the promise can still be kept
with the later one in place.

Where running jobs without a limit are in the way, the shadow time is NEVER: nothing is over by then
(`inf <= inf` must not count), so only jobs that leave the promise possible overtake.  A job whose nodes
are closed (paused, unreachable) is not promised anything and holds up nobody: no end of a job helps it.

Source: CCS, "Backfilling".
"""

from collections.abc import Iterator
from math import inf

from headnode.core.scheduling.board import Fit
from headnode.core.scheduling.decision import Plan, Reason, Why
from headnode.core.scheduling.need import Need
from headnode.core.scheduling.placement import fewest, fit
from headnode.core.scheduling.standing import Standing
from headnode.core.scheduling.view import View
from headnode.core.scheduling.walk import Rule, walk
from headnode.core.scheduling.wishes import Wish


def plan(view: View) -> Plan:
    """Decide about every queued job and every running job that would grow."""
    return walk(view, Rule(_overtake, _refusal, closed_blocks=False))


def _overtake(standing: Standing, wish: Wish) -> Fit | None:
    """Return what a job behind the head may take: all it can, or less or elsewhere to keep the promise."""
    if not standing.may_fit(wish.need) or standing.surely_delays(wish):
        return None
    fits = fit(wish.need, standing.board)
    if fits is None or standing.in_time(wish):
        return fits
    if standing.still_promised(wish, fits):
        return fits
    for found in _more_modest(standing, wish.need):
        if standing.still_promised(wish, found):
            return found
    return None


def _more_modest(standing: Standing, need: Need) -> Iterator[Fit]:
    """Yield what is left when the promised piece is spared, then the bare minimum in resource order."""
    beside = standing.spared()
    spared = fit(need, beside) if beside is not None else None
    if spared:
        yield spared
    least = fit(fewest(need), standing.board)
    if least:
        yield least


def _refusal(standing: Standing, wish: Wish, fits: bool) -> tuple[Reason, ...]:
    """Say that it would delay the head: if that is all, or if it would even were there more room."""
    if standing.head is None or not (fits or standing.surely_delays(wish)):
        return ()
    job = standing.head.job
    what = f"{'it would fit, but' if fits else 'it'} could delay job {job}, which holds the reservation"
    if wish.end == inf:
        what += "; with a run time limit it may fit before it"
    return (Reason(Why.RESERVATION, what, str(job)),)
