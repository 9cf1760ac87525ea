"""Elements of a job file that no dialect knows, as text that does not depend on prefixes.

They are kept in the extensions of the job or task under ``<Name>`` and written back.
"""

from collections.abc import Container, Iterable

from lxml import etree

from headnode.core.formats.compute_cluster_xml.dialects import BY_NAMESPACE
from headnode.core.formats.compute_cluster_xml.document import parse
from headnode.core.formats.compute_cluster_xml.markup import (
    Element,
    escaped,
    written_attributes,
    written_inside,
)
from headnode.core.formats.compute_cluster_xml.names import split_name
from headnode.core.model.errors import BadRequest


def element_key(name: str, number: int) -> str:
    """Return the key of the `number`th (from 1) unknown element called `name`."""
    return f"<{name}>" if number == 1 else f"<{name}>#{number}"


def element_text(element: etree._Element, own: Iterable[str] = ()) -> str:
    """Write `element` without the namespaces of job files, so that it can stand in any of them.

    `own` names further namespaces that count as the file's own.
    """
    return _text(element, {*BY_NAMESPACE, *own})


def written_text(element: Element, indent: str) -> str:
    """Return what `element_text` would make of an element that is written after `indent`."""
    return written_inside(_own(element), indent)


def _own(element: Element) -> Element:
    """Return an element whose attributes are not of a namespace of job files."""
    if not element.attributes and not element.children:
        return element
    children = [child if isinstance(child, str) else _own(child) for child in element.children]
    attributes = {_unqualified(name, BY_NAMESPACE): value for name, value in element.attributes.items()}
    return Element(element.name, attributes, children, element.text)


def _text(element: etree._Element, own: set[str]) -> str:
    namespace, local = split_name(str(element.tag))
    foreign = bool(namespace) and namespace not in own
    tag = f"ns:{local}" if foreign else local
    declared = {"xmlns:ns": str(namespace)} if foreign else {}
    attributes = {
        _unqualified(str(attribute), own): str(value) for attribute, value in element.attrib.items()
    }
    inside = "".join(_text(child, own) + escaped(child.tail or "") for child in element)
    return f"<{tag}{written_attributes(declared | attributes)}>{escaped(element.text or '')}{inside}</{tag}>"


def _unqualified(attribute: str, own: Container[str]) -> str:
    namespace, local = split_name(attribute)
    return local if namespace in own else attribute


def checked_element(text: str) -> str | None:
    """Return the text of a kept element as it may stand in a job file; None when it is not an element."""
    try:
        return element_text(parse(text).root)
    except BadRequest:
        return None
