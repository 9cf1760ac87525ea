"""Requests and responses of SSSRMAP: read from XML in every spelling that peers use, written in one.

What is written is canonical: no indentation, every element with its closing tag, attributes in double quotes.
Signatures are made of exactly this text.
Source:  SSSRMAP Message Format 3.0.4, with what Gold, Maui and Slurm send.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from lxml import etree

from headnode.core.formats.sss.sssrmap.status import MessageFault, StatusCode, value_of_code
from headnode.core.formats.text.xml_text import (
    XmlElement,
    escaped,
    local_name,
    parse_xml,
    written_attributes,
)
from headnode.core.model.bounds import RMAP_ANSWER, RMAP_ANSWER_PARTS, RMAP_MESSAGE, RMAP_PARTS
from headnode.core.model.errors import BadRequest

DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}\Z")
_CODE: Final = re.compile(r"[0-9]{3}\Z")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,9}\Z")
_AMOUNT: Final = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18})?\Z")
_TRUE: Final = ("true", "1", "yes")
CHUNK: Final = 1000
"""The objects of one chunk if a request for chunks gives no number."""


class RmapField(msgspec.Struct, frozen=True, kw_only=True):
    """A Get, Set, Where or Option: a name, a value, and their attributes.  Operators are as written."""

    name: str
    value: str = ""
    op: str = ""
    conj: str = ""
    group: int = 0  # brackets opened before a condition, or closed (negative) after it
    object: str = ""
    subject: str = ""  # the object whose property the value names
    units: str = ""
    alias: str = ""


class RmapRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request: what `actor` wants of objects."""

    action: str
    actor: str
    objects: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()  # how conditions call the objects, in their order; "" by their own name
    joins: tuple[str, ...] = ()  # how each object is joined to those before; "" by the conditions alone
    gets: tuple[RmapField, ...] = ()
    sets: tuple[RmapField, ...] = ()
    wheres: tuple[RmapField, ...] = ()
    options: tuple[RmapField, ...] = ()
    data: tuple[XmlElement, ...] = ()  # the Data elements
    files: tuple[XmlElement, ...] = ()
    count: int | None = None  # at most so many objects
    id: str = ""
    chunk_size: int | None = None  # objects in one answer, as Gold counts them; None: one answer


class RmapStatus(msgspec.Struct, frozen=True):
    """How a request went."""

    code: str = str(StatusCode.SUCCESS)
    message: str = ""
    value: str = ""  # Success, Warning or Failure; empty: that of the code

    @property
    def word(self) -> str:
        """Success, Warning or Failure."""
        return self.value or value_of_code(self.code)


