"""The text of a job object before it is read: recognised, mended where damaged, and the findings about it."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NoReturn

import msgspec
from lxml import etree

from headnode.core.formats.fidelity import (
    MAX_REPORT_ITEMS,
    Awareness,
    CountedItems,
    Fidelity,
    ReportItem,
    apply_awareness,
)
from headnode.core.formats.hpc_xml.attributes import BY_NAMESPACE
from headnode.core.formats.sss.property_rows import CHILDREN_OF, NODE_PROPERTIES, SPELLINGS, ElementPlace
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.formats.text.xml_text import XmlDocument, line_starts, position_of
from headnode.core.model.errors import BadRequest, TextPosition

_LOOKED_AT = 65_536  # characters; the first elements tell
_ELEMENT = re.compile(r"<([A-Za-z_][\w.:-]{0,80}+)([^<>]{0,4000}+)>")


def is_job_object(text: bytes | str) -> bool:
    """Whether `text` is an SSS job object, however damaged.

    Names are told in any case, as Maui does.

    >>> is_job_object("<Job><id>1</id></Job>"), is_job_object('<Job Name="a"><Tasks/></Job>')
    (True, False)
    >>> is_job_object("<Job> job123</Job>"), is_job_object("<job><SubmitString>a</SubmitString></job>")
    (True, True)
    """
    start = text[:_LOOKED_AT]
    readable = start if isinstance(start, str) else _characters(start)
    elements = _ELEMENT.findall(_without_comments(readable))
    if not elements or any(f'"{namespace}"' in elements[0][1] for namespace in BY_NAMESPACE):
        return False
    root = _local(elements[0][0]).lower()
    inside = [_local(name).lower() for name, _ in elements[1:50]]
    if root == "data":
        return any(name in ("job", "jobgroup", "file") for name in inside)
    if root != "job":
        return root == "jobgroup"
    if not inside:
        return _REFERENCE.search(readable) is not None
    return inside[0] in _IN_JOB or _local(elements[0][0]) == "job"


_REFERENCE = re.compile(r"<(?:[\w.-]{1,40}:)?[Jj][Oo][Bb]\s*>\s*[^<\s]")
"""A job that is defined elsewhere: its id alone."""

_IN_JOB = {
    name.lower() for name in (*SPELLINGS[ElementPlace.JOB], *CHILDREN_OF[ElementPlace.JOB], NODE_PROPERTIES)
}


def _without_comments(text: str) -> str:
    before, *rest = text.split("<!--")
    return before + "".join(part.partition("-->")[2] for part in rest)


def _characters(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "replace")


def _local(name: str) -> str:
    return name.rpartition(":")[2]


_TAG = re.compile(r"<(/?)([^\s<>/!?\"'=]++)([^<>]*+)>")
_QUOTES = re.compile("[\u201c\u201d\u201e\u201f\u2033]")
_NOT_TAGS = (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>"))
_DEEPEST = 256  # as XML is read


class TextRepair(msgspec.Struct, frozen=True):
    """A stroke that was put in (`shift` 1) or taken out (-1), at a character of the text as it was."""

    at: int
    shift: int
    what: str


class RepairedText:
    """A text that was mended, and what was done to it."""

    def __init__(self, before: str, text: str, quotes: list[int], changes: list[TextRepair]) -> None:
        self.text = text
        self._quotes, self._changes = quotes, changes
        self._before, self._lines = before, line_starts(before)
        self._shifts = [(position_of(before, change.at, self._lines), change.shift) for change in changes]

    def original(self, place: TextPosition) -> TextPosition:
        """Return where `place` of the mended text was before."""
        shift = sum(shift for at, shift in self._shifts if at.line == place.line and at.column < place.column)
        return TextPosition(place.line, place.column - shift)

    def moved_back(self, refusal: BadRequest) -> BadRequest:
        """Return a refusal of the mended text with the place it had before."""
        if refusal.place is None:
            return refusal
        place = self.original(refusal.place)
        return BadRequest(code=refusal.code, what=refusal.sentence, fix=refusal.fix, place=place)

    def report(self) -> Iterator[ReportItem]:
        """Yield every change, with its place."""
        if self._quotes:
            times = f" ({len(self._quotes)} times, here first)" if len(self._quotes) > 1 else ""
            yield self._item(self._quotes[0], f"a typographic quote is read as a straight one{times}")
        for change in self._changes:
            yield self._item(change.at, change.what)

    def _item(self, at: int, what: str) -> ReportItem:
        place = position_of(self._before, at, self._lines)
        return ReportItem(Fidelity.TRANSLATED, "repaired", what, place.line, place.column)


def repair_text(text: str) -> RepairedText:
    """Mend `text`.

    Typographic quotes inside of tags become straight ones.  An opening tag directly inside of one of its
    own name is meant to close it; a closing tag of what is not open is meant to open it.

    >>> repair_text("<Job><Memory>1<Memory></Delivered><Memory>2</Memory></Delivered></Job>").text
    '<Job><Memory>1</Memory><Delivered><Memory>2</Memory></Delivered></Job>'
    """
    quotes: list[int] = []
    changes: list[TextRepair] = []
    pieces: list[str] = []
    done = 0
    strokes = _OpenElements()
    for tag in _tags(text):
        start, end = tag.span()
        quotes += [start + match.start() for match in _QUOTES.finditer(tag[0])]
        shift = strokes.judge(tag)
        stroke = "/" if tag[1] else ""
        if shift:
            stroke = "/" if shift > 0 else ""
            meant = f"<{stroke}{tag[2]}>"
            changes.append(TextRepair(start, shift, f"<{tag[1]}{tag[2]}> is read as {meant}"))
        rest = _QUOTES.sub('"', tag[3])
        pieces += [text[done:start], f"<{stroke}{tag[2]}{rest}>"]
        done = end
    return RepairedText(text, "".join([*pieces, text[done:]]), quotes, changes)


def _tags(text: str) -> Iterator[re.Match[str]]:
    """Yield the tags of `text`, and nothing that only looks like one."""
    at = text.find("<")
    while at >= 0:
        ends = next((end for start, end in _NOT_TAGS if text.startswith(start, at)), "")
        match = None if ends else _TAG.match(text, at)
        if match:
            yield match
        after = text.find(ends, at) if ends else at + 1
        at = text.find("<", after) if after >= 0 else -1


class _OpenElements:
    """Follows which elements are open."""

    def __init__(self) -> None:
        self._open: list[str] = []

    def judge(self, tag: re.Match[str]) -> int:
        """Return 1 when the tag lacks its stroke, -1 when it has one too many, 0 when it is right."""
        closing, name, rest = bool(tag[1]), tag[2], tag[3]
        inside = bool(self._open) and self._open[-1] == name
        if rest.endswith("/") or len(self._open) > _DEEPEST:
            return 0
        if closing:
            if name in self._open:
                if inside:
                    self._open.pop()
                return 0
            self._open.append(name)
            return -1
        if inside and not rest.strip():
            self._open.pop()
            return 1
        self._open.append(name)
        return 0


_NUMBERED = ("Job", "TaskGroup", "Task")
_MAX_HINTS = 200  # looking for the nearest name is slow


class SssFindings:
    """The report in the making; `mended` is what was done to the text before it was read."""

    def __init__(self, document: XmlDocument, mended: RepairedText | None) -> None:
        self._document, self._mended = document, mended
        self._found = CountedItems(mended.report() if mended else ())
        self._rejected: list[ReportItem] = []
        self._hints: dict[str, str] = {}
        self._numbers: dict[etree._Element, int] = {}

    def add(self, kind: Fidelity, element: etree._Element, what: str, attribute: str = "") -> None:
        """Add a finding; one that comes again in elements of the same name is only counted."""
        parent = element.getparent()
        key = (kind, str(parent.tag) if parent is not None else "", what)
        self._found.add(kind, lambda: self._item(kind, element, what, attribute), key)

    def unknown(self, policy: Awareness, element: etree._Element, what: str, attribute: str = "") -> None:
        """Add something that is not understood, or refuse it, or say nothing, as `policy` has it."""
        if policy is Awareness.WARN:
            self.add(Fidelity.NOT_SUPPORTED, element, what, attribute)
        elif policy is Awareness.REJECT and len(self._rejected) < MAX_REPORT_ITEMS:
            self._rejected.append(self._item(Fidelity.NOT_SUPPORTED, element, what, attribute))

    def report(self) -> tuple[ReportItem, ...]:
        """Return all findings in the order in which they were made.

        Raises:  BadRequest ``not-understood`` when something was to be rejected; it lists what.
        """
        apply_awareness(Awareness.REJECT, self._rejected)
        return self._found.report()

    def refuse(
        self, code: str, element: etree._Element, what: str, fix: str, attribute: str = ""
    ) -> NoReturn:
        """Refuse the document for what stands at `element`, or at its `attribute`.

        Raises:  BadRequest, always.
        """
        place = self.place(element, attribute)
        raise BadRequest(code=code, what=f"{self.path(element)}: {what}", fix=fix, place=place)

    def place(self, element: etree._Element, attribute: str = "") -> TextPosition:
        """Return where it stands in the text as it came."""
        written = self._document.written(element, attribute) if attribute else ""
        place = self._document.place(element, written)
        return self._mended.original(place) if self._mended else place

    def path(self, element: etree._Element) -> str:
        """Return the names from the outermost element down to `element`, numbered from 1 where many stand."""
        if not self._numbers:
            self._number()
        steps = [element, *element.iterancestors()]
        return "/".join(self._step(step) for step in reversed(steps))

    def hint(self, name: str, names: Iterable[str]) -> str:
        """Return the question for the name that was probably meant; "" when none looks like it."""
        if name not in self._hints and len(self._hints) < _MAX_HINTS:
            meant = nearest_name(name, names)
            self._hints[name] = f"; did you mean {meant!r}?" if meant and meant != name else ""
        return self._hints.get(name, "")

    def _item(self, kind: Fidelity, element: etree._Element, what: str, attribute: str) -> ReportItem:
        place = self.place(element, attribute)
        return ReportItem(kind, self.path(element), what, place.line, place.column)

    def _step(self, element: etree._Element) -> str:
        name = local(element)
        number = self._numbers.get(element)
        return f"{name} {number}" if number else name

    def _number(self) -> None:
        """Number the elements that many of may stand in one parent, once for the whole document."""
        counts: Counter[tuple[etree._Element | None, str]] = Counter()
        root = self._document.root
        self._numbers[root] = 0  # there is only one
        for element in root.iterdescendants(*(f"{{*}}{name}" for name in _NUMBERED)):
            key = (element.getparent(), local(element))
            counts[key] += 1
            self._numbers[element] = counts[key]


def local(element: etree._Element) -> str:
    """Return the name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]
