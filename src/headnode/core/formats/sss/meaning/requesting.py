"""The ways in which a request can be met, and what is kept of it for writing back.

Source: SSS 3.1.0, "Requested" and its attributes op, conj, group and preference.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from headnode.core.formats.fidelity import Awareness, Kind
from headnode.core.formats.sss.consumables import Consumable
from headnode.core.formats.sss.job_object import Scope
from headnode.core.formats.sss.meaning.findings import Findings, Heard, Told
from headnode.core.formats.sss.meaning.rows import Role, meaning_of
from headnode.core.formats.sss.meaning.wishes import NOTHING, Wishes, is_sayable, wishes_of
from headnode.core.formats.sss.properties import Envelope, Kept, Property
from headnode.core.formats.sss.requests.alternatives import Alternative, asked, request_of
from headnode.core.formats.sss.requests.constraint import Comparison, Constraint
from headnode.core.formats.sss.rows import Place
from headnode.core.formats.sss.tables import SPELLINGS
from headnode.core.model.errors import BadRequest

_SHOWN = 3  # of the alternatives that are not taken
_ABLE = SPELLINGS[Place.REQUESTED]


class Option(NamedTuple):
    """One way to meet a request, and the sum of the preferences that it fulfils."""

    wishes: Wishes
    weight: int = 0


_ANYTHING = (Option(NOTHING),)


class Taken(NamedTuple):
    """The ways that Headnode can act on, best first, and the scope of what must be written back as it was."""

    options: tuple[Option, ...]
    kept: Scope

    @property
    def wishes(self) -> Wishes:
        """What is asked for at best."""
        return self.options[0].wishes


class Asking(NamedTuple):
    """Who asks: a job, task group or task, where it stands, and what is told about it."""

    scope: Scope
    place: Place
    where: str
    policy: Awareness
    findings: Findings


class _Ways(NamedTuple):
    """What `take` finds of a request, whoever makes it."""

    options: tuple[Option, ...]
    outside: tuple[Property, ...]
    requested: Envelope | None
    told: tuple[Told, ...]


def take(asking: Asking) -> Taken:
    """Return the alternatives that Headnode can act on; if there are none, those of which it can do most.

    Raises:  BadRequest ``request`` when nothing can meet all that is asked, or as `request_of`.
    """
    scope = asking.scope
    outside = tuple(one for one in scope.properties if one.name in _ABLE)
    if not outside and scope.requested is None:
        return Taken(_ANYTHING, replace(scope, properties=(), requested=None, delivered=None))
    try:
        found = _ways(outside, scope.requested, asking.place, asking.policy)
    except BadRequest as wrong:
        what = f"{asking.where}: {wrong.what}"
        raise BadRequest(code=wrong.code, what=what, fix=wrong.fix) from wrong
    asking.findings.say(asking.where, found.told)
    kept = replace(scope, properties=found.outside, requested=found.requested, delivered=None)
    return Taken(found.options, kept)


@lru_cache(maxsize=256)
def _ways(
    outside: tuple[Property, ...], requested: Envelope | None, place: Place, policy: Awareness
) -> _Ways:
    """Work out a request; the many jobs of a group often ask for the same."""
    heard = Heard()
    asking = Asking(Scope(properties=outside, requested=requested), place, "", policy, heard)
    taken = _worked_out(asking)
    return _Ways(taken.options, taken.kept.properties, taken.kept.requested, tuple(heard.told))


def _worked_out(asking: Asking) -> Taken:
    ways = request_of(_without_amounts(asking))
    if not ways:
        raise BadRequest(
            code="request",
            what="what is requested contradicts itself: nothing can meet all of it",
            fix="correct the requested properties of the same name",
        )
    strange = [_unsaid(one, asking.place) for one in ways]
    fewest = min(map(len, strange))
    used = [way for way, lost in zip(ways, strange, strict=True) if len(lost) == fewest]
    unused = [way for way, lost in zip(ways, strange, strict=True) if len(lost) > fewest]
    options: dict[Wishes, Option] = {}
    unsaid: dict[Constraint, None] = {}
    for way in used:
        lost = _unsaid(way, asking.place)
        wishes, approximations = wishes_of([one for one in way.constraints if one not in lost])
        if wishes in options:
            unused.append(way)
            continue
        options[wishes] = Option(wishes, way.weight)
        unsaid |= dict.fromkeys(lost)
        for what in approximations:
            asking.findings.add(Kind.APPROXIMATED, asking.where, what)
    _tell_unsaid(asking, list(unsaid))
    _tell_others(asking, used[0], unused)
    names = {one.subject[0] for one in unsaid} | {one.name for one in _marked(asking)}
    return Taken(tuple(options.values()), _kept(asking.scope, names, whole=bool(unused)))


def _tell_unsaid(asking: Asking, unsaid: Sequence[Constraint]) -> None:
    policies = _policies(asking)
    for one in unsaid:
        _tell(asking, policies.get(one.subject[0], asking.policy), one)


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
    """Return what of an alternative has no effect; of several patterns for the same node all but one."""
    of_job = place is Place.JOB
    patterns = [
        one for one in way.constraints if one.subject == ("Node",) and one.comparison is Comparison.MATCH
    ]
    return [
        one
        for one in way.constraints
        if not is_sayable(one)
        or not (of_job or meaning_of(one.subject[0], place).tasks)
        or one in patterns[1:]
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
