"""Read the elements of properties by their rows."""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

import msgspec
from lxml import etree
from msgspec.structs import replace

from headnode.core.formats.fidelity import Awareness, Fidelity
from headnode.core.formats.hpc_xml.extensions import element_text
from headnode.core.formats.sss.attributes import Fields, SssAttributeReader, finished, is_amount
from headnode.core.formats.sss.properties import (
    Aggregation,
    Charge,
    Consumable,
    Environment,
    Extension,
    Notifications,
    Selection,
    SssDistribution,
    SssProperty,
    SssStream,
    UnknownElement,
    Value,
    Variable,
)
from headnode.core.formats.sss.property_rows import (
    ADAPTER,
    CHILDREN_OF,
    NETWORK,
    NODE_PROPERTIES,
    SPELLINGS,
    WRAPPED,
    ChildElement,
    ElementPlace,
    Spelling,
    SssRow,
    names_in,
)
from headnode.core.formats.sss.source_text import SssFindings, local
from headnode.core.formats.sss.value_types import (
    STRING,
    SssVersion,
)
from headnode.core.formats.text.xml_text import written_attributes
from headnode.core.model.errors import BadRequest

_PLAIN_SHAPES = (SssProperty, Charge, Consumable, Selection, SssStream, Notifications, Extension)
"""The structs that need no attribute and no more than their value."""


class PlainName(msgspec.Struct):
    """A name of a property: its row, the version it is of, and what may stand only once; None: any number.

    `called` is its name in 3.1.0; `read` is None where the text is the value; `received` is how often the
    document has it.  `read_before` are the properties of some texts: most values of a document are repeated.
    """

    name: str
    row: SssRow
    version: SssVersion | None
    key: Hashable
    called: str
    shape: type[SssProperty]
    read: Callable[[str], Any] | None
    is_program: bool
    received: int = 0
    read_before: dict[str | None, SssProperty] = {}


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
        if (row := spelling.row).shape in _PLAIN_SHAPES
        and row not in (NETWORK, ADAPTER)
        and not spelling.alias
    }


def key_of(prop: SssProperty, place: ElementPlace, row: SssRow) -> Hashable:
    """Return what may stand only once in a place; None when any number of it may."""
    if place is ElementPlace.REQUESTED:
        return None
    if isinstance(prop, Consumable):
        return (row.name, prop.metric, getattr(prop, "called", ""), getattr(prop, "type", ""))
    return None if row.many else (row.name,)


_IN_LOWER = {place: {name.lower(): name for name in names} for place, names in SPELLINGS.items()}
_CHILDREN_IN_LOWER = {
    place: {name.lower(): child for name, child in found.items()} for place, found in CHILDREN_OF.items()
}
_RANGE = re.compile(r"\[(?:[0-9]{2,5}-[0-9]{1,5}|[0-9]-[0-9]{2,5})\]")
_WRAPPING = {place for place, names in SPELLINGS.items() if "Node" in names}
_MAX_KNOWN = 256  # values of one name that are kept while a document is read
_ANYWHERE = {name for names in SPELLINGS.values() for name in names}


