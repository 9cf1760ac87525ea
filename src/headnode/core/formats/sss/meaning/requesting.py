"""Which of the alternatives of a request is taken, and what is kept of it for writing back.

Source: SSS 3.1.0, "Requested" and its attributes op, conj, group and preference.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from headnode.core.formats.fidelity import Awareness, Kind
from headnode.core.formats.sss.consumables import Consumable
from headnode.core.formats.sss.job_object import Scope
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.formats.sss.meaning.rows import Role, meaning_of
from headnode.core.formats.sss.meaning.wishes import Wishes, is_sayable, wishes_of
from headnode.core.formats.sss.properties import Envelope, Kept, Property
from headnode.core.formats.sss.requests.alternatives import Alternative, asked, request_of
from headnode.core.formats.sss.requests.constraint import Constraint
from headnode.core.formats.sss.rows import Place
from headnode.core.model.errors import BadRequest

_NOTHING = Wishes()
_SHOWN = 3  # of the alternatives that are not taken


class Taken(NamedTuple):
    """What is asked for, and the scope of all that must be written back as it was."""

    wishes: Wishes
    kept: Scope


class Asking(NamedTuple):
    """Who asks: a job, task group or task, where it stands, and what is told about it."""

    scope: Scope
    place: Place
    where: str
    policy: Awareness
    findings: Findings


def take(asking: Asking) -> Taken:
    """Return the best alternative that Headnode can act on; if there is none, the one it can best.

    Raises:  BadRequest ``request`` when nothing can meet all that is asked, or as `request_of`.
    """
    if not asked(asking.scope):
        return Taken(_NOTHING, replace(asking.scope, properties=(), requested=None, delivered=None))
    ways = request_of(_without_amounts(asking))
    if not ways:
        raise BadRequest(
            code="request",
            what=f"{asking.where}: what is requested contradicts itself: nothing can meet all of it",
            fix="correct the requested properties of the same name",
        )
    way = min(ways, key=lambda one: len(_unsaid(one, asking.place)))
    unsaid = _unsaid(way, asking.place)
    policies = _policies(asking)
    for one in unsaid:
        _tell(asking, policies.get(one.subject[0], asking.policy), one)
    _tell_others(asking, way, [one for one in ways if one is not way])
    wishes, approximations = wishes_of([one for one in way.constraints if one not in unsaid])
    for name in approximations.of:
        what = f"{name}: no upper bound is given, so the lower one is taken"
        asking.findings.add(Kind.APPROXIMATED, asking.where, what)
    marked = list(_marked(asking))
    names = {one.subject[0] for one in unsaid} | {one.name for one in marked}
    return Taken(wishes, _kept(asking.scope, names, whole=len(ways) > 1))


def _without_amounts(asking: Asking) -> Scope:
    """Return the scope without amounts of network, which an adapter of that name would contradict."""
    amounts = [one for one in asked(asking.scope) if one.name == "Network" and isinstance(one, Consumable)]
    adapters = [one for one in asked(asking.scope) if one.name == "Network" and one not in amounts]
    if not amounts or not adapters:
        return asking.scope
    for one in amounts:
        what = f"{one.name} {one.value}: {meaning_of(one.name, asking.place).becomes}"
        asking.findings.unsupported(one.awareness or asking.policy, asking.where, what)
    inside = asking.scope.requested
    return replace(
        asking.scope,
        properties=tuple(one for one in asking.scope.properties if one not in amounts),
        requested=inside
        and replace(inside, properties=tuple(one for one in inside.properties if one not in amounts)),
    )


def _unsaid(way: Alternative, place: Place) -> list[Constraint]:
    of_job = place is Place.JOB
    return [
        one
        for one in way.constraints
        if not is_sayable(one) or not (of_job or meaning_of(one.subject[0], place).tasks)
    ]


def _policies(asking: Asking) -> dict[str, Awareness]:
    inside = asking.scope.requested
    named = {one.name: one.awareness for one in asked(asking.scope) if one.awareness}
    if inside and inside.awareness:
        return {one.name: inside.awareness for one in inside.properties} | named
    return named


def _tell(asking: Asking, policy: Awareness, one: Constraint) -> None:
    meaning = meaning_of(one.subject[0], asking.place)
    if meaning.role is Role.KEPT:
        asking.findings.add(Kind.KEPT, asking.where, f"{one}: {meaning.becomes}")
    elif meaning.role is Role.ACTED_ON:
        why = (
            "this comparison has no effect"
            if meaning.tasks
            else "it has an effect in a job only, as one name"
        )
        asking.findings.unsupported(policy, asking.where, f"{one}: {why}")
    else:
        asking.findings.unsupported(policy, asking.where, f"{one}: {meaning.becomes}")


def _tell_others(asking: Asking, way: Alternative, others: Sequence[Alternative]) -> None:
    for one in others[:_SHOWN]:
        different = [str(each) for each in one.constraints if each not in way.constraints]
        said = " and ".join(different) or "the same with fewer wishes"
        asking.findings.add(Kind.APPROXIMATED, asking.where, f"alternative not used: {said}")
    if len(others) > _SHOWN:
        what = f"{len(others) - _SHOWN} more alternatives are not used"
        asking.findings.add(Kind.APPROXIMATED, asking.where, what)


def _marked(asking: Asking) -> Iterator[Property]:
    """Yield the properties whose attributes have no effect, and say so."""
    for one in asked(asking.scope):
        if one.value is None:
            continue  # an empty element: it is not set, whatever its attributes
        attributes = [name for name, value in _attributes(one) if value]
        if attributes and meaning_of(one.name, asking.place).role is Role.ACTED_ON:
            what = f"{one.name}: attribute {', '.join(attributes)} has no effect on what is asked for"
            asking.findings.add(Kind.APPROXIMATED, asking.where, what)
            yield one


def _attributes(one: Property) -> Iterator[tuple[str, object]]:
    yield "performanceFactor", one.performance is not None
    if isinstance(one, Consumable):
        yield "metric", one.metric
        yield "duration", one.duration is not None
        yield "consumptionRate", one.consumption_rate is not None


def _kept(scope: Scope, names: set[str], *, whole: bool) -> Scope:
    """Return what must be written back: Requested as a whole, since its parts may depend on each other."""
    able = {one.name for one in asked(scope)}
    outside = tuple(
        one for one in scope.properties if one.name in able and one.name in names and one.value is not None
    )
    inside = scope.requested
    hidden = {one.name for one in inside.properties} if inside else set()
    keeps = inside is not None and (
        whole or any(one.name in names or isinstance(one, Kept) for one in inside.properties)
    )
    return replace(
        scope,
        properties=tuple(one for one in outside if one.name not in hidden),
        requested=_set(inside) if inside and keeps else None,
        delivered=None,
    )


def _set(inside: Envelope) -> Envelope:
    """Return Requested without what is not set, which would hide what stands outside."""
    found = (one for one in inside.properties if isinstance(one, Kept) or one.group or one.value is not None)
    return replace(inside, properties=tuple(found))
