"""Holds a policy to promises, in every small world and in long random histories; says where one is broken."""

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from math import inf
from typing import Any, NamedTuple

import msgspec

from headnode.core.model.job import JobRequest, Licence, RequestPart, UnitType
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.view import View
from headnode.testing.histories import (
    Arrival,
    History,
    Moment,
    Policy,
    live,
    show_history,
    show_plan,
    show_scene,
)
from headnode.testing.promises import (
    FAIR,
    OF_A_HISTORY,
    OF_A_PLAN,
    OF_A_POLICY,
    Promise,
    StartsWithin,
    Watcher,
)
from headnode.testing.scenes import INF, asks, gang, limited, node, part
from headnode.testing.small_worlds import SMALL_WORLDS
from headnode.testing.specification import PromiseBroken

MEMORY = 8  # MB with each processor of a node


class Manner(NamedTuple):
    """What happens in a history, beside jobs that ask for processors and keep to their limits."""

    name: str
    alike: bool = False  # all nodes are equal
    wholes: float = 0.25  # so often does a job want whole nodes
    special: float = 0.4  # so often does it want one node, nodes by name, memory or licences
    early: float = 0.5  # so often does it end before its limit
    ahead: float = 0.15  # so often has it a higher priority
    endless: float = 0.05  # so often has it no limit
    growing: float = 0.15  # so often does it take more or less, and grow
    closed: float = 0.1  # so often is a node closed
    parts: float = 0  # so often is it a gang, or has tasks with nodes of their own
    others: float = 0.0  # so often would it do with one or two other requests
    limits: float = 0.0  # so often is it of a user with limits
    gpus: float = 0.0  # so often does it count GPUs, which some nodes have


MANNERS = (
    Manner("everything"),
    Manner("processors anywhere, equal nodes", True, 0, 0, endless=0, growing=0, closed=0),
    Manner("whole nodes, equal nodes", True, 1, 0, endless=0, growing=0, closed=0),
    Manner("parts and wholes", True, 0.5, 0.2, ahead=0.3, endless=0, growing=0),
    Manner("exactly as said", early=0, endless=0, growing=0),
    Manner("many special wishes", special=0.8, early=0.7, endless=0.02),
    Manner("gangs", special=0.2, early=0.6, growing=0.1, parts=0.6),
    Manner("gangs on equal nodes", True, 0.1, 0, closed=0, growing=0, parts=0.7),
    Manner("other requests would do", others=0.6),
    Manner("GPUs", special=0.2, early=0.6, growing=0.1, gpus=0.5),
    Manner("limits of users", special=0.2, others=0.1, gpus=0.2, limits=0.8),
    Manner("other numbers, equal nodes", True, 0, 0, endless=0, growing=0, closed=0, others=0.6),
)


def random_histories(
    manner: Manner, count: int, *, jobs: int = 25, first: int = 0, depth: float = inf
) -> Iterator[tuple[int, History]]:
    """Yield histories with their seeds; the same seed makes the same history."""
    for seed in range(first, first + count):
        yield seed, random_history(manner, seed, jobs=jobs, depth=depth)


def random_history(manner: Manner, seed: int, *, jobs: int = 25, depth: float = inf) -> History:
    """Return the history of this seed."""
    dice = random.Random(f"{manner.name} {seed}")  # noqa: S311
    nodes = _nodes(dice, manner)
    licences = {"x": dice.randint(1, 3), "y": 2} if manner.special else {}
    kinds = [_request_or_others(dice, manner, nodes) for _ in range(dice.randint(3, 9))]
    if manner.limits:
        kinds = [_of_user(dice, each) if dice.random() < manner.limits else each for each in kinds]
    arrivals, at = [], 0.0
    for job in range(1, jobs + 1):
        at += dice.choice((0, 0, 0.5, 1, 2, 4))
        arrivals.append(_arrival(dice, manner, job, dice.choice(kinds), at))
    return History(nodes, arrivals, licences, depth)


def _of_user(dice: random.Random, request: JobRequest) -> JobRequest:
    user, most = dice.choice((("ann", {"jobs": 1}), ("bob", {"processors": 3}), ("eve", {"gpus": 1})))
    return limited(request, user, **most)


def _nodes(dice: random.Random, manner: Manner) -> list[NodeView]:
    count, same = dice.randint(1, 4), dice.randint(1, 3)
    nodes = []
    for number in range(count):
        size = same if manner.alike else dice.choice((same, same, 1, 2, 3))
        closed = "paused" if number and dice.random() < manner.closed else ""
        gpus = dice.randint(0, size) if manner.gpus else 0
        nodes.append(node(f"n{number}", size, closed=closed, memory=size * MEMORY, gpus=gpus))
    return nodes


def _request_or_others(dice: random.Random, manner: Manner, nodes: list[NodeView]) -> JobRequest:
    own = _request(dice, manner, nodes)
    if not manner.others or dice.random() >= manner.others:
        return own
    others = tuple(_request(dice, manner, nodes) for _ in range(dice.randint(1, 2)))
    return msgspec.structs.replace(own, alternatives=others)


