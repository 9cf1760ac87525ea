"""Read the attributes of Job and Task by their rows, and the elements inside them that are lists."""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import takewhile
from typing import Any, NoReturn, cast

from lxml import etree

from headnode.core.formats.fidelity import Fidelity
from headnode.core.formats.hpc_values import parse_int
from headnode.core.formats.hpc_xml.attributes import BY_NAMESPACE, HpcRole, HpcRow
from headnode.core.formats.hpc_xml.composite_fields import Values
from headnode.core.formats.hpc_xml.finding_recorder import FindingRecorder
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.formats.text.xml_text import local_name, split_name
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import GroupEdge

XSI = "http://www.w3.org/2001/XMLSchema-instance"
_NIL = f"{{{XSI}}}nil"
_MAX_ENVIRONMENT = 2048  # characters of all variables of a task
_MAX_TERM_NAME, _MAX_TERM_VALUE = 80, 1024


def local(element: etree._Element) -> str:
    """Return the name of `element`; its namespace says nothing.

    Source:  HPC Pack reads elements by their local names only.
    """
    return str(element.tag).rpartition("}")[2]


def is_nil(element: etree._Element) -> bool:
    """Whether `element` is written to be nothing."""
    return element.get(_NIL, "").strip() in ("true", "1")


def read_pairs(parent: etree._Element, item: str, where: str, recorder: FindingRecorder) -> dict[str, str]:
    """Read the names and values of the `item` elements in `parent`; blanks around them do not count."""
    pairs = _plain_pairs(parent, item)
    if pairs is None:
        pairs = _pairs(parent, item, where, recorder)
    if recorder.strict:
        _check_widths(item, pairs, where, recorder, parent)
    return pairs


def _pairs(parent: etree._Element, item: str, where: str, recorder: FindingRecorder) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for element in _children(parent, (item,), where, recorder):
        pair = {local(child): _text(child, where, recorder) for child in _pair(element, where, recorder)}
        name = pair.get("Name", "")
        if not name and not pair.get("Value"):
            continue
        if not name:
            recorder.refuse("no-name", where, f"a {item} without a Name", "give it one", element)
        if name in pairs:
            recorder.add(
                Fidelity.NOTE, where, f"{item} {name!r} is given twice: the last one counts", element
            )
        pairs[name] = pair.get("Value", "")
    return pairs


def _plain_pairs(parent: etree._Element, item: str) -> dict[str, str] | None:
    """Return names and values that are written as in nearly all files; None when there is more to see."""
    if parent.keys():
        return None
    tag, name_tag, value_tag = _tags_of_pairs(parent.tag, item)
    pairs: dict[str, str] = {}
    between = [parent.text]
    for element in parent:
        if element.tag != tag or len(element) != 2 or element.keys():
            return None
        name, value = element
        if name.tag != name_tag or value.tag != value_tag or len(name) or len(value):
            return None
        if name.keys() or value.keys():
            return None
        called = (name.text or "").strip()
        if not called or called in pairs:
            return None
        pairs[called] = (value.text or "").strip()
        between += (element.text, name.tail, value.tail, element.tail)
    return None if _is_text("".join([text for text in between if text])) else pairs


@lru_cache(1024)
def _tags_of_pairs(parent: str, item: str) -> tuple[str, ...]:
    """Return the tags of pairs, names and values, in the namespace of their parent."""
    namespace = parent.rpartition("}")[0]
    return tuple(f"{namespace}}}{word}" if namespace else word for word in (item, "Name", "Value"))


def _is_text(text: str | None) -> bool:
    return text is not None and text.strip() != ""


def _pair(element: etree._Element, where: str, recorder: FindingRecorder) -> Iterator[etree._Element]:
    return _children(element, ("Name", "Value"), where, recorder)


def _text(element: etree._Element, where: str, recorder: FindingRecorder) -> str:
    report_attributes(element, where, recorder)
    for child in element:
        recorder.add(Fidelity.NOT_SUPPORTED, where, f"element {local(child)!r} in {local(element)!r}", child)
    return (element.text or "").strip()


def _check_widths(
    item: str, pairs: dict[str, str], where: str, recorder: FindingRecorder, parent: etree._Element
) -> None:
    total = sum(width(f"{name}={value};") for name, value in pairs.items()) - 1
    if item == "Variable" and total > _MAX_ENVIRONMENT:
        rule = f"all variables together may have {_MAX_ENVIRONMENT} characters; or read without strict"
        recorder.violate("too-long", where, f"the variables have {total} characters", rule, parent)
    for name, value in pairs.items() if item == "Term" else ():
        if width(name) > _MAX_TERM_NAME or width(value) > _MAX_TERM_VALUE:
            rule = f"a name may have {_MAX_TERM_NAME} characters and a value {_MAX_TERM_VALUE}"
            recorder.violate("too-long", where, f"term {name[:80]!r} is too long", rule, parent)


def width(text: str) -> int:
    """Count characters as the CCS table does: code units of UTF-16."""
    return len(text.encode("utf-16-le")) // 2


