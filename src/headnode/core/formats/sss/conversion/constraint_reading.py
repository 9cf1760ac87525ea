"""Constraints as requested resources: what of a request Headnode can act on."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from headnode.core.formats.sss.constraints import Comparison, Constraint, Number, Subject, whole_range
from headnode.core.formats.sss.conversion.requested_resources import (
    LICENSE,
    Bounds,
    ExplicitResources,
    RequestedResources,
    explicit_from_fields,
)
from headnode.core.formats.sss.properties import Consumable, Selection, SssProperty, Unit
from headnode.core.formats.sss.property_rows import ElementPlace, meaning_of
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import Licence
from headnode.core.model.quantities import FOREVER, Seconds
from headnode.core.model.value_checks import MOST_CODE

_EXACT = frozenset({Comparison.EQ})
_NUMBERS = frozenset({Comparison.EQ, Comparison.GE, Comparison.GT, Comparison.LE, Comparison.LT})
_AMONG = frozenset({Comparison.EQ, Comparison.IN})
_NOT_AMONG = frozenset({Comparison.NE, Comparison.NOT_IN})
_LOWER = frozenset({Comparison.EQ, Comparison.GE, Comparison.GT})
_UPPER = frozenset({Comparison.LE, Comparison.LT})
_MATCH, _NO_MATCH = frozenset({Comparison.MATCH}), frozenset({Comparison.NO_MATCH})
UNDERSTOOD: Mapping[str, frozenset[Comparison]] = {
    "Processors": _NUMBERS,
    "NodeCount": _NUMBERS,
    "Memory": _NUMBERS,
    "Disk": _LOWER,
    "Swap": _LOWER,
    "Duration": _NUMBERS,
    "Node": _AMONG | _NOT_AMONG | _MATCH | _NO_MATCH,
    "Feature": _AMONG | _NOT_AMONG | _MATCH,
    "Architecture": _AMONG,
    "OperatingSystem": _AMONG,
    "Partition": _EXACT,
    "Resource": _LOWER,
    "Project": _EXACT,
    "Reservation": _EXACT,
    "User": _EXACT,
    "Queue": _EXACT,
    "QualityOfService": _EXACT,
    "Machine": _EXACT,
}
"""The comparisons that Headnode can act on, by the property."""

UNDERSTOOD_IN = {
    place: {
        name: words
        for name, words in UNDERSTOOD.items()
        if place is ElementPlace.JOB or meaning_of(name, place).tasks
    }
    for place in (ElementPlace.JOB, ElementPlace.TASK_GROUP, ElementPlace.TASK)
}
"""The same for each part of a document that may ask."""

MEGABYTE = Unit.MB.size
_COUNTED = ("Processors", "NodeCount")
_BYTES = ("Memory", "Disk", "Swap")


def without_effect(constraints: Sequence[Constraint], place: ElementPlace) -> list[Constraint]:
    """Return what of `constraints` has no effect in `place`; of several patterns for a node all but one."""
    heard = UNDERSTOOD_IN[place]
    found: list[Constraint] = []
    patterns = 0
    for one in constraints:
        name = one.subject[0]
        if one.comparison not in heard.get(name, ()) or (name == "Resource" and not _consumable(one.subject)):
            found.append(one)
        elif name == "Node" and one.comparison is Comparison.MATCH:
            patterns += 1
            if patterns > 1:
                found.append(one)
    return found


def resources_of(constraints: Sequence[Constraint]) -> tuple[RequestedResources, tuple[str, ...]]:
    """Return what `constraints` ask for, all of which have an effect; and what is met, but not to the letter.

    Where no upper bound is given, the lower one is it: the wish is met, and nobody else is kept out.
    Raises:  BadRequest ``size`` for counts that no cluster has.
    """
    by: dict[str, list[Constraint]] = {}
    for one in constraints:
        by.setdefault(one.subject[0], []).append(one)
    fields: dict[str, Any] = {}
    for name, found in by.items():
        for field, read in _READ[name]:
            fields[field] = read(found)
    return RequestedResources(**fields), _approximated(constraints, by)


def _approximated(
    constraints: Sequence[Constraint], by: Mapping[str, Sequence[Constraint]]
) -> tuple[str, ...]:
    """Return what is met, but not to the letter."""
    told = [
        f"{name}: no upper bound is given, so the lower one is taken"
        for name in _COUNTED
        if name in by and math.isinf(whole_range(by[name], name).most)
    ]
    for one in constraints:
        name = one.subject[0]
        if name in _BYTES and _number(one) % MEGABYTE:
            told.append(f"{name}: whole megabytes, rounded up")
        elif name == "Resource" and _number(one) % 1:
            told.append(f"Resource {_consumable(one.subject)}: whole numbers, rounded up")
    return tuple(dict.fromkeys(told)) if told else ()


def _number(one: Constraint) -> Number:
    """Return the number that something is compared with; no text is one."""
    return 0 if isinstance(one.value, str | tuple) else one.value


def _texts(one: Constraint) -> tuple[str, ...]:
    return one.value if isinstance(one.value, tuple) else (str(one.value),)


def _text(found: Sequence[Constraint]) -> str:
    return str(found[-1].value)


def _among(found: Sequence[Constraint]) -> tuple[str, ...]:
    """Return the words of which one is wanted, each once; several lists narrow each other."""
    lists = [_texts(one) for one in found if one.comparison in _AMONG]
    every = dict.fromkeys(word for words in lists for word in words)
    return tuple(word for word in every if all(word in words for words in lists))


def _every(comparisons: frozenset[Comparison], found: Sequence[Constraint]) -> tuple[str, ...]:
    """Return the words of all constraints that compare so, each once."""
    words = (word for one in found if one.comparison in comparisons for word in _texts(one))
    return tuple(dict.fromkeys(words))


def _choices(found: Sequence[Constraint]) -> tuple[tuple[str, ...], ...]:
    return tuple(dict.fromkeys(_texts(one) for one in found if one.comparison in _AMONG))


def _bounds(found: Sequence[Constraint]) -> Bounds | None:
    """Return how many.

    Raises:  BadRequest ``size`` when it is none, or more than any cluster has.
    """
    name = found[0].subject[0]
    least, most = whole_range(found, name)
    least = max(least, 1)
    if least > MOST_CODE:
        raise BadRequest(
            code="size",
            what=f"{name} {least} is more than any cluster has",
            fix=f"ask for {MOST_CODE} or less",
        )
    high = least if math.isinf(most) else min(int(most), MOST_CODE)
    if high < 1:
        what = f"{name} {high}: a job cannot run on none"
        raise BadRequest(code="size", what=what, fix=f"ask for 1 or more, or leave {name} out")
    return (least, high)


def _least(found: Sequence[Constraint]) -> int:
    """Return the megabytes that a node must have; a bare amount is one that is needed."""
    return max([_megabytes(one, up=True) for one in found if one.comparison in _LOWER], default=0)


def _least_memory(found: Sequence[Constraint]) -> int | None:
    return _least(found) or None


def _most_memory(found: Sequence[Constraint]) -> int | None:
    upper = [_megabytes(one, up=False) for one in found if one.comparison in _UPPER]
    return max(min(upper), 1) if upper else None


def _megabytes(one: Constraint, *, up: bool) -> int:
    """Return the bytes of a constraint as whole megabytes, none of which it excludes."""
    amount, rest = divmod(_number(one), MEGABYTE)
    if rest:
        return int(amount) + (1 if up else 0)
    strict = 1 if one.comparison in (Comparison.GT, Comparison.LT) else 0
    return int(amount) + (strict if up else -strict)


def _run_time(found: Sequence[Constraint]) -> Seconds:
    """Return the limit: the longest time asked for, the shortest of several."""
    spans = [float(_number(one)) for one in found]
    return Seconds(min([span for span in spans if span > 0], default=FOREVER))


def _licences(found: Sequence[Constraint]) -> tuple[Licence, ...]:
    amounts: dict[str, int] = {}
    for one in found:
        if isinstance(one.value, str | tuple):
            continue
        least = math.floor(one.value) + 1 if one.comparison is Comparison.GT else math.ceil(one.value)
        name = _consumable(one.subject)
        amounts[name] = max(amounts.get(name, 0), least)
    return tuple(Licence(feature, amount) for feature, amount in amounts.items() if amount)


def _consumable(subject: Subject) -> str:
    """Return how the licence is called that a Resource is; "" when it can be none."""
    _, called, kind = subject
    if called.lower() == LICENSE.lower():
        name = kind
    else:
        name = f"{called}:{kind}" if kind else called
    return "" if "," in name else name.strip()


_READ: Mapping[str, tuple[tuple[str, Callable[[Sequence[Constraint]], Any]], ...]] = {
    "Processors": (("processors", _bounds),),
    "NodeCount": (("nodes", _bounds),),
    "Memory": (("least_memory", _least_memory), ("most_memory", _most_memory)),
    "Disk": (("disk", _least),),
    "Swap": (("swap", _least),),
    "Duration": (("run_time", _run_time),),
    "Node": (
        ("names", _among),
        ("excluded", partial(_every, _NOT_AMONG)),
        ("patterns", partial(_every, _MATCH)),
        ("excluded_patterns", partial(_every, _NO_MATCH)),
    ),
    "Feature": (
        ("features", _choices),
        ("feature_patterns", partial(_every, _MATCH)),
        ("lacking", partial(_every, _NOT_AMONG)),
    ),
    "Architecture": (("architectures", _among),),
    "OperatingSystem": (("systems", _among),),
    "Partition": (("partition", _text),),
    "Resource": (("licences", _licences),),
    "Project": (("project", _text),),
    "Reservation": (("reservation", _text),),
    "User": (("user", _text),),
    "Queue": (("queue", _text),),
    "QualityOfService": (("quality", _text),),
    "Machine": (("machine", _text),),
}
"""The fields that the constraints on a property fill, and how; all of them have an effect."""


def plain_resources(properties: Iterable[SssProperty], place: str) -> ExplicitResources | None:
    """Return what `properties` ask for in `place`; None when one of them is more than a plain wish.

    More is a comparison, a conjunction, a preference, a metric, a list, a fraction, nothing at all, a second
    wish of the same name, and what has no effect.
    """
    readers = _READERS[place]
    fields: dict[str, Any] = {}
    for one in properties:
        reader = readers.get(one.name)
        if (
            reader is None
            or reader[0] in fields
            or one.op is not None
            or one.conj is not None
            or one.group
            or one.preference
            or one.performance is not None
        ):
            return None
        field, read = reader
        value = read(one)
        if not value:
            return None
        fields[field] = value
    return explicit_from_fields(fields)


def _plain_bounds(one: SssProperty) -> tuple[int, int] | None:
    """Return an exact count that a cluster may have."""
    number = one.value
    if _is_measured(one) or not isinstance(number, int | float):
        return None
    whole = int(number)
    return (whole, whole) if whole == number and 1 <= whole <= MOST_CODE else None


def _plain_megabytes(one: SssProperty) -> int | None:
    """Return whole megabytes."""
    amount = one.quantity if isinstance(one, Consumable) and not _is_measured(one) else None
    return None if amount is None or amount % MEGABYTE else int(amount // MEGABYTE)


def _is_measured(one: SssProperty) -> bool:
    """Whether it is said how, for how long or at which rate an amount is used."""
    return isinstance(one, Consumable) and (
        one.metric != "" or one.duration is not None or one.consumption_rate is not None
    )


def _span(one: SssProperty) -> float | None:
    return one.value if isinstance(one.value, float) else None


def _plain_text(one: SssProperty) -> str:
    return str(one.value or "")


def _name(one: SssProperty) -> tuple[str, ...] | None:
    """Return the one name that is selected."""
    if isinstance(one, Selection) and one.aggregation is not None:
        return None
    return (str(one.value),) if one.value else None


def _choice(one: SssProperty) -> tuple[tuple[str, ...], ...] | None:
    name = _name(one)
    return (name,) if name else None


_Reader = tuple[str, Callable[[SssProperty], Any]]
_ALL: Mapping[str, _Reader] = {
    "Processors": ("processors", _plain_bounds),
    "NodeCount": ("nodes", _plain_bounds),
    "Memory": ("least_memory", _plain_megabytes),
    "Disk": ("disk", _plain_megabytes),
    "Swap": ("swap", _plain_megabytes),
    "Duration": ("run_time", _span),
    "Node": ("names", _name),
    "Feature": ("features", _choice),
    "Architecture": ("architectures", _name),
    "OperatingSystem": ("systems", _name),
    "Partition": ("partition", _plain_text),
    "Project": ("project", _plain_text),
    "Reservation": ("reservation", _plain_text),
    "User": ("user", _plain_text),
    "Queue": ("queue", _plain_text),
    "QualityOfService": ("quality", _plain_text),
    "Machine": ("machine", _plain_text),
}
"""The field that a plain wish fills, and how it is read; nothing when it is not plain."""

_READERS: Mapping[str, Mapping[str, _Reader]] = {
    place: {name: reader for name, reader in _ALL.items() if name in heard}
    for place, heard in UNDERSTOOD_IN.items()
}
