"""What a job or task group asks for, in the words that Headnode has: the meeting point of both directions.

Source: SSS 3.1.0, "Requested", Tables 25-2 to 25-4, "Node", "Feature", "Resource".
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import msgspec

from headnode.core.formats.sss.consumables import Consumable, Resource, Unit
from headnode.core.formats.sss.properties import Op, Property
from headnode.core.formats.sss.requests.constraint import Comparison, Constraint, whole_range
from headnode.core.formats.sss.selections import Aggregation, Selection
from headnode.core.formats.sss.value_types import MOST_SECONDS
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import Licence
from headnode.core.model.quantities import FOREVER, Seconds
from headnode.core.model.small_checks import MOST_CODE

LICENSE = "License"  # how a Resource that is a licence is called
Bounds = tuple[int, int]

_EXACT = frozenset({Comparison.EQ})
_NUMBERS = frozenset({Comparison.EQ, Comparison.GE, Comparison.GT, Comparison.LE, Comparison.LT})
_NAMES = frozenset({Comparison.EQ, Comparison.IN, Comparison.NE, Comparison.NOT_IN})
_LOWER = frozenset({Comparison.EQ, Comparison.GE, Comparison.GT})
SAYABLE: Mapping[str, frozenset[Comparison]] = {
    "Processors": _NUMBERS,
    "NodeCount": _NUMBERS,
    "Memory": _NUMBERS,
    "Duration": _NUMBERS,
    "Node": _NAMES,
    "Feature": _EXACT,
    "Partition": _EXACT,
    "Resource": _LOWER,
    "Project": _EXACT,
    "User": _EXACT,
    "Queue": _EXACT,
    "QualityOfService": _EXACT,
    "Machine": _EXACT,
}
"""The comparisons that Headnode can act on, by the property."""


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for.  Memory is in MB for each node; None and empty are: nothing is said."""

    processors: Bounds | None = None
    nodes: Bounds | None = None
    least_memory: int | None = None
    most_memory: int | None = None
    run_time: Seconds = FOREVER
    names: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    partition: str = ""
    licences: tuple[Licence, ...] = ()
    project: str = ""
    user: str = ""
    queue: str = ""
    quality: str = ""
    machine: str = ""


def is_sayable(one: Constraint) -> bool:
    """Whether Headnode can act on a constraint."""
    name = one.subject[0]
    if name == "Resource" and (one.subject[1].lower() != LICENSE.lower() or not one.subject[2]):
        return False
    return one.comparison in SAYABLE.get(name, ())


class Approximations(NamedTuple):
    """The properties that are met, but not in all they leave open."""

    of: tuple[str, ...]


def wishes_of(constraints: Sequence[Constraint]) -> tuple[Wishes, Approximations]:
    """Return what `constraints`, all of them sayable, ask for.

    Raises:  BadRequest ``size`` for counts that no cluster has.

    Where no upper bound is given, the lower one is it: the wish is met, and nobody else is kept out.
    """
    open_ended = [name for name in ("Processors", "NodeCount") if _is_open(constraints, name)]
    texts = {one.subject[0]: str(one.value) for one in constraints if one.comparison is Comparison.EQ}
    memory = [one for one in constraints if one.subject == ("Memory",)]
    wishes = Wishes(
        processors=_bounds(constraints, "Processors"),
        nodes=_bounds(constraints, "NodeCount"),
        least_memory=_least_memory(memory),
        most_memory=_most_memory(memory),
        run_time=_run_time(constraints),
        names=tuple(_names(constraints, Comparison.EQ, Comparison.IN)),
        excluded=tuple(_names(constraints, Comparison.NE, Comparison.NOT_IN)),
        features=_values(constraints, "Feature"),
        partition=texts.get("Partition", ""),
        licences=tuple(_licences(constraints)),
        project=texts.get("Project", ""),
        user=texts.get("User", ""),
        queue=texts.get("Queue", ""),
        quality=texts.get("QualityOfService", ""),
        machine=texts.get("Machine", ""),
    )
    return wishes, Approximations(tuple(open_ended))


def _is_open(constraints: Sequence[Constraint], name: str) -> bool:
    return any(one.subject == (name,) for one in constraints) and math.isinf(
        whole_range(constraints, name).most
    )


