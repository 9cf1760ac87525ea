"""The rows of attributes: what each is called, which structs have it, and where.

Source: SSS 3.1.0, the sections of each element, "Requested", "Consumable Resources", "awarenessPolicy".
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from headnode.core.formats.fidelity import parse_awareness
from headnode.core.formats.sss.conditions import (
    Condition,
    Dependency,
    Designator,
    Distribution,
    DistributionKind,
    Extension,
    Limit,
    LimitKind,
)
from headnode.core.formats.sss.consumables import Charge, Consumable, Resource, Unit
from headnode.core.formats.sss.properties import Conj, Op, Property
from headnode.core.formats.sss.rows import Row
from headnode.core.formats.sss.selections import Aggregation, Selection
from headnode.core.formats.sss.streams import Notifications, Redirect, Stream
from headnode.core.formats.sss.value_types import (
    AMOUNT,
    FLOAT,
    INTEGER,
    SPAN,
    STRING,
    ValueType,
    choice,
)
from headnode.core.formats.sss.versions import Version


class AttributeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One attribute.  The same name in both versions; words may be written another way in 3.0.3."""

    name: str
    field: str
    shape: type[Property] = Property
    type: ValueType = STRING
    type_3_0: ValueType | None = None
    required: bool = False
    requested: bool = False  # only in Requested
    source: str

    def type_in(self, version: Version) -> ValueType:
        """Return how its values are written in `version`."""
        return self.type_3_0 or self.type if version is Version.V3_0 else self.type


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
        "String",
        lambda text: known.get(text.lower(), text),
        lambda word: written.get(word, word),
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

ATTRIBUTES = (
    AttributeRow(name="name", field="called", shape=Resource, required=True, source=_CONSUMABLE),
    AttributeRow(name="type", field="type", shape=Resource, source=_CONSUMABLE),
    AttributeRow(
        name="name", field="called", shape=Limit, required=True, source="SSS 3.1.0, ResourceLimit Element"
    ),
    AttributeRow(
        name="type",
        field="kind",
        shape=Limit,
        type=choice("kind of limit", LimitKind),
        source="SSS 3.1.0, ResourceLimit Element",
    ),
    AttributeRow(name="type", field="type", shape=Extension, source="SSS 3.1.0, Extension Element"),
    AttributeRow(name="name", field="called", shape=Extension, source="SSS 3.1.0, Extension Element"),
    AttributeRow(
        name="type",
        field="kind",
        shape=Distribution,
        type=choice("kind of distribution", DistributionKind),
        source="SSS 3.1.0, TaskDistribution Element",
    ),
    AttributeRow(
        name="condition",
        field="condition",
        shape=Dependency,
        type=choice("condition", Condition),
        source="SSS 3.1.0, Dependency Element",
    ),
    AttributeRow(
        name="designator",
        field="designator",
        shape=Dependency,
        type=choice("designator", Designator),
        source="SSS 3.1.0, Dependency Element",
    ),
    AttributeRow(
        name="redirectList",
        field="redirects",
        shape=Stream,
        type=REDIRECTS,
        source="SSS 3.1.0, OutputFile, ErrorFile and InputFile Elements",
    ),
    AttributeRow(name="uri", field="uri", shape=Notifications, source="SSS 3.1.0, NotificationList Element"),
    AttributeRow(
        name="aggregation",
        field="aggregation",
        shape=Selection,
        type=choice("aggregation", Aggregation),
        source="SSS 3.1.0, Feature and Node Elements",
    ),
    AttributeRow(name="units", field="units", shape=Charge, source="SSS 3.1.0, Example 25-3"),
    AttributeRow(
        name="metric",
        field="metric",
        shape=Consumable,
        type=_metric(),
        type_3_0=_metric((Metric.TOTAL, Metric.MIN, Metric.MAX)),
        source=_CONSUMABLE,
    ),
    AttributeRow(name="units", field="units", shape=Consumable, type=UNITS, source=_CONSUMABLE),
    AttributeRow(name="duration", field="duration", shape=Consumable, type=SPAN, source=_CONSUMABLE),
    AttributeRow(
        name="consumptionRate",
        field="consumption_rate",
        shape=Consumable,
        type=AMOUNT,
        source=_CONSUMABLE,
    ),
    AttributeRow(
        name="op",
        field="op",
        type=choice("comparison", Op),
        type_3_0=choice("comparison", Op, lower=True),
        requested=True,
        source=_REQUESTED,
    ),
    AttributeRow(
        name="conj",
        field="conj",
        type=choice("conjunction", Conj),
        type_3_0=choice("conjunction", Conj, lower=True),
        requested=True,
        source=_REQUESTED,
    ),
    AttributeRow(name="group", field="group", type=INTEGER, requested=True, source=_REQUESTED),
    AttributeRow(name="preference", field="preference", type=INTEGER, requested=True, source=_REQUESTED),
    AttributeRow(
        name="performanceFactor", field="performance", type=FLOAT, requested=True, source=_REQUESTED
    ),
    AttributeRow(
        name="awarenessPolicy",
        field="awareness",
        type=AWARENESS,
        source="SSS 3.1.0, awarenessPolicy; SSS 3.0.3, 9 AwarenessPolicy Attribute",
    ),
)

_SHAPES: tuple[type[Property], ...] = tuple(dict.fromkeys([Property, *(row.shape for row in ATTRIBUTES)]))

BY_SHAPE: Mapping[type[Property], Mapping[str, AttributeRow]] = {
    shape: {row.name: row for row in ATTRIBUTES if issubclass(shape, row.shape)} for shape in _SHAPES
}
"""The attributes that each struct has, by their names."""


def attributes_of(row: Row) -> Mapping[str, AttributeRow]:
    """Return the attributes of a property by their names."""
    return BY_SHAPE.get(row.shape, BY_SHAPE[Property])


def written_of(row: Row) -> Sequence[tuple[AttributeRow, Any]]:
    """Return the attributes of a property, each with what its field holds when it is not written."""
    return _WRITTEN.get(row.shape, _WRITTEN[Property])


_ABSENT = {
    (row.shape, row.field): info.default
    for row in ATTRIBUTES
    for info in msgspec.structs.fields(row.shape)
    if info.name == row.field and info.default is not msgspec.NODEFAULT
}
_WRITTEN: Mapping[type[Property], Sequence[tuple[AttributeRow, Any]]] = {
    shape: [(row, _ABSENT.get((row.shape, row.field))) for row in rows.values()]
    for shape, rows in BY_SHAPE.items()
}