def read_edges(parent: etree._Element, recorder: FindingRecorder) -> tuple[GroupEdge, ...]:
    """Read which task groups wait for which, in the order written.

    Source:  HPC Pack job files, Dependencies: Parent elements with Child elements, by GroupId.
    """
    edges = []
    for element in _children(parent, ("Parent",), "Dependencies", recorder):
        group = _group(element, recorder)
        for child in _children(element, ("Child",), "Dependencies", recorder):
            edges.append(GroupEdge(group, _group(child, recorder)))
            for inner in child:
                _report_stranger(inner, "Dependencies", (), recorder)
    return tuple(edges)


def _group(element: etree._Element, recorder: FindingRecorder) -> int:
    found = None
    for name, text in element.attrib.items():
        if local_name(str(name)).lower() == "groupid":
            found = str(name), str(text)
        else:
            _report_attribute(element, str(name), "Dependencies", recorder)
    if found is None:
        recorder.refuse(
            "no-group", "Dependencies", f"a {local(element)} without GroupId", "give it one", element
        )
    try:
        return parse_int(found[1])
    except BadRequest as wrong:
        recorder.refuse(wrong.code, "Dependencies", f"GroupId: {wrong.what}", wrong.fix, element, found[0])


def _children(
    parent: etree._Element, names: tuple[str, ...], where: str, recorder: FindingRecorder
) -> Iterator[etree._Element]:
    """Yield the children that may be there; report everything else in `parent`."""
    if local(parent) not in ("Parent", "Child"):
        report_attributes(parent, where, recorder)
    report_stray_text(parent, where, recorder)
    for child in parent:
        if local(child) not in names:
            _report_stranger(child, where, names, recorder)
        elif not is_nil(child):
            yield child


def report_attributes(element: etree._Element, where: str, recorder: FindingRecorder) -> None:
    """Report every attribute of an element that has none in any dialect."""
    for name in element.attrib:
        _report_attribute(element, str(name), where, recorder)


def _report_attribute(element: etree._Element, name: str, where: str, recorder: FindingRecorder) -> None:
    namespace, plain = split_name(name)
    if namespace != XSI:
        what = f"attribute {plain!r} of {local(element)} is not known, and is not kept"
        recorder.add_once(Fidelity.NOT_SUPPORTED, where, what, element, name)


def _report_stranger(
    child: etree._Element, where: str, names: tuple[str, ...], recorder: FindingRecorder
) -> None:
    hint = f"; {' and '.join(names)} may be here" if names else ""
    recorder.add_once(
        Fidelity.NOT_SUPPORTED, where, f"element {local(child)!r} is not known, and is not kept{hint}", child
    )


def report_stray_text(element: etree._Element, where: str, recorder: FindingRecorder) -> None:
    """Report text where only elements belong."""
    texts = [text for text in (element.text, *[child.tail for child in element]) if text]
    if not _is_text("".join(texts)):
        return
    stray = next((text.strip() for text in texts if text.strip()), "")
    if stray:
        what = f"text {stray[:40]!r} in {local(element)} is not known, and is not kept"
        recorder.add_once(Fidelity.NOT_SUPPORTED, where, what, element)


_MAX_HINTS = 100
_UNPLAIN = ("order_by", "fixed.job_type")  # what they say depends on the text
Plain = tuple[str, Callable[[str], Any], bool]
"""A field, how its values are read, and whether it is a piece of one."""


class ElementValues:
    """What one Job or Task element says, before its attributes are put together."""

    __slots__ = ("element", "pieces", "strangers", "values", "where")

    def __init__(self, element: etree._Element, where: str) -> None:
        self.element, self.where = element, where
        self.values: Values = {}  # of fields, those of lists and the extensions among them
        self.pieces: Values = {}  # of what is folded from several attributes: names with a dot
        self.strangers: dict[str, int] | None = None  # how many unknown elements there are of each name

    def values_with(self, field: str) -> Values:
        """Return the values among which that of a row's field is."""
        return self.pieces if is_composite(field) else self.values

    def keep(self, key: str, text: str) -> None:
        """Keep something that is not understood in the extensions."""
        self.values.setdefault("extensions", {})[key] = text


def is_composite(field: str) -> bool:
    """Whether the field of a row is one that is folded with others."""
    return "." in field


