"""The rows of attributes, and the fields that each struct makes of an element and its attributes."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from headnode.core.formats.fidelity import parse_awareness
from headnode.core.formats.sss.properties import (
    LIMITS,
    MEASURED_IN_BYTES,
    Aggregation,
    Charge,
    Conj,
    Consumable,
    Dependency,
    Designator,
    DistributionKind,
    Extension,
    LimitKind,
    Notifications,
    Op,
    Redirect,
    Resource,
    Selection,
    SssDistribution,
    SssLimit,
    SssProperty,
    SssStream,
    Unit,
    check_distribution,
    kind_of,
)
from headnode.core.formats.sss.property_rows import SssRow
from headnode.core.formats.sss.value_types import (
    AMOUNT,
    FLOAT,
    INTEGER,
    SPAN,
    STRING,
    SssVersion,
    ValueType,
    choice,
    parse_float,
)
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import Condition
from headnode.core.model.patterns import compile_pattern


class AttributeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One attribute.  The same name in both versions; words may be written another way in 3.0.3."""

    name: str
    field: str
    shape: type[SssProperty] = SssProperty
    type: ValueType = STRING
    type_3_0: ValueType | None = None
    required: bool = False
    requested: bool = False  # only in Requested
    source: str

    def type_in(self, version: SssVersion) -> ValueType:
        """Return how its values are written in `version`."""
        return self.type_3_0 or self.type if version is SssVersion.V3_0 else self.type


class Metric(StrEnum):
    """The metrics of the documents; resources may have others of their own."""

    TOTAL = "Total"
    AVERAGE = "Average"
    MIN = "Min"
    MAX = "Max"


def _metric(lower: tuple[Metric, ...] = ()) -> ValueType:
    """Return the type of metrics: known words in any case, and any other word."""
    known = {word.lower(): str(word) for word in Metric}
    written = {str(word): word.lower() if word in lower else str(word) for word in Metric}
    return ValueType(
        "String", lambda text: known.get(text.lower(), text), lambda word: written.get(word, word)
    )


def _read_redirects(text: str) -> tuple[Redirect, ...]:
    one = choice("redirection", Redirect)
    return tuple(one.read(word.strip()) for word in text.split(",") if word.strip())


def _unit(text: str) -> str:
    """Return a unit of bytes in capital letters, any other as it is."""
    return text.upper() if text.upper() in Unit.__members__ else text


REDIRECTS = ValueType("String", _read_redirects, ",".join, tuple(Redirect))
UNITS = ValueType("String", _unit, str)
AWARENESS = ValueType("String", parse_awareness, str)
_REQUESTED = "SSS 3.1.0, Requested properties"
_CONSUMABLE = "SSS 3.1.0, Consumable Resources"


def _attribute(name: str, field: str, shape: type[SssProperty], source: str, **more: Any) -> AttributeRow:
    return AttributeRow(name=name, field=field, shape=shape, source=source, **more)


ATTRIBUTES = (
    _attribute("name", "called", Resource, _CONSUMABLE, required=True),
    _attribute("type", "type", Resource, _CONSUMABLE),
    _attribute("name", "called", SssLimit, "SSS 3.1.0, ResourceLimit Element", required=True),
    _attribute("type", "kind", SssLimit, "SSS 3.1.0, ResourceLimit Element",
        type=choice("kind of limit", LimitKind)),
    _attribute("type", "type", Extension, "SSS 3.1.0, Extension Element"),
    _attribute("name", "called", Extension, "SSS 3.1.0, Extension Element"),
    _attribute("type", "kind", SssDistribution, "SSS 3.1.0, TaskDistribution Element",
        type=choice("kind of distribution", DistributionKind)),
    _attribute("condition", "condition", Dependency, "SSS 3.1.0, Dependency Element",
        type=choice("condition", Condition)),
    _attribute("designator", "designator", Dependency, "SSS 3.1.0, Dependency Element",
        type=choice("designator", Designator)),
    _attribute("redirectList", "redirects", SssStream,
        "SSS 3.1.0, OutputFile, ErrorFile and InputFile Elements", type=REDIRECTS),
    _attribute("uri", "uri", Notifications, "SSS 3.1.0, NotificationList Element"),
    _attribute("aggregation", "aggregation", Selection, "SSS 3.1.0, Feature and Node Elements",
        type=choice("aggregation", Aggregation)),
    _attribute("units", "units", Charge, "SSS 3.1.0, Example 25-3"),
    _attribute("metric", "metric", Consumable, _CONSUMABLE, type=_metric(),
        type_3_0=_metric((Metric.TOTAL, Metric.MIN, Metric.MAX))),
    _attribute("units", "units", Consumable, _CONSUMABLE, type=UNITS),
    _attribute("duration", "duration", Consumable, _CONSUMABLE, type=SPAN),
    _attribute("consumptionRate", "consumption_rate", Consumable, _CONSUMABLE, type=AMOUNT),
    _attribute("op", "op", SssProperty, _REQUESTED, type=choice("comparison", Op),
        type_3_0=choice("comparison", Op, lower=True), requested=True),
    _attribute("conj", "conj", SssProperty, _REQUESTED, type=choice("conjunction", Conj),
        type_3_0=choice("conjunction", Conj, lower=True), requested=True),
    _attribute("group", "group", SssProperty, _REQUESTED, type=INTEGER, requested=True),
    _attribute("preference", "preference", SssProperty, _REQUESTED, type=INTEGER, requested=True),
    _attribute("performanceFactor", "performance", SssProperty, _REQUESTED, type=FLOAT, requested=True),
    _attribute("awarenessPolicy", "awareness", SssProperty,
        "SSS 3.1.0, awarenessPolicy; SSS 3.0.3, 9 AwarenessPolicy Attribute", type=AWARENESS),
)  # fmt: skip

