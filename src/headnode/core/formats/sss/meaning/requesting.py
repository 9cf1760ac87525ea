"""The ways in which a request can be met, and what is kept of it for writing back.

Source: SSS 3.1.0, "Requested" and its attributes op, conj, group and preference.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from headnode.core.formats.fidelity import Awareness, Kind
from headnode.core.formats.sss.consumables import Consumable
from headnode.core.formats.sss.job_object import Scope
from headnode.core.formats.sss.meaning.choosing import NOBODY, Asker, chosen, different, ways_here
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.formats.sss.meaning.plain_wishes import plain_wishes
from headnode.core.formats.sss.meaning.rows import Role, meaning_of
from headnode.core.formats.sss.meaning.wish_reading import wishes_of, without_effect
from headnode.core.formats.sss.meaning.wishes import NOTHING_SAID, Said, Wishes, said_by
from headnode.core.formats.sss.properties import Envelope, Kept, Property
from headnode.core.formats.sss.requests.alternatives import Alternative, Asked, asked, ways_of
from headnode.core.formats.sss.requests.constraint import Constraint
from headnode.core.formats.sss.rows import Place
from headnode.core.model.errors import BadRequest

_SHOWN = 3  # of the alternatives that are not taken


class Option(msgspec.Struct, frozen=True, gc=False):
    """One way to meet a request, and the sum of the preferences that it fulfils."""

    said: Said
    weight: int = 0

    @property
    def wishes(self) -> Wishes:
        """What is asked for."""
        return self.said.wishes


class Taken(msgspec.Struct, frozen=True, gc=False):
    """The ways that Headnode can act on, best first, and what must be written back as it was.

    That are properties outside of Requested, and Requested.
    """

    options: tuple[Option, ...]
    outside: tuple[Property, ...] = ()
    requested: Envelope | None = None

    @property
    def wishes(self) -> Wishes:
        """What is asked for at best."""
        return self.options[0].said.wishes


ANYTHING = Taken((Option(NOTHING_SAID),))
"""What a scope asks for that says nothing."""


class Asking(msgspec.Struct, frozen=True):
    """Who asks: a job, task group or task, where it stands, and what is told about it."""

    scope: Scope
    place: Place
    where: str
    policy: Awareness
    findings: Findings
    asker: Asker = NOBODY


def take(asking: Asking) -> Taken:
    """Return the alternatives that Headnode can act on; if there are none, those of which it can do most.

    Raises:  BadRequest ``request`` when nothing can meet all that is asked, or as `request_of`.
    """
    found = asked(asking.scope)
    if not (found.outside or found.inside):
        return ANYTHING
    plain = plain_wishes((*found.outside, *found.inside), asking.place)
    if plain is not None:
        return Taken((Option(plain),))
    try:
        return _worked_out(asking, found)
    except BadRequest as wrong:
        what = f"{asking.where}: {wrong.what}"
        raise BadRequest(code=wrong.code, what=what, fix=wrong.fix) from wrong


def _worked_out(asking: Asking, found: Asked) -> Taken:
    every = (*found.outside, *found.inside)
    every_way = ways_of(_without_amounts(asking, found, every))
    ways, elsewhere = ways_here(every_way, asking.asker.machine)
    if not ways:
        raise BadRequest(
            code="request",
            what="what is requested contradicts itself: nothing can meet all of it",
            fix="correct the requested properties of the same name",
        )
    used, unused = _by_loss(ways, asking.place)
    options: dict[Wishes | None, Option] = {}
    unsaid: dict[Constraint, None] = {}
    for way, lost in used:
        wishes, approximations = wishes_of(_heard(way.constraints, lost))
        key = wishes if len(used) > 1 else None
        if key in options:
            unused.append(way)
            continue
        options[key] = Option(said_by(wishes), way.weight)
        unsaid |= dict.fromkeys(lost)
        for what in approximations:
            asking.findings.add(Kind.APPROXIMATED, asking.where, what)
    names = {one.subject[0] for one in unsaid}
    if unsaid:
        _tell_unsaid(asking, every, unsaid)
    if unused:
        _tell_others(asking, used[0][0], unused)
    _tell_elsewhere(asking, elsewhere)
    names.update(_marked(asking, every))
    left = _of_one_asker(asking, tuple(options.values()))
    whole = bool(unused or elsewhere) or len(left) < len(options)
    return _taken(asking.scope, found, left, names, whole=whole)


def _of_one_asker(asking: Asking, options: tuple[Option, ...]) -> tuple[Option, ...]:
    """Return the options that one job can have, and say which others are not used and why."""
    wishes = [one.wishes for one in options]
    numbers = chosen(wishes, asking.asker.user)
    first = wishes[numbers[0]]
    for number in sorted(set(range(len(options))) - set(numbers)):
        other = " and ".join(different(first, wishes[number]))
        what = f"alternative not used: {other}: a job has one user, project, queue, reservation and cluster"
        asking.findings.add(Kind.APPROXIMATED, asking.where, what)
    return tuple(options[number] for number in numbers)


def _by_loss(
    ways: Sequence[Alternative], place: Place
) -> tuple[list[tuple[Alternative, list[Constraint]]], list[Alternative]]:
    """Return the ways of which least has no effect, with that, and the other ways."""
    losses = [without_effect(one.constraints, place) for one in ways]
    fewest = min(map(len, losses))
    each = list(zip(ways, losses, strict=True))
    unused = [way for way, lost in each if len(lost) > fewest]
    return [(way, lost) for way, lost in each if len(lost) == fewest] if unused else each, unused


def _heard(constraints: Sequence[Constraint], lost: Sequence[Constraint]) -> Sequence[Constraint]:
    return [one for one in constraints if one not in lost] if lost else constraints


def _tell_unsaid(asking: Asking, every: Sequence[Property], unsaid: Iterable[Constraint]) -> None:
    policies = _policies(asking, every)
    for one in unsaid:
        _tell(asking, policies.get(one.subject[0], asking.policy), one)


def _without_amounts(asking: Asking, found: Asked, every: Sequence[Property]) -> Asked:
    """Return what is asked for without amounts of network, which an adapter of that name would contradict."""
    networks = [one for one in every if one.name == "Network"]
    amounts = [one for one in networks if isinstance(one, Consumable)]
    if not amounts or len(amounts) == len(networks):
        return found
    for one in amounts:
        what = f"{one.name} {one.value}: {meaning_of(one.name, asking.place).becomes}"
        asking.findings.unsupported(one.awareness or asking.policy, asking.where, what)
    scope = asking.scope
    inside = Envelope(properties=tuple(one for one in found.inside if one not in amounts))
    outside = tuple(one for one in scope.properties if one not in amounts)
    return asked(Scope(properties=outside, requested=inside))


def _policies(asking: Asking, every: Sequence[Property]) -> dict[str, Awareness]:
    inside = asking.scope.requested
    named = {one.name: one.awareness for one in every if one.awareness}
    if inside and inside.awareness:
        return {one.name: inside.awareness for one in inside.properties} | named
    return named


def _tell(asking: Asking, policy: Awareness, one: Constraint) -> None:
    meaning = meaning_of(one.subject[0], asking.place)
    if one.subject[0] == "Reservation":  # without it the job would run when and where it must not
        raise BadRequest(
            code="part", what=f"{one}: a job runs in one reservation", fix="write one Reservation in the Job"
        )
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
        more = len(others) - _SHOWN
        what = "1 more alternative is not used" if more == 1 else f"{more} more alternatives are not used"
        asking.findings.add(Kind.APPROXIMATED, asking.where, what)


def _tell_elsewhere(asking: Asking, others: Sequence[Alternative]) -> None:
    for one in others:
        said = " and ".join(map(str, one.constraints))
        what = f"alternative not used: {said}: this cluster is {asking.asker.machine!r}"
        asking.findings.add(Kind.NOTE, asking.where, what)


def _marked(asking: Asking, every: Sequence[Property]) -> Iterator[str]:
    """Yield the names of the properties whose attributes have no effect, and say so."""
    for one in every:
        if one.value is None or (type(one) is Property and one.performance is None):
            continue  # an empty element is not set, whatever its attributes
        attributes = _attributes(one)
        if attributes and meaning_of(one.name, asking.place).role is Role.ACTED_ON:
            what = f"{one.name}: attribute {', '.join(attributes)} has no effect on what is asked for"
            asking.findings.add(Kind.APPROXIMATED, asking.where, what)
            yield one.name


def _attributes(one: Property) -> Sequence[str]:
    """Return the attributes of a property that nothing is done with."""
    found = ["performanceFactor"] if one.performance is not None else []
    if isinstance(one, Consumable):
        if one.metric:
            found.append("metric")
        if one.duration is not None:
            found.append("duration")
        if one.consumption_rate is not None:
            found.append("consumptionRate")
    return found


def _taken(scope: Scope, found: Asked, options: tuple[Option, ...], names: set[str], *, whole: bool) -> Taken:
    """Return `options`, and what must be written back: properties called by `names`, and what is not known.

    Requested is kept as a whole, since its parts may depend on each other.
    """
    outside = [one for one in found.outside if one.name in names and one.value is not None]
    keeps = whole or [one for one in found.inside if one.name in names or isinstance(one, Kept)]
    return Taken(options, tuple(outside), _set(scope.requested) if scope.requested and keeps else None)


def _set(inside: Envelope) -> Envelope:
    """Return Requested without what is not set, which would hide what stands outside."""
    found = (one for one in inside.properties if isinstance(one, Kept) or one.group or one.value is not None)
    return replace(inside, properties=tuple(found))
