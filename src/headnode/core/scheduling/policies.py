"""The scheduling policies by the names an administrator writes: FCFS, EASY and conservative backfill.

EASY: the first job that does not fit is promised its shadow time, the earliest at which it fits when running
jobs end at their limits.  A later one starts if it is over by then, or if the promise can still be kept
with the later one in place.

Where running jobs without a limit are in the way, the shadow time is NEVER: nothing is over by then
(`inf <= inf` must not count), so only jobs that leave the promise possible overtake.  A job whose nodes
are closed (paused, unreachable) is not promised anything and holds up nobody: no end of a job helps it.

Source: CCS, "Priority-based, first-come, first-served scheduling".
Source: CCS, "Backfilling".
"""

from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import Protocol

from headnode.core.scheduling import conservative
from headnode.core.scheduling.candidates import Candidate
from headnode.core.scheduling.free_resources import Placement
from headnode.core.scheduling.pass_state import PassState
from headnode.core.scheduling.plan import Plan, Reason, Why
from headnode.core.scheduling.schedule_pass import BackfillRule, backfill_placement, schedule_pass
from headnode.core.scheduling.view import View


def plan_fcfs(view: View) -> Plan:
    """Decide about every queued job; the first that must wait holds up all behind it.

    Only a job that could not run even on the empty cluster with every node open holds up nobody.
    """
    return schedule_pass(view, BackfillRule(_overtake, _refusal_fcfs, closed_blocks=True))


def _overtake(_state: PassState, _wish: Candidate) -> Placement | None:
    return None


def _refusal_fcfs(state: PassState, candidate: Candidate, fits: bool) -> tuple[Reason, ...]:
    head = state.head_of(candidate)
    if head is None or not fits:
        return ()
    job = head.job
    what = f"it would fit, but policy fcfs starts no job before job {job}"
    return (Reason(Why.POLICY, what, str(job)),)


def plan_easy(view: View) -> Plan:
    """Decide about every queued job and every running job that would grow."""
    return schedule_pass(view, BackfillRule(backfill_placement, _refusal_easy, closed_blocks=False))


def _refusal_easy(state: PassState, candidate: Candidate, fits: bool) -> tuple[Reason, ...]:
    """Say that it would delay the head: if that is all, or if it would even were there more room."""
    head = state.head_of(candidate)
    if head is None or not (fits or state.surely_delays(candidate)):
        return ()
    job = head.job
    what = f"{'it would fit, but' if fits else 'it'} could delay job {job}, which holds the reservation"
    if candidate.end == inf:
        what += "; with a run time limit it may be backfilled"
    return (Reason(Why.RESERVATION, what, str(job)),)


class Policy(Protocol):
    """A scheduling policy: a function from a view to a plan, with a reason for every waiting job."""

    def __call__(self, view: View, /) -> Plan:
        """Decide about every queued job.  Same view, same plan; touches nothing."""


DEFAULT_POLICY = "easy"
POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        "easy": plan_easy,
        "fcfs": plan_fcfs,
        "conservative": conservative.plan_conservative,
        "conservative-replan": conservative.plan_conservative_anew,
    }
)
