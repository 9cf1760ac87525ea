"""What a job or task asks for, written; beside what it was written with before, where that still holds.

Source: SSS 3.1.0, "Requested".
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from headnode.core.formats.fidelity import Awareness, Kind
from headnode.core.formats.sss.job_object import Scope
from headnode.core.formats.sss.meaning.asking import request
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.formats.sss.meaning.requesting import Asking, take
from headnode.core.formats.sss.meaning.wishes import NOTHING, Wishes
from headnode.core.formats.sss.properties import Envelope, Kept, Property
from headnode.core.formats.sss.rows import Place
from headnode.core.formats.sss.tables import SPELLINGS
from headnode.core.model.errors import BadRequest

_NO_FIELD = ("machine", "quality")  # the model has no field of its own for them
_COMPARED = [field for field in NOTHING.__struct_fields__ if field not in ("features", "nodes", *_NO_FIELD)]
Options = Sequence[Wishes]
"""What is asked for, best first."""


class Asked(NamedTuple):
    """Properties outside of Requested, and Requested."""

    properties: tuple[Property, ...]
    requested: Envelope | None


def asked_back(options: Options, kept: Scope, place: Place, where: str, findings: Findings) -> Asked:
    """Return what asks for one of `options` and for what was `kept`; where they differ, the former."""
    able = SPELLINGS[Place.REQUESTED]
    others = tuple(one for one in kept.properties if one.name not in able)
    asking = tuple(one for one in kept.properties if one.name in able)
    if not asking and not kept.requested:
        return _alone(options, others)
    both = _both(options, kept, place, others, asking)
    if both is None:
        what = "extensions: what was requested is left out, since the job asks for something else now"
        findings.add(Kind.APPROXIMATED, where, what)
        return _alone(options, others)
    return both


def _both(
    options: Options, kept: Scope, place: Place, others: tuple[Property, ...], asking: tuple[Property, ...]
) -> Asked | None:
    """Return what says both; None when together they would say something else than `options`."""
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
        more = request(left)
        known = kept.requested.properties
        envelope = replace(kept.requested, properties=(*more, *_together(known)) if more else known)
        found = Asked((*others, *asking, *credentials_of(left[0])), envelope)
    again = _said(replace(kept, properties=found.properties, requested=found.requested), place)
    return found if again and len(again) == len(options) and _all_agree(again, options) else None


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


def _alone(options: Options, others: tuple[Property, ...], asking: tuple[Property, ...] = ()) -> Asked:
    """Return what `options` ask for; `asking` is in Requested, too, where it would be hidden outside."""
    found = request(options)
    names = {one.name for one in found}
    inside = (*found, *(one for one in asking if one.name in names))
    outside = (one for one in asking if one.name not in names)
    envelope = Envelope(properties=inside) if inside else None
    return Asked((*others, *outside, *credentials_of(options[0])), envelope)


def credentials_of(wishes: Wishes) -> tuple[Property, ...]:
    """Return who asks, and for which queue."""
    texts = {
        "Project": wishes.project,
        "Reservation": wishes.reservation,
        "User": wishes.user,
        "Queue": wishes.queue,
    }
    return tuple(Property(name=name, value=text) for name, text in texts.items() if text)


def _said(kept: Scope, place: Place) -> Options | None:
    try:
        taken = take(Asking(kept, place, "", Awareness.IGNORE, Findings()))
    except BadRequest:
        return None
    return [one.wishes for one in taken.options]


def _all_agree(said: Options, options: Options) -> bool:
    """Whether what was said before, once for all or for each alternative, is still asked for."""
    if len(said) == 1:
        return all(_agree(said[0], one) for one in options)
    return len(said) == len(options) and all(map(_agree, said, options))


def _agree(said: Wishes, wishes: Wishes) -> bool:
    """Whether what was said before is still asked for; of nodes only the least may have been taken."""
    if not set(said.features) <= set(wishes.features):
        return False
    if said.nodes and wishes.nodes and said.nodes[0] != wishes.nodes[0]:
        return False
    return all(
        getattr(said, field) in (getattr(NOTHING, field), getattr(wishes, field)) for field in _COMPARED
    )


def _left(said: Wishes, wishes: Wishes) -> Wishes:
    """Return what is asked for and was not said before."""
    fields = {
        field: getattr(NOTHING, field)
        for field in said.__struct_fields__
        if getattr(said, field) != getattr(NOTHING, field)
    }
    fields["features"] = tuple(one for one in wishes.features if one not in said.features)
    return replace(wishes, **fields)
