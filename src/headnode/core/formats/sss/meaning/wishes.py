"""What a job or task group asks for, in the words that Headnode has: the meeting point of both directions.

Source: SSS 3.1.0, "Requested", Tables 25-2 to 25-4, "Node", "Feature", "Resource".
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from headnode.core.formats.sss.consumables import Unit
from headnode.core.formats.sss.requests.constraint import Comparison, Constraint, Subject, whole_range
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import Licence
from headnode.core.model.quantities import FOREVER, Seconds
from headnode.core.model.small_checks import MOST_CODE

LICENSE = "License"
"""How a Resource that is a licence is called; another consumable is a licence called ``name:type``."""

Bounds = tuple[int, int]

_EXACT = frozenset({Comparison.EQ})
_NUMBERS = frozenset({Comparison.EQ, Comparison.GE, Comparison.GT, Comparison.LE, Comparison.LT})
_AMONG = frozenset({Comparison.EQ, Comparison.IN})
_NOT_AMONG = frozenset({Comparison.NE, Comparison.NOT_IN})
_LOWER = frozenset({Comparison.EQ, Comparison.GE, Comparison.GT})
SAYABLE: Mapping[str, frozenset[Comparison]] = {
    "Processors": _NUMBERS,
    "NodeCount": _NUMBERS,
    "Memory": _NUMBERS,
    "Disk": _LOWER,
    "Swap": _LOWER,
    "Duration": _NUMBERS,
    "Node": _AMONG | _NOT_AMONG | {Comparison.MATCH, Comparison.NO_MATCH},
    "Feature": _AMONG | _NOT_AMONG | {Comparison.MATCH},
    "Architecture": _AMONG,
    "OperatingSystem": _AMONG,
    "Partition": _EXACT,
    "Resource": _LOWER,
    "Project": _EXACT,
    "User": _EXACT,
    "Queue": _EXACT,
    "QualityOfService": _EXACT,
    "Machine": _EXACT,
}
"""The comparisons that Headnode can act on, by the property."""


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for.  Memory, disk and swap are in MB for each node; None and empty: nothing is said."""

    processors: Bounds | None = None
    nodes: Bounds | None = None
    least_memory: int | None = None
    most_memory: int | None = None
    disk: int = 0
    swap: int = 0
    run_time: Seconds = FOREVER
    names: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    excluded_patterns: tuple[str, ...] = ()
    features: tuple[tuple[str, ...], ...] = ()  # of each inner tuple one
    feature_patterns: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    partition: str = ""
    licences: tuple[Licence, ...] = ()
    project: str = ""
    user: str = ""
    queue: str = ""
    quality: str = ""
    machine: str = ""


NOTHING = Wishes()
OF_NODES: Mapping[str, tuple[str, ...]] = {
    "Memory": ("least_memory", "most_memory"),
    "Disk": ("disk",),
    "Swap": ("swap",),
    "Node": ("names", "excluded", "patterns", "excluded_patterns"),
    "Feature": ("features", "feature_patterns", "lacking"),
    "Architecture": ("architectures",),
    "OperatingSystem": ("systems",),
}
"""The fields of `Wishes` for each property that says which nodes will do."""


_TOGETHER = {field: fields for fields in OF_NODES.values() for field in fields}


def says(wishes: Wishes, fields: Iterable[str]) -> bool:
    """Whether anything is said in one of `fields`."""
    return any(getattr(wishes, field) != getattr(NOTHING, field) for field in fields)


@lru_cache(maxsize=256)
def overridden(own: Wishes, far: Wishes) -> Wishes:
    """Return what `own` asks for, and what `far` does of the properties that `own` says nothing of."""
    if NOTHING in (own, far):
        return far if own == NOTHING else own
    kept = {
        field: getattr(own, field)
        for field in own.__struct_fields__
        if says(own, _TOGETHER.get(field, (field,)))
    }
    return replace(far, **kept)


def is_sayable(one: Constraint) -> bool:
    """Whether Headnode can act on a constraint."""
    name = one.subject[0]
    if name == "Resource" and not _consumable(one.subject):
        return False
    return one.comparison in SAYABLE.get(name, ())


def _consumable(subject: Subject) -> str:
    """Return how the licence is called that a Resource is; "" when it can be none."""
    _, called, kind = subject
    if called.lower() == LICENSE.lower():
        name = kind
    else:
        name = f"{called}:{kind}" if kind else called
    return "" if "," in name else name.strip()


