"""JSON text as values, strictly, with the place of everything in it.

Refused are also what JSON readers usually let pass: a key that is there twice, numbers that cannot be kept,
and depths and sizes that no job description has.
Cost:  for a good text little more than reading it; places are worked out level by level when asked for.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import msgspec

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
_HOLDERS = (dict, list)
_COLON_AFTER_BLANKS = re.compile(r'"[ \t\n\r]++:')


class _Spot:
    """Where a value stands, in bytes: from its key (or itself), from itself, and up to."""

    __slots__ = ("_inside", "end", "key", "start")

    def __init__(self, key: int, start: int, end: int) -> None:
        self.key, self.start, self.end = key, start, end
        self._inside: dict[Step, _Spot] | None = None

    def inside(self, data: bytes) -> "dict[Step, _Spot]":
        """Return the spots of everything one level down; they are remembered."""
        if self._inside is None:
            opening = data[self.start : self.start + 1]
            spots: Iterable[tuple[Step, _Spot]] = ()
            if opening == b"{":
                spots = self._members(data)
            elif opening == b"[":
                spots = self._elements(data)
            self._inside = dict(spots)
        return self._inside

    def _members(self, data: bytes) -> "Iterator[tuple[str, _Spot]]":
        at = self.start + 1
        for name, raw in _MEMBERS.decode(memoryview(data)[self.start : self.end]).items():
            key = _KEY.match(data, at)
            if key is not None:
                at = key.end() + len(memoryview(raw))
                yield name, _Spot(key.start(1), key.end(), at)

    def _elements(self, data: bytes) -> "Iterator[tuple[int, _Spot]]":
        at = self.start + 1
        for number, raw in enumerate(_ELEMENTS.decode(memoryview(data)[self.start : self.end])):
            between = _BETWEEN.match(data, at)
            begun = between.end() if between else at
            at = begun + len(memoryview(raw))
            yield number, _Spot(begun, begun, at)


class JsonText(Text):
    """Values read from JSON text, and where they stand."""

    def __init__(self, text: str, value: Any) -> None:
        super().__init__(text)
        self.value = value
        self._counted = (0, 0)  # so many bytes from the start, and the characters they are

    @cached_property
    def _data(self) -> bytes:
        return self.text.encode()

    @cached_property
    def _root(self) -> _Spot:
        start = len(self.text) - len(self.text.lstrip())
        return _Spot(start, start, len(self._data.rstrip()))

    def find(self, path: Path) -> Place:
        """Return the place of the value at `path`: of its key, if it has one; else of what is nearest."""
        spot = self._root
        for step in path:
            inner = spot.inside(self._data).get(step)
            if inner is None:
                break
            spot = inner
        return self.place(self._characters(spot.key))

    def _characters(self, end: int) -> int:
        """Count the characters of the first `end` bytes, from where the last count ended when that helps."""
        at, characters = self._counted if self._counted[0] <= end else (0, 0)
        characters += len(self._data[at:end].decode())
        self._counted = (end, characters)
        return characters


def read_json(data: bytes | str) -> JsonText:
    """Read JSON text.

    Raises:  BadRequest with line and column: ``not-json``, ``encoding``, ``given-twice``, ``too-deep``,
             ``number``; and ``too-large`` without them.
    """
    text = decode(data)
    if count_values(text) > MOST_VALUES:
        refuse_size()
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as wrong:
        refuse_json(text, wrong)
        raise  # never: what made it fail has been found
    keys, depth = _measure(value)
    if depth > MOST_DEPTH:
        refuse_json(text, RecursionError())
    if keys != text.count('":') + len(_COLON_AFTER_BLANKS.findall(text)):
        refuse_json(text, None)  # a key is there twice, or only a text that looks like one
    return JsonText(text, value)


def _measure(value: Any) -> tuple[int, int]:
    """Return how many keys there are, and how deep they lie."""
    keys = depth = 0
    level = [value]
    while level:
        depth += any(type(part) in _HOLDERS for part in level)
        deeper: list[Any] = []
        for part in level:
            if type(part) is dict:
                keys += len(part)
                deeper += [inner for inner in part.values() if type(inner) in _HOLDERS]
            elif type(part) is list:
                deeper += [inner for inner in part if type(inner) in _HOLDERS]
        level = deeper
    return keys, depth
