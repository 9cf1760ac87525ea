"""Reading the attributes of Job and Task by their rows."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from lxml import etree

from headnode.core.formats.compute_cluster_xml.dialects import BY_NAMESPACE
from headnode.core.formats.compute_cluster_xml.folds import Values
from headnode.core.formats.compute_cluster_xml.lists import XSI, local, width
from headnode.core.formats.compute_cluster_xml.rows import Role, Row
from headnode.core.formats.compute_cluster_xml.scribe import Scribe
from headnode.core.formats.fidelity import Kind
from headnode.core.formats.nearest import nearest
from headnode.core.model.errors import BadRequest

_MOST_HINTS = 100


class Found:
    """What one Job or Task element says, before its attributes are put together."""

    def __init__(self, element: etree._Element, where: str) -> None:
        self.element, self.where = element, where
        self.values: Values = {}
        self.extensions: dict[str, str] = {}
        self.pairs: dict[str, dict[str, str]] = {"environment": {}, "properties": {}}
        self.strangers: Counter[str] = Counter()  # unknown elements by name
        self.written: dict[str, str] = {}  # the attribute each value came from

    def fields(self) -> Values:
        """Return the fields that need no putting together."""
        return {**self.pairs, "extensions": self.extensions}


class Attributes:
    """Reads attributes; what is not understood goes into the extensions, and into the report."""

    def __init__(self, scribe: Scribe, namespace: str | None) -> None:
        self._scribe = scribe
        self._own = (None, *BY_NAMESPACE, namespace)
        self._meant: dict[str, str] = {}

    def read(self, element: etree._Element, where: str, spellings: Mapping[str, Row]) -> Found:
        """Read the attributes of a Job or Task."""
        found = Found(element, where)
        for attribute, text in element.attrib.items():
            self._attribute(found, str(attribute), str(text), spellings)
        return found

    def _attribute(self, found: Found, attribute: str, text: str, spellings: Mapping[str, Row]) -> None:
        name = etree.QName(attribute)
        if name.namespace == XSI:
            return
        own = name.namespace in self._own
        row = spellings.get(name.localname.lower()) if own else None
        if row is None:
            self._unknown_attribute(found, name.localname if own else attribute, attribute, text, spellings)
            return
        self._scribe.spellings.add(name.localname.lower())
        if self._scribe.strict and row.width and width(text) > row.width:
            self._refuse_width(found, attribute, row)
        if row.role is Role.LIVE:
            kind = found.element.tag and local(found.element)
            what = f"attribute {name.localname!r} is the scheduler's to write: it is not read"
            self._scribe.add_once(Kind.NOTE, kind, what, found.element, attribute)
        elif row.role is Role.KEPT:
            self._keep(found, row.hpc, attribute, text, "it is kept, but has no effect")
        else:
            self._value(found, row, attribute, text)

    def _value(self, found: Found, row: Row, attribute: str, text: str) -> None:
        if row.field == "order_by" and "#" in text:
            self._keep(found, row.hpc, attribute, text, "a custom sorter: it is kept, but has no effect")
            return
        if row.field == "fixed.job_type":
            if text.strip() != "Batch":
                self._keep(
                    found, row.hpc, attribute, text, "only Batch jobs come in files: kept, without effect"
                )
            return
        try:
            value = row.value.read(text)
        except BadRequest as wrong:
            name = etree.QName(attribute).localname
            self._scribe.refuse(
                wrong.code,
                found.where,
                f"attribute {name!r}: {wrong.what}",
                wrong.fix,
                found.element,
                attribute,
            )
        self._take(found, row.field, attribute, value, text)

    def _take(self, found: Found, field: str, attribute: str, value: Any, text: str) -> None:
        """Accept a value; two spellings of one thing must agree, unless one is empty."""
        if field in found.values and found.values[field] != value:
            if not text.strip():
                return
            if found.element.get(found.written[field], "").strip():
                first = etree.QName(found.written[field]).localname
                second = etree.QName(attribute).localname
                self._scribe.refuse(
                    "given-twice",
                    found.where,
                    f"attributes {first!r} and {second!r} say the same thing differently",
                    "write one of them",
                    found.element,
                    attribute,
                )
        found.values[field] = value
        found.written[field] = attribute

    def _unknown_attribute(
        self, found: Found, key: str, attribute: str, text: str, spellings: Mapping[str, Row]
    ) -> None:
        meant = self._nearest(etree.QName(attribute).localname, spellings)
        hint = f"; did you mean {meant!r}?" if meant else ""
        self._keep(found, key, attribute, text, f"it is not known: kept, without effect{hint}")

    def _nearest(self, name: str, spellings: Mapping[str, Row]) -> str:
        """Return the right name that looks most like `name`, for the first names: looking is slow."""
        if name not in self._meant and len(self._meant) < _MOST_HINTS:
            names = (spelled for row in spellings.values() for spelled in (row.hpc, row.ccs) if spelled)
            self._meant[name] = nearest(name, names)
        return self._meant.get(name, "")

    def _keep(self, found: Found, key: str, attribute: str, text: str, what: str) -> None:
        found.extensions[key] = text
        name = etree.QName(attribute).localname
        self._scribe.add(
            Kind.NOT_SUPPORTED,
            found.where,
            f"attribute {name!r} ({text[:80]!r}): {what}",
            found.element,
            attribute,
        )

    def _refuse_width(self, found: Found, attribute: str, row: Row) -> None:
        name = etree.QName(attribute).localname
        self._scribe.refuse(
            "too-long",
            found.where,
            f"attribute {name!r} is longer than {row.width} characters",
            "shorten it, or read without strict",
            found.element,
            attribute,
        )