class SssElementReader:
    """Reads properties, and remembers which version their names are of."""

    def __init__(self, findings: SssFindings, prefix: str, *, lenient: bool) -> None:
        self.attributes = SssAttributeReader(findings, lenient=lenient)
        self._spoken: Counter[SssVersion] = Counter()  # but for plain names, which count themselves
        self.first: dict[tuple[SssVersion, str], tuple[etree._Element, SssRow]] = {}  # of each name heard
        self._is_old = False  # whether a name of 3.0.3 alone was heard
        self.fragments: list[tuple[str, etree._Element]] = []  # what an Executable means by #id
        self._findings, self._prefix, self._lenient = findings, prefix, lenient
        self._plain: dict[ElementPlace, Mapping[str, PlainName]] = {}
        self._children: dict[ElementPlace, Mapping[str, ChildElement]] = {}

    def name(self, element: etree._Element) -> str:
        """Return the name of an element as the tables have it; of one in a foreign namespace, all of it."""
        tag = str(element.tag)
        return tag.removeprefix(self._prefix) if self._prefix else tag

    def child(self, element: etree._Element, place: ElementPlace) -> ChildElement | None:
        """Return what an element is that has parts of its own; None when it has not."""
        children = self.children(place)
        child = children.get(element.tag)
        name = self.name(element) if child is None else ""
        if child is None and name not in SPELLINGS[place]:
            child = _CHILDREN_IN_LOWER[place].get(name.lower())
            if child:
                self._report_case(element, name, child.name)
        return child

    def _report_case(self, element: etree._Element, name: str, meant: str) -> None:
        what = f"element {name!r} is read as {meant!r}: letter case does not matter"
        self._findings.add(Fidelity.TRANSLATED, element, what)

    def children(self, place: ElementPlace) -> Mapping[str, ChildElement]:
        """Return the elements in `place` that have parts of their own, by their tags."""
        found = self._children.get(place)
        if found is None:
            known = CHILDREN_OF[place].items()
            found = self._children[place] = {f"{self._prefix}{name}": child for name, child in known}
        return found

    def plain_names(self, place: ElementPlace) -> Mapping[str, PlainName]:
        """Return the properties in `place` that may be nothing but text, by the tags of their elements."""
        found = self._plain.get(place)
        if found is None:
            found = self._plain[place] = plain_names(place, self._prefix)
        return found

    def plain(self, element: etree._Element, name: PlainName) -> SssProperty:
        """Read a property that has neither attributes nor elements in it.

        Raises:  BadRequest when its content is not of its type.
        """
        if not name.received and name.version is not None:
            self._note(name.version, name.name, element, name.row)
        name.received += 1
        written = element.text
        found = name.read_before.get(written)
        if found is not None:
            return found
        text = written.strip() if written else ""
        value: Value = text
        if name.read is not None:
            try:
                value = name.read(text) if text else None
            except BadRequest as wrong:
                self._findings.refuse(wrong.code, element, wrong.what, wrong.fix)
        elif name.is_program and text[:1] == "#":
            self.fragments.append((text[1:], element))
            return name.shape(name=name.called, value=value)
        found = name.shape(name=name.called, value=value)
        if len(name.read_before) < _MAX_KNOWN:
            name.read_before[written] = found
        return found

    def _note(self, version: SssVersion, name: str, element: etree._Element, row: SssRow) -> None:
        """Note where a name of `version` alone was heard first."""
        self.first.setdefault((version, name), (element, row))
        if version is SssVersion.V3_0:
            self._is_old = True

    def times(self, version: SssVersion) -> int:
        """Return how many names were read that are of `version` alone."""
        plain = (one for names in self._plain.values() for one in names.values() if one.version is version)
        return self._spoken[version] + sum(one.received for one in plain)

    def read(
        self, element: etree._Element, place: ElementPlace, inherited: Awareness
    ) -> Iterator[tuple[SssProperty, SssRow | None]]:
        """Read one element that is no part of its own; NodeProperties may hold several properties."""
        name = self.name(element)
        spelling = SPELLINGS[place].get(name)
        if spelling is None and name == NODE_PROPERTIES and place in _WRAPPING:
            yield from self._node_properties(element, place, inherited)
            return
        if spelling is None:
            name, spelling = self._other_case(element, name, place)
        if spelling is None:
            yield self._stranger(element, name, place, inherited), None
            return
        self._note_version(element, name, spelling)
        row = self._row(element, spelling.row)
        yield self.property(element, row, place, inherited), row

    def property(
        self, element: etree._Element, row: SssRow, place: ElementPlace, inherited: Awareness
    ) -> SssProperty:
        """Read a property.

        Raises:  BadRequest when its content or an attribute is not of its type.
        """
        policy = self.attributes.policy(element, inherited)[1] if element.keys() else inherited
        if len(element) and row.shape is not Environment:
            return self._with_children(element, row, policy)
        fields = self.attributes.of_property(element, row, place, policy)
        if row.shape is Environment:
            return Environment(**fields, variables=self._variables(element, policy))
        if row.shape is SssDistribution and any(name == "type" for name, _ in fields.get("kept", ())):
            return self.kept(element)
        text = (element.text or "").strip()
        try:
            fields["value"] = self._value(row, text)
            simple = row.shape is SssProperty and len(fields) == 1
            found = row.shape(name=row.name, **(fields if simple else finished(row, fields)))
        except BadRequest as wrong:
            self._findings.refuse(wrong.code, element, wrong.what, wrong.fix)
        if row.name == "Executable" and text.startswith("#"):
            self.fragments.append((text[1:], element))
        if isinstance(found, Selection) and found.aggregation is Aggregation.PATTERN:
            self._warn_of_ranges(element, text)
        return found

    def _warn_of_ranges(self, element: etree._Element, text: str) -> None:
        """Tell that [01-12], which other tools read as twelve numbers, is one sign here."""
        match = _RANGE.search(text)
        if match:
            what = f"{match[0]!r} is one character in a pattern; write each number, with | between them"
            self._findings.add(Fidelity.NOTE, element, what)

    def refuse_stray_text(self, element: etree._Element) -> None:
        """Refuse text between the elements in an element."""
        self.refuse_stray(element.text, element)
        for child in element:
            self.refuse_stray(child.tail, child)

    def refuse_stray(self, text: str | None, near: etree._Element) -> None:
        """Refuse text that stands between elements."""
        if text and not text.isspace():
            what = f"the text {text.strip()[:40]!r} stands between elements"
            self._findings.refuse("stray-text", near, what, "put it into an element, or take it out")

    def kept(self, element: etree._Element, inside: str = "") -> UnknownElement:
        """Return an element as it is, for writing back; `inside` is a tag to put around it."""
        own = [self._prefix[1:-1]] if self._prefix else []
        text = element_text(element, own)
        return UnknownElement(
            name=inside or local(element), xml=f"<{inside}>{text}</{inside}>" if inside else text
        )

    def _value(self, row: SssRow, text: str) -> str | int | float | bool | None:
        if text or row.type is STRING:
            value: str | int | float | bool = row.type.read(text)
            return value
        return None

    def _row(self, element: etree._Element, row: SssRow) -> SssRow:
        """Return which of the two Networks an element is."""
        if row is not NETWORK:
            return row
        return NETWORK if is_amount((element.text or "").strip(), element.attrib) else ADAPTER

    def _with_children(self, element: etree._Element, row: SssRow, policy: Awareness) -> SssProperty:
        """Keep an Extension that holds elements; refuse any other property that does."""
        child = local(element[0])
        if row.shape is not Extension:
            what = f"element {child!r} stands where only the text of {row.name} may be"
            self._findings.refuse("text-only", element[0], what, f"close {row.name} before it")
        what = f"it holds the element {child!r}, not text: kept, without effect"
        self._findings.unknown(policy, element, what)
        return self.kept(element)

    def _variables(self, element: etree._Element, policy: Awareness) -> tuple[Variable, ...]:
        variables: dict[str, Variable] = {}
        self.refuse_stray_text(element)
        for child in element:
            if self.name(child) != "Variable":
                what = f"element {local(child)!r} stands in Environment, which holds Variable only"
                self._findings.refuse("misplaced", child, what, "take it out")
            name, fields = self.named(child, policy, "name")
            if name in variables:
                what = f"variable {name!r} is given twice in one Environment"
                self._findings.refuse("given-twice", child, what, "write it once")
            variables[name] = Variable(name=name, value=child.text or "", **fields)
        if not variables:
            self._findings.refuse(
                "empty", element, "it holds no Variable", "write one, or take Environment out"
            )
        return tuple(variables.values())

    def named(self, element: etree._Element, policy: Awareness, attribute: str) -> tuple[str, Fields]:
        """Read an element of text that is called by `attribute`: return what it is called, and the rest."""
        if len(element):
            what = f"element {local(element[0])!r} stands where only text may be"
            self._findings.refuse("text-only", element[0], what, "write &lt; for < in text")
        return self.attributes.named(element, policy, attribute)

    def _node_properties(
        self, element: etree._Element, place: ElementPlace, inherited: Awareness
    ) -> Iterator[tuple[SssProperty, SssRow | None]]:
        """Read what 3.0.3 wraps: each property as if it stood alone, under the policy of the wrapper."""
        self.refuse_stray_text(element)
        fields, policy = self.attributes.of_part(element, inherited)
        strange = fields.get("kept", ())
        if strange or not len(element):
            marks = written_attributes(dict(strange))
            yield (
                UnknownElement(name=NODE_PROPERTIES, xml=f"<{NODE_PROPERTIES}{marks}></{NODE_PROPERTIES}>"),
                None,
            )
        for child in element:
            row = WRAPPED.get(self.name(child))
            if row is None:
                yield self._stranger_inside(child, policy), None
                continue
            self._spoken[SssVersion.V3_0] += 1
            self._note(SssVersion.V3_0, NODE_PROPERTIES, element, row)
            yield self._under(self.property(child, row, place, policy), fields.get("awareness")), row

    def _stranger_inside(self, element: etree._Element, inherited: Awareness) -> UnknownElement:
        """Keep an element that is not known in NodeProperties, and its wrapper around it."""
        name = local(element)
        hint = self._findings.hint(name, sorted(WRAPPED))
        _, policy = self.attributes.policy(element, inherited)
        what = f"element {name!r} is not known in {NODE_PROPERTIES}: kept, without effect{hint}"
        self._findings.unknown(policy, element, what)
        return self.kept(element, NODE_PROPERTIES)

    def _under(self, prop: SssProperty, policy: Awareness | None) -> SssProperty:
        """Return a property that stood in a wrapper with a policy, so that it keeps it alone."""
        if policy is None or prop.awareness is not None:
            return prop
        return replace(prop, awareness=policy)

    def _other_case(
        self, element: etree._Element, name: str, place: ElementPlace
    ) -> tuple[str, Spelling | None]:
        meant = _IN_LOWER[place].get(name.lower(), name)
        if meant != name:
            self._report_case(element, name, meant)
        return meant, SPELLINGS[place].get(meant)

    def _stranger(
        self, element: etree._Element, name: str, place: ElementPlace, inherited: Awareness
    ) -> UnknownElement:
        """Keep an element that is not known; refuse one that is known, but elsewhere."""
        _, policy = self.attributes.policy(element, inherited)
        if name in _ANYWHERE:
            return self._misplaced(element, name, place, policy)
        spoken = SssVersion.V3_0 if self._is_old else SssVersion.V3_1
        hint = self._findings.hint(local(element), names_in(place, spoken))
        what = f"element {local(element)!r} is not known: kept, without effect{hint}"
        self._findings.unknown(policy, element, what)
        return self.kept(element)

    def _misplaced(
        self, element: etree._Element, name: str, place: ElementPlace, policy: Awareness
    ) -> UnknownElement:
        """Refuse an element that is known, but elsewhere; leniently, keep it."""
        places = ", ".join(at.value for at in SPELLINGS if name in SPELLINGS[at])
        what = f"element {name!r} may not stand in {place.value}"
        if not self._lenient:
            self._findings.refuse("misplaced", element, what, f"it may stand in {places}")
        self._findings.unknown(policy, element, f"{what}: kept, without effect; it may stand in {places}")
        return self.kept(element)

    def _note_version(self, element: etree._Element, name: str, spelling: Spelling) -> None:
        """Note which version the name is of."""
        if spelling.version:
            self._spoken[spelling.version] += 1
            self._note(spelling.version, name, element, spelling.row)
        elif spelling.alias:
            what = f"element {name!r} is read as {spelling.row.name!r}"
            self._findings.add(Fidelity.TRANSLATED, element, what)
