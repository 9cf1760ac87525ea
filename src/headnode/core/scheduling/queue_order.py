"""Policies that order the queue themselves, such as by what owners have used.

`order` gives each job a sort key.  The view then has the queue in that order: a `QueuePosition` begins with
the key, so the plan, preemption, explanations and predictions all follow it.  Classes of such a view are of
one owner and project.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from math import inf, isnan
from typing import Any

import msgspec

from headnode.core.model.quantities import JobId, QueuePosition, SortKey
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.policies import Policy
from headnode.core.scheduling.view import RunningJob, View, WaitingClass

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
    return msgspec.structs.replace(view, queue=queue, running=running, positions=positions)


def reordering(policy: Policy) -> Callable[[View], View]:
    """Return the function that puts a view with changed jobs into the order of a policy."""
    if not isinstance(policy, OrdersQueue):
        return _unchanged
    return lambda view: policy.ordered(without_order(view))


def _unchanged(view: View) -> View:
    return view


def without_order(view: View) -> View:
    """Return the view as it is before a policy orders its queue: by priority and submission."""
    queue = [
        msgspec.structs.replace(each, turns=sorted(turn._replace(key=0) for turn in each.turns))
        for each in view.queue
    ]
    running = [msgspec.structs.replace(job, turn=job.turn._replace(key=0)) for job in view.running]
    return msgspec.structs.replace(view, queue=queue, running=running, positions=None)


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
        turns = [QueuePosition(keys[job], minus, order, job) for _, minus, order, job in waiting.turns]
    except KeyError as missing:
        raise BadOrder(f"its order has no key for job {missing}") from None
    return WaitingClass(waiting.request, sorted(turns), waiting.owner, waiting.project)


def _running_in_order(job: RunningJob, key: SortKey) -> RunningJob:
    return msgspec.structs.replace(job, turn=job.turn._replace(key=key))
