"""The scheduling policies by the names an administrator writes, and the pass that they have in common.

Policies differ only in the backfill rule."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import inf
from types import MappingProxyType
from typing import NamedTuple, Protocol

from headnode.core.model.job import JobRequest
from headnode.core.scheduling.candidates import Candidate, CandidateQueue, first_candidate
from headnode.core.scheduling.free_resources import Placement
from headnode.core.scheduling.pass_state import BlockedJob, PassState
from headnode.core.scheduling.placement import at_minimum, find_placement
from headnode.core.scheduling.plan import LazyReasons, LazyWait, Plan, Reason, Wait, Why
from headnode.core.scheduling.reasons import never_with_any, shortage, with_alternatives
from headnode.core.scheduling.request import ResolvedRequest
from headnode.core.scheduling.view import View


def any_placement(state: PassState, candidate: Candidate) -> Placement | None:
    """Return the placement of a job with no waiting job before it."""
    return find_placement(candidate.need, state.resources) if state.may_fit(candidate.need) else None


def backfill_placement(state: PassState, candidate: Candidate) -> Placement | None:
    """Return what a job may take: all it can, or less or elsewhere so that every head keeps its promise."""
    if not state.may_fit(candidate.need) or state.surely_delays(candidate):
        return None
    fits = find_placement(candidate.need, state.resources)
    if fits is None or state.in_time(candidate) or not state.promises():
        return fits
    if state.still_promised(candidate, fits):
        return fits
    for found in _more_modest(state, candidate.need):
        if state.still_promised(candidate, found):
            return found
    return None


def _more_modest(state: PassState, need: ResolvedRequest) -> Iterator[Placement]:
    """Yield what is left when the promised pieces are spared, then the bare minimum in resource order."""
    beside = state.spared()
    spared = find_placement(need, beside) if beside is not None else None
    if spared:
        yield spared
    least = find_placement(at_minimum(need), state.resources)
    if least:
        yield least


class BackfillRule(NamedTuple):
    """The difference between policies: which jobs may overtake a waiting job.

    `overtake` returns the placement of a candidate behind a waiting job, or None; `refusal` returns the
    reasons why not, given whether it would fit.  `closed_blocks`: a job whose nodes are closed blocks others.
    """

    overtake: Callable[[PassState, Candidate], Placement | None]
    refusal: Callable[[PassState, Candidate, bool], tuple[Reason, ...]]
    closed_blocks: bool


def schedule_pass(view: View, rule: BackfillRule) -> Plan:
    """Decide about every queued job and every running job that would grow.  Touches nothing."""
    node_table = view.node_table()
    state = PassState(view, node_table, rule)
    aside = state.refused_before()
    candidates = CandidateQueue(view, node_table, aside)
    waits: dict[JobRequest, LazyWait] = {}
    for candidate in candidates:
        granted = _wanted(state, candidate, rule)
        if granted:
            state.grant(*granted)
            candidates.granted(candidate)
        elif candidate.starts:  # a running job has its minimum: its growth holds up no job
            waits[candidate.request] = _blocked(view, state, candidate, rule)
        if aside and state.heads:
            if state.is_settled:
                waits |= {view.queue[at].request: partial(_still, view, state, rule, at) for at in aside}
            else:
                candidates.bring_back(aside)
            aside = frozenset()
    state.end(set(waits))
    return Plan(tuple(state.starts), tuple(state.grows), LazyReasons(waits), state.reservations())


def _wanted(state: PassState, candidate: Candidate, rule: BackfillRule) -> tuple[Candidate, Placement] | None:
    """Return what the candidate is given, and under which of its options: the first that can be."""
    ask: Callable[[PassState, Candidate], Placement | None] = any_placement
    if state.heads:
        ask = backfill_placement if state.head_of(candidate) is None else rule.overtake
    for option in (
        state.options(candidate) if candidate.request.others else (candidate,)
    ):  # few have any, and all are asked
        found = ask(state, option)
        if found:
            return option, found
    return None


def _blocked(view: View, state: PassState, candidate: Candidate, rule: BackfillRule) -> LazyWait:
    """Let the job wait, as the head if there is none; return its lazy reasons."""
    head = state.head_of(candidate)
    if head is not None:
        return partial(_behind, view, state, candidate, rule, head)
    never = _would_never_fit(view, state, candidate)
    if never:
        return lambda: Wait(never)
    at = state.wait(candidate, unpromised=rule.closed_blocks).due
    return lambda: Wait(with_alternatives(_lacking(state, each) for each in state.options(candidate)), at)


def _lacking(state: PassState, candidate: Candidate) -> tuple[Reason, ...]:
    """Return the shortage of the first waiting job; if none, it would delay another reserved job."""
    others = [head for head in state.heads.values() if head.candidate.request != candidate.request]
    if others and find_placement(at_minimum(candidate.need), state.resources) is not None:
        what = f"it would fit, but could delay job {others[0].job}, which holds a reservation"
        return (Reason(Why.RESERVATION, what, str(others[0].job)),)
    return _missing(state, candidate)


def _missing(state: PassState, candidate: Candidate) -> tuple[Reason, ...]:
    return shortage(candidate.need, candidate.asks, state.resources)


def _still(view: View, state: PassState, rule: BackfillRule, place: int) -> Wait:
    """Return why a class waits that was already refused in the last pass."""
    candidate = first_candidate(view, view.node_table(), place)
    head = state.head_of(candidate)
    return Wait(()) if head is None else _behind(view, state, candidate, rule, head)


def _behind(view: View, state: PassState, candidate: Candidate, rule: BackfillRule, head: BlockedJob) -> Wait:
    """Return why a job waits behind the head, by the resources that the pass has left."""
    never = _would_never_fit(view, state, candidate)
    if never:
        return Wait(never)
    ahead = Reason(Why.PRIORITY, f"job {head.job} is ahead in the queue", str(head.job))
    told = with_alternatives(_refused(state, each, rule) for each in state.options(candidate))
    return Wait((ahead, *told))


def _refused(state: PassState, candidate: Candidate, rule: BackfillRule) -> tuple[Reason, ...]:
    """Return the shortage of a candidate under one of its options, and the policy's refusal."""
    fits = find_placement(at_minimum(candidate.need), state.resources) is not None
    missing = () if fits else _missing(state, candidate)
    return (*missing, *rule.refusal(state, candidate, fits))