class HpcAttributeReader:
    """Reads attributes; what is not understood goes into the extensions, and into the report."""

    def __init__(self, recorder: FindingRecorder, namespace: str | None) -> None:
        self._recorder = recorder
        self._own = (None, *BY_NAMESPACE, namespace)
        self._meant: dict[str, str] = {}
        self._plain: dict[
            str, dict[str, Plain]
        ] = {}  # for each element: its fields met, as they were written

    def read(self, element: etree._Element, where: str, spellings: Mapping[str, HpcRow]) -> ElementValues:
        """Read the attributes of a Job or Task."""
        found = ElementValues(element, where)
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
            fields = pieces if piece else values
            if field in fields:
                self._take_second(found, field, attribute, value, text, spellings)
            else:
                fields[field] = value
        return found

    def _attribute(
        self,
        values: ElementValues,
        attribute: str,
        text: str,
        spellings: Mapping[str, HpcRow],
        attributes: dict[str, Plain],
    ) -> None:
        """Read an attribute that is met for the first time, or is more than a value for a field."""
        namespace, name = split_name(attribute)
        if namespace == XSI:
            return
        own = namespace in self._own
        row = spellings.get(name.lower()) if own else None
        if row is None:
            self._unknown_attribute(values, name if own else attribute, attribute, text, spellings)
            return
        self._recorder.spellings.add(name.lower())
        if self._recorder.strict and row.width and width(text) > row.width:
            self._report_width(values, attribute, row)
        if row.role is HpcRole.LIVE:
            self._recorder.live(values.element, attribute, name)
        elif row.role is HpcRole.KEPT:
            self._keep(values, row.hpc, attribute, text, "it is kept, but has no effect")
        else:
            if row.field not in _UNPLAIN and not self._recorder.strict:
                attributes[attribute] = (row.field, row.value.read, is_composite(row.field))
            self._value(values, row, attribute, text, spellings)

    def _value(
        self, values: ElementValues, row: HpcRow, attribute: str, text: str, spellings: Mapping[str, HpcRow]
    ) -> None:
        if row.field == "order_by" and "#" in text:
            self._keep(values, row.hpc, attribute, text, "a custom sorter: it is kept, but has no effect")
            return
        if row.field == "fixed.job_type":
            if text.strip() != "Batch":
                self._keep(
                    values,
                    row.hpc,
                    attribute,
                    text,
                    "job files contain only Batch jobs: kept, without effect",
                )
            return
        try:
            value = row.value.read(text)
        except BadRequest as wrong:
            self._refuse_value(values, attribute, wrong)
        fields = values.values_with(row.field)
        if row.field in fields:
            self._take_second(values, row.field, attribute, value, text, spellings)
        else:
            fields[row.field] = value

    def _refuse_value(self, values: ElementValues, attribute: str, wrong: BadRequest) -> NoReturn:
        what = f"attribute {local_name(attribute)!r}: {wrong.what}"
        self._recorder.refuse(wrong.code, values.where, what, wrong.fix, values.element, attribute)

    def _take_second(
        self,
        values: ElementValues,
        field: str,
        attribute: str,
        value: Any,
        text: str,
        spellings: Mapping[str, HpcRow],
    ) -> None:
        """Accept another value for a field; two spellings of one thing must agree, unless one is empty."""
        if values.values_with(field)[field] == value or not text.strip():
            return
        before = takewhile(lambda item: item[0] != attribute, _written(values.element))
        names = [
            local_name(name) for name, text in before if text.strip() and self._fills(name, field, spellings)
        ]
        if names:
            what = f"{names[-1]!r} and {local_name(attribute)!r} have one meaning but different values"
            fix = "write one of them"
            self._recorder.refuse("given-twice", values.where, what, fix, values.element, attribute)
        values.values_with(field)[field] = value

    def _fills(self, attribute: str, field: str, spellings: Mapping[str, HpcRow]) -> bool:
        namespace, name = split_name(attribute)
        row = spellings.get(name.lower()) if namespace in self._own else None
        return row is not None and row.field == field

    def _unknown_attribute(
        self, values: ElementValues, key: str, attribute: str, text: str, spellings: Mapping[str, HpcRow]
    ) -> None:
        meant = self._nearest(local_name(attribute), spellings)
        hint = f"; did you mean {meant!r}?" if meant else ""
        self._keep(values, key, attribute, text, f"it is not known: kept, without effect{hint}")

    def _nearest(self, name: str, spellings: Mapping[str, HpcRow]) -> str:
        """Return the right name that looks most like `name`, for the first names: looking is slow."""
        if name not in self._meant and len(self._meant) < _MAX_HINTS:
            names = (spelled for row in spellings.values() for spelled in (row.hpc, row.ccs) if spelled)
            self._meant[name] = nearest_name(name, names)
        return self._meant.get(name, "")

    def _keep(self, values: ElementValues, key: str, attribute: str, text: str, what: str) -> None:
        values.keep(key, text)
        name = local_name(attribute)
        self._recorder.add(
            Fidelity.NOT_SUPPORTED,
            values.where,
            f"attribute {name!r} ({text[:80]!r}): {what}",
            values.element,
            attribute,
        )

    def _report_width(self, values: ElementValues, attribute: str, row: HpcRow) -> None:
        name = local_name(attribute)
        self._recorder.violate(
            "too-long",
            values.where,
            f"attribute {name!r} is longer than {row.width} characters",
            "shorten it, or read without strict",
            values.element,
            attribute,
        )


def _written(element: etree._Element) -> list[tuple[str, str]]:
    """Return the attributes of an element that was parsed: of those, lxml makes texts."""
    return cast("list[tuple[str, str]]", element.items())
