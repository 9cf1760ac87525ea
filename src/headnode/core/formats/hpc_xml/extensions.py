"""Elements and attributes that no dialect knows: kept as text, and written back."""

import re
from collections.abc import Callable, Container, Iterable, Mapping

from lxml import etree

from headnode.core.formats.fidelity import Fidelity
from headnode.core.formats.hpc_xml.attributes import BY_NAMESPACE, CCS, HpcRole, HpcRow
from headnode.core.formats.hpc_xml.element_reading import XSI
from headnode.core.formats.text.xml_text import (
    XmlElement,
    escaped,
    parse_xml,
    possible,
    split_name,
    written_attributes,
    written_inside,
)
from headnode.core.model.errors import BadRequest


def element_key(name: str, number: int) -> str:
    """Return the key of the `number`th (from 1) unknown element called `name`."""
    return f"<{name}>" if number == 1 else f"<{name}>#{number}"


def element_text(element: etree._Element, own: Iterable[str] = ()) -> str:
    """Write `element` without the namespaces of job files, so that it can stand in any of them.

    `own` names further namespaces that count as the file's own.
    """
    return _text(element, {*BY_NAMESPACE, *own})


def written_text(element: XmlElement, indent: str) -> str:
    """Return what `element_text` would make of an element that is written after `indent`."""
    return written_inside(_own(element), indent)


def _own(element: XmlElement) -> XmlElement:
    """Return an element whose attributes are not of a namespace of job files."""
    if not element.attributes and not element.children:
        return element
    children = [child if isinstance(child, str) else _own(child) for child in element.children]
    attributes = {_unqualified(name, BY_NAMESPACE): value for name, value in element.attributes.items()}
    return XmlElement(element.name, attributes, children, element.text)


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
        return element_text(parse_xml(text).root)
    except BadRequest:
        return None


MARK = "headnode.kept:"
"""How the names of terms begin that hold what was kept."""
_UNSAFE = re.compile(r"[^!-~]|&")
_LAST_CHARACTER = 0x10FFFF
_CODED = re.compile(r"&([0-9a-f]{1,6});")
_OVERRIDING = ("OrderBy", "JobType")  # names we write ourselves, but not every value of them
_RESERVED = (*BY_NAMESPACE, XSI, "http://www.w3.org/2000/xmlns/")


def write_extensions(
    element: XmlElement,
    extensions: Mapping[str, str],
    spellings: Mapping[str, HpcRow],
    dialect: str,
    report: Callable[[Fidelity, str], None],
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
                report(Fidelity.NOT_SUPPORTED, f"{key} does not contain an XML element: it is left out")
            else:
                terms[MARK + key] = _quoted(text)
        elif not _may_stand(key, spellings):
            report(Fidelity.NOT_SUPPORTED, f"{key!r} cannot be an attribute here: it is left out")
        elif _in_schema(key, spellings, dialect):
            element.attributes[key] = value
            if possible(value) != value:
                report(Fidelity.APPROXIMATED, f"{key}: control characters are lost")
        else:
            terms[MARK + key] = _quoted(value)
    if terms:
        _add_terms(element, terms)


def split_extensions(properties: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Divide terms into the user's own and what `write_extensions` has kept among them."""
    kept = {name.removeprefix(MARK): _unquoted(text) for name, text in properties.items() if _is_kept(name)}
    own = {name: text for name, text in properties.items() if not _is_kept(name)} if kept else properties
    return own, kept


def _is_kept(name: str) -> bool:
    """Tell whether a term has the name of an element or of an attribute that was kept."""
    if not name.startswith(MARK):
        return False
    key = name.removeprefix(MARK)
    try:
        return key.startswith("<") or bool(etree.QName(key).localname)
    except ValueError:
        return False


def _add_terms(element: XmlElement, terms: Mapping[str, str]) -> None:
    """Add terms where the schema has room: to the ExtendedTerms that there are, or as CustomProperties."""
    children: list[XmlElement | str] = [
        XmlElement("Term", {}, [XmlElement("Name", text=name), XmlElement("Value", text=text)])
        for name, text in terms.items()
    ]
    for child in element.children:
        if isinstance(child, XmlElement) and child.name == "ExtendedTerms":
            child.children.extend(children)
            return
    element.children.append(XmlElement("CustomProperties", {}, children))


def _quoted(text: str) -> str:
    """Return a value that is read back as it was: blanks at its ends and control characters do not count."""
    if text.strip() == text == possible(text) and text[:1] != '"':
        return text
    return f'"{_UNSAFE.sub(lambda found: f"&{ord(found[0]):x};", text)}"'


def _unquoted(text: str) -> str:
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    return _CODED.sub(lambda found: chr(min(int(found[1], 16), _LAST_CHARACTER)), text[1:-1])


def _in_schema(key: str, spellings: Mapping[str, HpcRow], dialect: str) -> bool:
    """Return True if the schema of a dialect has an attribute, or takes any of its namespace."""
    if key.startswith("{"):
        return dialect != CCS
    row = spellings.get(key.lower())
    return row is not None and row.name_in(dialect) == key


def _may_stand(key: str, spellings: Mapping[str, HpcRow]) -> bool:
    try:
        name = etree.QName(key)
    except ValueError:
        return False
    if name.namespace is not None:
        return name.namespace not in _RESERVED
    row = spellings.get(key.lower())
    ours = row is not None and row.role is not HpcRole.KEPT and key not in _OVERRIDING
    return not ours and key != "xmlns"
