"""The elements inside Job and Task that are lists: variables, terms, dependencies."""

from collections.abc import Iterator

from lxml import etree

from headnode.core.formats.compute_cluster_xml.names import local_name, split_name
from headnode.core.formats.compute_cluster_xml.scribe import Scribe
from headnode.core.formats.fidelity import Kind
from headnode.core.formats.values import parse_int
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import GroupEdge

XSI = "http://www.w3.org/2001/XMLSchema-instance"
_NIL = f"{{{XSI}}}nil"
_MOST_ENVIRONMENT = 2048  # characters of all variables of a task
_MOST_TERM_NAME, _MOST_TERM_VALUE = 80, 1024


def local(element: etree._Element) -> str:
    """Return the name of `element`; its namespace says nothing.

    Source:  HPC Pack reads elements by their local names only.
    """
    return str(element.tag).rpartition("}")[2]


def is_nil(element: etree._Element) -> bool:
    """Whether `element` is written to be nothing."""
    return element.get(_NIL, "").strip() in ("true", "1")


def read_pairs(parent: etree._Element, item: str, where: str, scribe: Scribe) -> dict[str, str]:
    """Read the names and values of the `item` elements in `parent`; blanks around them do not count."""
    pairs = _plain_pairs(parent, item)
    if pairs is None:
        pairs = _pairs(parent, item, where, scribe)
    if scribe.strict:
        _check_widths(item, pairs, where, scribe, parent)
    return pairs


def _pairs(parent: etree._Element, item: str, where: str, scribe: Scribe) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for element in _children(parent, (item,), where, scribe):
        pair = {local(child): _text(child, where, scribe) for child in _pair(element, where, scribe)}
        name = pair.get("Name", "")
        if not name and not pair.get("Value"):
            continue
        if not name:
            scribe.refuse("no-name", where, f"a {item} without a Name", "give it one", element)
        if name in pairs:
            scribe.add(Kind.NOTE, where, f"{item} {name!r} is given twice: the last one counts", element)
        pairs[name] = pair.get("Value", "")
    return pairs


def _plain_pairs(parent: etree._Element, item: str) -> dict[str, str] | None:
    """Return names and values that are written as in nearly all files; None when there is more to see."""
    if parent.keys():
        return None
    namespace = str(parent.tag).rpartition("}")[0]
    tag = f"{namespace}}}{item}" if namespace else item
    name_tag, value_tag = (f"{namespace}}}{word}" if namespace else word for word in ("Name", "Value"))
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


def _is_text(text: str | None) -> bool:
    return text is not None and text.strip() != ""


def _pair(element: etree._Element, where: str, scribe: Scribe) -> Iterator[etree._Element]:
    return _children(element, ("Name", "Value"), where, scribe)


def _text(element: etree._Element, where: str, scribe: Scribe) -> str:
    report_attributes(element, where, scribe)
    for child in element:
        scribe.add(Kind.NOT_SUPPORTED, where, f"element {local(child)!r} in {local(element)!r}", child)
    return (element.text or "").strip()


def _check_widths(
    item: str, pairs: dict[str, str], where: str, scribe: Scribe, parent: etree._Element
) -> None:
    total = sum(width(f"{name}={value};") for name, value in pairs.items()) - 1
    if item == "Variable" and total > _MOST_ENVIRONMENT:
        rule = f"all variables together may have {_MOST_ENVIRONMENT} characters; or read without strict"
        scribe.violate("too-long", where, f"the variables have {total} characters", rule, parent)
    for name, value in pairs.items() if item == "Term" else ():
        if width(name) > _MOST_TERM_NAME or width(value) > _MOST_TERM_VALUE:
            rule = f"a name may have {_MOST_TERM_NAME} characters and a value {_MOST_TERM_VALUE}"
            scribe.violate("too-long", where, f"term {name[:80]!r} is too long", rule, parent)


def width(text: str) -> int:
    """Count characters as the CCS table does: code units of UTF-16."""
    return len(text.encode("utf-16-le")) // 2


def read_edges(parent: etree._Element, scribe: Scribe) -> tuple[GroupEdge, ...]:
    """Read which task groups wait for which, in the order written.

    Source:  HPC Pack job files, Dependencies: Parent elements with Child elements, by GroupId.
    """
    edges = []
    for element in _children(parent, ("Parent",), "Dependencies", scribe):
        group = _group(element, scribe)
        for child in _children(element, ("Child",), "Dependencies", scribe):
            edges.append(GroupEdge(group, _group(child, scribe)))
            for inner in child:
                _report_stranger(inner, "Dependencies", (), scribe)
    return tuple(edges)


def _group(element: etree._Element, scribe: Scribe) -> int:
    found = None
    for name, text in element.attrib.items():
        if local_name(str(name)).lower() == "groupid":
            found = str(name), str(text)
        else:
            _report_attribute(element, str(name), "Dependencies", scribe)
    if found is None:
        scribe.refuse(
            "no-group", "Dependencies", f"a {local(element)} without GroupId", "give it one", element
        )
    try:
        return parse_int(found[1])
    except BadRequest as wrong:
        scribe.refuse(wrong.code, "Dependencies", f"GroupId: {wrong.what}", wrong.fix, element, found[0])


def _children(
    parent: etree._Element, names: tuple[str, ...], where: str, scribe: Scribe
) -> Iterator[etree._Element]:
    """Yield the children that may be there; report everything else in `parent`."""
    if local(parent) not in ("Parent", "Child"):
        report_attributes(parent, where, scribe)
    report_stray_text(parent, where, scribe)
    for child in parent:
        if local(child) not in names:
            _report_stranger(child, where, names, scribe)
        elif not is_nil(child):
            yield child


def report_attributes(element: etree._Element, where: str, scribe: Scribe) -> None:
    """Report every attribute of an element that has none in any dialect."""
    for name in element.attrib:
        _report_attribute(element, str(name), where, scribe)


def _report_attribute(element: etree._Element, name: str, where: str, scribe: Scribe) -> None:
    namespace, plain = split_name(name)
    if namespace != XSI:
        what = f"attribute {plain!r} of {local(element)} is not known, and is not kept"
        scribe.add_once(Kind.NOT_SUPPORTED, where, what, element, name)


def _report_stranger(child: etree._Element, where: str, names: tuple[str, ...], scribe: Scribe) -> None:
    hint = f"; {' and '.join(names)} may be here" if names else ""
    scribe.add_once(
        Kind.NOT_SUPPORTED, where, f"element {local(child)!r} is not known, and is not kept{hint}", child
    )


def report_stray_text(element: etree._Element, where: str, scribe: Scribe) -> None:
    """Report text where only elements belong."""
    texts = [text for text in (element.text, *[child.tail for child in element]) if text]
    if not _is_text("".join(texts)):
        return
    stray = next((text.strip() for text in texts if text.strip()), "")
    if stray:
        what = f"text {stray[:40]!r} in {local(element)} is not known, and is not kept"
        scribe.add_once(Kind.NOT_SUPPORTED, where, what, element)