def _bounds(constraints: Sequence[Constraint], name: str) -> Bounds | None:
    """Return how many; nothing when only 0 is asked for.

    Raises:  BadRequest ``size``.
    """
    if not any(one.subject == (name,) for one in constraints):
        return None
    least, most = whole_range(constraints, name)
    least = max(least, 1)
    if least > MOST_CODE:
        raise BadRequest(
            code="size",
            what=f"{name} {least} is more than any cluster has",
            fix=f"ask for {MOST_CODE} or less",
        )
    high = least if math.isinf(most) else min(int(most), MOST_CODE)
    return (least, high) if high >= 1 else None


def _least_memory(memory: Sequence[Constraint]) -> int | None:
    """Return the megabytes that a node must have; a bare amount is one that is needed."""
    lower = [_megabytes(one, up=True) for one in memory if one.comparison in _LOWER]
    return max(lower, default=0) or None


def _most_memory(memory: Sequence[Constraint]) -> int | None:
    upper = [_megabytes(one, up=False) for one in memory if one.comparison in (Comparison.LE, Comparison.LT)]
    return max(min(upper), 1) if upper else None


def _megabytes(one: Constraint, *, up: bool) -> int:
    amount = Fraction(one.value) / Unit.MB.size if not isinstance(one.value, str | tuple) else Fraction(0)
    strict = 1 if amount.denominator == 1 and one.comparison in (Comparison.GT, Comparison.LT) else 0
    return math.ceil(amount) + strict if up else math.floor(amount) - strict


def _run_time(constraints: Sequence[Constraint]) -> Seconds:
    """Return the limit: the longest time asked for, the shortest of several."""
    limits = [one.value for one in constraints if one.subject == ("Duration",)]
    spans = [float(limit) for limit in limits if not isinstance(limit, str | tuple)]
    return Seconds(min((span for span in spans if span > 0), default=FOREVER))


def _names(constraints: Sequence[Constraint], *comparisons: Comparison) -> Iterator[str]:
    """Yield the nodes that are named so, each once; several lists narrow each other."""
    lists = [
        one.value if isinstance(one.value, tuple) else (str(one.value),)
        for one in constraints
        if one.subject == ("Node",) and one.comparison in comparisons
    ]
    every = dict.fromkeys(name for names in lists for name in names)
    wanted = Comparison.EQ in comparisons
    yield from (name for name in every if not wanted or all(name in names for names in lists))


def _values(constraints: Sequence[Constraint], name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(one.value) for one in constraints if one.subject == (name,)))


def _licences(constraints: Sequence[Constraint]) -> Iterator[Licence]:
    amounts: dict[str, int] = {}
    for one in constraints:
        if one.subject[0] == "Resource" and not isinstance(one.value, str | tuple):
            strict = 1 if one.comparison is Comparison.GT else 0
            least = math.floor(one.value) + 1 if strict else math.ceil(one.value)
            amounts[one.subject[2]] = max(amounts.get(one.subject[2], 0), least)
    yield from (Licence(feature, amount) for feature, amount in amounts.items() if amount)


def properties_of(wishes: Wishes) -> Iterator[Property]:
    """Yield the requested properties that say the same."""
    if wishes.run_time <= MOST_SECONDS:
        yield Property(name="Duration", value=Seconds(float(math.ceil(wishes.run_time))))
    yield from _counted(Consumable, "Processors", wishes.processors)
    yield from _counted(Property, "NodeCount", wishes.nodes)
    yield from _memory(wishes)
    if wishes.names:
        listed = Aggregation.LIST if len(wishes.names) > 1 else None
        yield Selection(name="Node", value=",".join(wishes.names), aggregation=listed)
    for name in wishes.excluded:
        yield Selection(name="Node", value=name, op=Op.NE)
    for feature in wishes.features:
        yield Selection(name="Feature", value=feature)
    for licence in wishes.licences:
        if licence.amount is not None:
            amount = float(licence.amount)
            yield Resource(name="Resource", called=LICENSE, type=licence.feature, value=amount)


def _counted(shape: type[Property], name: str, bounds: Bounds | None) -> Iterator[Property]:
    if bounds is None:
        return
    least, most = bounds
    if least == most:
        yield shape(name=name, value=least)
    else:
        yield shape(name=name, value=least, op=Op.GE)
        yield shape(name=name, value=most, op=Op.LE)


def _memory(wishes: Wishes) -> Iterator[Property]:
    for amount, op in ((wishes.least_memory, Op.GE), (wishes.most_memory, Op.LE)):
        if amount is not None:
            yield Consumable(name="Memory", value=float(amount), op=op, units=Unit.MB.value)
