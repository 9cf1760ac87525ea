"""JSON text as values, strictly, with the position of everything in it, and of what is wrong with it."""

import math
import re
from array import array
from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from typing import Any, NoReturn

import msgspec

from headnode.core.formats.text.source_text import SourceText, decode, refuse_many_parts
from headnode.core.model.errors import BadRequest, Path, Step, TextPosition

MAX_DEPTH = 64
MAX_VALUES = 2_000_000

_STRING = r'"(?:[^"\\]++|\\.)*+"?'  # one without its end too: trying again at every quote would take for ever
_MARK = re.compile(rf"{_STRING}|([{{\[])|([}}\]])", re.DOTALL)
_NAMING = re.compile(rf"({_STRING})\s*+:|{_STRING}|([{{]|\[)|([}}\]])", re.DOTALL)
_NUMBER = re.compile(rf"{_STRING}|(-?[0-9][0-9.eE+-]*+)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|u([dD][c-fC-F])|.)")
_BYTE = re.compile(r"JSON is malformed: (.*) \(byte (\d+)\)")
_WORD = re.compile(r'"[^"]*"?|[\w.+-]+')
_MAX_DIGITS = 300
_SHOWN = 40
_FIX = "correct the JSON there: names and texts in double quotes, a comma between two, none after the last"


def refuse_json(text: str, wrong: Exception | None) -> None:
    """Refuse the text for what made reading it fail; return when nothing is wrong with it.

    `wrong` is what the reader raised; without it the text is good but for keys that are there twice.
    Raises:  BadRequest with line and column: ``not-json``, ``too-deep``, ``number``, ``encoding`` or
             ``given-twice``.
    """
    source = SourceText(text)
    if wrong is None:
        _refuse_twice(source)
        return
    if not text.strip():
        source.refuse(0, "not-json", "the file is empty", "write a job")
    _refuse_depth(source)
    syntax = _BYTE.match(str(wrong))
    if syntax:
        _refuse_syntax(source, syntax[1], int(syntax[2]))
    _refuse_number(source)
    _refuse_surrogate(source)
    end = len(text.rstrip())
    source.refuse(end, "not-json", "the text ends too early", "complete it")


def refuse_size() -> NoReturn:
    """Refuse a text for its number of values."""
    raise BadRequest(
        code="too-large",
        what=f"the text contains more than {MAX_VALUES} values, more than a job may have",
        fix="divide it into several jobs, or write repetitions as a sweep",
    )


def count_values(text: str) -> int:
    """Return how many values a text may hold at most; texts in quotes count as one each.

    Cost:  quick for what is clearly small enough.
    """
    marks = sum(text.count(mark) for mark in ",[{")
    if marks <= MAX_VALUES:
        return marks
    bare = re.sub(_STRING, "", text, flags=re.DOTALL)
    return sum(bare.count(mark) for mark in ",[{")


def _refuse_depth(source: SourceText) -> None:
    depth = 0
    for mark in _MARK.finditer(source.text):
        depth += bool(mark[1]) - bool(mark[2])
        if depth > MAX_DEPTH:
            source.refuse(mark.start(), "too-deep", f"more than {MAX_DEPTH} levels of nesting", "use fewer")


def _refuse_syntax(source: SourceText, message: str, byte: int) -> NoReturn:
    past = message == "trailing characters"  # of these, the reader says where the second begins
    at = len(source.text.encode()[: byte - past].decode(errors="ignore"))
    rest = source.text[at : at + _SHOWN].partition("\n")[0]
    word = _WORD.match(rest)
    token = word[0] if word else rest[:1]
    if message.startswith(("expected", "trailing")):
        message += f" before {token!r}" if message.startswith("expected") else ""
    elif message == "invalid character":
        message = f"{token!r} is not possible here" if token else "a word that is not true, false or null"
    source.refuse(at, "not-json", f"not JSON: {message}", _FIX)


def _refuse_number(source: SourceText) -> None:
    for number in _NUMBER.finditer(source.text):
        digits = number[1] or "0"
        if len(digits) > _MAX_DIGITS or (digits.count("e") + digits.count("E") and _is_endless(digits)):
            source.refuse(
                number.start(),
                "number",
                f"number {digits[:_SHOWN]!r} is too large",
                "write a smaller one, or put it in quotes",
            )


def _is_endless(digits: str) -> bool:
    try:
        return math.isinf(float(digits))
    except ValueError:
        return False


def _refuse_surrogate(source: SourceText) -> None:
    for escape in _ESCAPE.finditer(source.text):
        if (escape[1] and not escape[2]) or escape[3]:
            source.refuse(
                escape.start(),
                "encoding",
                f"{source.text[escape.start() : escape.start() + 6]} is half of a surrogate pair",
                "write the character itself, in UTF-8",
            )


