"""JSON text as values, strictly, with the place of everything in it.

Refused are also what JSON readers usually let pass: a key that is there twice, numbers that cannot be kept,
and depths and sizes that no job description has.
Cost:  for a good text little more than reading it; places are worked out level by level when asked for.
"""

import re
from array import array
from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from typing import Any

import msgspec

from headnode.core.formats.crowds import refuse_crowd
from headnode.core.formats.json_faults import (
    MOST_DEPTH,
    MOST_VALUES,
    count_values,
    refuse_json,
    refuse_size,
)
from headnode.core.formats.text_places import Place, Text, decode

Step = str | int
Path = tuple[Step, ...]
"""The way to a value: keys of objects, numbers of elements (from 0)."""

_KEY = re.compile(rb'[\s,]*+("(?:[^"\\]++|\\.)*+")\s*+:\s*+', re.DOTALL)
_BETWEEN = re.compile(rb"[\s,]*+")
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_HOLDERS = frozenset((dict, list))
_EACH_VALUE, _EACH_OBJECT, _EACH_TASK = 165, 350, 500  # bytes that one takes at most
_BLOCK = 4096
_CONTINUED = bytes(range(0x80, 0xC0))  # the bytes of a character after its first
_COLON_AFTER_BLANKS = re.compile(r'"[ \t\n\r]++:')


class _Spot:
    """Where a value stands, in bytes: from its key (or itself), from itself, and up to."""

    __slots__ = ("_edges", "_inside", "end", "key", "start")

    def __init__(self, key: int, start: int, end: int) -> None:
        self.key, self.start, self.end = key, start, end
        self._inside: dict[str, _Spot] | None = None
        self._edges: array[int] | None = None  # where each element begins and ends

    def inside(self, data: bytes, step: Step) -> "_Spot | None":
        """Return the spot of what is one level down; where everything there stands is remembered."""
        opening = data[self.start : self.start + 1]
        if isinstance(step, str):
            if self._inside is None:
                self._inside = dict(self._members(data)) if opening == b"{" else {}
            return self._inside.get(step)
        if self._edges is None:
            self._edges = array("q", self._elements(data) if opening == b"[" else ())
        if not 0 <= step < len(self._edges) // 2:
            return None
        begun, end = self._edges[2 * step : 2 * step + 2]
        return _Spot(begun, begun, end)

    def _members(self, data: bytes) -> "Iterator[tuple[str, _Spot]]":
        at = self.start + 1
        for name, raw in _MEMBERS.decode(memoryview(data)[self.start : self.end]).items():
            key = _KEY.match(data, at)
            if key is not None:
                at = key.end() + len(memoryview(raw))
                yield name, _Spot(key.start(1), key.end(), at)

    def _elements(self, data: bytes) -> Iterator[int]:
        at = self.start + 1
        for raw in _ELEMENTS.decode(memoryview(data)[self.start : self.end]):
            between = _BETWEEN.match(data, at)
            begun = between.end() if between else at
            at = begun + len(memoryview(raw))
            yield begun
            yield at


