"""Values as TOML text that a person would have written.

Source: TOML 1.0.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from headnode.core.formats.native_form.values import Moment

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
        case Moment():
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


def _escaped(found: re.Match[str]) -> str:
    return "".join(_SHORT.get(one, f"\\u{ord(one):04x}") for one in found[0])
