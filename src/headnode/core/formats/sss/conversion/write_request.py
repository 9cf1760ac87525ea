"""Requested resources as requested properties, beside those that they were read from."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from headnode.core.formats.fidelity import Awareness, Fidelity
from headnode.core.formats.sss.conversion.extensions import ConversionFindings
from headnode.core.formats.sss.conversion.request_reading import RequestContext, accept_request
from headnode.core.formats.sss.conversion.requested_resources import (
    LICENSE,
    NOTHING,
    Bounds,
    RequestedResources,
)
from headnode.core.formats.sss.job_object import SssScope
from headnode.core.formats.sss.properties import (
    Aggregation,
    Conj,
    Consumable,
    Op,
    Resource,
    Selection,
    SssCategory,
    SssProperty,
    Unit,
    UnknownElement,
)
from headnode.core.formats.sss.property_rows import ElementPlace
from headnode.core.formats.sss.tables import SPELLINGS
from headnode.core.formats.sss.value_types import MOST_SECONDS
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import Licence
from headnode.core.model.quantities import Seconds

Clause = tuple[SssProperty, ...]
"""Properties that stand together: one, or several of which one must hold."""

_ANYTHING: Clause = (SssProperty(name="Duration", value=Seconds(0.0), op=Op.GE),)
"""What every job fulfils: a way that asks for nothing more than the others all do."""


def request_properties_for(options: Sequence[RequestedResources]) -> tuple[SssProperty, ...]:
    """Return the requested properties that ask for one of options, best first.

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


def _way(way: list[Clause], number: int, preference: int) -> list[SssProperty]:
    """Return one of several ways, in parentheses when it is more than one property."""
    if not way or len(way[0]) > 1:
        way = [_ANYTHING, *way]
    first, *more = (one for clause in way for one in clause)
    first = replace(first, preference=preference, conj=Conj.OR if number else None)
    if not more:
        return [first]
    return [_grouped(first, 1), *more[:-1], _grouped(more[-1], -1)]


def _grouped(one: SssProperty, group: int) -> SssProperty:
    return replace(one, group=one.group + group)


def _clauses(wishes: RequestedResources) -> Iterator[Clause]:
    if wishes.run_time <= MOST_SECONDS:
        yield (SssProperty(name="Duration", value=Seconds(float(math.ceil(wishes.run_time)))),)
    yield from _counted(Consumable, "Processors", wishes.processors)
    yield from _counted(SssProperty, "NodeCount", wishes.nodes)
    yield from _amounts(wishes)
    yield from _nodes(wishes)
    yield from _features(wishes)
    for name, words in (("Architecture", wishes.architectures), ("OperatingSystem", wishes.systems)):
        yield from _one_of([SssProperty(name=name, value=word) for word in words])
    if wishes.partition:
        yield (SssProperty(name="Partition", value=wishes.partition),)
    yield from ((_resource(licence),) for licence in wishes.licences if licence.amount is not None)


def _counted(shape: type[SssProperty], name: str, bounds: Bounds | None) -> Iterator[Clause]:
    if bounds is None:
        return
    least, most = bounds
    if least == most:
        yield (shape(name=name, value=least),)
    else:
        yield (shape(name=name, value=least, op=Op.GE),)
        yield (shape(name=name, value=most, op=Op.LE),)


def _amounts(wishes: RequestedResources) -> Iterator[Clause]:
    amounts = (
        ("Memory", wishes.least_memory, Op.GE),
        ("Memory", wishes.most_memory, Op.LE),
        ("Disk", wishes.disk or None, Op.GE),
        ("Swap", wishes.swap or None, Op.GE),
    )
    for name, amount, op in amounts:
        if amount is not None:
            yield (Consumable(name=name, value=float(amount), op=op, units=Unit.MB.value),)


def _nodes(wishes: RequestedResources) -> Iterator[Clause]:
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


def _features(wishes: RequestedResources) -> Iterator[Clause]:
    for choice in wishes.features:
        yield from _one_of([Selection(name="Feature", value=word) for word in choice])
    for text in wishes.feature_patterns:
        yield (Selection(name="Feature", value=text, aggregation=Aggregation.PATTERN),)
    for word in wishes.lacking:
        yield (Selection(name="Feature", value=word, op=Op.NE),)


def _one_of(choice: Sequence[SssProperty]) -> Iterator[Clause]:
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


_NO_FIELD = ("machine", "quality")  # the model has no field of its own for them
_COMPARED = [field for field in NOTHING.__struct_fields__ if field not in ("features", "nodes", *_NO_FIELD)]
Options = Sequence[RequestedResources]
"""What is asked for, best first."""


class WrittenRequest(NamedTuple):
    """Properties outside of Requested, and Requested."""

    properties: tuple[SssProperty, ...]
    requested: SssCategory | None


