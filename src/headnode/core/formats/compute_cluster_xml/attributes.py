"""Reading the attributes of Job and Task by their rows."""

from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Any, NoReturn, cast

from lxml import etree

from headnode.core.formats.compute_cluster_xml.dialects import BY_NAMESPACE
from headnode.core.formats.compute_cluster_xml.folds import Values
from headnode.core.formats.compute_cluster_xml.lists import XSI, width
from headnode.core.formats.compute_cluster_xml.names import local_name, split_name
from headnode.core.formats.compute_cluster_xml.rows import Role, Row
from headnode.core.formats.compute_cluster_xml.scribe import Scribe
from headnode.core.formats.fidelity import Kind
from headnode.core.formats.nearest import nearest
from headnode.core.model.errors import BadRequest

_MOST_HINTS = 100
_UNPLAIN = ("order_by", "fixed.job_type")  # what they say depends on the text
Plain = tuple[str, Callable[[str], Any], bool]
"""A field, how its values are read, and whether it is a piece of one."""


class Found:
    """What one Job or Task element says, before its attributes are put together."""

    __slots__ = ("element", "pieces", "strangers", "values", "where")

    def __init__(self, element: etree._Element, where: str) -> None:
        self.element, self.where = element, where
        self.values: Values = {}  # of fields, those of lists and the extensions among them
        self.pieces: Values = {}  # of what is folded from several attributes: names with a dot
        self.strangers: dict[str, int] | None = None  # how many unknown elements there are of each name

    def said(self, field: str) -> Values:
        """Return the values among which that of a row's field is."""
        return self.pieces if is_piece(field) else self.values

    def keep(self, key: str, text: str) -> None:
        """Keep something that is not understood in the extensions."""
        self.values.setdefault("extensions", {})[key] = text


def is_piece(field: str) -> bool:
    """Whether the field of a row is one that is folded with others."""
    return "." in field


class Attributes:
    """Reads attributes; what is not understood goes into the extensions, and into the report."""

    def __init__(self, scribe: Scribe, namespace: str | None) -> None:
        self._scribe = scribe
        self._own = (None, *BY_NAMESPACE, namespace)
        self._meant: dict[str, str] = {}
        self._plain: dict[
            str, dict[str, Plain]
        ] = {}  # for each element: its fields met, as they were written

    def read(self, element: etree._Element, where: str, spellings: Mapping[str, Row]) -> Found:
        """Read the attributes of a Job or Task."""
        found = Found(element, where)
        values, pieces = found.values, found.pieces
        known = self._plain.setdefault(str(element.tag), {})
        for attribute, text in _written(element):
            plain = known.get(attribute)
            if plain is None:
                self._attribute(found, attribute, text, spellings, known)
                continue
            field, read, piece = plain
            try:
                value = read(text)
            except BadRequest as wrong:
                self._refuse_value(found, attribute, wrong)
            said = pieces if piece else values
            if field in said:
                self._take_second(found, field, attribute, value, text, spellings)
            else:
                said[field] = value
        return found

    def _attribute(
        self,
        found: Found,
        attribute: str,
        text: str,
        spellings: Mapping[str, Row],
        known: dict[str, Plain],
    ) -> None:
        """Read an attribute that is met for the first time, or is more than a value for a field."""
        namespace, name = split_name(attribute)
        if namespace == XSI:
            return
        own = namespace in self._own
        row = spellings.get(name.lower()) if own else None
        if row is None:
            self._unknown_attribute(found, name if own else attribute, attribute, text, spellings)
            return
        self._scribe.spellings.add(name.lower())
        if self._scribe.strict and row.width and width(text) > row.width:
            self._report_width(found, attribute, row)
        if row.role is Role.LIVE:
            self._scribe.live(found.element, attribute, name)
        elif row.role is Role.KEPT:
            self._keep(found, row.hpc, attribute, text, "it is kept, but has no effect")
        else:
            if row.field not in _UNPLAIN and not self._scribe.strict:
                known[attribute] = (row.field, row.value.read, is_piece(row.field))
            self._value(found, row, attribute, text, spellings)

    def _value(self, found: Found, row: Row, attribute: str, text: str, spellings: Mapping[str, Row]) -> None:
        if row.field == "order_by" and "#" in text:
            self._keep(found, row.hpc, attribute, text, "a custom sorter: it is kept, but has no effect")
            return
        if row.field == "fixed.job_type":
            if text.strip() != "Batch":
                self._keep(
                    found, row.hpc, attribute, text, "job files contain only Batch jobs: kept, without effect"
                )
            return
        try:
            value = row.value.read(text)
        except BadRequest as wrong:
            self._refuse_value(found, attribute, wrong)
        said = found.said(row.field)
        if row.field in said:
            self._take_second(found, row.field, attribute, value, text, spellings)
        else:
            said[row.field] = value

    def _refuse_value(self, found: Found, attribute: str, wrong: BadRequest) -> NoReturn:
        what = f"attribute {local_name(attribute)!r}: {wrong.what}"
        self._scribe.refuse(wrong.code, found.where, what, wrong.fix, found.element, attribute)

    def _take_second(
        self,
        found: Found,
        field: str,
        attribute: str,
        value: Any,
        text: str,
        spellings: Mapping[str, Row],
    ) -> None:
        """Accept another value for a field; two spellings of one thing must agree, unless one is empty."""
        if found.said(field)[field] == value or not text.strip():
            return
        before = takewhile(lambda item: item[0] != attribute, _written(found.element))
        said = [
            local_name(name) for name, text in before if text.strip() and self._fills(name, field, spellings)
        ]
        if said:
            what = f"{said[-1]!r} and {local_name(attribute)!r} have one meaning but different values"
            fix = "write one of them"
            self._scribe.refuse("given-twice", found.where, what, fix, found.element, attribute)
        found.said(field)[field] = value

    def _fills(self, attribute: str, field: str, spellings: Mapping[str, Row]) -> bool:
        namespace, name = split_name(attribute)
        row = spellings.get(name.lower()) if namespace in self._own else None
        return row is not None and row.field == field

    def _unknown_attribute(
        self, found: Found, key: str, attribute: str, text: str, spellings: Mapping[str, Row]
    ) -> None:
        meant = self._nearest(local_name(attribute), spellings)
        hint = f"; did you mean {meant!r}?" if meant else ""
        self._keep(found, key, attribute, text, f"it is not known: kept, without effect{hint}")

    def _nearest(self, name: str, spellings: Mapping[str, Row]) -> str:
        """Return the right name that looks most like `name`, for the first names: looking is slow."""
        if name not in self._meant and len(self._meant) < _MOST_HINTS:
            names = (spelled for row in spellings.values() for spelled in (row.hpc, row.ccs) if spelled)
            self._meant[name] = nearest(name, names)
        return self._meant.get(name, "")

    def _keep(self, found: Found, key: str, attribute: str, text: str, what: str) -> None:
        found.keep(key, text)
        name = local_name(attribute)
        self._scribe.add(
            Kind.NOT_SUPPORTED,
            found.where,
            f"attribute {name!r} ({text[:80]!r}): {what}",
            found.element,
            attribute,
        )

    def _report_width(self, found: Found, attribute: str, row: Row) -> None:
        name = local_name(attribute)
        self._scribe.violate(
            "too-long",
            found.where,
            f"attribute {name!r} is longer than {row.width} characters",
            "shorten it, or read without strict",
            found.element,
            attribute,
        )


def _written(element: etree._Element) -> list[tuple[str, str]]:
    """Return the attributes of an element that was parsed: of those, lxml makes texts."""
    return cast("list[tuple[str, str]]", element.items())
