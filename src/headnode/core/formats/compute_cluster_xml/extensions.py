"""Writing back what was kept without being understood."""

import re
from collections.abc import Callable, Mapping

from lxml import etree

from headnode.core.formats.compute_cluster_xml.dialects import BY_NAMESPACE, CCS
from headnode.core.formats.compute_cluster_xml.lists import XSI
from headnode.core.formats.compute_cluster_xml.markup import Element, possible
from headnode.core.formats.compute_cluster_xml.rows import Role, Row
from headnode.core.formats.compute_cluster_xml.unknown import checked_element
from headnode.core.formats.fidelity import Kind

MARK = "headnode.kept:"
"""How the names of terms begin that hold what was kept."""
_UNSAFE = re.compile(r"[^!-~]|&")
_LAST_CHARACTER = 0x10FFFF
_CODED = re.compile(r"&([0-9a-f]{1,6});")
_OVERRIDING = ("OrderBy", "JobType")  # names we write ourselves, but not every value of them
_RESERVED = (*BY_NAMESPACE, XSI, "http://www.w3.org/2000/xmlns/")


def write_extensions(
    element: Element,
    extensions: Mapping[str, str],
    spellings: Mapping[str, Row],
    dialect: str,
    tell: Callable[[Kind, str], None],
) -> None:
    """Write what was kept: attributes that the schema of the dialect has, all else as custom properties.

    Names of attributes are as they were written, or ``{namespace}name``; elements are under ``<Name>``.
    A custom property of CCS is a term.  What can stand in no job file is left out and told.
    """
    terms: dict[str, str] = {}
    for key, value in extensions.items():
        if key.startswith("<"):
            text = checked_element(value)
            if text is None:
                tell(Kind.NOT_SUPPORTED, f"{key} does not contain an XML element: it is left out")
            else:
                terms[MARK + key] = _quoted(text)
        elif not _may_stand(key, spellings):
            tell(Kind.NOT_SUPPORTED, f"{key!r} cannot be an attribute here: it is left out")
        elif _in_schema(key, spellings, dialect):
            element.attributes[key] = value
            if possible(value) != value:
                tell(Kind.APPROXIMATED, f"{key}: control characters are lost")
        else:
            terms[MARK + key] = _quoted(value)
    if terms:
        _add_terms(element, terms)


def take_kept(properties: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Divide terms into the user's own and what `write_extensions` has kept among them."""
    kept = {
        name.removeprefix(MARK): _unquoted(text) for name, text in properties.items() if name.startswith(MARK)
    }
    own = (
        {name: text for name, text in properties.items() if not name.startswith(MARK)} if kept else properties
    )
    return own, {name: text for name, text in kept.items() if name}


def _add_terms(element: Element, terms: Mapping[str, str]) -> None:
    """Add terms where the schema has room: to the ExtendedTerms that there are, or as CustomProperties."""
    children: list[Element | str] = [
        Element("Term", {}, [Element("Name", text=name), Element("Value", text=text)])
        for name, text in terms.items()
    ]
    for child in element.children:
        if isinstance(child, Element) and child.name == "ExtendedTerms":
            child.children.extend(children)
            return
    element.children.append(Element("CustomProperties", {}, children))


def _quoted(text: str) -> str:
    """Return a value that is read back as it was: blanks at its ends and control characters do not count."""
    if text.strip() == text == possible(text) and text[:1] != '"':
        return text
    return f'"{_UNSAFE.sub(lambda found: f"&{ord(found[0]):x};", text)}"'


def _unquoted(text: str) -> str:
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    return _CODED.sub(lambda found: chr(min(int(found[1], 16), _LAST_CHARACTER)), text[1:-1])


def _in_schema(key: str, spellings: Mapping[str, Row], dialect: str) -> bool:
    """Return True if the schema of a dialect has an attribute, or takes any of its namespace."""
    if key.startswith("{"):
        return dialect != CCS
    row = spellings.get(key.lower())
    return row is not None and row.name_in(dialect) == key


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