def _request(dice: random.Random, manner: Manner, nodes: list[NodeView]) -> JobRequest:
    whole = dice.random() < manner.wholes
    in_all = sum(each.facts.processors for each in nodes)
    minutes = INF if dice.random() < manner.endless else float(dice.choice((1, 2, 3, 4, 6, 9)))
    if manner.parts and dice.random() < manner.parts:
        return _with_parts(dice, nodes, minutes, exclusive=whole)
    more: dict[str, Any] = {}
    if manner.gpus and dice.random() < manner.gpus:
        minimum, more["unit"] = dice.randint(1, 3), UnitType.GPU
        more |= {"processors_per_gpu": dice.choice((1, 1, 2)), "exclusive": whole}
    elif whole and dice.random() < 0.5:
        minimum, more["unit"] = dice.randint(1, len(nodes)), UnitType.NODE
    else:
        minimum, more["exclusive"] = dice.randint(1, in_all), whole
    maximum = minimum + (dice.randint(1, 2) if dice.random() < manner.growing else 0)
    if dice.random() < manner.special:
        more |= _special(dice, nodes)
        if more.get("single_node"):
            minimum = min(minimum, max(each.facts.processors for each in nodes))
            maximum = max(minimum, min(maximum, 3))
    return asks(minimum, maximum, minutes, **more)


def _with_parts(dice: random.Random, nodes: list[NodeView], minutes: float, *, exclusive: bool) -> JobRequest:
    """Return a gang of one to three parts, or a job whose tasks share what it holds."""
    parts = [_part(dice, nodes) for _ in range(dice.choice((1, 2, 2, 3)))]
    if dice.random() < 0.75:
        return gang(*parts, minutes=minutes, exclusive=exclusive)
    most = sum(each.units for each in parts)
    return asks(1, dice.randint(1, most), minutes, parts=tuple(parts), exclusive=exclusive)


def _part(dice: random.Random, nodes: list[NodeView]) -> RequestPart:
    """Return what one task wants; nodes are distinguished by their memory, or by name."""
    size, times = dice.choice(((1, 1), (1, 2), (1, 3), (2, 1), (2, 2)))
    needs: list[dict[str, Any]] = [
        {},
        {},
        {"minimum_memory": max(each.facts.memory for each in nodes)},
        {"excluded": (nodes[0].facts.name,)},
        {"names": tuple(each.facts.name for each in nodes[-2:])},
        {"spread": True},
        {"apart": True},
    ]
    return part(size, times, **dice.choice(needs))


def _special(dice: random.Random, nodes: list[NodeView]) -> dict[str, Any]:
    """Return something that makes it matter where a job runs, or what else it holds."""
    names = tuple(each.facts.name for each in nodes)
    wishes: list[dict[str, Any]] = [
        {"single_node": True},
        {"memory": dice.choice((4, 8, 12, 16))},
        {"memory": dice.choice((8, 12)), "single_node": True},
        {"licences": (Licence("x", 1),)},
        {"licences": (Licence("y", None),)},
        {"requested_nodes": names[: dice.randint(1, len(names))]},
        {"excluded_nodes": names[-1:]},
        {"required_nodes": (dice.choice(names),)},
        {"minimum_processors_per_node": 2},
        {"start_at_maximum": True},
    ]
    return dice.choice(wishes)


def _arrival(dice: random.Random, manner: Manner, job: int, request: JobRequest, at: float) -> Arrival:
    limit = request.run_time / 60
    lasts = float(dice.choice((1, 3, 7))) if limit == inf else limit
    lasts *= dice.choice((0.25, 0.5)) if dice.random() < manner.early else 1
    priority = 3000 if dice.random() < manner.ahead else 2000
    wants = dice.randint(1, 2) if dice.random() < manner.growing else 0
    return Arrival(job, request, at, lasts, priority, wants)


PATIENT = 3
"""The job that must not starve: the third to come."""

MAX_MINUTES = 20.0
"""How long it may wait: those before it are over after two minutes, and each of the stream lasts two."""

_STREAM = 60  # jobs, one each minute


class JobStream(NamedTuple):
    """A history and what is special about the job that must not starve."""

    name: str
    history: History


def streams() -> Iterator[JobStream]:
    """Yield a stream for everything that a job may wait for."""
    wants: dict[str, JobRequest] = {
        "all processors": asks(4, minutes=4),
        "all nodes": asks(2, minutes=4, unit=UnitType.NODE),
        "one idle node": asks(2, minutes=4, exclusive=True),
        "one node": asks(2, minutes=4, single_node=True),
        "a named node": asks(2, minutes=4, exclusive=True, required_nodes=("a",)),
        "memory": asks(2, minutes=4, memory=8),
    }
    for name, request in wants.items():
        yield JobStream(name, _history(request, minutes=2, memory=4 if name == "memory" else 0))
    yield JobStream("all licences", _history(asks(1, minutes=4, licences=(Licence("x", 2),)), 2, licence=1))
    yield JobStream("all, behind jobs without a limit", _history(asks(4, minutes=4), minutes=INF))
    yield JobStream("all, all without a limit", _history(asks(4), minutes=INF))


def _history(patient: JobRequest, minutes: float, *, memory: int = 0, licence: int = 0) -> History:
    more: dict[str, Any] = {"licences": (Licence("x", 1),)} if licence else {}
    small = asks(1, minutes=minutes, memory=memory, **more)
    nodes = [node("a", 2, memory=8), node("b", 2, memory=8)]
    jobs = [Arrival(1, small, 0, 2), Arrival(2, small, 0.5, 2), Arrival(PATIENT, patient, 0.5, 2)]
    jobs += [Arrival(PATIENT + nth, small, nth / 2, 2) for nth in range(1, 2 * _STREAM)]
    return History(nodes, sorted(jobs, key=lambda each: (each.at, each.job)), {"x": 2} if licence else {})


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
        broken = _lived(policy, history, frozenset(), (StartsWithin(PATIENT, MAX_MINUTES),))
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
