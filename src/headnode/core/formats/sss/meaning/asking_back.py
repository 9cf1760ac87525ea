"""What a job or task asks for, written; beside what it was written with before, where that still holds.

Source: SSS 3.1.0, "Requested".
"""

from collections.abc import Collection
from typing import NamedTuple

from msgspec.structs import replace

from headnode.core.formats.fidelity import Awareness, Kind
from headnode.core.formats.sss.job_object import Scope
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.formats.sss.meaning.requesting import Asking, take
from headnode.core.formats.sss.meaning.wishes import Wishes, properties_of
from headnode.core.formats.sss.properties import Envelope, Kept, Property
from headnode.core.formats.sss.rows import Place
from headnode.core.formats.sss.tables import SPELLINGS
from headnode.core.model.errors import BadRequest

_NOTHING = Wishes()
_COMPARED: dict[Place, Collection[str]] = {
    Place.JOB: _NOTHING.__struct_fields__,
    Place.TASK_GROUP: ("processors", "nodes", "run_time", "names", "features", "licences"),
}
_NO_FIELD = ("machine", "quality", "partition")  # the model has no field of its own for them


class Asked(NamedTuple):
    """Properties outside of Requested, and Requested."""

    properties: tuple[Property, ...]
    requested: Envelope | None


def asked_back(wishes: Wishes, kept: Scope, place: Place, where: str, findings: Findings) -> Asked:
    """Return what `wishes` and `kept` ask for together; where they differ, `wishes` has the last word."""
    able = SPELLINGS[Place.REQUESTED]
    others = tuple(one for one in kept.properties if one.name not in able)
    asking = tuple(one for one in kept.properties if one.name in able)
    if not asking and not kept.requested:
        return _alone(wishes, others)
    both = _both(wishes, kept, place, others, asking)
    if both is None:
        what = "extensions: what was requested is left out, since the job asks for something else now"
        findings.add(Kind.APPROXIMATED, where, what)
        return _alone(wishes, others)
    return both


def _both(
    wishes: Wishes, kept: Scope, place: Place, others: tuple[Property, ...], asking: tuple[Property, ...]
) -> Asked | None:
    """Return what says both; None when together they would say something else than `wishes`."""
    said = _said(kept, place)
    if said is None or not _agree(said, wishes, place):
        return None
    left = _left(said, wishes)
    if kept.requested is None:
        found = _alone(left, others, asking)
    else:
        more = tuple(properties_of(left))
        known = kept.requested.properties
        envelope = replace(kept.requested, properties=(*more, *_together(known)) if more else known)
        found = Asked((*others, *asking, *credentials_of(left)), envelope)
    again = _said(replace(kept, properties=found.properties, requested=found.requested), place)
    return found if again is not None and _agree(again, wishes, place) else None


def _together(properties: tuple[Property, ...]) -> tuple[Property, ...]:
    """Put parentheses around alternatives, so that what stands before them counts for each of them."""
    strange = tuple(one for one in properties if isinstance(one, Kept))
    asking = [one for one in properties if not isinstance(one, Kept)]
    if len(asking) < 2 or all(one.conj is None for one in asking):
        return properties
    first, *rest = asking
    opened = replace(first, group=max(first.group, 0) + 1)
    closed = replace(rest[-1], group=min(rest[-1].group, 0) - 1)
    return (opened, *rest[:-1], closed, *strange)


def _alone(wishes: Wishes, others: tuple[Property, ...], asking: tuple[Property, ...] = ()) -> Asked:
    """Return what `wishes` ask for in Requested; there is `asking`, too, where it would be hidden outside."""
    found = tuple(properties_of(wishes))
    names = {one.name for one in found}
    inside = (*found, *(one for one in asking if one.name in names))
    outside = (one for one in asking if one.name not in names)
    envelope = Envelope(properties=inside) if inside else None
    return Asked((*others, *outside, *credentials_of(wishes)), envelope)


def credentials_of(wishes: Wishes) -> tuple[Property, ...]:
    """Return who asks, and for which queue."""
    texts = {"Project": wishes.project, "User": wishes.user, "Queue": wishes.queue}
    return tuple(Property(name=name, value=text) for name, text in texts.items() if text)


def _said(kept: Scope, place: Place) -> Wishes | None:
    try:
        return take(Asking(kept, place, "", Awareness.IGNORE, Findings())).wishes
    except BadRequest:
        return None


def _agree(said: Wishes, wishes: Wishes, place: Place) -> bool:
    """Whether what was said before is still asked for."""
    if not set(said.features) <= {*wishes.features, said.partition} and place is Place.JOB:
        return False
    return all(
        getattr(said, field) in (getattr(_NOTHING, field), getattr(wishes, field))
        for field in _COMPARED[place]
        if field not in ("features", *_NO_FIELD) and (field != "nodes" or wishes.nodes)
    )


def _left(said: Wishes, wishes: Wishes) -> Wishes:
    """Return what is asked for and was not said before."""
    fields = {
        field: getattr(_NOTHING, field)
        for field in said.__struct_fields__
        if getattr(said, field) != getattr(_NOTHING, field)
    }
    known = {*said.features, said.partition}
    fields["features"] = tuple(one for one in wishes.features if one not in known)
    return replace(wishes, **fields)
