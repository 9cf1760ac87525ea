"""The table of what a job or task group may request: each property as fields of the model, and back.

What is requested is a mapping of fields; one that nothing is said of is not in it.  The fields of `NodeNeeds`
and those of `JobSpec` have their names; `processors` and `nodes` are bounds, `partition` is a node group, and
`quality` and `machine` are the properties of those names.
Source: SSS 3.1.0, "Requested", Tables 25-2 to 25-4, "Node", "Feature", "Resource".
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from headnode.core.formats.sss.constraints import (
    AMONG,
    EXACT,
    LICENSE,
    LOWER,
    MATCH,
    MEGABYTE,
    NO_MATCH,
    NOT_AMONG,
    UPPER,
    Bounds,
    Comparison,
    Constraint,
    Found,
    Words,
    among,
    bounds_in,
    choices_in,
    every_of,
    least_in,
    least_run_time_in,
    licence_name,
    licences_in,
    most_in,
    number_of,
    run_time_in,
    text_in,
    whole_range,
)
from headnode.core.formats.sss.properties import (
    Aggregation,
    Conj,
    Consumable,
    Op,
    Resource,
    Selection,
    SssProperty,
    Unit,
)
from headnode.core.formats.sss.property_rows import ElementPlace, meaning_of
from headnode.core.formats.sss.value_types import MAX_SECONDS
from headnode.core.model.job import Licence
from headnode.core.model.quantities import Seconds
from headnode.core.model.value_checks import MAX_CODE

Request = Mapping[str, Any]
"""What is requested, by field."""

Clause = tuple[SssProperty, ...]
"""Properties that stand together: one, or several of which one must hold."""

Item = TypeVar("Item")


def _write_run_time(name: str, limit: Seconds | None, least: Seconds | None) -> Iterator[Clause]:
    if limit is not None and limit <= MAX_SECONDS:
        yield from _write_bounds(
            SssProperty, name, (_whole(limit if least is None else least), _whole(limit))
        )


def _whole(span: Seconds) -> int:
    return math.ceil(span)


def _write_bounds(shape: type[SssProperty], name: str, bounds: Bounds) -> Iterator[Clause]:
    least, most = bounds
    if least == most:
        yield (shape(name=name, value=least),)
    else:
        yield (shape(name=name, value=least, op=Op.GE),)
        yield (shape(name=name, value=most, op=Op.LE),)


def _write_amounts(name: str, least: int | None, most: int | None = None) -> Iterator[Clause]:
    for amount, op in ((least, Op.GE), (most, Op.LE)):
        if amount is not None:
            yield (Consumable(name=name, value=float(amount), op=op, units=Unit.MB.value),)


def _write_nodes(
    name: str,
    names: Words | None,
    excluded: Words | None,
    patterns: Words | None,
    excluded_patterns: Words | None,
) -> Iterator[Clause]:
    """Yield nodes by name and by pattern; And keeps apart what else would be one list."""
    if names:
        listed = Aggregation.LIST if len(names) > 1 else None
        yield (Selection(name=name, value=",".join(names), aggregation=listed),)
    if patterns:
        first, *more = (
            Selection(name=name, value=text, aggregation=Aggregation.PATTERN) for text in patterns
        )
        yield (replace(first, conj=Conj.AND) if names else first, *more)
    for word in excluded or ():
        yield (Selection(name=name, value=word, op=Op.NE),)
    for text in excluded_patterns or ():
        yield (Selection(name=name, value=text, op=Op.NE, aggregation=Aggregation.PATTERN),)


def _write_features(
    name: str, choices: tuple[Words, ...] | None, patterns: Words | None, lacking: Words | None
) -> Iterator[Clause]:
    for choice in choices or ():
        yield from _write_one_of(Selection, name, choice)
    for text in patterns or ():
        yield (Selection(name=name, value=text, aggregation=Aggregation.PATTERN),)
    for word in lacking or ():
        yield (Selection(name=name, value=word, op=Op.NE),)


def _write_one_of(shape: type[SssProperty], name: str, choice: Words) -> Iterator[Clause]:
    """Yield what asks for one of `choice`, in parentheses when there are several."""
    first, *more = (shape(name=name, value=word) for word in choice)
    if not more:
        yield (first,)
        return
    others = [replace(one, conj=Conj.OR) for one in more]
    yield (grouped(first, 1), *others[:-1], grouped(others[-1], -1))


def grouped(one: SssProperty, group: int) -> SssProperty:
    """Return a property with so many more parentheses that open before it, or close after it below 0."""
    return replace(one, group=one.group + group)


def _write_text(name: str, text: str) -> Iterator[Clause]:
    yield (SssProperty(name=name, value=text),)


def _write_licences(name: str, licences: Iterable[Licence]) -> Iterator[Clause]:
    for licence in licences:
        called, _, kind = licence.feature.partition(":")
        if not called.strip() or not kind.strip() or called.lower() == LICENSE.lower():
            called, kind = LICENSE, licence.feature
        yield (Resource(name=name, called=called, type=kind, value=float(licence.amount or 0)),)


def _nothing(_value: object) -> None:
    return None


def _write_nothing(_name: str, _value: object) -> Iterator[Clause]:
    """Yield nothing: the model has no field for it, so it is written as it was read."""
    yield from ()


class ResourceRow(NamedTuple):
    """A property that may be requested: what of it is understood, its fields and their readers, its writer.

    The writer takes the name of the property and the fields, of which one at least is there.
    """

    understood: frozenset[Comparison]
    fields: Mapping[str, Callable[[Found], Any]]
    write: Callable[..., Iterator[Clause]]
    of_nodes: bool = False  # it says which nodes will do
    step: int = 0  # amounts are rounded up to multiples of it; 0: they are no amounts
    exact: Callable[[Any], Any] = (
        str  # what its first field is for one exact value; nothing: read it as others
    )
    outside: bool = False  # it is written outside of Requested

    @property
    def field(self) -> str:
        """The field that an exact value fills."""
        return next(iter(self.fields))


def _exact_bounds(number: int | float) -> Bounds | None:
    return (int(number), int(number)) if 1 <= number <= MAX_CODE and not number % 1 else None


def _exact_amount(size: int | Fraction | None) -> int:
    return 0 if not size or size % MEGABYTE else int(size // MEGABYTE)


def _only(name: str) -> Words:
    return (name,)


def _count(field: str, shape: type[SssProperty]) -> ResourceRow:
    write = partial(_write_bounds, shape)
    return ResourceRow(LOWER | UPPER, {field: bounds_in}, write, exact=_exact_bounds)


def _amount(field: str) -> ResourceRow:
    return ResourceRow(LOWER, {field: least_in}, _write_amounts, True, step=MEGABYTE, exact=_exact_amount)


def _one_of(field: str) -> ResourceRow:
    return ResourceRow(AMONG, {field: among}, partial(_write_one_of, SssProperty), of_nodes=True, exact=_only)


def _name(field: str) -> ResourceRow:
    return ResourceRow(EXACT, {field: text_in}, _write_text, outside=True)


RESOURCES: Mapping[str, ResourceRow] = {
    "Duration": ResourceRow(
        LOWER | UPPER,
        {"run_time": run_time_in, "minimum_run_time": least_run_time_in},
        _write_run_time,
        exact=Seconds,
    ),
    "Processors": _count("processors", Consumable),
    "NodeCount": _count("nodes", SssProperty),
    "Memory": ResourceRow(
        LOWER | UPPER,
        {"minimum_memory": least_in, "maximum_memory": most_in},
        _write_amounts,
        of_nodes=True,
        step=MEGABYTE,
        exact=_exact_amount,
    ),
    "Disk": _amount("minimum_disk"),
    "Swap": _amount("minimum_swap"),
    "Node": ResourceRow(
        AMONG | NOT_AMONG | MATCH | NO_MATCH,
        {
            "names": among,
            "excluded": partial(every_of, NOT_AMONG),
            "patterns": partial(every_of, MATCH),
            "excluded_patterns": partial(every_of, NO_MATCH),
        },
        _write_nodes,
        of_nodes=True,
        exact=_only,
    ),
    "Feature": ResourceRow(
        AMONG | NOT_AMONG | MATCH,
        {
            "features": choices_in,
            "feature_patterns": partial(every_of, MATCH),
            "lacking": partial(every_of, NOT_AMONG),
        },
        _write_features,
        of_nodes=True,
        exact=lambda name: ((name,),),
    ),
    "Architecture": _one_of("architectures"),
    "OperatingSystem": _one_of("systems"),
    "Partition": ResourceRow(EXACT, {"partition": text_in}, _write_text),
    "Resource": ResourceRow(LOWER, {"licences": licences_in}, _write_licences, step=1, exact=_nothing),
    "Project": _name("project"),
    "Reservation": _name("reservation"),
    "User": _name("run_as"),
    "Queue": _name("template"),
    "QualityOfService": ResourceRow(EXACT, {"quality": text_in}, _write_nothing),
    "Machine": ResourceRow(EXACT, {"machine": text_in}, _write_nothing),
    "ResourceManagerType": ResourceRow(EXACT, {"manager": text_in}, _write_nothing),
}
"""What Headnode can act on, by the names of 3.1.0, in the order in which it is written."""

_PARTS = (ElementPlace.JOB, ElementPlace.TASK_GROUP, ElementPlace.TASK)
UNDERSTOOD_IN: Mapping[str, Mapping[str, frozenset[Comparison]]] = {
    place: {
        name: row.understood
        for name, row in RESOURCES.items()
        if place is ElementPlace.JOB or meaning_of(name, place).tasks
    }
    for place in _PARTS
}
"""The comparisons that Headnode can act on, by the part of a document and the property."""

OF_NODES = {name: tuple(row.fields) for name, row in RESOURCES.items() if row.of_nodes}
"""The fields of each property that says which nodes will do."""

RELATED = {field: fields for fields in OF_NODES.values() for field in fields}
"""Of each field that says which nodes will do, all fields of its property."""


def without_effect(constraints: Found, place: ElementPlace) -> list[Constraint]:
    """Return what of `constraints` has no effect in `place`; of several patterns for a node all but one."""
    understood = UNDERSTOOD_IN[place]
    found: list[Constraint] = []
    patterns = 0
    for one in constraints:
        name = one.subject[0]
        if one.comparison not in understood.get(name, ()) or (
            name == "Resource" and not licence_name(one.subject)
        ):
            found.append(one)
        elif name == "Node" and one.comparison is Comparison.MATCH:
            patterns += 1
            if patterns > 1:
                found.append(one)
    return found


def resources_of(constraints: Found) -> tuple[Request, Words]:
    """Return what `constraints` ask for, all of which have an effect; and what is met, but not to the letter.

    Raises:  BadRequest ``size`` for counts that no cluster has.
    """
    by: dict[str, list[Constraint]] = {}
    for one in constraints:
        by.setdefault(one.subject[0], []).append(one)
    request: dict[str, Any] = {}
    for name, found in by.items():
        for field, read in RESOURCES[name].fields.items():
            value = read(found)
            if value:
                request[field] = value
    return request, _approximated(constraints, by)


def _approximated(constraints: Found, by: Mapping[str, Found]) -> Words:
    """Return what is met, but not to the letter."""
    sentences = [
        f"{name}: no upper bound is given, so the lower one is taken"
        for name in ("Processors", "NodeCount")
        if name in by and math.isinf(whole_range(by[name], name).most)
    ]
    for one in constraints:
        step = RESOURCES[one.subject[0]].step
        if step and number_of(one) % step:
            called = f"Resource {licence_name(one.subject)}" if step == 1 else one.subject[0]
            sentences.append(f"{called}: whole {'numbers' if step == 1 else 'megabytes'}, rounded up")
    return tuple(dict.fromkeys(sentences)) if sentences else ()


def clauses_of(request: Request, *, outside: bool = False) -> Iterator[Clause]:
    """Yield what asks for `request`: in Requested, or what stands outside of it."""
    for name, row in RESOURCES.items():
        if row.outside is outside:
            values = [request.get(field) for field in row.fields]
            if any(value is not None for value in values):
                yield from row.write(name, *values)


def distinct(items: Iterable[Item]) -> list[Item]:
    """Return the requests, or whatever may not be hashed, without those that come again."""
    found: list[Item] = []
    for one in items:
        if one not in found:
            found.append(one)
    return found


def with_rest(request: Request, more: Request) -> dict[str, Any]:
    """Return `request`, and what `more` asks for of properties that `request` says nothing of."""
    if not request or not more:
        return {**more, **request}
    fields = {each for field in request for each in RELATED.get(field, (field,))}
    return {**{field: value for field, value in more.items() if field not in fields}, **request}
