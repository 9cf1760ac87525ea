"""Elements of a job file that no dialect knows, as text that does not depend on prefixes.

They are kept in the extensions of the job or task under ``<Name>`` and written back.
"""

from collections.abc import Iterable

from lxml import etree

from headnode.core.formats.compute_cluster_xml.dialects import BY_NAMESPACE
from headnode.core.formats.compute_cluster_xml.document import parse
from headnode.core.model.errors import BadRequest


def element_key(name: str, taken: Iterable[str]) -> str:
    """Return a free key for one more element called `name`."""
    key, number = f"<{name}>", 1
    while key in taken:
        number += 1
        key = f"<{name}>#{number}"
    return key


def element_text(element: etree._Element, own: Iterable[str] = ()) -> str:
    """Write `element` without the namespaces of job files, so that it can stand in any of them.

    `own` names further namespaces that count as the file's own.
    """
    rebuilt = _rebuilt(element, {*BY_NAMESPACE, *own})
    rebuilt.tail = None
    return etree.tostring(rebuilt, method="c14n", exclusive=True).decode()


def _rebuilt(element: etree._Element, own: set[str]) -> etree._Element:
    name = etree.QName(element)
    copy = etree.Element(name.localname if name.namespace in own else element.tag)
    for attribute, value in element.attrib.items():
        copy.set(_unqualified(str(attribute), own), str(value))
    copy.text, copy.tail = element.text, element.tail
    copy.extend(_rebuilt(child, own) for child in element)
    return copy


def _unqualified(attribute: str, own: set[str]) -> str:
    name = etree.QName(attribute)
    return name.localname if name.namespace in own else attribute


def checked_element(text: str) -> str | None:
    """Return the text of a kept element as it may stand in a job file; None when it is not an element."""
    try:
        return element_text(parse(text).root)
    except BadRequest:
        return None
