"""Write job objects, in either version."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from headnode.core.formats.fidelity import Fidelity, FidelityReport, ReportItem
from headnode.core.formats.hpc_xml.extensions import checked_element
from headnode.core.formats.sss.attributes import BY_SHAPE, matches_by_op, reads_back_otherwise, written_of
from headnode.core.formats.sss.job_object import (
    ENTRY_NAMES,
    Entry,
    File,
    SssDocument,
    SssJob,
    SssPart,
    SssReference,
    TaskGroup,
)
from headnode.core.formats.sss.properties import (
    Consumable,
    Environment,
    Op,
    SssCategory,
    SssProperty,
    UnknownElement,
    Variable,
)
from headnode.core.formats.sss.property_rows import (
    ADAPTER,
    CHILDREN_OF,
    NODE_PROPERTIES,
    ROW_OF,
    ChildElement,
    ElementPlace,
    SssRow,
    stands_wrapped,
)
from headnode.core.formats.sss.value_types import SssVersion
from headnode.core.formats.text.xml_text import XmlElement, possible, write_xml
from headnode.core.model.errors import Broken

_AWARENESS = BY_SHAPE[SssProperty]["awarenessPolicy"]


def write_document(document: SssDocument, version: SssVersion | None = None) -> tuple[bytes, FidelityReport]:
    """Write a document in `version`, its own when none is given; say what XML cannot hold."""
    return _DocumentWriter(version or document.version).write(document)


def written_parts(part: SssJob | TaskGroup) -> list[XmlElement | str]:
    """Return the elements of which a job or task group consists, as 3.1.0 writes them."""
    place, name = (ElementPlace.DATA, "Job") if isinstance(part, SssJob) else (ElementPlace.JOB, "TaskGroup")
    return [one for one in _DocumentWriter(SssVersion.V3_1).parts(CHILDREN_OF[place][name], part) if one]


class _DocumentWriter:
    """Writes one document."""

    def __init__(self, version: SssVersion) -> None:
        self._version = version
        self._items: list[ReportItem] = []

    def write(self, document: SssDocument) -> tuple[bytes, FidelityReport]:
        """Write it as `write_document` promises."""
        entries = [self._entry(entry) for entry in document.entries]
        if document.in_data or document.needs_data:
            files = [self._file(file) for file in document.files]
            unknown = list(self._properties(document.unknown, ElementPlace.DATA))
            root = XmlElement("Data", self._marks(document), [*entries, *files, *unknown])
        else:
            root = entries[0]
        if document.namespace:
            root.attributes = {**root.attributes, "xmlns": document.namespace}
        return write_xml(root), tuple(self._items)

    def _entry(self, entry: Entry) -> XmlElement:
        return self._child(CHILDREN_OF[ElementPlace.DATA][ENTRY_NAMES[type(entry)]], entry)

    def _child(self, child: ChildElement, part: Any) -> XmlElement:
        """Write an element that holds others, or only says which one is meant."""
        if isinstance(part, SssReference):
            return XmlElement(child.name, self._marks(part), text=self._text(part.id, child.name))
        return XmlElement(child.name, self._marks(part), self.parts(child, part))

    def parts(self, child: ChildElement, part: Any) -> list[XmlElement | str]:
        """Write what is in an element that holds others."""
        inside: list[XmlElement | str] = list(self._properties(part.properties, child.place))
        for kind in CHILDREN_OF[child.place].values():
            found = getattr(part, kind.field)
            if kind.many:
                inside += [self._child(kind, one) for one in found]
            elif found is not None:
                inside.append(self._child(kind, found))
        return inside

    def _properties(
        self, properties: Iterable[SssProperty], place: ElementPlace
    ) -> Iterator[XmlElement | str]:
        """Write properties in their order; in 3.0.3, neighbours that are wrapped share a wrapper."""
        if self._version is not SssVersion.V3_0:
            yield from (self._property(found, place) for found in properties)
            return
        for wrapped, group in groupby(properties, lambda found: self._wrapped(found, place)):
            elements = [self._property(found, place) for found in group]
            if wrapped:
                yield XmlElement(NODE_PROPERTIES, {}, elements)
            else:
                yield from elements

    def _wrapped(self, prop: SssProperty, place: ElementPlace) -> bool:
        if self._version is not SssVersion.V3_0 or isinstance(prop, UnknownElement):
            return False
        row = ROW_OF.get((place, prop.name))
        return row is not None and stands_wrapped(row, place)

    def _property(self, prop: SssProperty, place: ElementPlace) -> XmlElement | str:
        if isinstance(prop, UnknownElement):
            return self._kept(prop)
        row = self._row(prop, place)
        name = row.name_in(self._version) if self._wrapped(prop, place) or not row.wrapped else row.name
        attributes = self._attributes(prop, row)
        if isinstance(prop, Environment):
            return XmlElement(name, attributes, [self._variable(one) for one in prop.variables])
        if reads_back_otherwise(prop):
            self._report(name, f"{prop.value!r} will be read as an amount")
        text = "" if prop.value is None else row.type.write(prop.value)
        return XmlElement(name, attributes, text=self._text(text, name))

    def _row(self, prop: SssProperty, place: ElementPlace) -> SssRow:
        if prop.name == ADAPTER.name and not isinstance(prop, Consumable):
            return ADAPTER
        row = ROW_OF.get((place, prop.name))
        if row is None or type(prop) is not row.shape:
            raise Broken(
                code="sss-property",
                what=f"{type(prop).__name__} {prop.name!r} cannot stand in {place.value}",
                fix="look at the rows of the SSS job object",
            )
        return row

    def _attributes(self, prop: SssProperty, row: SssRow) -> dict[str, str]:
        attributes: dict[str, str] = {}
        if type(prop) is SssProperty and prop == SssProperty(name=prop.name, value=prop.value):
            return attributes
        for attribute, absent in written_of(row):
            value = getattr(prop, attribute.field)
            if value != absent:
                written = attribute.type_in(self._version).write(value)
                attributes[attribute.name] = self._text(written, attribute.name)
        if self._version is SssVersion.V3_0 and matches_by_op(prop):
            del attributes["aggregation"]
            attributes["op"] = str(Op.MATCH).lower()
        return attributes | dict(prop.kept)

    def _variable(self, one: Variable) -> XmlElement:
        marks = {"name": self._text(one.name, "name"), **self._marks(one)}
        return XmlElement("Variable", marks, text=self._text(one.value, f"Variable {one.name}"))

    def _file(self, file: File) -> XmlElement:
        marks = {"id": self._text(file.id, "id"), **self._marks(file)}
        return XmlElement("File", marks, text=self._text(file.body, f"File {file.id}"))

    def _marks(
        self, part: SssDocument | SssPart | SssReference | SssCategory | Variable | File
    ) -> dict[str, str]:
        """Return the attributes that every part may have."""
        policy = part.awareness
        return {**({_AWARENESS.name: str(policy)} if policy else {}), **dict(part.kept)}

    def _kept(self, element: UnknownElement) -> XmlElement | str:
        text = checked_element(element.xml)
        if text is None:
            self._report(element.name, "a kept element is not XML: it is left out")
            return ""
        return text

    def _text(self, text: str, where: str) -> str:
        held = possible(text)
        if held != text:
            self._report(where, "control characters cannot be written in XML: they are replaced")
        return held

    def _report(self, where: str, what: str) -> None:
        self._items.append(ReportItem(Fidelity.APPROXIMATED, where, what))
