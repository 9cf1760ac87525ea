"""Requested resources as requested properties, beside those that they were read from."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from headnode.core.formats.fidelity import Awareness
from headnode.core.formats.sss.conversion.extensions import ConversionFindings
from headnode.core.formats.sss.conversion.request_reading import accept_request
from headnode.core.formats.sss.conversion.resource_table import Clause, Request, clauses_of, distinct, grouped
from headnode.core.formats.sss.conversion.simple_fields import SortedScope
from headnode.core.formats.sss.job_object import SssScope
from headnode.core.formats.sss.properties import Conj, Op, SssCategory, SssProperty, UnknownElement
from headnode.core.formats.sss.property_rows import SPELLINGS, ElementPlace
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Seconds

_ANYTHING: Clause = (SssProperty(name="Duration", value=Seconds(0.0), op=Op.GE),)
"""What every job fulfils: a way that asks for nothing more than the others all do."""


def request_properties_for(options: Sequence[Request]) -> tuple[SssProperty, ...]:
    """Return the requested properties that ask for one of options, best first.

    Properties of which all of them ask the same stand before them; each carries its preference on its first.
    """
    ways = [list(clauses_of(one)) for one in options]
    shared = {name for name in _names(ways[0]) if len({_about(name, way) for way in ways}) == 1}
    common = [clause for clause in ways[0] if clause[0].name in shared]
    found = [one for clause in common for one in clause]
    if len(ways) == 1:
        return tuple(found)
    rest = [[clause for clause in way if clause[0].name not in shared] for way in ways]
    asked = [_way(way, number, len(ways) - number) for number, way in enumerate(rest)]
    (first, *before), (*after, last) = asked[0], asked[-1]
    asked[0] = [grouped(first, 1), *before]
    asked[-1] = [*after, grouped(last, -1)]
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
    return [grouped(first, 1), *more[:-1], grouped(more[-1], -1)]


Options = Sequence[Request]
"""What is asked for, best first."""


class WrittenRequest(NamedTuple):
    """Properties outside of Requested, and Requested."""

    properties: tuple[SssProperty, ...]
    requested: SssCategory | None


def written_request(
    options: Options, kept: SssScope, place: ElementPlace, findings: ConversionFindings
) -> WrittenRequest:
    """Return what asks for one of options and for what was `kept`; where they differ, the former."""
    able = SPELLINGS[ElementPlace.REQUESTED]
    others = tuple(one for one in kept.properties if one.name not in able)
    asking = tuple(one for one in kept.properties if one.name in able)
    if not asking and not kept.requested:
        return _alone(options, others)
    both = _both(options, kept, place, others, asking)
    if both is None:
        what = "extensions: the original request is left out, because the request of the job has changed"
        findings.approximated(what)
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
    accepted = _accepted_options(kept, place)
    if accepted is None or not _all_agree(accepted, options):
        return None
    pairs = zip(accepted if len(accepted) > 1 else [*accepted] * len(options), options, strict=True)
    left = distinct(_left(*pair) for pair in pairs)
    if len(left) not in (1, len(options)) or (len(left) > 1 and len(accepted) > 1):
        return None
    if kept.requested is None:
        found = _alone(left, others, asking)
    else:
        more = request_properties_for(left)
        known = kept.requested.properties
        envelope = replace(kept.requested, properties=(*more, *_together(known)) if more else known)
        found = WrittenRequest((*others, *asking, *_outside_of(left[0])), envelope)
    again = _accepted_options(replace(kept, properties=found.properties, requested=found.requested), place)
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
    return WrittenRequest((*others, *outside, *_outside_of(options[0])), envelope)


def _outside_of(request: Request) -> tuple[SssProperty, ...]:
    """Return what stands outside of Requested: who asks, and for which queue."""
    return tuple(one for clause in clauses_of(request, outside=True) for one in clause)


def _accepted_options(kept: SssScope, place: ElementPlace) -> Options | None:
    try:
        taken = accept_request(SortedScope(kept, place, Awareness.IGNORE, ConversionFindings()))
    except BadRequest:
        return None
    return [one.request for one in taken.options]


def _all_agree(accepted: Options, options: Options) -> bool:
    """Whether what was said before, once for all or for each alternative, is still asked for."""
    if len(accepted) == 1:
        return all(_agree(accepted[0], one) for one in options)
    return len(accepted) == len(options) and all(map(_agree, accepted, options))


def _agree(accepted: Request, request: Request) -> bool:
    """Whether what was said before is still asked for; of nodes only the least may have been taken."""
    if not set(accepted.get("features", ())) <= set(request.get("features", ())):
        return False
    if "nodes" in accepted and "nodes" in request and accepted["nodes"][0] != request["nodes"][0]:
        return False
    return all(
        request.get(field) == value for field, value in accepted.items() if field not in _COMPARED_OTHERWISE
    )


_COMPARED_OTHERWISE = ("features", "nodes", "machine", "quality")
"""Fields of which more may be asked for, and those that are written as they were read."""


def _left(accepted: Request, request: Request) -> Request:
    """Return the requested properties that were not written before."""
    found = {field: value for field, value in request.items() if field not in accepted}
    features = tuple(one for one in request.get("features", ()) if one not in accepted.get("features", ()))
    return {**found, "features": features} if features else found