class RmapResponse(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, or one chunk of it."""

    status: RmapStatus
    count: int | None = None
    data: tuple[XmlElement, ...] = ()  # the objects inside of Data
    id: str = ""
    chunk: tuple[int, int] | None = None  # its number, and how many there are


# ---------------------------------------------------------------- elements


def parsed(text: bytes | str) -> XmlElement:
    """Return XML as an element with its children, all by their local names.

    Raises:  MessageFault 302, 236.
    """
    if len(text) > RMAP_MESSAGE.most:
        raise MessageFault(StatusCode.TOO_LARGE, f"the message is larger than {RMAP_MESSAGE}")
    if _tags(text) > 2 * RMAP_PARTS.most:
        raise MessageFault(StatusCode.TOO_LARGE, f"the message has more than {RMAP_PARTS}")
    return _parsed(text)


def parsed_answer(text: bytes) -> XmlElement:
    """Return the message that a peer has answered with, which may be larger than one that is served.

    Raises:  MessageFault 302, 236.
    """
    if len(text) > RMAP_ANSWER.most or _tags(text) > 2 * RMAP_ANSWER_PARTS.most:
        raise MessageFault(
            StatusCode.TOO_LARGE,
            f"the answer has more than {RMAP_ANSWER} or {RMAP_ANSWER_PARTS}",
            "ask for less, or in chunks: --chunk 1000",
        )
    return _parsed(text)


def _tags(text: bytes | str) -> int:
    return text.count(b"<") if isinstance(text, bytes) else text.count("<")


def _parsed(text: bytes | str) -> XmlElement:
    try:
        return element_of(parse_xml(text).root)
    except BadRequest as wrong:
        raise MessageFault(StatusCode.NOT_XML, wrong.what, wrong.fix) from None


def element_of(parsed: etree._Element) -> XmlElement:
    """Return an element of a tree, with its children, and with the text between these as it was."""
    attributes = {local_name(str(name)): str(value) for name, value in parsed.attrib.items()}
    name = local_name(str(parsed.tag))
    if not len(parsed):
        return XmlElement(name, attributes, [], parsed.text or "")
    children: list[XmlElement | str] = [escaped(parsed.text)] if parsed.text else []
    for child in parsed:
        children.append(element_of(child))
        if child.tail:
            children.append(escaped(child.tail))
    return XmlElement(name, attributes, children)


def compacted(element: XmlElement) -> XmlElement:
    """Return an element without the text between its children, which indents them."""
    return XmlElement(
        element.name, element.attributes, [compacted(one) for one in elements(element)], element.text
    )


def elements(parent: XmlElement) -> Iterator[XmlElement]:
    """Yield the elements in an element."""
    return (child for child in parent.children if isinstance(child, XmlElement))


def child_of(parent: XmlElement, *names: str) -> XmlElement | None:
    """Return the first child of one of these names, in any case."""
    wanted = {name.lower() for name in names}
    return next((child for child in elements(parent) if child.name.lower() in wanted), None)


def text_of(parent: XmlElement, *names: str) -> str:
    """Return the text of a child, without blanks around it; empty if there is none."""
    child = child_of(parent, *names)
    return child.text.strip() if child is not None else ""


def canonical(element: XmlElement) -> str:
    """Return an element as text, as signatures need it.

    >>> canonical(XmlElement("Get", {"name": "a&b"}))
    '<Get name="a&amp;b"></Get>'
    """
    attributes = written_attributes(element.attributes)
    return f"<{element.name}{attributes}>{content_of(element)}</{element.name}>"


def content_of(element: XmlElement) -> str:
    """Return what is between the tags of an element, as `canonical` writes it."""
    text = "".join(child if isinstance(child, str) else canonical(child) for child in element.children)
    return escaped(element.text) + text if element.text else text


def leaf(name: str, value: object, **attributes: str) -> XmlElement:
    """Return an element with a text."""
    return XmlElement(name, attributes, [], str(value))


# ---------------------------------------------------------------- requests


def read_request(body: XmlElement) -> RmapRequest:
    """Return the request in a Body.

    Old spellings are read: `actor` of the Body, `object` as an attribute of the Request.
    Raises:  MessageFault 308, 310 to 319.
    """
    request = child_of(body, "Request")
    if body.name != "Body" or request is None:
        raise MessageFault(StatusCode.NOT_A_MESSAGE, "the Body has no Request", "send one Request")
    attributes = request.attributes
    action, actor = (
        attributes.get("action", "").strip(),
        (attributes.get("actor") or body.attributes.get("actor", "")),
    )
    if not action or not actor.strip():
        missing = "action" if not action else "actor"
        raise MessageFault(StatusCode.NO_ACTION, f"the Request has no {missing}", f'write {missing}="..."')
    if not _WORD.match(action):
        raise MessageFault(StatusCode.WRONG_ACTION, f"{action[:64]!r} is not an action")
    fields = {kind: tuple(_fields(request, kind)) for kind in ("Get", "Set", "Where", "Option")}
    named = [one for one in elements(request) if one.name == "Object" and one.text.strip()]
    objects = [one.text.strip() for one in named]
    count, size = text_of(request, "Count"), attributes.get("chunkSize", "")
    chunked = attributes.get("chunking", "").lower() in _TRUE
    return RmapRequest(
        action=action,
        actor=actor.strip(),
        objects=tuple(objects or filter(None, [attributes.get("object", "").strip()])),
        aliases=_of_each(named, "alias"),
        joins=_of_each(named, "join"),
        gets=fields["Get"],
        sets=fields["Set"],
        wheres=fields["Where"],
        options=fields["Option"],
        data=tuple(one for one in elements(request) if one.name == "Data"),
        files=tuple(one for one in elements(request) if one.name == "File"),
        count=_count(count, "Count") if count else None,
        id=attributes.get("id", "")[:256],
        chunk_size=max(1, _count(size or str(CHUNK), "chunkSize")) if chunked else None,
    )


def _of_each(objects: Sequence[XmlElement], attribute: str) -> tuple[str, ...]:
    """Return what an attribute says of each object; nothing if it is said of none."""
    values = tuple(one.attributes.get(attribute, "").strip() for one in objects)
    return values if any(values) else ()


def _fields(request: XmlElement, kind: str) -> Iterator[RmapField]:
    for one in elements(request):
        if one.name != kind:
            continue
        attributes = one.attributes
        if not attributes.get("name", "").strip():
            raise MessageFault(StatusCode.MISSING, f"a {kind} without a name", 'write name="..."')
        yield RmapField(
            name=attributes["name"].strip(),
            value=one.text.strip(),
            op=attributes.get("op", ""),
            conj=attributes.get("conj", ""),
            group=_count(attributes.get("group") or attributes.get("groups") or "0", "group", signed=True),
            object=attributes.get("object", ""),
            subject=attributes.get("subject", ""),
            units=attributes.get("units", ""),
            alias=attributes.get("alias", ""),
        )


def _count(text: str, what: str, *, signed: bool = False) -> int:
    if not _NUMBER.match(text) or (not signed and text.startswith("-")):
        raise MessageFault(StatusCode.WRONG_VALUE, f"{what} is {text[:40]!r}", "write a whole number")
    return int(text)


def write_request(request: RmapRequest) -> XmlElement:
    """Return the Body of a request."""
    attributes = {"action": request.action, "actor": request.actor}
    attributes |= {"id": request.id} if request.id else {}
    if request.chunk_size is not None:
        attributes |= {"chunking": "True", "chunkSize": str(request.chunk_size)}
    inside = [
        *_objects_of(request),
        *_written("Option", request.options),
        *_written("Get", request.gets),
        *_written("Set", request.sets),
        *_written("Where", request.wheres),
        *request.data,
        *request.files,
        *([leaf("Count", request.count)] if request.count is not None else []),
    ]
    return XmlElement("Body", {}, [XmlElement("Request", attributes, [*inside])])


def _objects_of(request: RmapRequest) -> Iterator[XmlElement]:
    for number, name in enumerate(request.objects):
        attributes = {
            word: values[number]
            for word, values in (("join", request.joins), ("alias", request.aliases))
            if number < len(values) and values[number]
        }
        yield XmlElement("Object", attributes, [], name)


def _written(kind: str, fields: Iterable[RmapField]) -> Iterator[XmlElement]:
    for one in fields:
        attributes = {
            name: getattr(one, name) for name in ("op", "conj", "object", "subject", "units", "alias")
        }
        attributes["group"] = str(one.group) if one.group else ""
        kept = {name: value for name, value in attributes.items() if value}
        yield XmlElement(kind, {"name": one.name, **kept}, [], one.value)


# ---------------------------------------------------------------- responses


def write_response(response: RmapResponse) -> XmlElement:
    """Return the Body of an answer."""
    attributes = {"id": response.id} if response.id else {}
    if response.chunk is not None:
        attributes |= {"chunkNum": str(response.chunk[0]), "chunkMax": str(response.chunk[1])}
    status = response.status
    children = [leaf("Value", status.word), leaf("Code", status.code)]
    children += [leaf("Message", status.message)] if status.message else []
    inside = [XmlElement("Status", {}, [*children])]
    inside += [leaf("Count", response.count)] if response.count is not None else []
    inside += [XmlElement("Data", {}, [*response.data])] if response.data else []
    return XmlElement("Body", {}, [XmlElement("Response", attributes, [*inside])])


def read_response(envelope: XmlElement) -> RmapResponse:
    """Return the answer in an Envelope.

    Raises:  MessageFault 308, 321.
    """
    response = child_of(child_of(envelope, "Body") or envelope, "Response")
    if response is None:
        raise MessageFault(StatusCode.NOT_A_MESSAGE, "the answer has no Response")
    status = child_of(response, "Status") or XmlElement("Status")
    code, count = text_of(status, "Code"), text_of(response, "Count")
    if not _CODE.match(code):
        raise MessageFault(StatusCode.NO_STATUS, f"the answer has the status code {code[:40]!r}")
    number, most = (response.attributes.get(name, "") for name in ("chunkNum", "chunkMax"))
    return RmapResponse(
        status=RmapStatus(code, text_of(status, "Message"), text_of(status, "Value")),
        count=_answer_count(count) if count else None,
        data=tuple(found for one in elements(response) if one.name == "Data" for found in elements(one)),
        id=response.attributes.get("id", ""),
        chunk=(_count(number, "chunkNum"), _count(most or "0", "chunkMax", signed=True)) if number else None,
    )


def _answer_count(text: str) -> int:
    """Return the Count of an answer, which at a bank is an amount and may have decimals; these are dropped.

    Raises:  MessageFault 317.
    """
    if not _AMOUNT.match(text):
        raise MessageFault(StatusCode.WRONG_VALUE, f"Count is {text[:40]!r}", "write a number")
    return int(text.partition(".")[0])


def chunks_of(response: RmapResponse, size: int | None) -> list[RmapResponse]:
    """Return an answer in chunks of at most `size` objects."""
    if size is None or len(response.data) <= size:
        return [response]
    groups = [response.data[at : at + size] for at in range(0, len(response.data), size)]
    return [_chunk(response, group, number, len(groups)) for number, group in enumerate(groups, 1)]


def _chunk(response: RmapResponse, data: Sequence[XmlElement], number: int, most: int) -> RmapResponse:
    return msgspec.structs.replace(response, data=tuple(data), count=len(data), chunk=(number, most))


def envelope(body: str, signature: str = "") -> bytes:
    """Return the message with a Body, and its signature if it has one."""
    return f"{DECLARATION}<Envelope>{body}{signature}</Envelope>".encode()
