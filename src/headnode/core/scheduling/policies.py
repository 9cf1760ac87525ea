"""The scheduling policies by the names an administrator writes, and the pass that they have in common.

Policies differ only in the backfill rule.  A policy may also order the queue itself, such as by what owners
have used: `order` gives each job a sort key.  The view then has the queue in that order: a `QueuePosition`
begins with the key, so the plan, preemption, explanations and predictions all follow it.  Classes of such a
view are of one owner and project.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from math import inf, isnan
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import JobId, SortKey
from headnode.core.scheduling.candidates import Candidate, CandidateQueue, first_candidate, lowest
from headnode.core.scheduling.free_resources import Placement
from headnode.core.scheduling.limit_checks import limit_reasons, spent_classes
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.pass_state import PassState
from headnode.core.scheduling.placement import at_minimum, find_placement
from headnode.core.scheduling.plan import LazyReasons, LazyWait, Plan, Reason, Wait, Why
from headnode.core.scheduling.reasons import never_with_any, shortage, with_alternatives
from headnode.core.scheduling.request import ResolvedRequest
from headnode.core.scheduling.shadow_reservation import BlockedJob
from headnode.core.scheduling.view import RunningJob, View, WaitingClass


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
    for found in _elsewhere(state, candidate.need):
        if state.still_promised(candidate, found):
            return found
    return None


def _elsewhere(state: PassState, need: ResolvedRequest) -> Iterator[Placement]:
    """Yield the same as `_more_modest`; then whatever the switches, for which no job waits unasked."""
    yield from _more_modest(state, need)
    if need.near:
        need = need._replace(near=False)
        yield from filter(None, (find_placement(need, state.resources),))
        yield from _more_modest(state, need)


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
    `is_hopeless` tells, once there is a waiting job, whether no job of a class will overtake it in this pass.
    """

    overtake: Callable[[PassState, Candidate], Placement | None]
    refusal: Callable[[PassState, Candidate, bool], tuple[Reason, ...]]
    closed_blocks: bool
    is_hopeless: Callable[[PassState, JobRequest, ResolvedRequest], bool]


def schedule_pass(view: View, rule: BackfillRule) -> Plan:
    """Decide about every queued job and every running job that would grow.  Touches nothing.

    As soon as a job must wait, classes that are sure to be refused behind it are left out: what is free only
    becomes less.
    """
    node_table = view.node_table()
    state = PassState(view, node_table, rule)
    spent = spent_classes(view)
    aside = state.refused_before() - spent
    candidates = CandidateQueue(view, node_table, aside | spent)
    waits: dict[JobRequest, LazyWait] = {}
    refused = {view.queue[at].request: at for at in spent}
    heads = 0
    for candidate in candidates:
        granted = _wanted(view, state, candidate, rule)
        if granted:
            state.grant(*granted)
            candidates.granted(candidate)
        elif candidate.starts:  # a running job has its minimum: its growth holds up no job
            waits[candidate.request] = _blocked(view, state, candidate, rule)
        is_new = len(state.heads) > heads
        if aside and not state.is_settled and (is_new or state.led_before(candidate)):
            candidates.bring_back(aside)
            aside = frozenset()
        if is_new:
            heads = len(state.heads)
            hopeless = candidates.refuse(partial(rule.is_hopeless, state))
            refused |= {view.queue[at].request: at for at in chain(aside, hopeless)}
            aside = frozenset()
    for request in waits:  # the reasons of a request are those of its first job, of several owners too
        refused.pop(request, None)
    state.end(chain(waits, refused))
    reasons = LazyReasons(waits, refused, partial(_still, view, node_table, state, rule))
    return Plan(
        tuple(state.starts), tuple(state.grows), reasons, state.reservations(), view.next_switches_timeout()
    )


def _wanted(
    view: View, state: PassState, candidate: Candidate, rule: BackfillRule
) -> tuple[Candidate, Placement] | None:
    """Return what the candidate is given, and under which of its options: the first that can be.

    If none can be, it may be with a lower run time limit.
    """
    ask: Callable[[PassState, Candidate], Placement | None] = any_placement
    if state.heads:
        ask = backfill_placement if state.head_of(candidate) is None else rule.overtake
    options = state.options(candidate) if candidate.request.alternatives else (candidate,)  # few have any
    for option in options:
        found = ask(state, option)
        if found:
            return option, found
    if candidate.request.minimum_run_time is None:
        return None
    from headnode.core.scheduling.lowered_limits import start_lowered  # few jobs have such a limit

    due = [head.due for head in state.heads.values()]
    return start_lowered(options, view, state.resources.node_table, partial(ask, state), due)


