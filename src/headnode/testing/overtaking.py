"""Promises about who goes first: nobody overtakes, or nobody who would delay the first that must wait.

A plan is gone through wish by wish in turn, and held against a search through everything.
"""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.decision import Plan
from headnode.core.scheduling.view import View
from headnode.testing.broken import broken_unless
from headnode.testing.holding import Held, Wish, empty, held_by_running, reopened, wishes, world
from headnode.testing.specification import allowed, ways


class Head(NamedTuple):
    """The first blocked job, and who still holds something when its promise falls due."""

    job: JobId
    request: JobRequest
    at: Instant | None  # None: nothing is promised to it
    still_there: tuple[Held, ...]

    def with_another(self, new: Held) -> "Head":
        """Return the head with one more beside it, unless that is over in time."""
        if self.at is not None and new.end <= self.at < NEVER:
            return self
        return self._replace(still_there=(*self.still_there, new))

    def is_kept(self, view: View) -> bool:
        """Return whether the promise can be kept."""
        return self.at is None or bool(ways(self.request, world(view, self.still_there)))


def nobody_overtakes(view: View, plan: Plan) -> None:
    """Behind the first job that must wait, nobody starts and nobody grows; it has the earliest reservation.

    A job whose nodes are closed counts as one that must wait, but nothing is promised to it.
    Raises:  PromiseBroken.
    """
    _Walk(view, plan, overtaking=False).check()


def first_blocked_is_not_delayed(view: View, plan: Plan) -> None:
    """The first job that must wait has the earliest reservation, and nobody who is given something delays it.

    A job whose nodes are closed is passed over.
    Raises:  PromiseBroken.
    """
    _Walk(view, plan, overtaking=True).check()


def who_is_over_in_time_overtakes(view: View, plan: Plan) -> None:
    """Nobody waits who fits now and is over before the first blocked job's reservation.

    Raises:  PromiseBroken.
    """
    _Walk(view, plan, overtaking=True, thorough=False).check()


def whoever_can_overtake_does(view: View, plan: Plan) -> None:
    """Nobody waits who could start now, on any nodes, without delaying the first blocked job.

    Nor does anybody start with a request that could start with one that it prefers.

    A policy need not look at every layout; ours do where there are few.
    Raises:  PromiseBroken.
    """
    _Walk(view, plan, overtaking=True, thorough=True).check()


class _Walk:
    """Goes through the wishes in turn, with what was given so far."""

    def __init__(self, view: View, plan: Plan, *, overtaking: bool, thorough: bool | None = None) -> None:
        self._view, self._plan = view, plan
        self._overtaking, self._thorough = overtaking, thorough
        self._held = held_by_running(view)
        self._head: Head | None = None

    def check(self) -> None:
        given = {(each.job, False): (each.allocation, 0) for each in self._plan.grows}
        given |= {(each.job, True): (each.allocation, each.option) for each in self._plan.starts}
        for wish in wishes(self._view):
            shares, option = given.get((wish.job, wish.starts), (None, 0))
            if shares is not None:
                self._preferred(wish, option)
                self._given(wish, wish.under(option, self._view.now).held(shares))
            elif self._head is None:
                self._blocked(wish)
            elif self._thorough is not None:
                for each in wish.options(self._view.now):
                    self._refused(self._head, each)
        promised = self._head is not None and self._head.at is not None
        broken_unless(
            promised == bool(self._plan.reservations), "a reservation for nobody, or none for the first"
        )

    def _preferred(self, wish: Wish, option: int) -> None:
        """Check that no request could be given that the job prefers."""
        for better in wish.options(self._view.now)[:option]:
            if self._head is not None and self._thorough is not None:
                self._refused(self._head, better)
            elif self._head is None:
                fits = ways(better.request, world(self._view, self._held))
                broken_unless(not fits, f"job {wish.job} is not given the request it prefers, which fits")

    def _given(self, wish: Wish, new: Held) -> None:
        if self._head is not None:
            broken_unless(self._overtaking, f"job {wish.job} overtakes job {self._head.job}")
            self._head = self._head.with_another(new)
            broken_unless(self._head.is_kept(self._view), f"job {wish.job} delays job {self._head.job}")
        self._held.append(new)

    def _blocked(self, wish: Wish) -> None:
        there, under = world(self._view, self._held), wish.options(self._view.now)
        fits = any(ways(option.request, there) for option in under)
        broken_unless(not fits, f"job {wish.job} fits with nobody waiting ahead of it, but is given nothing")
        could = empty(self._view if self._overtaking else reopened(self._view))
        if wish.starts and any(ways(option.request, could) for option in under):
            self._head = self._promised(wish)

    def _promised(self, wish: Wish) -> Head:
        """Find the earliest instant by trying every one, and hold the plan to it.

        Of several requests that fit then, the job has a place for the one that it prefers.
        """
        futures, under = _futures(self._view, self._held), enumerate(wish.options(self._view.now))
        for (option, one), (at, left) in sorted(product(under, futures), key=lambda each: each[1][0]):
            ground = world(self._view, left)
            if ways(one.request, ground):
                first = self._plan.reservation
                told = None if first is None else (first.job, first.at, first.option)
                could = f"job {wish.job} can start at {at} with request {option}; reserved is {told}"
                broken_unless(told == (wish.job, at, option), could)
                fits = first is not None and allowed(one.request, ground, first.allocation)
                broken_unless(fits, f"what is reserved for job {wish.job} is not free at {at}")
                said = self._plan.waits[wish.request].not_before
                broken_unless(said == at, f"job {wish.job} is told {said} instead of {at}")
                return Head(wish.job, one.request, at, tuple(left))
        return Head(wish.job, wish.request, None, ())

    def _refused(self, head: Head, wish: Wish) -> None:
        over_in_time = head.at is not None and wish.end <= head.at < NEVER
        if head.at is None or not (over_in_time or self._thorough):
            return
        for shares in ways(wish.request, world(self._view, self._held)):
            kept = head.with_another(wish.held(shares)).is_kept(self._view)
            broken_unless(not kept, f"job {wish.job} may overtake with {shares}, but is given nothing")


def _futures(view: View, held: Sequence[Held]) -> list[tuple[Instant, list[Held]]]:
    """Return each instant something ends, and what is held after it; without limit: one after the other."""
    futures = []
    ordered = sorted(held, key=lambda each: each[:3])
    for gone, each in enumerate(ordered, start=1):
        if each.end == NEVER or gone == len(ordered) or ordered[gone].end > each.end:
            futures.append((Instant(max(each.end, view.now)), ordered[gone:]))
    return [*futures, (NEVER, [])]
