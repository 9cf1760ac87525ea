"""Writing XML: attributes in the order given, the namespace last, as job files of the field have it."""

import re

import msgspec

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
_IN_ATTRIBUTE = re.compile(r"[&<>\"\t\n\r]")
_IN_TEXT = re.compile(r"[&<>\r]")
_IMPOSSIBLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_XML = "http://www.w3.org/XML/1998/namespace"


class Element(msgspec.Struct):
    """An element to write.  Children are elements, or text that is XML already."""

    name: str
    attributes: dict[str, str] = {}
    children: list["Element | str"] = []
    text: str = ""


def possible(text: str) -> str:
    """Return `text` with what XML cannot hold replaced by U+FFFD."""
    if text.isprintable():  # as nearly all is: then there is nothing to look for
        return text
    return _IMPOSSIBLE.sub("\ufffd", text)


def write(root: Element) -> bytes:
    """Return the document, indented, in UTF-8."""
    lines = ['<?xml version="1.0" encoding="utf-8"?>']
    _lines(root, "", lines, short=True)
    return ("\n".join(lines) + "\n").encode()


def written_inside(element: Element, indent: str) -> str:
    """Return an element as it stands in a document after `indent`, but with a closing tag in any case."""
    lines: list[str] = []
    _lines(element, indent, lines, short=False)
    return "\n".join(lines).removeprefix(indent)


def _lines(element: Element, indent: str, lines: list[str], *, short: bool) -> None:
    start = f"{indent}<{element.name}{written_attributes(element.attributes)}"
    if element.children:
        lines.append(f"{start}>")
        for child in element.children:
            if isinstance(child, str):
                lines.append(f"{indent}  {child}")
            else:
                _lines(child, f"{indent}  ", lines, short=short)
        lines.append(f"{indent}</{element.name}>")
    elif element.text or not short:
        lines.append(f"{start}>{escaped(element.text)}</{element.name}>")
    else:
        lines.append(f"{start} />")


def escaped(text: str) -> str:
    """Return `text` as it stands between tags."""
    return _IN_TEXT.sub(lambda found: _ESCAPES[found[0]], possible(text))


def written_attributes(attributes: dict[str, str]) -> str:
    """Return attributes as they stand in a tag; a name ``{namespace}local`` gets a prefix of its own."""
    if not attributes:
        return ""
    written = []
    for number, (name, value) in enumerate(attributes.items()):
        namespace, _, local = name[1:].rpartition("}") if name.startswith("{") else ("", "", name)
        if namespace == _XML:
            local = f"xml:{local}"
        elif namespace:
            written.append(f' xmlns:e{number}="{_quoted(namespace)}"')
            local = f"e{number}:{local}"
        written.append(f' {local}="{_quoted(value)}"')
    return "".join(written)


def _quoted(value: str) -> str:
    return _IN_ATTRIBUTE.sub(lambda found: _ESCAPES[found[0]], possible(value))