def _refuse_twice(source: SourceText) -> None:
    """Refuse the first key that an object has twice."""
    objects: list[dict[str, int]] = []
    for mark in _NAMING.finditer(source.text):
        if mark[1]:
            name = msgspec.json.decode(mark[1], type=str)
            first = objects[-1].setdefault(name, mark.start())
            if first != mark.start():
                source.refuse(
                    mark.start(),
                    "given-twice",
                    f"{name[:_SHOWN]!r} is given twice, after {source.place(first)}",
                    "write it once",
                )
        elif mark[2]:
            objects.append({})
        elif mark[3]:
            objects.pop()


_KEY = re.compile(rb'[\s,]*+("(?:[^"\\]++|\\.)*+")\s*+:\s*+', re.DOTALL)
_BETWEEN = re.compile(rb"[\s,]*+")
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_HOLDERS = frozenset((dict, list))
_EACH_VALUE, _EACH_OBJECT, _EACH_TASK = 165, 350, 500  # bytes that one takes at most
_BLOCK = 4096
_CONTINUED = bytes(range(0x80, 0xC0))  # the bytes of a character after its first
_COLON_AFTER_BLANKS = re.compile(r'"[ \t\n\r]++:')


class _JsonSpan:
    """Where a value stands, in bytes: from its key (or itself), from itself, and up to."""

    __slots__ = ("_edges", "_inside", "end", "key", "start")

    def __init__(self, key: int, start: int, end: int) -> None:
        self.key, self.start, self.end = key, start, end
        self._inside: dict[str, _JsonSpan] | None = None
        self._edges: array[int] | None = None  # where each element begins and ends

    def inside(self, data: bytes, step: Step) -> "_JsonSpan | None":
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
        return _JsonSpan(begun, begun, end)

    def _members(self, data: bytes) -> "Iterator[tuple[str, _JsonSpan]]":
        at = self.start + 1
        for name, raw in _MEMBERS.decode(memoryview(data)[self.start : self.end]).items():
            key = _KEY.match(data, at)
            if key is not None:
                at = key.end() + len(memoryview(raw))
                yield name, _JsonSpan(key.start(1), key.end(), at)

    def _elements(self, data: bytes) -> Iterator[int]:
        at = self.start + 1
        for raw in _ELEMENTS.decode(memoryview(data)[self.start : self.end]):
            between = _BETWEEN.match(data, at)
            begun = between.end() if between else at
            at = begun + len(memoryview(raw))
            yield begun
            yield at


class JsonText(SourceText):
    """Values read from JSON text, and where they stand."""

    def __init__(self, text: str, value: Any) -> None:
        super().__init__(text)
        self.value = value

    @cached_property
    def _data(self) -> bytes:
        return self.text.encode()

    @cached_property
    def _root(self) -> _JsonSpan:
        start = len(self.text) - len(self.text.lstrip())
        return _JsonSpan(start, start, len(self._data.rstrip()))

    @cached_property
    def _blocks_of_bytes(self) -> list[int]:
        """How many characters begin before each block of bytes."""
        blocks = [0]
        for start in range(0, len(self._data), _BLOCK):
            blocks.append(blocks[-1] + _begun(self._data[start : start + _BLOCK]))
        return blocks

    def place_of(self, path: Path) -> TextPosition:
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

    def _spot(self, path: Path) -> _JsonSpan | None:
        spot: _JsonSpan | None = self._root
        for step in path:
            spot = spot and spot.inside(self._data, step)
        return spot

    def _nearest(self, path: Path) -> _JsonSpan:
        spot = self._root
        for step in path:
            inner = spot.inside(self._data, step)
            if inner is None:
                break
            spot = inner
        return spot

    def _only_name(self, element: _JsonSpan, before: Path, names: Path) -> int | None:
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
    _refuse_many_values(text)
    if count_values(text) > MAX_VALUES:
        refuse_size()
    try:
        value = msgspec.json.decode(
            data if data[:1] == b"{" else text
        )  # those bytes are UTF-8: it was decoded
    except (msgspec.MsgspecError, RecursionError) as wrong:
        refuse_json(text, wrong)
        raise  # never: what made it fail has been found
    keys, depth = _measure(value)
    if depth > MAX_DEPTH:
        refuse_json(text, RecursionError())
    if keys != text.count('":') + len(_COLON_AFTER_BLANKS.findall(text)):
        refuse_json(text, None)  # a key is there twice, or only a text that looks like one
    return JsonText(text, value)


def _refuse_many_values(text: str) -> None:
    """Refuse a text of more values than its size has room for in memory; texts in quotes may count, too."""
    things = {
        "values": (text.count(",") + text.count("["), _EACH_VALUE),
        "objects": (text.count("{"), _EACH_OBJECT),
        "ids of tasks": (text.count('"id"'), _EACH_TASK),
        "commands": (text.count('"command"') + text.count('"executable"'), _EACH_TASK),
    }
    refuse_many_parts(len(text), things)


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
