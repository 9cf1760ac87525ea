"""Writing SSS job objects, in either version.

Source: SSS 3.1.0 and SSS 3.0.3, the order of their examples.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from headnode.core.formats.compute_cluster_xml.markup import Element, possible, write
from headnode.core.formats.compute_cluster_xml.unknown import checked_element
from headnode.core.formats.fidelity import Item, Kind, Report
from headnode.core.formats.sss.attributes import BY_SHAPE, written_of
from headnode.core.formats.sss.consumables import Consumable
from headnode.core.formats.sss.job_object import Document, Entry, File, Job, Part, Reference, TaskGroup
from headnode.core.formats.sss.job_xml.shapes import matches_by_op, reads_back_otherwise
from headnode.core.formats.sss.properties import Envelope, Kept, Op, Property
from headnode.core.formats.sss.rows import NODE_PROPERTIES, Place, Row
from headnode.core.formats.sss.streams import Environment, Variable
from headnode.core.formats.sss.structured_rows import ADAPTER
from headnode.core.formats.sss.tables import CHILDREN_OF, ROW_OF, Child, stands_wrapped
from headnode.core.formats.sss.versions import Version
from headnode.core.model.errors import Broken

_AWARENESS = BY_SHAPE[Property]["awarenessPolicy"]


def write_document(document: Document, version: Version | None = None) -> tuple[bytes, Report]:
    """Write a document in `version`, its own when none is given; say what XML cannot hold."""
    return _Writer(version or document.version).write(document)


def written_parts(part: Job | TaskGroup) -> list[Element | str]:
    """Return the elements of which a job or task group consists, as 3.1.0 writes them."""
    place, name = (Place.DATA, "Job") if isinstance(part, Job) else (Place.JOB, "TaskGroup")
    return [one for one in _Writer(Version.V3_1).parts(CHILDREN_OF[place][name], part) if one]


class _Writer:
    """Writes one document."""

    def __init__(self, version: Version) -> None:
        self._version = version
        self._items: list[Item] = []

    def write(self, document: Document) -> tuple[bytes, Report]:
        """Write it as `write_document` promises."""
        entries = [self._entry(entry) for entry in document.entries]
        if document.in_data or document.needs_data:
            files = [self._file(file) for file in document.files]
            unknown = list(self._properties(document.unknown, Place.DATA))
            root = Element("Data", self._marks(document), [*entries, *files, *unknown])
        else:
            root = entries[0]
        if document.namespace:
            root.attributes = {**root.attributes, "xmlns": document.namespace}
        return write(root), tuple(self._items)

    def _entry(self, entry: Entry) -> Element:
        name = type(entry).__name__.removesuffix("Ref")
        return self._child(CHILDREN_OF[Place.DATA][name], entry)

    def _child(self, child: Child, part: Any) -> Element:
        """Write an element that holds others, or only says which one is meant."""
        if isinstance(part, Reference):
            return Element(child.name, self._marks(part), text=self._text(part.id, child.name))
        return Element(child.name, self._marks(part), self.parts(child, part))

    def parts(self, child: Child, part: Any) -> list[Element | str]:
        """Write what is in an element that holds others."""
        inside: list[Element | str] = list(self._properties(part.properties, child.place))
        for kind in CHILDREN_OF[child.place].values():
            found = getattr(part, kind.field)
            if kind.many:
                inside += [self._child(kind, one) for one in found]
            elif found is not None:
                inside.append(self._child(kind, found))
        return inside

    def _properties(self, properties: Iterable[Property], place: Place) -> Iterator[Element | str]:
        """Write properties in their order; in 3.0.3, neighbours that are wrapped share a wrapper."""
        if self._version is not Version.V3_0:
            yield from (self._property(found, place) for found in properties)
            return
        for wrapped, group in groupby(properties, lambda found: self._wrapped(found, place)):
            elements = [self._property(found, place) for found in group]
            if wrapped:
                yield Element(NODE_PROPERTIES, {}, elements)
            else:
                yield from elements

    def _wrapped(self, found: Property, place: Place) -> bool:
        if self._version is not Version.V3_0 or isinstance(found, Kept):
            return False
        row = ROW_OF.get((place, found.name))
        return row is not None and stands_wrapped(row, place)

    def _property(self, found: Property, place: Place) -> Element | str:
        if isinstance(found, Kept):
            return self._kept(found)
        row = self._row(found, place)
        name = row.name_in(self._version) if self._wrapped(found, place) or not row.wrapped else row.name
        attributes = self._attributes(found, row)
        if isinstance(found, Environment):
            return Element(name, attributes, [self._variable(one) for one in found.variables])
        if reads_back_otherwise(found):
            self._tell(name, f"{found.value!r} will be read as an amount")
        text = "" if found.value is None else row.type.write(found.value)
        return Element(name, attributes, text=self._text(text, name))

    def _row(self, found: Property, place: Place) -> Row:
        if found.name == ADAPTER.name and not isinstance(found, Consumable):
            return ADAPTER
        row = ROW_OF.get((place, found.name))
        if row is None or type(found) is not row.shape:
            raise Broken(
                code="sss-property",
                what=f"{type(found).__name__} {found.name!r} cannot stand in {place.value}",
                fix="look at the rows of the SSS job object",
            )
        return row

    def _attributes(self, found: Property, row: Row) -> dict[str, str]:
        attributes: dict[str, str] = {}
        if type(found) is Property and found == Property(name=found.name, value=found.value):
            return attributes
        for attribute, absent in written_of(row):
            value = getattr(found, attribute.field)
            if value != absent:
                written = attribute.type_in(self._version).write(value)
                attributes[attribute.name] = self._text(written, attribute.name)
        if self._version is Version.V3_0 and matches_by_op(found):
            del attributes["aggregation"]
            attributes["op"] = str(Op.MATCH).lower()
        return attributes | dict(found.kept)

    def _variable(self, one: Variable) -> Element:
        marks = {"name": self._text(one.name, "name"), **self._marks(one)}
        return Element("Variable", marks, text=self._text(one.value, f"Variable {one.name}"))

    def _file(self, file: File) -> Element:
        marks = {"id": self._text(file.id, "id"), **self._marks(file)}
        return Element("File", marks, text=self._text(file.body, f"File {file.id}"))

    def _marks(self, part: Document | Part | Reference | Envelope | Variable | File) -> dict[str, str]:
        """Return the attributes that every part may have."""
        policy = part.awareness
        return {**({_AWARENESS.name: str(policy)} if policy else {}), **dict(part.kept)}

    def _kept(self, found: Kept) -> Element | str:
        text = checked_element(found.xml)
        if text is None:
            self._tell(found.name, "what was kept is no XML: it is left out")
            return ""
        return text

    def _text(self, text: str, where: str) -> str:
        held = possible(text)
        if held != text:
            self._tell(where, "control characters cannot be written in XML: they are replaced")
        return held

    def _tell(self, where: str, what: str) -> None:
        self._items.append(Item(Kind.APPROXIMATED, where, what))
