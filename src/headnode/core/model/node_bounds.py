"""What a node may say of its machine and of tasks: numbers that exist, texts and lists that can be shown.

A node that says something else is not believed in anything: it is drained, and its connection ends.
"""

import math
from collections.abc import Iterable, Iterator
from itertools import chain

from headnode.core.model import bounds as b
from headnode.core.model.bounds import Bound
from headnode.core.model.node import NodeFacts

LATEST_AHEAD = 86400.0  # seconds that the clock of a node may be ahead of the head's
_SHOWN = 40  # characters of a wrong text


def facts_objection(facts: NodeFacts) -> str:
    """Return what is impossible in what a machine says of itself; empty if nothing is."""
    numbers = (
        ("processors", facts.processors, b.PROCESSORS),
        ("sockets", facts.sockets, b.SOCKETS),
        ("MB of memory", facts.memory, b.MEMORY),
        ("MB of disk", facts.disk, b.MEMORY),
        ("MB of swap", facts.swap, b.MEMORY),
        ("MHz", facts.speed, b.SPEED),
    )
    for what, amount, bound in numbers:
        if problem := _number(what, amount, bound):
            return problem
    if facts.sockets > facts.processors:
        return f"it has {facts.sockets} sockets for {facts.processors} processors"
    return next(filter(None, chain(_list_problems(facts), _text_problems(facts))), "")


def _list_problems(facts: NodeFacts) -> Iterator[str]:
    for what, entries, most in (
        ("groups", facts.groups, b.NODE_LIST.most),
        ("features", facts.features, b.NODE_LIST.most),
        ("kinds of limits", facts.enforced, b.NODE_LIST.most),
        ("numbers of processors", facts.machine_processors, b.PROCESSORS.most),
    ):
        if len(entries) > most:
            yield f"it has {len(entries):,} {what}, not {most:,} at most"
    if any(not 0 <= number < 64 * b.PROCESSORS.most for number in facts.machine_processors):
        yield "it has a processor of an impossible number"


def _text_problems(facts: NodeFacts) -> Iterator[str]:
    own = (facts.name, facts.architecture, facts.system, facts.boot_id, facts.serves, facts.control_groups)
    for text in chain(own, (facts.version, facts.address), facts.groups, facts.features, facts.enforced):
        if len(text) > b.NAME.most:
            yield f"{text[:_SHOWN]!r}... has {len(text):,} characters, not {b.NAME.most} at most"


def result_objection(
    ends: tuple[int | None, int | None],
    times: Iterable[float | None],
    spans: Iterable[float],
    memory: Iterable[int],
    moved: Iterable[int],
    now: float,
) -> str:
    """Return what is impossible in what a node says of an attempt that is over; empty if nothing is.

    `ends` are exit code and signal, `spans` seconds of processor time, `memory` in kB, `moved` in bytes.
    """
    code, signal = ends
    for what, amount, bound in (
        ("exit code", code, b.CODE),
        ("signal", signal, b.SIGNAL),
        *(("kB of memory", amount, b.MEMORY_USED) for amount in memory),
        *(("bytes read or written", amount, b.BYTES_MOVED) for amount in moved),
        *(("seconds of processor time", amount, b.TIME_USED) for amount in spans),
    ):
        if amount is not None and (problem := _number(what, amount, bound)):
            return problem
    return next(filter(None, (time_objection(at, now) for at in times)), "")


def time_objection(at: float | None, now: float) -> str:
    """Return why a node cannot have done something at this time; empty if it can."""
    if at is None or (math.isfinite(at) and 0 <= at <= now + LATEST_AHEAD):
        return ""
    return f"the time {at:g} is not valid, or is in the future"


def _number(what: str, amount: float, bound: Bound) -> str:
    least = bound.least or 0
    if math.isfinite(amount) and least <= amount <= bound.most:
        return ""
    return f"{what}: {amount:g} is not between {least:,} and {bound.most:,}"