def _blocked(view: View, state: PassState, candidate: Candidate, rule: BackfillRule) -> LazyWait:
    """Let the job wait, as the head if there is none; return its lazy reasons."""
    head = state.head_of(candidate)
    if head is not None:
        return partial(_behind, view, state, candidate, rule, head)
    never = _would_never_fit(view, state, candidate)
    if never:
        return lambda: Wait(never)
    if state.is_limited(candidate) and not state.keeps_reservation(candidate):
        return partial(_limited, state, candidate)
    at = state.wait(candidate, unpromised=rule.closed_blocks).due
    return lambda: Wait(with_alternatives(_lacking(state, each) for each in state.options(candidate)), at)


def _limited(state: PassState, candidate: Candidate) -> Wait:
    """Return which limits keep a job from starting: no other job is in its way."""
    needs = (each.need for each in state.options(candidate))
    return Wait(with_alternatives(tuple(limit_reasons(need, state.resources)) for need in needs))


def _lacking(state: PassState, candidate: Candidate) -> tuple[Reason, ...]:
    """Return the shortage of the first waiting job; if none, it would delay another reserved job."""
    candidate = state.at_lowest_limit(candidate)
    others = [head for head in state.heads.values() if head.candidate.request != candidate.request]
    if others and find_placement(at_minimum(candidate.need), state.resources) is not None:
        what = f"the job fits now, but could delay job {others[0].job}, which has a reservation"
        return (Reason(Why.RESERVATION, what, str(others[0].job)),)
    return shortage(candidate.need, candidate.asks, state.resources)


def _still(view: View, node_table: NodeTable, state: PassState, rule: BackfillRule, place: int) -> Wait:
    """Return why the class at this place of the queue waits, which was refused without being looked at."""
    candidate = first_candidate(view, node_table, place)
    head = state.head_of(candidate)
    if head is not None:
        return _behind(view, state, candidate, rule, head)
    never = _would_never_fit(view, state, candidate)
    return Wait(never) if never else _limited(state, candidate)


def _behind(view: View, state: PassState, candidate: Candidate, rule: BackfillRule, head: BlockedJob) -> Wait:
    """Return why a job waits behind the head, by the resources that the pass has left."""
    never = _would_never_fit(view, state, candidate)
    if never:
        return Wait(never)
    if state.is_limited(candidate):
        return _limited(state, candidate)
    ahead = Reason(Why.PRIORITY, f"job {head.job} is ahead in the queue", str(head.job))
    told = with_alternatives(_refused(state, each, rule) for each in state.options(candidate))
    return Wait((ahead, *told))


def _refused(state: PassState, candidate: Candidate, rule: BackfillRule) -> tuple[Reason, ...]:
    """Return the shortage of a candidate under one of its options, and the policy's refusal."""
    candidate = state.at_lowest_limit(candidate)
    fits = find_placement(at_minimum(candidate.need), state.resources) is not None
    missing = () if fits else shortage(candidate.need, candidate.asks, state.resources)
    return (*missing, *rule.refusal(state, candidate, fits))


def _would_never_fit(view: View, state: PassState, candidate: Candidate) -> tuple[Reason, ...]:
    """Return why the job could not run even if every node was open and nothing ran; nothing if it could."""
    if any(state.can_run(option) for option in state.options(candidate)):
        return ()
    return never_with_any(lowest(candidate.request), view)


def plan_fcfs(view: View) -> Plan:
    """Decide about every queued job; the first that must wait holds up all behind it.

    Only a job that could not run even on the empty cluster with every node open holds up no other.
    """
    return schedule_pass(view, FCFS)


def _overtake(_state: PassState, _wish: Candidate) -> Placement | None:
    return None


def _refusal_fcfs(state: PassState, candidate: Candidate, fits: bool) -> tuple[Reason, ...]:
    head = state.head_of(candidate)
    if head is None or not fits:
        return ()
    job = head.job
    what = f"the job fits now, but policy fcfs starts no job before job {job}"
    return (Reason(Why.POLICY, what, str(job)),)


def plan_easy(view: View) -> Plan:
    """Decide about every queued job and every running job that would grow."""
    return schedule_pass(view, EASY)


def _refusal_easy(state: PassState, candidate: Candidate, fits: bool) -> tuple[Reason, ...]:
    """Return the reason that it could delay the head: if it fits, or surely delays the head anyway."""
    head = state.head_of(candidate)
    if head is None or not (fits or state.surely_delays(candidate)):
        return ()
    job = head.job
    what = f"the job {'fits now, but ' if fits else ''}could delay job {job}, which has the reservation"
    if candidate.end == inf:
        what += "; with a run time limit, the job could be backfilled"
    return (Reason(Why.RESERVATION, what + candidate.lowered_in_words, str(job)),)


def _hopeless_fcfs(state: PassState, request: JobRequest, _need: ResolvedRequest) -> bool:
    return request.reservation in state.heads


