"""The search for what would let a job start: each answer is a plan of the policy for the changed world.

A plan of a large cluster takes its time, so few are asked for: limits that end where a reservation begins
and sizes that just fit are asked first; then one bisects.  What cannot be placed on what is free now is not
asked, and nothing is asked twice.

Cost:  at most `most` plans, and O(axes * log(values)) placements.
"""

from bisect import bisect_left
from collections.abc import Callable, Generator, Sequence
from itertools import combinations
from typing import NamedTuple, TypeVar

from headnode.core.scheduling.candidates import resolve_now
from headnode.core.scheduling.explain.changes import (
    ChangeAxis,
    ChangeKind,
    ChangeLimits,
    PlannedStart,
    Subject,
    axes_of,
    planned_start,
    with_job,
    without_job,
)
from headnode.core.scheduling.free_resources import FreeResources
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.placement import at_minimum, find_placement
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.view import View

T = TypeVar("T")
Probing = Generator[View, Plan | None, T]
"""Yields views to be planned and is sent their plans; None instead of a plan ends the asking."""


class WhatIfPlanner:
    """Plans with a changed subject, at most `most` of them; `cut` is set if another one was needed."""

    def __init__(self, view: View, subject: Subject, most: int) -> None:
        self.plans = 0
        self.cut = False
        self._most = most
        self._rest = without_job(view, subject)
        self._known: dict[Subject, PlannedStart] = {}
        self._node_table, self._now = NodeTable(view.nodes), view.now
        free = {feature: free for feature, (_, free) in view.licences.items()}
        self._resources = FreeResources.now(self._node_table, view.nodes, free)

    def could_start(self, subject: Subject) -> bool:
        """Return whether the subject fits on what is free now; if not, no policy starts it."""
        options = (subject.request, *subject.request.alternatives)
        return any(
            find_placement(at_minimum(resolve_now(one, self._node_table, self._now)), self._resources)
            is not None
            for one in options
        )

    def outcome(self, subject: Subject) -> Probing[PlannedStart | None]:
        """Return what the policy would do for the subject, or None if no more plans may be asked for."""
        known = self._known.get(subject)
        if known is not None:
            return known
        self.cut = self.cut or self.plans == self._most
        if self.cut:
            return None
        view = with_job(self._rest, subject)
        plan = yield view
        if plan is None:
            self.cut = True
            return None
        self.plans += 1
        known = self._known[subject] = planned_start(plan, view, subject)
        return known


MAX_PLANS = 20
MAX_PAIRS = 3  # changes of two things at once that are told
GOES_WITH_ANY = frozenset({ChangeKind.RUN_TIME, ChangeKind.SIZE, ChangeKind.SIZE_AGAIN})
"""What is changed together with something else when no single change helps."""


class RequestChange(NamedTuple):
    """One change of a request; `ChangeKind` defines the unit of `value`."""

    what: ChangeKind
    about: str
    value: int


class Suggestion(NamedTuple):
    """One change or several together, the changed job, and its start in the plan of the policy."""

    changes: tuple[RequestChange, ...]
    subject: Subject
    outcome: PlannedStart


class Suggestions(NamedTuple):
    """All suggestions, the number of plans made, and whether the search was cut short."""

    offers: tuple[Suggestion, ...] = ()
    plans: int = 0
    cut: bool = False


class _Mildest(NamedTuple):
    value: int
    subject: Subject
    outcome: PlannedStart


def search_changes(
    view: View, plan: Plan, subject: Subject, room: ChangeLimits, *, most: int = MAX_PLANS
) -> Probing[Suggestions]:
    """Search step by step: the caller makes each plan, and may do other work between two plans.

    `plan` is the policy's plan of the view, in which the subject queues.
    """
    base = planned_start(plan, view, subject)
    if base.now:
        return Suggestions()
    asking, axes = WhatIfPlanner(view, subject, most), axes_of(subject, view, plan, room)
    offers = yield from _alone(asking, subject, axes)
    offers = offers or (yield from _together(asking, subject, axes))
    offers = offers or (yield from _sooner(asking, subject, axes, base))
    return Suggestions(tuple(offers), asking.plans, asking.cut)


def _alone(asking: WhatIfPlanner, subject: Subject, axes: Sequence[ChangeAxis]) -> Probing[list[Suggestion]]:
    """Look for single changes with which it starts now."""
    offers: list[Suggestion] = []
    for axis in axes:
        if axis.what is ChangeKind.SIZE_AGAIN and any(
            offer.changes[0].what is ChangeKind.SIZE for offer in offers
        ):
            continue  # the job need not lose its place in the queue for this change
        mildest = yield from _starting(asking, subject, axis)
        if mildest:
            offers.append(_suggestion((axis, mildest)))
    return offers