def wishes_of(constraints: Sequence[Constraint]) -> tuple[Wishes, tuple[str, ...]]:
    """Return what `constraints`, all of them sayable, ask for; and what is met, but not to the letter.

    Raises:  BadRequest ``size`` for counts that no cluster has.

    Where no upper bound is given, the lower one is it: the wish is met, and nobody else is kept out.
    """
    texts = {one.subject[0]: str(one.value) for one in constraints if one.comparison is Comparison.EQ}
    memory = [one for one in constraints if one.subject == ("Memory",)]
    wishes = Wishes(
        processors=_bounds(constraints, "Processors"),
        nodes=_bounds(constraints, "NodeCount"),
        least_memory=_least(constraints, "Memory") or None,
        most_memory=_most_memory(memory),
        disk=_least(constraints, "Disk"),
        swap=_least(constraints, "Swap"),
        run_time=_run_time(constraints),
        names=_among(constraints, "Node"),
        excluded=_every(constraints, "Node", _NOT_AMONG),
        patterns=_every(constraints, "Node", (Comparison.MATCH,)),
        excluded_patterns=_every(constraints, "Node", (Comparison.NO_MATCH,)),
        features=tuple(dict.fromkeys(_texts(one) for one in _of(constraints, "Feature", _AMONG))),
        feature_patterns=_every(constraints, "Feature", (Comparison.MATCH,)),
        lacking=_every(constraints, "Feature", _NOT_AMONG),
        architectures=_among(constraints, "Architecture"),
        systems=_among(constraints, "OperatingSystem"),
        partition=texts.get("Partition", ""),
        licences=tuple(_licences(constraints)),
        project=texts.get("Project", ""),
        user=texts.get("User", ""),
        queue=texts.get("Queue", ""),
        quality=texts.get("QualityOfService", ""),
        machine=texts.get("Machine", ""),
    )
    return wishes, tuple(dict.fromkeys(_approximated(constraints)))


def _approximated(constraints: Sequence[Constraint]) -> Iterator[str]:
    for name in ("Processors", "NodeCount"):
        if any(one.subject == (name,) for one in constraints) and math.isinf(
            whole_range(constraints, name).most
        ):
            yield f"{name}: no upper bound is given, so the lower one is taken"
    for one in constraints:
        if isinstance(one.value, str | tuple):
            continue
        if one.subject[0] in ("Memory", "Disk", "Swap") and Fraction(one.value) % Unit.MB.size:
            yield f"{one.subject[0]}: whole megabytes, rounded up"
        if one.subject[0] == "Resource" and Fraction(one.value) % 1:
            yield f"Resource {_consumable(one.subject)}: whole numbers, rounded up"


def _of(constraints: Sequence[Constraint], name: str, comparisons: Iterable[Comparison]) -> list[Constraint]:
    wanted = tuple(comparisons)
    return [one for one in constraints if one.subject == (name,) and one.comparison in wanted]


def _texts(one: Constraint) -> tuple[str, ...]:
    return one.value if isinstance(one.value, tuple) else (str(one.value),)


def _among(constraints: Sequence[Constraint], name: str) -> tuple[str, ...]:
    """Return the words of which one is wanted, each once; several lists narrow each other."""
    lists = [_texts(one) for one in _of(constraints, name, _AMONG)]
    every = dict.fromkeys(word for words in lists for word in words)
    return tuple(word for word in every if all(word in words for words in lists))


def _every(
    constraints: Sequence[Constraint], name: str, comparisons: Iterable[Comparison]
) -> tuple[str, ...]:
    found = _of(constraints, name, comparisons)
    return tuple(dict.fromkeys(word for one in found for word in _texts(one)))


def _bounds(constraints: Sequence[Constraint], name: str) -> Bounds | None:
    """Return how many; nothing when only 0 is asked for.

    Raises:  BadRequest ``size``.
    """
    if not any(one.subject == (name,) for one in constraints):
        return None
    least, most = whole_range(constraints, name)
    least = max(least, 1)
    if least > MOST_CODE:
        raise BadRequest(
            code="size",
            what=f"{name} {least} is more than any cluster has",
            fix=f"ask for {MOST_CODE} or less",
        )
    high = least if math.isinf(most) else min(int(most), MOST_CODE)
    return (least, high) if high >= 1 else None


def _least(constraints: Sequence[Constraint], name: str) -> int:
    """Return the megabytes that a node must have; a bare amount is one that is needed."""
    return max((_megabytes(one, up=True) for one in _of(constraints, name, _LOWER)), default=0)


def _most_memory(memory: Sequence[Constraint]) -> int | None:
    upper = [_megabytes(one, up=False) for one in memory if one.comparison in (Comparison.LE, Comparison.LT)]
    return max(min(upper), 1) if upper else None


def _megabytes(one: Constraint, *, up: bool) -> int:
    amount = Fraction(one.value) / Unit.MB.size if not isinstance(one.value, str | tuple) else Fraction(0)
    strict = 1 if amount.denominator == 1 and one.comparison in (Comparison.GT, Comparison.LT) else 0
    return math.ceil(amount) + strict if up else math.floor(amount) - strict


def _run_time(constraints: Sequence[Constraint]) -> Seconds:
    """Return the limit: the longest time asked for, the shortest of several."""
    limits = [one.value for one in constraints if one.subject == ("Duration",)]
    spans = [float(limit) for limit in limits if not isinstance(limit, str | tuple)]
    return Seconds(min((span for span in spans if span > 0), default=FOREVER))


def _licences(constraints: Sequence[Constraint]) -> Iterator[Licence]:
    amounts: dict[str, int] = {}
    for one in constraints:
        if one.subject[0] == "Resource" and not isinstance(one.value, str | tuple):
            strict = 1 if one.comparison is Comparison.GT else 0
            least = math.floor(one.value) + 1 if strict else math.ceil(one.value)
            name = _consumable(one.subject)
            amounts[name] = max(amounts.get(name, 0), least)
    yield from (Licence(feature, amount) for feature, amount in amounts.items() if amount)
