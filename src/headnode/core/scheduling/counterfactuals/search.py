"""The search for what would let a job start: every answer is a plan of the policy for the world so changed.

A plan of a large cluster takes its time, so few are asked for: limits that end where a reservation begins
and sizes that just fit are asked first; then one bisects.

Cost:  at most `most` plans, and O(axes * log(values)) placements.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import NamedTuple

from headnode.core.scheduling.counterfactuals.asking import Asking, Probing
from headnode.core.scheduling.counterfactuals.axes import Axis, Room, What, axes_of
from headnode.core.scheduling.counterfactuals.subject import Outcome, Subject, outcome_of
from headnode.core.scheduling.decision import Plan
from headnode.core.scheduling.policies import Policy
from headnode.core.scheduling.view import View

MOST_PLANS = 20
MOST_PAIRS = 3  # changes of two things at once that are told
GOES_WITH_ANY = frozenset({What.RUN_TIME, What.SIZE, What.SIZE_AGAIN})
"""What is changed together with something else when no single change helps."""


class Change(NamedTuple):
    """One thing that is different; `value` counts what `What` says it counts."""

    what: What
    about: str
    value: int


class Offer(NamedTuple):
    """A change, or several together, what the job is then, and what the policy does for it."""

    changes: tuple[Change, ...]
    subject: Subject
    outcome: Outcome


class Found(NamedTuple):
    """All offers, how many plans were asked for, and whether the search was cut short."""

    offers: tuple[Offer, ...] = ()
    plans: int = 0
    cut: bool = False


class _Mildest(NamedTuple):
    value: int
    subject: Subject
    outcome: Outcome


def counterfactuals(
    view: View, policy: Policy, subject: Subject, room: Room, *, most: int = MOST_PLANS
) -> Found:
    """Return what would make the subject, a job that queues in the view, start now, or else sooner."""
    search = searching(view, policy(view), subject, room, most=most)
    try:
        asked = next(search)
        while True:
            asked = search.send(policy(asked))
    except StopIteration as ended:
        found: Found = ended.value
        return found


def searching(
    view: View, plan: Plan, subject: Subject, room: Room, *, most: int = MOST_PLANS
) -> Probing[Found]:
    """Search for whoever plans himself, such as somebody who has other things to do between two plans.

    `plan` is the policy's plan of the view, in which the subject queues.
    """
    base = outcome_of(plan, view, subject)
    if base.now:
        return Found()
    asking, axes = Asking(view, subject, most), axes_of(subject, view, plan, room)
    offers = yield from _alone(asking, subject, axes)
    offers = offers or (yield from _together(asking, subject, axes))
    offers = offers or (yield from _sooner(asking, subject, axes, base))
    return Found(tuple(offers), asking.plans, asking.cut)


def _alone(asking: Asking, subject: Subject, axes: Sequence[Axis]) -> Probing[list[Offer]]:
    """Look for single changes with which it starts now."""
    offers: list[Offer] = []
    for axis in axes:
        if axis.what is What.SIZE_AGAIN and any(offer.changes[0].what is What.SIZE for offer in offers):
            continue  # nobody gives up the place in the queue for what can be had without
        mildest = yield from _starting(asking, subject, axis)
        if mildest:
            offers.append(_offer((axis, mildest)))
    return offers


def _together(asking: Asking, subject: Subject, axes: Sequence[Axis]) -> Probing[list[Offer]]:
    """Look for two changes with which it starts now: as little as possible of the one, then of the other."""
    offers: list[Offer] = []
    for one, other in combinations(axes, 2):
        kinds = {one.what, other.what}
        if not kinds & GOES_WITH_ANY or kinds == {What.SIZE, What.SIZE_AGAIN}:
            continue
        found: list[Offer] = []
        for first, second in ((one, other), (other, one)):
            if len(offers) + len(found) == MOST_PAIRS:
                return offers + found
            offer = yield from _pair(asking, subject, first, second)
            if offer is None:
                break
            if all(offer.subject != known.subject for known in found):
                found.append(offer)
        offers += found
    return offers


def _pair(asking: Asking, subject: Subject, first: Axis, second: Axis) -> Probing[Offer | None]:
    """Return the mildest of the first, with all of the second, and then the mildest of the second."""
    most_of_second = second.change(subject, second.values[-1])
    one = yield from _starting(asking, most_of_second, first)
    if one is None:
        return None
    other = yield from _starting(asking, first.change(subject, one.value), second)
    return None if other is None else _offer((first, one), (second, other))


def _sooner(asking: Asking, subject: Subject, axes: Sequence[Axis], base: Outcome) -> Probing[list[Offer]]:
    """Look for single changes with which it is promised to start sooner: the soonest that each can give."""
    offers: list[Offer] = []
    for axis in sorted(axes, key=lambda axis: axis.what is What.RUN_TIME):  # it has most values: last
        strongest = yield from asking.outcome(axis.change(subject, axis.values[-1]))
        if strongest is None or strongest.at >= base.at:
            continue
        mildest = yield from _mildest(asking, subject, axis, _by(strongest.at))
        if mildest:
            offers.append(_offer((axis, mildest)))
    return offers


def _by(at: float) -> Callable[[Outcome], bool]:
    return lambda outcome: outcome.at <= at


def _offer(*mildest: tuple[Axis, _Mildest]) -> Offer:
    _, last = mildest[-1]
    changes = (Change(axis.what, axis.about, one.value) for axis, one in mildest)
    return Offer(tuple(changes), last.subject, last.outcome)


def _starting(asking: Asking, subject: Subject, axis: Axis) -> Probing[_Mildest | None]:
    """Return the mildest value with which the subject starts now; values that do not fit are not asked."""
    values = range(len(axis.values))
    first = bisect_left(
        values, True, key=lambda place: asking.could_start(axis.change(subject, axis.values[place]))
    )
    return (yield from _mildest(asking, subject, axis, lambda outcome: outcome.now, first))


def _mildest(
    asking: Asking, subject: Subject, axis: Axis, good: Callable[[Outcome], bool], first: int = 0
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