def _together(
    asking: WhatIfPlanner, subject: Subject, axes: Sequence[ChangeAxis]
) -> Probing[list[Suggestion]]:
    """Look for two changes with which it starts now: as little as possible of the one, then of the other."""
    offers: list[Suggestion] = []
    for one, other in combinations(axes, 2):
        kinds = {one.what, other.what}
        if not kinds & GOES_WITH_ANY or kinds == {ChangeKind.SIZE, ChangeKind.SIZE_AGAIN}:
            continue
        found: list[Suggestion] = []
        for first, second in ((one, other), (other, one)):
            if len(offers) + len(found) == MAX_PAIRS:
                return offers + found
            offer = yield from _pair(asking, subject, first, second)
            if offer is None:
                break
            if all(offer.subject != known.subject for known in found):
                found.append(offer)
        offers += found
    return offers


def _pair(
    asking: WhatIfPlanner, subject: Subject, first: ChangeAxis, second: ChangeAxis
) -> Probing[Suggestion | None]:
    """Return the mildest of the first, with all of the second, and then the mildest of the second."""
    most_of_second = second.change(subject, second.values[-1])
    one = yield from _starting(asking, most_of_second, first)
    if one is None:
        return None
    other = yield from _starting(asking, first.change(subject, one.value), second)
    return None if other is None else _suggestion((first, one), (second, other))


def _sooner(
    asking: WhatIfPlanner, subject: Subject, axes: Sequence[ChangeAxis], base: PlannedStart
) -> Probing[list[Suggestion]]:
    """Look for single changes with which it is promised to start sooner: the soonest that each can give."""
    offers: list[Suggestion] = []
    for axis in sorted(axes, key=lambda axis: axis.what is ChangeKind.RUN_TIME):  # it has most values: last
        strongest = yield from asking.outcome(axis.change(subject, axis.values[-1]))
        if strongest is None or strongest.at >= base.at:
            continue
        mildest = yield from _mildest(asking, subject, axis, _by(strongest.at))
        if mildest:
            offers.append(_suggestion((axis, mildest)))
    return offers


def _by(at: float) -> Callable[[PlannedStart], bool]:
    return lambda outcome: outcome.at <= at


def _suggestion(*mildest: tuple[ChangeAxis, _Mildest]) -> Suggestion:
    _, last = mildest[-1]
    changes = (RequestChange(axis.what, axis.about, one.value) for axis, one in mildest)
    return Suggestion(tuple(changes), last.subject, last.outcome)


def _starting(asking: WhatIfPlanner, subject: Subject, axis: ChangeAxis) -> Probing[_Mildest | None]:
    """Return the mildest value with which the subject starts now; values that do not fit are not asked."""
    values = range(len(axis.values))
    first = bisect_left(
        values, True, key=lambda place: asking.could_start(axis.change(subject, axis.values[place]))
    )
    return (yield from _mildest(asking, subject, axis, lambda outcome: outcome.now, first))


def _mildest(
    asking: WhatIfPlanner,
    subject: Subject,
    axis: ChangeAxis,
    good: Callable[[PlannedStart], bool],
    first: int = 0,
) -> Probing[_Mildest | None]:
    """Return the mildest value from `first` on whose outcome is good, or the mildest known when cut short."""
    found: _Mildest | None = None
    not_good, is_good = first - 1, len(axis.values)
    guesses = sorted({first, *axis.guesses} if first else axis.guesses)
    while is_good - not_good > 1:
        place = _next(not_good, is_good, guesses, known=found is not None)
        changed = axis.change(subject, axis.values[place])
        outcome = yield from asking.outcome(changed)
        if outcome is None:
            break
        if good(outcome):
            found, is_good = _Mildest(axis.values[place], changed, outcome), place
        else:
            not_good = place
    return found


def _next(not_good: int, is_good: int, guesses: Sequence[int], *, known: bool) -> int:
    """Return which value between the two to ask about."""
    inside = [guess for guess in guesses if not_good < guess < is_good]
    if inside:
        return inside[len(inside) // 2]
    if not known or is_good in guesses:
        return is_good - 1  # the strongest of all, or the next milder than a guess that was right
    return (not_good + is_good) // 2