FCFS = BackfillRule(_overtake, _refusal_fcfs, closed_blocks=True, is_hopeless=_hopeless_fcfs)
EASY = BackfillRule(backfill_placement, _refusal_easy, closed_blocks=False, is_hopeless=PassState.never_fits)


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


Order = Callable[[View], Mapping[JobId, SortKey]]
"""Return the key of each queued job; the smallest goes first.  All are numbers, or all tuples of numbers.

Running jobs may have keys too, for their growth; those without one go first.
"""


class BadOrder(ValueError):
    """The keys of a policy cannot be used to order the queue."""


class OrdersQueue:
    """The trait of a policy that orders the queue: its `ordered` is called before others use the view."""

    def ordered(self, view: View, /) -> View:
        """Return the view with the queue in the order of the policy."""
        raise NotImplementedError


class OrderedPolicy(OrdersQueue):
    """A policy made of an order and a plan, for example `OrderedPolicy(by_usage, plan_easy)`."""

    def __init__(self, order: Order, plan: Policy) -> None:
        self._order, self._plan = order, plan

    def __call__(self, view: View, /) -> Plan:
        """Decide about every queued job, in the order of the policy."""
        return self._plan(view if view.positions is not None else self.ordered(view))

    def ordered(self, view: View, /) -> View:
        """Return the view with the queue in the order of the policy.

        Raises:  BadOrder when a job has no key, or keys cannot be compared.
        """
        return in_order(view, self._order(view))


def in_order(view: View, keys: Mapping[JobId, SortKey]) -> View:
    """Return the view with its jobs in the order of these keys; equal keys: by priority and submission.

    Raises:  BadOrder when a queued job has no key, or keys cannot be compared.
    Cost:  O(jobs * log(jobs)).
    """
    first: SortKey = () if _are_tuples(keys) else -inf
    queue = [_class_in_order(each, keys) for each in view.queue]
    running = [_running_in_order(job, keys.get(job.job, first)) for job in view.running]
    waiting = chain.from_iterable(each.turns for each in queue)
    positions = {turn.job: turn for turn in chain(waiting, (job.turn for job in running))}
    return replace(view, queue=queue, running=running, positions=positions)


def reordering(policy: Policy) -> Callable[[View], View]:
    """Return the function that puts a view with changed jobs into the order of a policy."""
    if not isinstance(policy, OrdersQueue):
        return lambda view: view
    return lambda view: policy.ordered(without_order(view))


def without_order(view: View) -> View:
    """Return the view as it is before a policy orders its queue: by priority and submission."""
    queue = [replace(each, turns=sorted(replace(turn, key=0) for turn in each.turns)) for each in view.queue]
    running = [replace(job, turn=replace(job.turn, key=0)) for job in view.running]
    return replace(view, queue=queue, running=running, positions=None)


def _are_tuples(keys: Mapping[JobId, SortKey]) -> bool:
    """Return whether the keys are tuples, not numbers.

    Raises:  BadOrder when some are neither, or some are the one and some the other.
    """
    tuples = tuple in map(type, keys.values())
    parts: list[Any] = list(_parts(keys.values(), tuples=tuples))
    if {int, float}.issuperset(map(type, parts)) and not any(map(isnan, parts)):
        return tuples
    job, key = next(each for each in keys.items() if not _is_key(each[1], tuples=tuples))
    what = "a tuple of numbers, as other jobs have" if tuples else "a number or a tuple of numbers"
    raise BadOrder(f"its order gives job {job} the key {key!r}; it must be {what}")


def _parts(values: Iterable[SortKey], *, tuples: bool) -> Iterable[object]:
    """Return the numbers in keys; a key that is no tuple, though others are, is returned in a tuple."""
    if not tuples:
        return values
    return chain.from_iterable(key if isinstance(key, tuple) else ((key,),) for key in values)


def _is_key(key: SortKey, *, tuples: bool) -> bool:
    parts = key if isinstance(key, tuple) else (key,)
    return isinstance(key, tuple) is tuples and not any(
        type(part) not in (int, float) or isnan(part) for part in parts
    )


def _class_in_order(waiting: WaitingClass, keys: Mapping[JobId, SortKey]) -> WaitingClass:
    try:
        turns = [replace(turn, key=keys[turn.job]) for turn in waiting.turns]
    except KeyError as missing:
        raise BadOrder(f"its order has no key for job {missing}") from None
    return WaitingClass(waiting.request, sorted(turns), waiting.owner, waiting.project)


def _running_in_order(job: RunningJob, key: SortKey) -> RunningJob:
    return replace(job, turn=replace(job.turn, key=key))


DEFAULT_POLICY = "easy"
POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        "easy": plan_easy,
        "fcfs": plan_fcfs,
        "conservative": plan_conservative,
        "conservative-replan": plan_conservative_anew,
    }
)
