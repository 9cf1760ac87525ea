"""The text of a native form, TOML or JSON, as values with their places.

Source: TOML 1.0; a text whose first character is a brace is JSON.
"""

import re
from functools import cached_property
from typing import Any, NoReturn, Protocol

import msgspec

from headnode.core.formats.crowds import refuse_crowd
from headnode.core.formats.json_faults import MOST_DEPTH
from headnode.core.formats.json_text import Path, read_json
from headnode.core.formats.native_form.toml_places import key_places
from headnode.core.formats.text_places import Place, Text, decode
from headnode.core.model.errors import BadRequest

MOST_CHARACTERS = 4_000_000  # of a TOML text
_EACH_KEY, _EACH_VALUE, _EACH_TABLE = 450, 200, 900  # bytes that one takes at most while TOML is read
_SAID = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)
_LONG_NUMBER = re.compile(r"[=\[,][ \t\r\n]*+[-+]?+[0-9][0-9A-Fa-fxob_.+-]{5000}")
_DEEP_KEY = re.compile(
    r"""(?:^|[{,\[])[ \t]*+(?:(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){64}""", re.MULTILINE
)
_FIX = (
    "correct it there: write text in double quotes, a list in [brackets], and each key in a line of its own"
)


class Found(Protocol):
    """Values, and where they stand."""

    value: Any

    def find(self, path: Path) -> Place:
        """Return the place of what is at `path`, or of what is nearest around it."""
        ...


class TomlText(Text):
    """Values read from TOML text, and where they stand."""

    def __init__(self, text: str, value: Any) -> None:
        super().__init__(text)
        self.value = value

    @cached_property
    def _places(self) -> dict[Path, int]:
        return key_places(self.text)

    def find(self, path: Path) -> Place:
        """Return the place of what is at `path`, or of what is nearest around it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._places:
                return self.place(self._places[path[:length]])
        return self.place(0)


def read_text(data: bytes | str) -> Found:
    """Read TOML, or JSON if the text begins with a brace.

    Raises:  BadRequest with line and column: ``not-toml``, ``too-deep``, ``encoding``, or as `read_json`.
    """
    text = decode(data)
    if text.lstrip().startswith("{"):
        return read_json(text)
    return _read_toml(text)


def _read_toml(text: str) -> TomlText:
    if len(text) > MOST_CHARACTERS:
        raise BadRequest(
            code="too-large",
            what=f"the text has {len(text)} characters, more than the {MOST_CHARACTERS} of a TOML file",
            fix="write repetitions as a sweep, or write it as JSON",
        )
    things = {
        "keys": (text.count("="), _EACH_KEY),
        "values": (text.count(","), _EACH_VALUE),
        "tables": (text.count("["), _EACH_TABLE),
    }
    refuse_crowd(len(text), things)
    found = Text(text)
    number = _LONG_NUMBER.search(text)
    if number:
        found.refuse(number.start() + 1, "not-toml", "not TOML: a number of thousands of digits", _FIX)
    deep = _DEEP_KEY.search(text)
    if deep:
        found.refuse(deep.start(), "too-deep", "a key of more than 64 parts", "use fewer")
    try:
        value = msgspec.toml.decode(text)
    except RecursionError:
        found.refuse(0, "too-deep", "too many brackets inside each other", "use fewer")
    except (msgspec.DecodeError, ValueError) as wrong:
        _refuse_syntax(found, str(wrong))
    if _is_deep(value):
        found.refuse(0, "too-deep", "too many brackets inside each other", "use fewer")
    return TomlText(text, value)


def _refuse_syntax(found: Text, said: str) -> NoReturn:
    parts = _SAID.fullmatch(said)
    what = parts[1] if parts else "a value that is out of range"
    sentence, fix = f"not TOML: {what[:1].lower()}{what[1:].partition(';')[0]}", _FIX
    if what == "Cannot overwrite a value":
        sentence, fix = "a key is given twice", "write it once"
    if parts and parts[2]:
        place = Place(int(parts[2]), max(int(parts[3]) - 1, 0))
    elif parts:
        place = found.place(len(found.text.rstrip()))
    else:
        place = Place(1, 0)
    raise BadRequest(code="not-toml", what=f"{place}: {sentence}", fix=fix)


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MOST_DEPTH):
        level = [
            inner
            for part in level
            for inner in (part.values() if isinstance(part, dict) else part)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
