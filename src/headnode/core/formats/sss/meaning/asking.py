"""What is asked for, as requested properties: the best way alone, or several in the order of preference.

Source: SSS 3.1.0, "Requested" (attributes op, conj, group and preference), "Node", "Feature", "Resource".
"""

import math
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from headnode.core.formats.sss.consumables import Consumable, Resource, Unit
from headnode.core.formats.sss.meaning.wishes import LICENSE, Bounds, Wishes
from headnode.core.formats.sss.properties import Conj, Op, Property
from headnode.core.formats.sss.selections import Aggregation, Selection
from headnode.core.formats.sss.value_types import MOST_SECONDS
from headnode.core.model.job import Licence
from headnode.core.model.quantities import Seconds

Clause = tuple[Property, ...]
"""Properties that stand together: one, or several of which one must hold."""

_ANYTHING: Clause = (Property(name="Duration", value=Seconds(0.0), op=Op.GE),)
"""What every job fulfils: a way that asks for nothing more than the others all do."""


def request(options: Sequence[Wishes]) -> tuple[Property, ...]:
    """Return the requested properties that ask for one of `options`, best first.

    Properties of which all of them ask the same stand before them; each carries its preference on its first.
    """
    ways = [list(_clauses(one)) for one in options]
    shared = {name for name in _names(ways[0]) if len({_about(name, way) for way in ways}) == 1}
    common = [clause for clause in ways[0] if clause[0].name in shared]
    found = [one for clause in common for one in clause]
    if len(ways) == 1:
        return tuple(found)
    rest = [[clause for clause in way if clause[0].name not in shared] for way in ways]
    asked = [_way(way, number, len(ways) - number) for number, way in enumerate(rest)]
    (first, *before), (*after, last) = asked[0], asked[-1]
    asked[0] = [_grouped(first, 1), *before]
    asked[-1] = [*after, _grouped(last, -1)]
    return (*found, *(one for way in asked for one in way))


def _names(way: list[Clause]) -> set[str]:
    return {clause[0].name for clause in way}


def _about(name: str, way: list[Clause]) -> tuple[Clause, ...]:
    """Return all that one way says of a property."""
    return tuple(clause for clause in way if clause[0].name == name)


def _way(way: list[Clause], number: int, preference: int) -> list[Property]:
    """Return one of several ways, in parentheses when it is more than one property."""
    if not way or len(way[0]) > 1:
        way = [_ANYTHING, *way]
    first, *more = (one for clause in way for one in clause)
    first = replace(first, preference=preference, conj=Conj.OR if number else None)
    if not more:
        return [first]
    return [_grouped(first, 1), *more[:-1], _grouped(more[-1], -1)]


def _grouped(one: Property, group: int) -> Property:
    return replace(one, group=one.group + group)


def _clauses(wishes: Wishes) -> Iterator[Clause]:
    if wishes.run_time <= MOST_SECONDS:
        yield (Property(name="Duration", value=Seconds(float(math.ceil(wishes.run_time)))),)
    yield from _counted(Consumable, "Processors", wishes.processors)
    yield from _counted(Property, "NodeCount", wishes.nodes)
    yield from _amounts(wishes)
    yield from _nodes(wishes)
    yield from _features(wishes)
    for name, words in (("Architecture", wishes.architectures), ("OperatingSystem", wishes.systems)):
        yield from _one_of([Property(name=name, value=word) for word in words])
    if wishes.partition:
        yield (Property(name="Partition", value=wishes.partition),)
    yield from ((_resource(licence),) for licence in wishes.licences if licence.amount is not None)


def _counted(shape: type[Property], name: str, bounds: Bounds | None) -> Iterator[Clause]:
    if bounds is None:
        return
    least, most = bounds
    if least == most:
        yield (shape(name=name, value=least),)
    else:
        yield (shape(name=name, value=least, op=Op.GE),)
        yield (shape(name=name, value=most, op=Op.LE),)


def _amounts(wishes: Wishes) -> Iterator[Clause]:
    amounts = (
        ("Memory", wishes.least_memory, Op.GE),
        ("Memory", wishes.most_memory, Op.LE),
        ("Disk", wishes.disk or None, Op.GE),
        ("Swap", wishes.swap or None, Op.GE),
    )
    for name, amount, op in amounts:
        if amount is not None:
            yield (Consumable(name=name, value=float(amount), op=op, units=Unit.MB.value),)


def _nodes(wishes: Wishes) -> Iterator[Clause]:
    """Yield nodes by name and by pattern; And keeps apart what else would be one list."""
    if wishes.names:
        listed = Aggregation.LIST if len(wishes.names) > 1 else None
        yield (Selection(name="Node", value=",".join(wishes.names), aggregation=listed),)
    if wishes.patterns:
        first, *more = (
            Selection(name="Node", value=text, aggregation=Aggregation.PATTERN) for text in wishes.patterns
        )
        yield (replace(first, conj=Conj.AND) if wishes.names else first, *more)
    for name in wishes.excluded:
        yield (Selection(name="Node", value=name, op=Op.NE),)
    for text in wishes.excluded_patterns:
        yield (Selection(name="Node", value=text, op=Op.NE, aggregation=Aggregation.PATTERN),)


def _features(wishes: Wishes) -> Iterator[Clause]:
    for choice in wishes.features:
        yield from _one_of([Selection(name="Feature", value=word) for word in choice])
    for text in wishes.feature_patterns:
        yield (Selection(name="Feature", value=text, aggregation=Aggregation.PATTERN),)
    for word in wishes.lacking:
        yield (Selection(name="Feature", value=word, op=Op.NE),)


def _one_of(choice: Sequence[Property]) -> Iterator[Clause]:
    """Yield what asks for one of `choice`, in parentheses when there are several."""
    if len(choice) < 2:
        yield from ((one,) for one in choice)
        return
    first, *more = choice
    others = [replace(one, conj=Conj.OR) for one in more]
    yield (_grouped(first, 1), *others[:-1], _grouped(others[-1], -1))


def _resource(licence: Licence) -> Resource:
    called, _, kind = licence.feature.partition(":")
    if not called.strip() or not kind.strip() or called.lower() == LICENSE.lower():
        called, kind = LICENSE, licence.feature
    return Resource(name="Resource", called=called, type=kind, value=float(licence.amount or 0))