def written_request(
    options: Options, kept: SssScope, place: ElementPlace, where: str, findings: ConversionFindings
) -> WrittenRequest:
    """Return what asks for one of options and for what was `kept`; where they differ, the former."""
    able = SPELLINGS[ElementPlace.REQUESTED]
    others = tuple(one for one in kept.properties if one.name not in able)
    asking = tuple(one for one in kept.properties if one.name in able)
    if not asking and not kept.requested:
        return _alone(options, others)
    both = _both(options, kept, place, others, asking)
    if both is None:
        what = "extensions: what was requested is left out, since the job asks for something else now"
        findings.add(Fidelity.APPROXIMATED, where, what)
        return _alone(options, others)
    return both


def _both(
    options: Options,
    kept: SssScope,
    place: ElementPlace,
    others: tuple[SssProperty, ...],
    asking: tuple[SssProperty, ...],
) -> WrittenRequest | None:
    """Return what says both; None when together they would say something else than options."""
    said = _said(kept, place)
    if said is None or not _all_agree(said, options):
        return None
    pairs = zip(said if len(said) > 1 else [*said] * len(options), options, strict=True)
    left = list(dict.fromkeys(_left(*pair) for pair in pairs))
    if len(left) not in (1, len(options)) or (len(left) > 1 and len(said) > 1):
        return None
    if kept.requested is None:
        found = _alone(left, others, asking)
    else:
        more = request_properties_for(left)
        known = kept.requested.properties
        envelope = replace(kept.requested, properties=(*more, *_together(known)) if more else known)
        found = WrittenRequest((*others, *asking, *credentials_of(left[0])), envelope)
    again = _said(replace(kept, properties=found.properties, requested=found.requested), place)
    return found if again and len(again) == len(options) and _all_agree(again, options) else None


def _together(properties: tuple[SssProperty, ...]) -> tuple[SssProperty, ...]:
    """Put parentheses around alternatives, so that what stands before them counts for each of them."""
    strange = tuple(one for one in properties if isinstance(one, UnknownElement))
    asking = [one for one in properties if not isinstance(one, UnknownElement)]
    if len(asking) < 2 or all(one.conj is None for one in asking):
        return properties
    first, *rest = asking
    opened = replace(first, group=max(first.group, 0) + 1)
    closed = replace(rest[-1], group=min(rest[-1].group, 0) - 1)
    return (opened, *rest[:-1], closed, *strange)


def _alone(
    options: Options, others: tuple[SssProperty, ...], asking: tuple[SssProperty, ...] = ()
) -> WrittenRequest:
    """Return what options ask for; asking is in Requested, too, where it would be hidden outside."""
    found = request_properties_for(options)
    names = {one.name for one in found}
    inside = (*found, *(one for one in asking if one.name in names))
    outside = (one for one in asking if one.name not in names)
    envelope = SssCategory(properties=inside) if inside else None
    return WrittenRequest((*others, *outside, *credentials_of(options[0])), envelope)


def credentials_of(wishes: RequestedResources) -> tuple[SssProperty, ...]:
    """Return who asks, and for which queue."""
    texts = {
        "Project": wishes.project,
        "Reservation": wishes.reservation,
        "User": wishes.user,
        "Queue": wishes.queue,
    }
    return tuple(SssProperty(name=name, value=text) for name, text in texts.items() if text)


def _said(kept: SssScope, place: ElementPlace) -> Options | None:
    try:
        taken = accept_request(RequestContext(kept, place, "", Awareness.IGNORE, ConversionFindings()))
    except BadRequest:
        return None
    return [one.wishes for one in taken.options]


def _all_agree(said: Options, options: Options) -> bool:
    """Whether what was said before, once for all or for each alternative, is still asked for."""
    if len(said) == 1:
        return all(_agree(said[0], one) for one in options)
    return len(said) == len(options) and all(map(_agree, said, options))


def _agree(said: RequestedResources, wishes: RequestedResources) -> bool:
    """Whether what was said before is still asked for; of nodes only the least may have been taken."""
    if not set(said.features) <= set(wishes.features):
        return False
    if said.nodes and wishes.nodes and said.nodes[0] != wishes.nodes[0]:
        return False
    return all(
        getattr(said, field) in (getattr(NOTHING, field), getattr(wishes, field)) for field in _COMPARED
    )


def _left(said: RequestedResources, wishes: RequestedResources) -> RequestedResources:
    """Return what is asked for and was not said before."""
    fields = {
        field: getattr(NOTHING, field)
        for field in said.__struct_fields__
        if getattr(said, field) != getattr(NOTHING, field)
    }
    fields["features"] = tuple(one for one in wishes.features if one not in said.features)
    return replace(wishes, **fields)