def _would_never_fit(view: View, state: PassState, candidate: Candidate) -> tuple[Reason, ...]:
    """Return why the job could not run even if every node was open and nothing ran; nothing if it could."""
    if any(state.can_run(option) for option in state.options(candidate)):
        return ()
    return never_with_any(candidate.request, view)


def plan_fcfs(view: View) -> Plan:
    """Decide about every queued job; the first that must wait holds up all behind it.

    Only a job that could not run even on the empty cluster with every node open holds up no other.
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
    """Return the reason that it could delay the head: if it fits, or surely delays the head anyway."""
    head = state.head_of(candidate)
    if head is None or not (fits or state.surely_delays(candidate)):
        return ()
    job = head.job
    what = f"{'it would fit, but' if fits else 'it'} could delay job {job}, which holds the reservation"
    if candidate.end == inf:
        what += "; with a run time limit it may be backfilled"
    return (Reason(Why.RESERVATION, what, str(job)),)


def plan_conservative(view: View) -> Plan:
    """Decide as `conservative.plan_conservative` does; it is imported with the first pass."""
    from headnode.core.scheduling import conservative

    return conservative.plan_conservative(view)


def plan_conservative_anew(view: View) -> Plan:
    """Decide as `conservative.plan_conservative_anew` does; it is imported with the first pass."""
    from headnode.core.scheduling import conservative

    return conservative.plan_conservative_anew(view)


class Policy(Protocol):
    """A scheduling policy: a function from a view to a plan, with a reason for every waiting job."""

    def __call__(self, view: View, /) -> Plan:
        """Decide about every queued job.  Same view, same plan; touches nothing."""


DEFAULT_POLICY = "easy"
POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        "easy": plan_easy,
        "fcfs": plan_fcfs,
        "conservative": plan_conservative,
        "conservative-replan": plan_conservative_anew,
    }
)
