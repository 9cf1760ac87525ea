"""JSON text in and out for the local protocol.

Cost:  1 ms to import.  The `json` package costs 8 ms, because it compiles regular expressions that the
       C scanner and encoder underneath it do not need; so they are used directly here.
"""

from _json import encode_basestring_ascii, make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _ScannerSettings:
    """What the C scanner wants to know; the values are those of `json.loads`."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int

    @staticmethod
    def parse_constant(name: str) -> float:
        raise ValueError(f"{name} is no JSON")


_scan = make_scanner(_ScannerSettings())  # type: ignore[arg-type]


def read_json(text: str) -> "Any":
    """Return the value that `text` stands for.

    Raises:  ValueError when `text` is not exactly one JSON value.
    """
    stripped = text.strip(" \t\r\n")
    try:
        value, end = _scan(stripped, 0)
    except StopIteration as stop:
        raise ValueError(f"no JSON value at character {stop.value}") from None
    if end != len(stripped):
        raise ValueError(f"something follows the JSON value at character {end}")
    return value


def write_json(value: "Any") -> str:
    """Return `value` as compact JSON text.

    Raises:  ValueError for an infinite number, TypeError for what JSON has no word for.

    >>> write_json({"do": "cancel_job", "job": 7, "force": True, "message": None})
    '{"do":"cancel_job","job":7,"force":true,"message":null}'
    """
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _write_float(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_write_key(key)}:{write_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(write_json, value)) + "]"
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _write_key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"key {key!r} is no text")
    return encode_basestring_ascii(key)


def _write_float(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"{value} has no JSON form")
    return repr(value)
