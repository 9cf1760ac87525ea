"""Writing back what was kept without being understood."""

from collections.abc import Callable, Mapping

from lxml import etree

from headnode.core.formats.compute_cluster_xml.dialects import BY_NAMESPACE
from headnode.core.formats.compute_cluster_xml.lists import XSI
from headnode.core.formats.compute_cluster_xml.markup import Element, possible
from headnode.core.formats.compute_cluster_xml.rows import Role, Row
from headnode.core.formats.compute_cluster_xml.unknown import checked_element
from headnode.core.formats.fidelity import Kind

_OVERRIDING = ("OrderBy", "JobType")  # names we write ourselves, but not every value of them
_RESERVED = (*BY_NAMESPACE, XSI, "http://www.w3.org/2000/xmlns/")


def write_extensions(
    element: Element,
    extensions: Mapping[str, str],
    spellings: Mapping[str, Row],
    tell: Callable[[Kind, str], None],
) -> None:
    """Add kept attributes and elements to `element`; tell of those that cannot stand there.

    Names of attributes are as written, or ``{namespace}name``; elements are under ``<Name>``.
    """
    for key, value in extensions.items():
        if key.startswith("<"):
            text = checked_element(value)
            if text is None:
                tell(Kind.NOT_SUPPORTED, f"{key} does not hold an XML element: it is left out")
            else:
                element.children.append(text)
        elif not _may_stand(key, spellings):
            tell(Kind.NOT_SUPPORTED, f"{key!r} cannot be an attribute here: it is left out")
        else:
            element.attributes[key] = value
            if possible(value) != value:
                tell(Kind.APPROXIMATED, f"{key}: control characters are lost")


def _may_stand(key: str, spellings: Mapping[str, Row]) -> bool:
    try:
        name = etree.QName(key)
    except ValueError:
        return False
    if name.namespace is not None:
        return name.namespace not in _RESERVED
    row = spellings.get(key.lower())
    ours = row is not None and row.role is not Role.KEPT and key not in _OVERRIDING
    return not ours and key != "xmlns"
