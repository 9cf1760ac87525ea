"""Holds a policy to promises, in every small world and in long histories; says where one is broken."""

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from math import inf
from typing import NamedTuple

import msgspec

from headnode.core.model.quantities import JobId
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.view import View
from headnode.testing.histories import History, Moment, Policy, live, show_history, show_plan, show_scene
from headnode.testing.promises import (
    FAIR,
    OF_A_HISTORY,
    OF_A_PLAN,
    OF_A_POLICY,
    Promise,
    StartsWithin,
    Watcher,
)
from headnode.testing.random_histories import MANNERS, MOST_MINUTES, PATIENT, random_histories, streams
from headnode.testing.small_worlds import SMALL_WORLDS
from headnode.testing.specification import PromiseBroken

ASK_AGAIN_EVERY = 5  # passes of a history, for promises that plan every view again


class Effort(NamedTuple):
    """How much is tried."""

    every: int = 1  # of the small worlds; 10: each tenth
    histories: int = 20  # random ones, of each manner
    first_seed: int = 0
    jobs: int = 25  # in each history


QUICK, THOROUGH = Effort(every=7, histories=5), Effort()


def check_policy(
    policy: Policy,
    promises: Iterable[Promise] = FAIR,
    *,
    depth: float = inf,
    effort: Effort = THOROUGH,
) -> None:
    """Hold a policy to promises wherever it can be tried.

    `depth` is how many reservations the views allow.
    Raises:  PromiseBroken with the scene or the history as code, and what the policy said.
    """
    asked = frozenset(promises)
    check_small_worlds(policy, asked, depth=depth, every=effort.every)
    if Promise.NOBODY_STARVES in asked:
        check_streams(policy, depth=depth)
    for manner in MANNERS:
        chosen = random_histories(
            manner, effort.histories, jobs=effort.jobs, first=effort.first_seed, depth=depth
        )
        for seed, history in chosen:
            try:
                check_history(policy, history, asked)
            except PromiseBroken as broken:
                raise PromiseBroken(f"{broken}\n(manner {manner.name!r}, seed {seed})") from None


def check_small_worlds(
    policy: Policy,
    promises: Iterable[Promise],
    *,
    names: Iterable[str] = SMALL_WORLDS,
    depth: float = inf,
    every: int = 1,
) -> int:
    """Hold a policy to promises in small worlds of these names; return in how many.

    Raises:  PromiseBroken.
    """
    asked, tried = frozenset(promises), 0
    for view in islice(chain.from_iterable(SMALL_WORLDS[name]() for name in names), 0, None, every):
        check_scene(policy, msgspec.structs.replace(view, depth=depth), asked)
        tried += 1
    return tried


def check_scene(policy: Policy, view: View, promises: Iterable[Promise] = FAIR) -> Plan:
    """Hold a policy to promises about one plan; return the plan.

    Raises:  PromiseBroken.
    """
    plan = policy(view)
    _check(policy, view, plan, promises, again=True)
    return plan


def check_history(policy: Policy, history: History, promises: Iterable[Promise] = FAIR) -> None:
    """Hold a policy to promises in every pass of a history and over all of it.

    A history in which one is broken is shown without the jobs that do not matter.
    Raises:  PromiseBroken.
    """
    asked = frozenset(promises)
    broken = _lived(policy, history, asked, ())
    if broken is not None:
        shorter, broken = _shortened(policy, history, asked, broken)
        raise PromiseBroken(f"{broken}\n\nin the history\n{show_history(shorter)}") from None


def check_streams(policy: Policy, *, depth: float = inf) -> None:
    """Hold a policy to the promise that nobody starves.

    Raises:  PromiseBroken.
    """
    for stream in streams():
        history = stream.history._replace(depth=depth)
        broken = _lived(policy, history, frozenset(), (StartsWithin(PATIENT, MOST_MINUTES),))
        if broken is not None:
            wants = f"in the history, where job {PATIENT} wants {stream.name}"
            raise PromiseBroken(f"{broken}\n\n{wants}\n{show_history(history)}")


def _lived(
    policy: Policy, history: History, asked: frozenset[Promise], more: Sequence[Watcher]
) -> PromiseBroken | None:
    """Return how a promise is broken in a history, if one is."""
    watchers = [(promise, make(history)) for promise, make in OF_A_HISTORY.items() if promise in asked]
    watchers += [(Promise.NOBODY_STARVES, watcher) for watcher in more]
    waiting = [JobId(each.job) for each in history.arrivals]
    try:
        for number, moment in enumerate(live(history, policy)):
            _check(policy, moment.view, moment.plan, asked, again=number % ASK_AGAIN_EVERY == 0)
            for promise, watcher in watchers:
                _watch(promise, watcher, moment)
            for start in moment.plan.starts:
                waiting.remove(start.job)
        for promise, watcher in watchers:
            _end(promise, watcher, waiting)
    except PromiseBroken as broken:
        return broken
    return None


def _shortened(
    policy: Policy, history: History, asked: frozenset[Promise], broken: PromiseBroken
) -> tuple[History, PromiseBroken]:
    """Leave out jobs as long as a promise is still broken without them."""
    jobs = len(history.arrivals) + 1
    while len(history.arrivals) < jobs:
        jobs = len(history.arrivals)
        for each in reversed(history.arrivals):
            fewer = history._replace(arrivals=[other for other in history.arrivals if other is not each])
            still = _lived(policy, fewer, asked, ()) if fewer.arrivals else None
            if still is not None:
                history, broken = fewer, still
    return history, broken


def _check(policy: Policy, view: View, plan: Plan, asked: Iterable[Promise], *, again: bool) -> None:
    for promise in sorted(asked):
        try:
            if promise in OF_A_PLAN:
                OF_A_PLAN[promise](view, plan)
            elif promise in OF_A_POLICY and again:
                OF_A_POLICY[promise](policy, view, plan)
        except PromiseBroken as broken:
            raise _placed(promise, broken, view, plan) from None


def _watch(promise: Promise, watcher: Watcher, moment: Moment) -> None:
    try:
        watcher.see(moment)
    except PromiseBroken as broken:
        raise _placed(promise, broken, moment.view, moment.plan) from None


def _end(promise: Promise, watcher: Watcher, waiting: list[JobId]) -> None:
    try:
        watcher.end(waiting)
    except PromiseBroken as broken:
        raise PromiseBroken(f"not kept: {promise}: {broken}") from None


def _placed(promise: Promise, broken: PromiseBroken, view: View, plan: Plan) -> PromiseBroken:
    """Say which promise was broken, where, and what the policy had said."""
    said = show_plan(plan, view.now)
    return PromiseBroken(f"not kept: {promise}\n{broken}\n\nin\n{show_scene(view)}\n\nthe plan was\n{said}")
