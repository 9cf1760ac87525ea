"""The attributes of elements: their rows, what each struct makes of them, and how they are read."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from lxml import etree

from headnode.core.formats.fidelity import Awareness, Fidelity, parse_awareness
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
from headnode.core.formats.sss.property_rows import ElementPlace, SssRow
from headnode.core.formats.sss.source_text import SssFindings, local
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
from headnode.core.model.dependency import Condition
from headnode.core.model.errors import BadRequest
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
            code="unit", what=f"{unit!r} is not a unit of bytes", fix=f"{hint}write {', '.join(Unit)}"
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


def matches_by_op(prop: SssProperty) -> bool:
    """Whether 3.0.3 writes the pattern of `prop` as a comparison, as its examples do."""
    return isinstance(prop, Selection) and prop.aggregation is Aggregation.PATTERN and prop.op is None


def reads_back_otherwise(prop: SssProperty) -> bool:
    """Whether `prop` would be read as something else than it is: a network adapter called 10."""
    adapter = prop.name == "Network" and not isinstance(prop, Consumable)
    return adapter and is_amount(str(prop.value or ""), ())


_SILENT = ("{http://www.w3.org/2001/XMLSchema-instance}", "{http://www.w3.org/XML/1998/namespace}")
_POLICY = "awarenessPolicy"
_ELSEWHERE = {name: row for rows in BY_SHAPE.values() for name, row in rows.items()}
_WITH_REQUIRED = {row.shape for row in ATTRIBUTES if row.required}
_STRANGE = object()


class SssAttributeReader:
    """Reads attributes; those that are not understood are kept, and told by the policy of the element."""

    def __init__(self, findings: SssFindings, *, lenient: bool) -> None:
        self._findings, self._lenient = findings, lenient

    def policy(self, element: etree._Element, inherited: Awareness) -> tuple[Awareness | None, Awareness]:
        """Return the awareness policy that is written on `element`, and the one that counts for it."""
        text = element.get(_POLICY)
        if text is None:
            return None, inherited
        written: Awareness = self.value(element, _POLICY, text, AWARENESS)
        return written, written

    def of_part(self, element: etree._Element, inherited: Awareness) -> tuple[Fields, Awareness]:
        """Read the attributes of an element that holds others; none but the policy is known there."""
        if not element.keys():
            return {}, inherited
        written, policy = self.policy(element, inherited)
        kept = tuple((str(name), str(text)) for name, text in element.attrib.items() if name != _POLICY)
        for name, _ in kept:
            self._report_unknown(element, name, policy, (_POLICY,))
        return {"awareness": written, "kept": kept}, policy

    def named(self, element: etree._Element, inherited: Awareness, name: str) -> tuple[str, Fields]:
        """Read the attributes of an element that must be called by its attribute `name`."""
        written, policy = self.policy(element, inherited)
        called = element.get(name, "").strip()
        if not called:
            self._refuse_missing(element, name)
        kept = tuple(
            (str(key), str(text)) for key, text in element.attrib.items() if key not in (_POLICY, name)
        )
        if local(element) != "File":  # which may have its owner, mode and more
            for key, _ in kept:
                self._report_unknown(element, key, policy, (name, _POLICY))
        return called, {"awareness": written, "kept": kept}

    def of_property(
        self, element: etree._Element, row: SssRow, place: ElementPlace, policy: Awareness
    ) -> Fields:
        """Read the attributes of a property."""
        fields: Fields = {}
        if not element.keys() and row.shape not in _WITH_REQUIRED:
            return fields
        rows = attributes_of(row)
        kept: list[tuple[str, str]] = []
        for key, text in ((str(key), str(text)) for key, text in element.attrib.items()):
            name = self._spelled(element, key, rows)
            attribute = rows.get(name)
            if attribute is None:
                self._report_unknown(element, name, policy, rows)
                kept.append((key, text))
                continue
            self._check_place(element, attribute, place, row, text)
            value = self._understood(element, attribute, key, text, policy) if text.strip() else None
            if value is _STRANGE:
                kept.append((key, text))
            elif value is not None:
                fields[attribute.field] = value
        if kept:
            fields["kept"] = tuple(kept)
        self._check_required(element, rows, fields)
        return fields

    def value(self, element: etree._Element, name: str, text: str, type_: ValueType) -> Any:
        """Return the value of an attribute.

        Raises:  BadRequest with the place of the attribute.
        """
        try:
            return type_.read(text.strip())
        except BadRequest as wrong:
            self._findings.refuse(wrong.code, element, f"attribute {name!r}: {wrong.what}", wrong.fix, name)

    def _understood(
        self, element: etree._Element, row: AttributeRow, name: str, text: str, policy: Awareness
    ) -> Any:
        """Return the value of an attribute, or _STRANGE when it is a word that is not known."""
        if not row.type.words:
            return self.value(element, name, text, row.type)
        try:
            return row.type.read(text.strip())
        except BadRequest as wrong:
            what = f"attribute {name!r}: {wrong.what}: kept, without effect; {wrong.fix}"
            self._findings.unknown(policy, element, what, name)
            return _STRANGE

    def _spelled(self, element: etree._Element, name: str, rows: Mapping[str, AttributeRow]) -> str:
        if not self._lenient or name in rows:
            return name
        meant = next((right for right in rows if right.lower() == name.lower()), name)
        if meant != name and meant not in element.attrib:
            self._findings.add(
                Fidelity.TRANSLATED, element, f"repaired: attribute {name!r} is read as {meant!r}", name
            )
            return meant
        return name

    def _check_place(
        self, element: etree._Element, attribute: AttributeRow, place: ElementPlace, row: SssRow, text: str
    ) -> None:
        """Refuse what only requested properties have; in 3.0.3, names of nodes may be matched anywhere."""
        matching = attribute.field == "op" and text.strip().lower() == Op.MATCH.lower()
        if attribute.requested and place is not ElementPlace.REQUESTED:
            if issubclass(row.shape, Selection) and matching:
                return
            what = f"attribute {attribute.name!r} belongs to requested properties only"
            fix = f"put {local(element)} into a Requested element"
            self._findings.refuse("misplaced", element, what, fix, attribute.name)

    def _check_required(
        self, element: etree._Element, rows: Mapping[str, AttributeRow], fields: Fields
    ) -> None:
        for name, row in rows.items():
            if row.required and not fields.get(row.field):
                self._refuse_missing(element, name)

    def _refuse_missing(self, element: etree._Element, name: str) -> None:
        self._findings.refuse(
            "missing", element, f"attribute {name!r} is missing", f'write {name}="..." in the tag'
        )

    def _report_unknown(self, element: etree._Element, name: str, policy: Awareness, names: Any) -> None:
        if name.startswith(_SILENT):
            return
        hint = self._findings.hint(name, [*names])
        if name in _ELSEWHERE and not hint:
            hint = "; it belongs to other elements"
        what = f"attribute {name!r} is not known here: kept, without effect{hint}"
        self._findings.unknown(policy, element, what, name)
