"""TOML text as values with their positions, and values written as TOML that a person could have written."""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NoReturn, Protocol

import msgspec

from headnode.core.formats.text.json_text import MAX_DEPTH, read_json
from headnode.core.formats.text.source_text import SourceText, decode, refuse_many_parts
from headnode.core.model.errors import BadRequest, Path, TextPosition

MAX_CHARACTERS = 4_000_000  # of a TOML text
_EACH_KEY, _EACH_VALUE, _EACH_TABLE = 450, 200, 900  # bytes that one takes at most while TOML is read
_SAID = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)
_LONG_NUMBER = re.compile(r"[=\[,][ \t\r\n]*+[-+]?+[0-9][0-9A-Fa-fxob_.+-]{5000}")
_DEEP_KEY = re.compile(
    r"""(?:^|[{,\[])[ \t]*+(?:(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){64}""", re.MULTILINE
)
_FIX = (
    "correct it there: write text in double quotes, a list in [brackets], and each key in a line of its own"
)


class PlacedValues(Protocol):
    """Values, and where they stand."""

    value: Any

    def place_of(self, path: Path) -> TextPosition:
        """Return the place of what is at `path`, or of what is nearest around it."""
        ...


class TomlText(SourceText):
    """Values read from TOML text, and where they stand."""

    def __init__(self, text: str, value: Any) -> None:
        super().__init__(text)
        self.value = value

    @cached_property
    def _places(self) -> dict[Path, int]:
        return key_places(self.text)

    def place_of(self, path: Path) -> TextPosition:
        """Return the place of what is at `path`, or of what is nearest around it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._places:
                return self.place(self._places[path[:length]])
        return self.place(0)


def read_toml_or_json(data: bytes | str) -> PlacedValues:
    """Read TOML, or JSON if the text begins with a brace.

    Raises:  BadRequest with line and column: ``not-toml``, ``too-deep``, ``encoding``, or as `read_json`.
    """
    text = decode(data)
    if text.lstrip().startswith("{"):
        return read_json(text)
    return _read_toml(text)


def _read_toml(text: str) -> TomlText:
    if len(text) > MAX_CHARACTERS:
        raise BadRequest(
            code="too-large",
            what=f"the text has {len(text)} characters, more than the {MAX_CHARACTERS} of a TOML file",
            fix="write repetitions as a sweep, or write it as JSON",
        )
    things = {
        "keys": (text.count("="), _EACH_KEY),
        "values": (text.count(","), _EACH_VALUE),
        "tables": (text.count("["), _EACH_TABLE),
    }
    refuse_many_parts(len(text), things)
    source = SourceText(text)
    number = _LONG_NUMBER.search(text)
    if number:
        source.refuse(number.start() + 1, "not-toml", "not TOML: a number of thousands of digits", _FIX)
    deep = _DEEP_KEY.search(text)
    if deep:
        source.refuse(deep.start(), "too-deep", "a key of more than 64 parts", "use fewer")
    try:
        value = msgspec.toml.decode(text)
    except RecursionError:
        source.refuse(0, "too-deep", "too many brackets inside each other", "use fewer")
    except (msgspec.DecodeError, ValueError) as wrong:
        _refuse_syntax(source, str(wrong))
    if _is_deep(value):
        source.refuse(0, "too-deep", "too many brackets inside each other", "use fewer")
    return TomlText(text, value)


def _refuse_syntax(source: SourceText, message: str) -> NoReturn:
    parts = _SAID.fullmatch(message)
    what = parts[1] if parts else "a value that is out of range"
    sentence, fix = f"not TOML: {what[:1].lower()}{what[1:].partition(';')[0]}", _FIX
    if what == "Cannot overwrite a value":
        sentence, fix = "a key is given twice", "write it once"
    if parts and parts[2]:
        place = TextPosition(int(parts[2]), max(int(parts[3]) - 1, 0))
    elif parts:
        place = source.place(len(source.text.rstrip()))
    else:
        place = TextPosition(1, 0)
    raise BadRequest(code="not-toml", what=sentence, fix=fix, place=place)


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for part in level
            for inner in (part.values() if isinstance(part, dict) else part)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


_SPACE = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_BLANKS = re.compile(r"[ \t]*+")
_KEY = re.compile(r'[A-Za-z0-9_-]++|"(?:[^"\\\n]++|\\.)*+"|\'[^\'\n]*+\'')
_VALUE = re.compile(
    # Without lookahead or "?" in the repeated groups: Python before 3.11.5 would match them wrongly.
    r'"""(?:[^"\\]++|\\.|"[^"\\]|"\\.|""[^"\\]|""\\.)*+"{3,5}'
    r"|'''(?:[^']++|'[^']|''[^'])*+'{3,5}"
    r"|\"(?:[^\"\\\n]++|\\.)*+\"|'[^'\n]*+'|[^\s,\]}#]++(?: [0-9][^\s,\]}#]*+)?",
    re.DOTALL,
)


def key_places(text: str) -> dict[Path, int]:
    """Return the number of the character at which each key, table and element begins."""
    return _TomlScanner(text).places


class _TomlScanner:
    """Follows a good TOML text from its start to its end."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._counts: dict[Path, int] = {}  # of tables in each array of tables
        self.places: dict[Path, int] = {}
        table: Path = ()
        while self._skip(_SPACE) < len(text):
            if text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _skip(self, what: re.Pattern[str]) -> int:
        match = what.match(self._text, self._at)
        self._at = match.end() if match else self._at + 1
        return self._at

    def _header(self) -> Path:
        """Follow ``[a.b]`` or ``[[a.b]]`` and return the way to that table."""
        start = self._at
        is_array = self._text.startswith("[[", start)
        self._at += 2 if is_array else 1
        path: Path = ()
        for key in self._dotted("]"):
            path = self._inside(path, key)
            self.places.setdefault(path, start)
        self._at += 2 if is_array else 1
        if is_array:
            number = self._counts.get(path, -1) + 1
            self._counts[path] = number
            path = (*path, number)
            self.places[path] = start
        return path

    def _inside(self, path: Path, key: str) -> Path:
        """Return the way to `key`, in the last table where `path` is an array of tables."""
        return (*path, self._counts[path], key) if path in self._counts else (*path, key)

    def _dotted(self, end: str) -> Iterator[str]:
        """Follow a key and the keys behind its dots, up to `end`."""
        while self._skip(_BLANKS) < len(self._text) and self._text[self._at] != end:
            match = _KEY.match(self._text, self._at)
            if match is None:
                self._at += 1  # the dot
            else:
                self._at = match.end()
                yield _plain(match[0])

    def _pair(self, table: Path) -> None:
        start, path = self._at, table
        for key in self._dotted("="):
            path = (*path, key)
            self.places.setdefault(path, start)
        self._at += 1
        self._skip(_BLANKS)
        self._value(path)

    def _value(self, path: Path) -> None:
        opening = self._text[self._at : self._at + 1]
        if opening == "[":
            self._array(path)
        elif opening == "{":
            self._inline(path)
        else:
            self._skip(_VALUE)

    def _array(self, path: Path) -> None:
        self._at += 1
        number = 0
        while self._skip(_SPACE) < len(self._text) and self._text[self._at] != "]":
            if self._text[self._at] == ",":
                self._at += 1
                continue
            self.places[(*path, number)] = self._at
            self._value((*path, number))
            number += 1
        self._at += 1

    def _inline(self, path: Path) -> None:
        self._at += 1
        while self._skip(_SPACE) < len(self._text) and self._text[self._at] != "}":
            if self._text[self._at] == ",":
                self._at += 1
            else:
                self._pair(path)
        self._at += 1


def _plain(written: str) -> str:
    """Return a key without its quotes."""
    if not written.startswith(("'", '"')):
        return written
    table: dict[str, int] = msgspec.toml.decode(f"{written} = 1", type=dict[str, int])
    return next(iter(table))


_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\"\\]")
_CONTROL_IN_LINES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\\]|\"\"\"|\"\Z")
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\b": "\\b", "\f": "\\f"}
_WIDE = 100


def toml(document: Mapping[str, Any]) -> str:
    """Return a table of keys as TOML: keys first, then tables, then lists of tables."""
    return "\n".join(_table(document, "")).lstrip("\n") + "\n"


def _table(table: Mapping[str, Any], name: str) -> Iterator[str]:
    tables = {key: value for key, value in table.items() if isinstance(value, dict) and value}
    lists = {key: value for key, value in table.items() if _is_tables(value)}
    for key, value in table.items():
        if key not in tables and key not in lists:
            yield f"{_key(key)} = {toml_value(value)}"
    for key, value in tables.items():
        yield f"\n[{name}{_key(key)}]"
        yield from _table(value, f"{name}{_key(key)}.")
    for key, values in lists.items():
        for one in values:
            yield f"\n[[{name}{_key(key)}]]"
            yield from _table(one, f"{name}{_key(key)}.")


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(part, dict) for part in value)


def _key(key: str) -> str:
    return key if _BARE.match(key) else _text(key)


def toml_value(value: Any) -> str:
    """Return one value as it stands behind the equals sign."""
    match value:
        case TomlMoment():
            return str(value)
        case bool():
            return "true" if value else "false"
        case str():
            return _lines(value) if "\n" in value else _text(value)
        case list():
            return _list([toml_value(part) for part in value])
        case dict():
            return f"{{{', '.join(f' {_key(key)} = {toml_value(part)} ' for key, part in value.items())}}}"
    return repr(value)


def _list(parts: list[str]) -> str:
    line = f"[{', '.join(parts)}]"
    return line if len(line) <= _WIDE else "[\n" + "".join(f"  {part},\n" for part in parts) + "]"


def _text(text: str) -> str:
    return f'"{_CONTROL.sub(_escaped, text)}"'


def _lines(text: str) -> str:
    """Write a text of several lines as it looks; the line break after the quotes is not part of it."""
    return f'"""\n{_CONTROL_IN_LINES.sub(_escaped, text)}"""'


def _escaped(match: re.Match[str]) -> str:
    return "".join(_SHORT.get(one, f"\\u{ord(one):04x}") for one in match[0])


class TomlMoment(str):
    """A date and time as text; TOML has a way of its own to write it."""

    __slots__ = ()