_SHAPES: tuple[type[SssProperty], ...] = tuple(
    dict.fromkeys([SssProperty, *(row.shape for row in ATTRIBUTES)])
)

BY_SHAPE: Mapping[type[SssProperty], Mapping[str, AttributeRow]] = {
    shape: {row.name: row for row in ATTRIBUTES if issubclass(shape, row.shape)} for shape in _SHAPES
}
"""The attributes that each struct has, by their names."""


def attributes_of(row: SssRow) -> Mapping[str, AttributeRow]:
    """Return the attributes of a property by their names."""
    return BY_SHAPE.get(row.shape, BY_SHAPE[SssProperty])


def written_of(row: SssRow) -> Sequence[tuple[AttributeRow, Any]]:
    """Return the attributes of a property, each with what its field holds when it is not written."""
    return _WRITTEN.get(row.shape, _WRITTEN[SssProperty])


_ABSENT = {
    (row.shape, row.field): info.default
    for row in ATTRIBUTES
    for info in msgspec.structs.fields(row.shape)
    if info.name == row.field and info.default is not msgspec.NODEFAULT
}
_WRITTEN: Mapping[type[SssProperty], Sequence[tuple[AttributeRow, Any]]] = {
    shape: [(row, _ABSENT.get((row.shape, row.field))) for row in rows.values()]
    for shape, rows in BY_SHAPE.items()
}


Fields = dict[str, Any]
_LIMITS = {name.lower(): name for name in LIMITS}
_OF_CONSUMABLES = ("units", "metric", "duration", "consumptionRate")


def finished(row: SssRow, fields: Fields) -> Fields:
    """Return the fields of the struct of a row as they are kept.

    Raises:  BadRequest for a value that cannot be.
    """
    shape = row.shape
    if fields.get("op") is Op.MATCH:
        _check_match(row, str(fields["value"]))
    if issubclass(shape, Selection):
        return _selection(fields)
    if row.name in MEASURED_IN_BYTES:
        _check_unit(fields.get("units", ""))
    if issubclass(shape, SssLimit):
        return {**fields, "called": _LIMITS.get(fields["called"].lower(), fields["called"])}
    if issubclass(shape, SssDistribution):
        kind = fields.get("kind") or kind_of(fields["value"])
        return {**fields, "kind": kind, "value": check_distribution(kind, fields["value"])}
    if issubclass(shape, Dependency) and not fields["value"]:
        raise BadRequest(code="empty", what="no job is named", fix="write the id of the job, or its name")
    return fields


def _check_match(row: SssRow, text: str) -> None:
    if row.type is not STRING:
        raise BadRequest(
            code="comparison", what="a number cannot be matched", fix="write EQ, NE, LT, LE, GT or GE"
        )
    compile_pattern(text)


def _check_unit(unit: str) -> None:
    if unit and unit not in Unit.__members__:
        meant = nearest_name(unit, map(str, Unit))
        hint = f"did you mean {meant!r}? " if meant else ""
        raise BadRequest(
            code="unit", what=f"{unit!r} is no unit of bytes", fix=f"{hint}write {', '.join(Unit)}"
        )


def _selection(fields: Fields) -> Fields:
    """Return a comparison by regular expression as the pattern that it is."""
    aggregation, op = fields.get("aggregation"), fields.get("op")
    if aggregation is Aggregation.PATTERN:
        compile_pattern(str(fields["value"]))
    if op is not Op.MATCH:
        return fields
    if aggregation is Aggregation.LIST:
        raise BadRequest(
            code="aggregation", what="a List cannot be a Match", fix="write aggregation Pattern without op"
        )
    return {**fields, "aggregation": Aggregation.PATTERN, "op": None}


def is_amount(text: str, attributes: Any) -> bool:
    """Whether a Network element with this text and these attributes is a consumable."""
    if any(name in attributes for name in _OF_CONSUMABLES):
        return True
    try:
        parse_float(text)
    except BadRequest:
        return False
    return True


def matches_by_op(found: SssProperty) -> bool:
    """Whether 3.0.3 writes the pattern of `found` as a comparison, as its examples do."""
    return isinstance(found, Selection) and found.aggregation is Aggregation.PATTERN and found.op is None


def reads_back_otherwise(found: SssProperty) -> bool:
    """Whether `found` would be read as something else than it is: a network adapter called 10."""
    adapter = found.name == "Network" and not isinstance(found, Consumable)
    return adapter and is_amount(str(found.value or ""), ())
