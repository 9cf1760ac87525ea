"""The ways in which a request can be met: which of them a job gets, and what of the request is kept.

A job has one cluster, one user, one queue; among the ways that are left the scheduler may choose.
Source: SSS 3.1.0, "Requested": of several pairs of User and Account, Delivered has one.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from headnode.core.formats.fidelity import Awareness
from headnode.core.formats.sss.constraints import Comparison, Constraint, Facts, holds
from headnode.core.formats.sss.conversion.resource_table import (
    RESOURCES,
    UNDERSTOOD_IN,
    Request,
    resources_of,
    without_effect,
)
from headnode.core.formats.sss.conversion.simple_fields import SortedScope
from headnode.core.formats.sss.expressions import (
    ConstraintSet,
    RequestProperties,
    request_properties,
    ways_of,
)
from headnode.core.formats.sss.job_object import SssScope
from headnode.core.formats.sss.properties import (
    Consumable,
    Selection,
    SssCategory,
    SssProperty,
    UnknownElement,
)
from headnode.core.formats.sss.property_rows import ElementPlace, PropertyRole, meaning_of
from headnode.core.model.errors import BadRequest

_MACHINE = ("Machine",)
_PLACES = ("Machine", "ResourceManagerType")
"""What says where a job runs.  Of alternatives that differ in nothing else, all places are kept."""
_OF_JOB = (*_PLACES, "User", "Project", "Queue", "QualityOfService", "Reservation")
"""What a job has once, whichever way the scheduler chooses."""


def ways_here(
    ways: Sequence[ConstraintSet], machine: str, resources: Sequence[str] = ()
) -> tuple[list[ConstraintSet], list[ConstraintSet]]:
    """Return the ways that are for this cluster or one of its resources, and the others, best first.

    Those of the first of these places that has any stand before those of the others.
    What names the cluster only by a comparison, such as NE, has been decided and is left out.
    Raises:  BadRequest ``machine`` when none is for it.
    """
    if not machine:
        return list(ways), []
    named = (machine, *resources)
    machine = next((name for name in named if any(_is_for(way, name) for way in ways)), machine)
    first = [way for way in ways if _is_for(way, machine)]
    then = [way for way in ways if way not in first and any(_is_for(way, name) for name in resources)]
    options = [_decided(way) for way in (*first, *then)]
    if not options:
        wanted = dict.fromkeys(str(one) for way in ways for one in way.constraints if one.subject == _MACHINE)
        raise BadRequest(
            code="machine",
            what=f"{', or '.join(wanted)}: the job is for that cluster, and this is {machine!r}",
            fix="submit it there, or take Machine out",
            path=_MACHINE,
        )
    return options, [way for way in ways if way not in first and way not in then]


def _is_for(way: ConstraintSet, machine: str) -> bool:
    facts: Facts = {_MACHINE: machine.lower()}
    return all(holds(_lower(one), facts) for one in way.constraints if one.subject == _MACHINE)


def _lower(one: Constraint) -> Constraint:
    match one.value:
        case str():
            return Constraint(one.subject, one.comparison, one.value.lower())
        case tuple():
            return Constraint(one.subject, one.comparison, tuple(word.lower() for word in one.value))
    return one


def _decided(way: ConstraintSet) -> ConstraintSet:
    left = (one for one in way.constraints if one.subject != _MACHINE or one.comparison is Comparison.EQ)
    return replace(way, constraints=tuple(left))


def chosen(options: Sequence[Request], user: str) -> list[int]:
    """Return the numbers of the options that a job can have together, the one it is submitted with first.

    That is the best of those that name the user who submits it, else the best of all.  Others belong to it
    that have the same user, project, queue, reservation and cluster.
    """
    own = (number for number, one in enumerate(options) if user and one.get("run_as") == user)
    first = next(own, 0)
    same = (
        number for number, one in enumerate(options) if number != first and not different(options[first], one)
    )
    return [first, *same]


def different(one: Request, other: Request) -> list[str]:
    """Return what a job has once and `other` says otherwise than `one`, such as ``User amy``."""
    differences: list[str] = []
    for name in _OF_JOB:
        (field,) = RESOURCES[name].fields
        mine, another = one.get(field, ""), other.get(field, "")
        if mine != another and (name != "Machine" or mine.lower() != another.lower()):
            differences.append(f"{name} {another}" if another else f"no {name}")
    return differences


_SHOWN = 3  # of the alternatives that are not taken


class RequestOption(NamedTuple):
    """One way to meet a request, and the sum of the preferences that it fulfils."""

    request: Request
    weight: int = 0


class AcceptedRequest(NamedTuple):
    """The ways that Headnode can act on, best first, and what must be written back as it was.

    That are properties outside of Requested, and Requested.
    """

    options: tuple[RequestOption, ...] = (RequestOption({}),)
    outside: tuple[SssProperty, ...] = ()
    requested: SssCategory | None = None
    places: tuple[tuple[str, str], ...] = ()
    """Machine and ResourceManagerType of alternatives that differ from the first option in nothing else."""


ANYTHING = AcceptedRequest()
"""What a scope asks for that says nothing."""


def accept_request(asking: SortedScope) -> AcceptedRequest:
    """Return the alternatives that Headnode can act on; if there are none, those of which it can do most.

    Raises:  BadRequest ``request`` when nothing can meet all that is asked, or as `request_of`.
    """
    found = asking.requests
    if not (found.outside or found.inside):
        return ANYTHING
    try:
        exact = _exact((*found.outside, *found.inside), asking.place)
        return _worked_out(asking, found) if exact is None else AcceptedRequest((RequestOption(exact),))
    except BadRequest as wrong:
        what = f"{asking.findings.where}: {wrong.what}"
        path = wrong.path or ("Requested",)
        raise BadRequest(code=wrong.code, what=what, fix=wrong.fix, path=path) from wrong


def _exact(properties: Sequence[SssProperty], place: ElementPlace) -> Request | None:
    """Return what is asked for when each property is exact and stands once, as nearly always; None otherwise.

    It is then read without the algebra of requests.
    Raises:  BadRequest ``size``.
    """
    known = UNDERSTOOD_IN[place]
    request: dict[str, Any] = {}
    for one in properties:
        if one.name not in known or not _is_exact(one):
            return None
        field, exact = _EXACT[one.name]
        value = exact(one.quantity if isinstance(one, Consumable) else one.value) if one.value else None
        if not value or field in request:
            return None
        request[field] = value
    return request


_EXACT = {name: (row.field, row.exact) for name, row in RESOURCES.items()}
"""The one field that an exact value fills, and what it is there."""


def _is_exact(one: SssProperty) -> bool:
    """Whether a property is one value, and neither compared nor joined to others."""
    if one.op or one.conj or one.group or one.preference or one.performance is not None:
        return False
    if type(one) is SssProperty:
        return True
    return not _attributes(one) and (not isinstance(one, Selection) or one.aggregation is None)


def _worked_out(asking: SortedScope, properties: RequestProperties) -> AcceptedRequest:
    every = (*properties.outside, *properties.inside)
    every_way = ways_of(_without_amounts(asking, properties, every))
    ways, elsewhere = ways_here(every_way, asking.asker.machine, [name for name, _ in asking.asker.resources])
    if not ways:
        raise BadRequest(
            code="request",
            what="the request contradicts itself: no node can meet all of it",
            fix="correct the requested properties of the same name",
        )
    used, unused = _by_loss(ways, asking.place)
    options: dict[frozenset[Any] | None, RequestOption] = {}
    unsaid: dict[Constraint, None] = {}
    for way, lost in used:
        request, approximations = resources_of(_received(way.constraints, lost))
        key = frozenset(request.items()) if len(used) > 1 else None
        if key in options:
            unused.append(way)
            continue
        options[key] = RequestOption(request, way.weight)
        unsaid |= dict.fromkeys(lost)
        for what in approximations:
            asking.findings.approximated(what)
    names = {one.subject[0] for one in unsaid}
    if unsaid:
        _report_unwritten(asking, every, unsaid)
    if unused:
        _report_others(asking, used[0][0], unused)
    _report_elsewhere(asking, elsewhere)
    names.update(_marked(asking, every))
    left = _of_one_asker(asking, tuple(options.values()))
    whole = bool(unused or elsewhere) or len(left) < len(options)
    taken = _taken(asking.scope, properties, left, names, whole=whole)
    return taken._replace(places=tuple(_other_places(options.values())))


def _of_one_asker(asking: SortedScope, options: tuple[RequestOption, ...]) -> tuple[RequestOption, ...]:
    """Return the options that one job can have, and say which others are not used and why."""
    requests = [one.request for one in options]
    numbers = chosen(requests, asking.asker.user)
    first = requests[numbers[0]]
    for number in sorted(set(range(len(options))) - set(numbers)):
        if _elsewhere_only(first, requests[number]):
            continue
        other = " and ".join(different(first, requests[number]))
        what = f"alternative not used: {other}: a job has one user, project, queue, reservation and cluster"
        asking.findings.approximated(what)
    return tuple(options[number] for number in numbers)


def _other_places(options: Iterable[RequestOption]) -> Iterator[tuple[str, str]]:
    first, *others = options
    for other in others:
        if _elsewhere_only(first.request, other.request):
            yield other.request.get("machine", ""), other.request.get("manager", "")


def _elsewhere_only(one: Request, other: Request) -> bool:
    """Return whether two requests differ, and only in where the job runs."""
    fields = {field for name in _PLACES for field in RESOURCES[name].fields}
    wants = [{field: value for field, value in each.items() if field not in fields} for each in (one, other)]
    return one != other and wants[0] == wants[1]


def _by_loss(
    ways: Sequence[ConstraintSet], place: ElementPlace
) -> tuple[list[tuple[ConstraintSet, list[Constraint]]], list[ConstraintSet]]:
    """Return the ways of which least has no effect, with that, and the other ways."""
    losses = [without_effect(one.constraints, place) for one in ways]
    fewest = min(map(len, losses))
    each = list(zip(ways, losses, strict=True))
    unused = [way for way, lost in each if len(lost) > fewest]
    return [(way, lost) for way, lost in each if len(lost) == fewest] if unused else each, unused


def _received(constraints: Sequence[Constraint], lost: Sequence[Constraint]) -> Sequence[Constraint]:
    return [one for one in constraints if one not in lost] if lost else constraints


def _report_unwritten(
    asking: SortedScope, every: Sequence[SssProperty], unsaid: Iterable[Constraint]
) -> None:
    policies = _policies(asking, every)
    for one in unsaid:
        _report(asking, policies.get(one.subject[0], asking.policy), one)


def _without_amounts(
    asking: SortedScope, properties: RequestProperties, every: Sequence[SssProperty]
) -> RequestProperties:
    """Return what is asked for without amounts of network, which an adapter of that name would contradict."""
    networks = [one for one in every if one.name == "Network"]
    amounts = [one for one in networks if isinstance(one, Consumable)]
    if not amounts or len(amounts) == len(networks):
        return properties
    for one in amounts:
        what = f"{one.name} {one.value}: {meaning_of(one.name, asking.place).becomes}"
        asking.findings.unsupported(one.awareness or asking.policy, what, one.name)
    scope = asking.scope
    inside = SssCategory(properties=tuple(one for one in properties.inside if one not in amounts))
    outside = tuple(one for one in scope.properties if one not in amounts)
    return request_properties(SssScope(properties=outside, requested=inside))


def _policies(asking: SortedScope, every: Sequence[SssProperty]) -> dict[str, Awareness]:
    inside = asking.scope.requested
    named = {one.name: one.awareness for one in every if one.awareness}
    if inside and inside.awareness:
        return {one.name: inside.awareness for one in inside.properties} | named
    return named


def _report(asking: SortedScope, policy: Awareness, one: Constraint) -> None:
    meaning = meaning_of(one.subject[0], asking.place)
    if one.subject[0] == "Reservation":  # without it the job would run when and where it must not
        raise BadRequest(
            code="part",
            what=f"{one}: a job runs in one reservation",
            fix="write one Reservation in the Job",
            path=("Reservation",),
        )
    if meaning.role is PropertyRole.KEPT:
        asking.findings.kept(f"{one}: {meaning.becomes}")
    elif meaning.role is PropertyRole.ACTED_ON:
        why = (
            "this comparison has no effect"
            if meaning.tasks
            else "it has an effect in a job only, as one name"
        )
        asking.findings.unsupported(policy, f"{one}: {why}", one.subject[0])
    else:
        asking.findings.unsupported(policy, f"{one}: {meaning.becomes}", one.subject[0])


def _report_others(asking: SortedScope, way: ConstraintSet, others: Sequence[ConstraintSet]) -> None:
    for one in others[:_SHOWN]:
        different = [str(each) for each in one.constraints if each not in way.constraints]
        differences = " and ".join(different) or "the same with fewer requirements"
        asking.findings.approximated(f"alternative not used: {differences}")
    if len(others) > _SHOWN:
        more = len(others) - _SHOWN
        what = "1 more alternative is not used" if more == 1 else f"{more} more alternatives are not used"
        asking.findings.approximated(what)


def _report_elsewhere(asking: SortedScope, others: Sequence[ConstraintSet]) -> None:
    for one in others:
        listed = " and ".join(map(str, one.constraints))
        asking.findings.note(f"alternative not used: {listed}: this cluster is {asking.asker.machine!r}")


def _marked(asking: SortedScope, every: Sequence[SssProperty]) -> Iterator[str]:
    """Yield the names of the properties whose attributes have no effect, and say so."""
    for one in every:
        if one.value is None or (type(one) is SssProperty and one.performance is None):
            continue  # an empty element is not set, whatever its attributes
        attributes = _attributes(one)
        if attributes and meaning_of(one.name, asking.place).role is PropertyRole.ACTED_ON:
            what = f"{one.name}: attribute {', '.join(attributes)} has no effect on what is asked for"
            asking.findings.approximated(what)
            yield one.name


def _attributes(one: SssProperty) -> Sequence[str]:
    """Return the attributes of a property that nothing is done with."""
    if type(one) is SssProperty and one.performance is None:
        return ()
    attributes = ["performanceFactor"] if one.performance is not None else []
    if isinstance(one, Consumable):
        if one.metric:
            attributes.append("metric")
        if one.duration is not None:
            attributes.append("duration")
        if one.consumption_rate is not None:
            attributes.append("consumptionRate")
    return attributes


def _taken(
    scope: SssScope,
    properties: RequestProperties,
    options: tuple[RequestOption, ...],
    names: set[str],
    *,
    whole: bool,
) -> AcceptedRequest:
    """Return options, and what must be written back: properties called by `names`, and what is not known.

    Requested is kept as a whole, since its parts may depend on each other.
    """
    outside = [one for one in properties.outside if one.name in names and one.value is not None]
    keeps = whole or [
        one for one in properties.inside if one.name in names or isinstance(one, UnknownElement)
    ]
    return AcceptedRequest(
        options, tuple(outside), _set(scope.requested) if scope.requested and keeps else None
    )


def _set(inside: SssCategory) -> SssCategory:
    """Return Requested without what is not set, which would hide what stands outside."""
    found = (
        one
        for one in inside.properties
        if isinstance(one, UnknownElement) or one.group or one.value is not None
    )
    return replace(inside, properties=tuple(found))
