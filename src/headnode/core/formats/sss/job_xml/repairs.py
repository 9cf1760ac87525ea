"""Mending the damage that SSS job objects suffer in print: typographic quotes, and tags with a wrong stroke.

Only text that is not well-formed is mended, and every change is told.
Source: the examples of SSS 3.1.0 and 3.0.3, which have all of it.
Cost:    O(text).
"""

import re
from collections.abc import Iterator

import msgspec

from headnode.core.formats.compute_cluster_xml.document import Place, line_starts, place_of
from headnode.core.formats.fidelity import Item, Kind
from headnode.core.model.errors import BadRequest

_TAG = re.compile(r"<(/?)([^\s<>/!?\"'=]++)([^<>]*+)>")
_QUOTES = re.compile("[\u201c\u201d\u201e\u201f\u2033]")
_NOT_TAGS = (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>"))
_DEEPEST = 256  # as XML is read
_PLACED = re.compile(r"line (\d+), column (\d+): ")


class Change(msgspec.Struct, frozen=True):
    """A stroke that was put in (`shift` 1) or taken out (-1), at a character of the text as it was."""

    at: int
    shift: int
    what: str


class Mended:
    """A text that was mended, and what was done to it."""

    def __init__(self, before: str, text: str, quotes: list[int], changes: list[Change]) -> None:
        self.text = text
        self._quotes, self._changes = quotes, changes
        self._before, self._lines = before, line_starts(before)
        self._shifts = [(place_of(before, change.at, self._lines), change.shift) for change in changes]

    def original(self, place: Place) -> Place:
        """Return where `place` of the mended text was before."""
        shift = sum(shift for at, shift in self._shifts if at.line == place.line and at.column < place.column)
        return Place(place.line, place.column - shift)

    def moved_back(self, refusal: BadRequest) -> BadRequest:
        """Return a refusal of the mended text with the place it had before."""
        found = _PLACED.match(refusal.what)
        if not found:
            return refusal
        place = self.original(Place(int(found[1]), int(found[2])))
        return BadRequest(code=refusal.code, what=f"{place}: {refusal.what[found.end() :]}", fix=refusal.fix)

    def report(self) -> Iterator[Item]:
        """Yield every change, with its place."""
        if self._quotes:
            times = f" ({len(self._quotes)} times, here first)" if len(self._quotes) > 1 else ""
            yield self._item(self._quotes[0], f"a typographic quote is read as a straight one{times}")
        for change in self._changes:
            yield self._item(change.at, change.what)

    def _item(self, at: int, what: str) -> Item:
        place = place_of(self._before, at, self._lines)
        return Item(Kind.TRANSLATED, "repaired", what, place.line, place.column)


def mend(text: str) -> Mended:
    """Mend `text`.

    Typographic quotes inside of tags become straight ones.  An opening tag directly inside of one of its
    own name is meant to close it; a closing tag of what is not open is meant to open it.

    >>> mend("<Job><Memory>1<Memory></Delivered><Memory>2</Memory></Delivered></Job>").text
    '<Job><Memory>1</Memory><Delivered><Memory>2</Memory></Delivered></Job>'
    """
    quotes: list[int] = []
    changes: list[Change] = []
    pieces: list[str] = []
    done = 0
    strokes = _Strokes()
    for tag in _tags(text):
        start, end = tag.span()
        quotes += [start + found.start() for found in _QUOTES.finditer(tag[0])]
        shift = strokes.judge(tag)
        stroke = "/" if tag[1] else ""
        if shift:
            stroke = "/" if shift > 0 else ""
            meant = f"<{stroke}{tag[2]}>"
            changes.append(Change(start, shift, f"<{tag[1]}{tag[2]}> is read as {meant}"))
        rest = _QUOTES.sub('"', tag[3])
        pieces += [text[done:start], f"<{stroke}{tag[2]}{rest}>"]
        done = end
    return Mended(text, "".join([*pieces, text[done:]]), quotes, changes)


def _tags(text: str) -> Iterator[re.Match[str]]:
    """Yield the tags of `text`, and nothing that only looks like one."""
    at = text.find("<")
    while at >= 0:
        ends = next((end for start, end in _NOT_TAGS if text.startswith(start, at)), "")
        found = None if ends else _TAG.match(text, at)
        if found:
            yield found
        after = text.find(ends, at) if ends else at + 1
        at = text.find("<", after) if after >= 0 else -1


class _Strokes:
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
