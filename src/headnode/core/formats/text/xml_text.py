"""XML text as a tree with positions, read safely, and XML written with its attributes in a given order.

Entities, DTDs, the network and huge trees are off: a file that declares anything of the kind is refused.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NoReturn
from xml.parsers import expat

import msgspec
from lxml import etree

from headnode.core.formats.text.source_text import has_room, refuse_many_parts, refuse_size
from headnode.core.model.errors import BadRequest, TextPosition


def split_name(name: str) -> tuple[str | None, str]:
    """Return the namespace of a name, or None, and its local part.

    A namespace may be any text, even one with braces; lxml's own QName refuses those that lxml has read.

    >>> split_name("{urn:x}Job"), split_name("Job"), split_name("{}}Job")
    (('urn:x', 'Job'), (None, 'Job'), ('}', 'Job'))
    """
    namespace, found, local = name.rpartition("}")
    return (namespace[1:] if found else None), local


def local_name(name: str) -> str:
    """Return the local part of a name."""
    return name.rpartition("}")[2]


def namespace_of(name: str) -> str | None:
    """Return the namespace of a name, or None."""
    return split_name(name)[0]


_ENCODINGS = ("utf-8", "us-ascii", "utf-16", "iso-8859-1", "iso-8859-15", "windows-1252")
_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_DECLARED = re.compile(rb"\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._-]{1,40})[\"']")
_DECLARATION = re.compile(r"\s*<\?xml\s[^>]*\?>")
_PROLOG = re.compile(r"(?:\s+|<\?.*?\?>|<!--.*?-->)*", re.DOTALL)
_MARKUP = re.compile(r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|<([^\s!?/>][^\s/>]*)", re.DOTALL)
_ATTRIBUTE = re.compile(r"\s+([^\s=>/]+)\s*=\s*(?:\"[^\"]*\"|'[^']*')")

MAX_ATTRIBUTES = 500  # of one element
_LONG_TAG = 5000  # characters: a tag that may have more than those attributes
_TASKS = ("<Task ", "<Task/", "<Task>", ":Task")
_LIGHT = ("<Name>", "<Value>", "<Variable")
_EACH_ELEMENT, _EACH_LIGHT, _EACH_TASK = 700, 350, 900
_EACH_ATTRIBUTE, _EACH_NAMESPACE, _EACH_ITEM = 250, 800, 90
"""Bytes that one takes at most, in the tree and in what is made of it."""


class XmlDocument:
    """A tree with the text it came from."""

    def __init__(self, text: str, root: etree._Element) -> None:
        self.root = root
        self._text = text
        self._last_tag: tuple[int, dict[str, int]] = (-1, {})
        self._asked: dict[etree._Element, int] = {}  # where the elements begin that were looked for
        self._walk = self._beginnings()
        self._counted = (0, 1)  # a character whose place was asked for, and its line

    def place(self, element: etree._Element, attribute: str = "") -> TextPosition:
        """Return where `element`, or its `attribute` (as written), begins."""
        start = self._start(element)
        return self._place_of(self._attribute_starts(start).get(attribute, start))

    def written(self, element: etree._Element, name: str) -> str:
        """Return the attribute `name` of the tree as it is written in the text: with its prefix."""
        if not name.startswith("{"):
            return name
        local = local_name(name)
        start = self._start(element)
        return next((found for found in self._attribute_starts(start) if found.endswith(f":{local}")), name)

    def _attribute_starts(self, start: int) -> dict[str, int]:
        """Return where each attribute of the tag at `start` begins; the last tag asked for is remembered."""
        if self._last_tag[0] != start:
            self._last_tag = start, self._scan_tag(start)
        return self._last_tag[1]

    def _scan_tag(self, start: int) -> dict[str, int]:
        starts: dict[str, int] = {}
        tag = _MARKUP.match(self._text, start)
        at = tag.end() if tag else start
        while match := _ATTRIBUTE.match(self._text, at):
            starts[match[1]] = match.start(1)
            at = match.end()
        return starts

    def _start(self, element: etree._Element) -> int:
        """Return where `element` begins: tree and text are followed side by side until it is met.

        Elements are looked for in their order, nearly always, so the walk begins anew only for the others;
        nothing is kept of elements that nobody asks for.
        """
        if element not in self._asked:
            start = next((start for met, start in self._walk if met is element), None)
            if start is None:
                self._walk = self._beginnings()
                start = next(start for met, start in self._walk if met is element)
            self._asked[element] = start
        return self._asked[element]

    def _beginnings(self) -> Iterator[tuple[etree._Element, int]]:
        return zip(self.root.iter(etree.Element), self._tags(), strict=False)

    def _tags(self) -> Iterator[int]:
        """Yield where each element begins, in the order of the text."""
        at = 0
        while match := _MARKUP.search(self._text, at):
            at = match.end()
            if match[1]:
                yield match.start()
                while attribute := _ATTRIBUTE.match(self._text, at):
                    at = attribute.end()

    def _place_of(self, at: int) -> TextPosition:
        """Return the place of the character number `at`, counting lines from the one asked for before."""
        before, line = self._counted if self._counted[0] <= at else (0, 1)
        line += self._text.count("\n", before, at)
        self._counted = at, line
        return TextPosition(line, at - self._text.rfind("\n", 0, at) - 1)


def parse_xml(text: bytes | str) -> XmlDocument:
    """Read XML text.

    Raises:  BadRequest ``not-xml`` with line and column, ``doctype``, ``encoding``; ``too-large``.
    """
    refuse_size(text)
    decoded = _decode(text) if isinstance(text, bytes) else text.removeprefix("\ufeff")
    _refuse_doctype(decoded)
    declaration = _DECLARATION.match(decoded)
    end = declaration.end() if declaration else 0
    body = re.sub(r"[^\n]", " ", decoded[:end]) + decoded[end:]
    try:
        encoded = body.encode()
    except UnicodeEncodeError as wrong:
        _refuse(decoded, wrong.start, "half of a surrogate pair is not a character")
    del decoded
    _refuse_many_elements(body, len(encoded))
    if not encoded.strip():
        raise BadRequest(
            code="not-xml", what="the file is empty", fix="write a Job element", place=TextPosition(1, 0)
        )
    parser = _parser()
    try:
        root = etree.fromstring(encoded, parser)
    except etree.XMLSyntaxError as wrong:
        _refuse_syntax(encoded, str(wrong.msg), *wrong.position)
    _refuse_faults(encoded, parser)
    return XmlDocument(body, root)


def _refuse_many_elements(text: str, size: int) -> None:
    """Refuse a text of more elements, attributes and lists than its size has room for in memory."""
    things = {
        "elements": (text.count("<"), _EACH_ELEMENT),  # at most
        "tasks": (text.count("Task"), _EACH_TASK),  # at most
        "attributes": (text.count("="), _EACH_ATTRIBUTE),
        "namespaces": (text.count("xmlns"), _EACH_NAMESPACE),
        "items of lists": (text.count(",") + text.count(";"), _EACH_ITEM),
    }
    if not has_room(size, things):  # few texts are counted more exactly, which takes longer
        light, tags = sum(map(text.count, _LIGHT)), things["elements"][0] - text.count("</")
        things["elements"] = (tags - light, _EACH_ELEMENT)
        things["tasks"] = (sum(map(text.count, _TASKS)), _EACH_TASK)
        things["names and values"] = (light, _EACH_LIGHT)
    refuse_many_parts(size, things)
    half = _LONG_TAG // 2
    for start in range(half, len(text), half):
        if text.find("<", start, start + half) < 0:  # the last tag before is long, and seen here but once
            _refuse_long_tag(text, text.rfind("<", start - half, start))


def _refuse_long_tag(text: str, start: int) -> None:
    """Refuse a tag of very many attributes: looking at them takes time by the square of their number."""
    tag = _MARKUP.match(text, start) if start >= 0 else None
    number, at = 0, tag.end() if tag else 0
    while tag and tag[1] and (match := _ATTRIBUTE.match(text, at)):
        number, at = number + 1, match.end()
    if number > MAX_ATTRIBUTES:
        raise BadRequest(
            code="too-large",
            what=f"an element has {number} attributes",
            place=position_of(text, start),
            fix=f"an element has at most {MAX_ATTRIBUTES}",
        )


def _parser() -> etree.XMLParser:
    return etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )


def _decode(data: bytes) -> str:
    mark, encoding = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", ""))
    if not encoding:
        declared = _DECLARED.match(data[:400])
        encoding = declared[1].decode().lower() if declared else "utf-8"
        if encoding not in _ENCODINGS:
            raise BadRequest(
                code="encoding",
                what=f"encoding {encoding!r} is not read",
                place=TextPosition(1, 0),
                fix=f"save the file as UTF-8 (also read: {', '.join(_ENCODINGS[1:])})",
            )
    body = data[len(mark) :]
    try:
        return body.decode(encoding)
    except UnicodeDecodeError as wrong:
        before = body[: wrong.start].decode(encoding, "replace")
        _refuse(before, len(before), f"byte {body[wrong.start]:#04x} is not {encoding.upper()}")


def _refuse_doctype(text: str) -> None:
    prolog = _PROLOG.match(text)
    at = prolog.end() if prolog else 0
    if text[at : at + 9].upper() == "<!DOCTYPE":
        raise BadRequest(
            code="doctype",
            what="a document type declaration, which could declare entities",
            place=position_of(text, at),
            fix="remove the DOCTYPE: job files need none",
        )


def _refuse_faults(encoded: bytes, parser: etree.XMLParser) -> None:
    """Refuse what libxml2 calls an error; it lets namespaces pass that are none when a warning follows."""
    faults = parser.error_log.filter_from_errors()
    if faults:
        _refuse_syntax(encoded, faults[0].message, faults[0].line, faults[0].column)


def _refuse_syntax(encoded: bytes, message: str, line: int, column: int) -> NoReturn:
    """Say what is wrong with the words of one parser and the place of the other, which is the exact one."""
    place = TextPosition(line or 1, max((column or 1) - 1, 0))
    what = message.partition(", line")[0].removesuffix(", use XML_PARSE_HUGE option")  # which nobody here has
    judge = expat.ParserCreate("utf-8")
    try:
        judge.Parse(encoded, True)
    except expat.ExpatError as error:
        place = TextPosition(error.lineno, error.offset)
    raise BadRequest(
        code="not-xml",
        what=f"not well-formed XML: {what}",
        place=place,
        fix="correct the XML there; text needs &lt; for <, &amp; for &, and UTF-8",
    )


def _refuse(text: str, at: int, what: str) -> NoReturn:
    raise BadRequest(
        code="not-xml",
        what=f"not well-formed XML: {what}",
        place=position_of(text, at),
        fix="save the file as UTF-8",
    )


def line_starts(text: str) -> list[int]:
    """Return where each line of `text` begins."""
    return [0, *(match.end() for match in re.finditer("\n", text))]


def position_of(text: str, at: int, lines: Sequence[int] | None = None) -> TextPosition:
    """Return the place of the character number `at`."""
    lines = lines or line_starts(text)
    line = bisect_right(lines, at)
    return TextPosition(line, at - lines[line - 1])


_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
_IN_ATTRIBUTE = re.compile(r"[&<>\"\t\n\r]")
_IN_TEXT = re.compile(r"[&<>\r]")
_IMPOSSIBLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_XML = "http://www.w3.org/XML/1998/namespace"


class XmlElement(msgspec.Struct):
    """An element to write.  Children are elements, or text that is XML already."""

    name: str
    attributes: dict[str, str] = {}
    children: list["XmlElement | str"] = []
    text: str = ""


def possible(text: str) -> str:
    """Return `text` with what XML cannot hold replaced by U+FFFD."""
    if text.isprintable():  # as nearly all is: then there is nothing to look for
        return text
    return _IMPOSSIBLE.sub("\ufffd", text)


def write_xml(root: XmlElement) -> bytes:
    """Return the document, indented, in UTF-8."""
    lines = ['<?xml version="1.0" encoding="utf-8"?>']
    _lines(root, "", lines, short=True)
    return ("\n".join(lines) + "\n").encode()


def written_inside(element: XmlElement, indent: str) -> str:
    """Return an element as it stands in a document after `indent`, but with a closing tag in any case."""
    lines: list[str] = []
    _lines(element, indent, lines, short=False)
    return "\n".join(lines).removeprefix(indent)


def _lines(element: XmlElement, indent: str, lines: list[str], *, short: bool) -> None:
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
    return _IN_TEXT.sub(lambda match: _ESCAPES[match[0]], possible(text))


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
    return _IN_ATTRIBUTE.sub(lambda match: _ESCAPES[match[0]], possible(value))


def is_plain_name(text: str) -> bool:
    """Whether an element or attribute without a namespace can be called so."""
    try:
        name = etree.QName(text)
    except ValueError:
        return False
    return name.namespace is None and ":" not in text