class JsonText(Text):
    """Values read from JSON text, and where they stand."""

    def __init__(self, text: str, value: Any) -> None:
        super().__init__(text)
        self.value = value

    @cached_property
    def _data(self) -> bytes:
        return self.text.encode()

    @cached_property
    def _root(self) -> _Spot:
        start = len(self.text) - len(self.text.lstrip())
        return _Spot(start, start, len(self._data.rstrip()))

    @cached_property
    def _blocks_of_bytes(self) -> list[int]:
        """How many characters begin before each block of bytes."""
        blocks = [0]
        for start in range(0, len(self._data), _BLOCK):
            blocks.append(blocks[-1] + _begun(self._data[start : start + _BLOCK]))
        return blocks

    def find(self, path: Path) -> Place:
        """Return the place of the value at `path`: of its key, if it has one; else of what is nearest.

        Cost:  a look at the element of a list that it is in; the first, one at all of the text.
        """
        names = len(path)
        while names and isinstance(path[names - 1], str):
            names -= 1
        element = self._spot(path[:names])
        if element is not None and names < len(path):
            byte = self._only_name(element, path[:names], path[names:])
            if byte is not None:
                return self.place(self._characters(byte))
        return self.place(self._characters(self._nearest(path).key))

    def _spot(self, path: Path) -> _Spot | None:
        spot: _Spot | None = self._root
        for step in path:
            spot = spot and spot.inside(self._data, step)
        return spot

    def _nearest(self, path: Path) -> _Spot:
        spot = self._root
        for step in path:
            inner = spot.inside(self._data, step)
            if inner is None:
                break
            spot = inner
        return spot

    def _only_name(self, element: _Spot, before: Path, names: Path) -> int | None:
        """Return where the last of `names` stands, when each is there once in what is left of `element`.

        Names with escapes may be written in many ways: where there is a backslash, nothing is found.
        """
        value, start = self.value, element.start
        for step in before:
            value = value[step]
        if self._data.find(b"\\", start, element.end) >= 0:
            return None
        for name in names:
            if not isinstance(value, dict) or name not in value:
                return None
            written = f'"{name}"'.encode()
            if self._data.count(written, start, element.end) != 1:
                return None
            start = self._data.find(written, start, element.end)
            value = value[name]
        return start

    def _characters(self, end: int) -> int:
        """Return how many characters the first `end` bytes are."""
        if self.text.isascii():
            return end
        block = end // _BLOCK
        return self._blocks_of_bytes[block] + _begun(self._data[block * _BLOCK : end])


def _begun(data: bytes) -> int:
    """Return how many characters begin in some bytes of UTF-8."""
    return len(data.translate(None, _CONTINUED))


def read_json(data: bytes | str) -> JsonText:
    """Read JSON text.

    Raises:  BadRequest with line and column: ``not-json``, ``encoding``, ``given-twice``, ``too-deep``,
             ``number``; and ``too-large`` without them, for its size or for the number of its values.
    """
    text = decode(data)
    _refuse_crowds(text)
    if count_values(text) > MOST_VALUES:
        refuse_size()
    try:
        value = msgspec.json.decode(
            data if data[:1] == b"{" else text
        )  # those bytes are UTF-8: it was decoded
    except (msgspec.MsgspecError, RecursionError) as wrong:
        refuse_json(text, wrong)
        raise  # never: what made it fail has been found
    keys, depth = _measure(value)
    if depth > MOST_DEPTH:
        refuse_json(text, RecursionError())
    if keys != text.count('":') + len(_COLON_AFTER_BLANKS.findall(text)):
        refuse_json(text, None)  # a key is there twice, or only a text that looks like one
    return JsonText(text, value)


def _refuse_crowds(text: str) -> None:
    """Refuse a text of more values than its size has room for in memory; texts in quotes may count, too."""
    things = {
        "values": (text.count(",") + text.count("["), _EACH_VALUE),
        "objects": (text.count("{"), _EACH_OBJECT),
        "ids of tasks": (text.count('"id"'), _EACH_TASK),
        "commands": (text.count('"command"') + text.count('"executable"'), _EACH_TASK),
    }
    refuse_crowd(len(text), things)


def _measure(value: Any) -> tuple[int, int]:
    """Return how many keys there are, and how deep they lie."""
    keys = depth = 0
    level = [value] if type(value) in _HOLDERS else []
    while level:
        depth += 1
        objects = [part for part in level if type(part) is dict]
        keys += sum(map(len, objects))
        lists = [part for part in level if type(part) is list] if len(objects) < len(level) else []
        parts = chain(chain.from_iterable(map(dict.values, objects)), chain.from_iterable(lists))
        level = [part for part in parts if type(part) in _HOLDERS]
    return keys, depth
