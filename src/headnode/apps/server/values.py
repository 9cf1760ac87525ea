"""Bytes of a client as a value: JSON within the bounds, whatever the bytes are."""

from typing import Any, NoReturn

import msgspec

from headnode.core.model.bounds import DEPTH, INTEGER, VALUES
from headnode.core.model.errors import BadRequest

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_value(data: bytes) -> Any:
    """Return the value that the bytes are as JSON.

    Raises:  BadRequest ``request`` when they are no JSON, or beyond the bounds of depth, number and size.
    """
    try:
        if _most_values(data) > VALUES.most:
            _refuse(f"the request has more than {VALUES}", "divide it into several requests")
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(code="request", what=f"the request is not JSON: {error}") from None
    except RecursionError:
        _refuse_depth()
    _refuse_excess(value)
    return value


def _most_values(data: bytes) -> int:
    """Return how many values there are at most outside of the texts of the first level."""
    if data.count(b",") + data.count(b"[") + data.count(b"{") <= VALUES.most:
        return 0  # almost always
    parts = [bytes(raw) for raw in _fields.decode(data).values()]
    return sum(
        part.count(b",") + part.count(b"[") + part.count(b"{") for part in parts if part[:1] in (b"[", b"{")
    )


def _refuse_excess(value: Any) -> None:
    """Look at all values, level by level."""
    least, most = INTEGER.least or 0, INTEGER.most
    level, depth = [value], 0
    while level:
        if depth > DEPTH.most:
            _refuse_depth()
        depth += 1
        inner = []
        for part in level:
            for each in part.values() if type(part) is dict else part if type(part) is list else (part,):
                kind = type(each)
                if kind is dict or kind is list:
                    inner.append(each)
                elif kind is int and not least <= each <= most:
                    _refuse("a number in the request is too large", f"use {INTEGER}")
        level = inner


def _refuse_depth() -> NoReturn:
    _refuse(f"the request is deeper than {DEPTH}", "no verb needs as many")


def _refuse(what: str, fix: str) -> NoReturn:
    raise BadRequest(code="request", what=what, fix=fix)
