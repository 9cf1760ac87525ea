"""Read the attributes of elements by their rows, and find the properties that are nothing but text."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import msgspec
from lxml import etree

from headnode.core.formats.fidelity import Awareness, Fidelity
from headnode.core.formats.sss.attribute_rows import (
    ATTRIBUTES,
    AWARENESS,
    BY_SHAPE,
    AttributeRow,
    attributes_of,
)
from headnode.core.formats.sss.properties import (
    Charge,
    Consumable,
    Extension,
    Notifications,
    Op,
    Selection,
    SssProperty,
    SssStream,
)
from headnode.core.formats.sss.property_rows import ADAPTER, NETWORK, SPELLINGS, ElementPlace, SssRow
from headnode.core.formats.sss.source_text import SssFindings, local
from headnode.core.formats.sss.value_types import STRING, SssVersion, ValueType
from headnode.core.model.errors import BadRequest

_SHAPES = (SssProperty, Charge, Consumable, Selection, SssStream, Notifications, Extension)
"""The structs that need no attribute and no more than their value."""


class PlainName(msgspec.Struct):
    """A name of a property: its row, the version it is of, and what may stand only once; None: any number.

    `called` is its name in 3.1.0; `read` is None where the text is the value; `heard` is how often the
    document has it.
    """

    name: str
    row: SssRow
    version: SssVersion | None
    key: Hashable
    called: str
    shape: type[SssProperty]
    read: Callable[[str], Any] | None
    is_program: bool
    heard: int = 0


def plain_names(place: ElementPlace, prefix: str) -> dict[str, PlainName]:
    """Return the names of such properties in `place`, by the tags in a namespace that `prefix` says."""
    return {
        f"{prefix}{name}": PlainName(
            name,
            row,
            spelling.version,
            key_of(row.shape(name=row.name), place, row),
            row.name,
            row.shape,
            None if row.type is STRING else row.type.read,
            is_program=row.name == "Executable",
        )
        for name, spelling in SPELLINGS[place].items()
        if (row := spelling.row).shape in _SHAPES and row not in (NETWORK, ADAPTER) and not spelling.alias
    }


def key_of(found: SssProperty, place: ElementPlace, row: SssRow) -> Hashable:
    """Return what may stand only once in a place; None when any number of it may."""
    if place is ElementPlace.REQUESTED:
        return None
    if isinstance(found, Consumable):
        return (row.name, found.metric, getattr(found, "called", ""), getattr(found, "type", ""))
    return None if row.many else (row.name,)


Fields = dict[str, Any]
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
            self._tell_unknown(element, name, policy, (_POLICY,))
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
                self._tell_unknown(element, key, policy, (name, _POLICY))
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
                self._tell_unknown(element, name, policy, rows)
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

    def _tell_unknown(self, element: etree._Element, name: str, policy: Awareness, names: Any) -> None:
        if name.startswith(_SILENT):
            return
        hint = self._findings.hint(name, [*names])
        if name in _ELSEWHERE and not hint:
            hint = "; it belongs to other elements"
        what = f"attribute {name!r} is not known here: kept, without effect{hint}"
        self._findings.unknown(policy, element, what, name)
