"""Where the keys of a TOML text stand.

The text has been read by a TOML reader before, which says only where its syntax is wrong; so here only good
TOML has to be followed, and not checked.
"""

import re
from collections.abc import Iterator

import msgspec

from headnode.core.formats.json_text import Path

_SPACE = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_BLANKS = re.compile(r"[ \t]*+")
_KEY = re.compile(r'[A-Za-z0-9_-]++|"(?:[^"\\\n]++|\\.)*+"|\'[^\'\n]*+\'')
_VALUE = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+"{3,5}|\'\'\'(?:[^\']++|\'(?!\'\'))*+\'{3,5}'
    r"|\"(?:[^\"\\\n]++|\\.)*+\"|'[^'\n]*+'|[^\s,\]}#]++(?: [0-9][^\s,\]}#]*+)?",
    re.DOTALL,
)


def key_places(text: str) -> dict[Path, int]:
    """Return the number of the character at which each key, table and element begins."""
    return _Walk(text).places


class _Walk:
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
        found = what.match(self._text, self._at)
        self._at = found.end() if found else self._at + 1
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
            found = _KEY.match(self._text, self._at)
            if found is None:
                self._at += 1  # the dot
            else:
                self._at = found.end()
                yield _plain(found[0])

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
