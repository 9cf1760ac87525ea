"""Requests and answers as JSON: within the bounds, and refused with a code."""

import re
from typing import Any, NoReturn

import msgspec

from headnode.apps.server.api.requests import VerbRequest
from headnode.core.model.bounds import DEPTH, INTEGER, NOTE, VALUES
from headnode.core.model.errors import BadRequest, HeadnodeError, Path

RequestFields = dict[str, Any]

_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")  # a field, or an index
_FIELDS_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])


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
    parts = [bytes(raw) for raw in _FIELDS_DECODER.decode(data).values()]
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


def read_request(data: bytes) -> tuple[str, dict[str, Any]]:
    """Return the verb and its fields.

    Raises:  BadRequest ``request`` when the bytes hold no request.
    """
    request = read_value(data)
    if not isinstance(request, dict) or not isinstance(request.get("do"), str):
        raise BadRequest(code="request", what="the request names no verb", fix='send {"do": VERB, ...}')
    verb = request.pop("do")
    return verb, request


def read_fields(kind: type[VerbRequest], verb: str, fields: dict[str, Any]) -> VerbRequest:
    """Return the fields of a verb in their types.

    Raises:  BadRequest ``field``.
    """
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        names = ", ".join(field.name for field in msgspec.structs.fields(kind)) or "no fields"
        raise BadRequest(
            code="field",
            what=f"the request {verb} is wrong: {error}",
            fix=f"it takes {names}",
            path=_path_in(str(error)),
        ) from None


def _path_in(message: str) -> Path:
    """Return the path at the end of what msgspec says: ``... - at `$.tasks[0].command` ``."""
    _, _, path = message.partition(" - at `$")
    found = _STEP.findall(path.rstrip("`"))
    return tuple(int(index) if index else name for name, index in found)


def refusal(error: HeadnodeError) -> dict[str, Any]:
    """Return an error as clients get it."""
    told = error.as_fields()
    return {"ok": False, **told, "what": error.what[: NOTE.most], "fix": error.fix[: NOTE.most]}


def encode_answer(answer: msgspec.Struct | dict[str, Any]) -> bytes:
    """Return the answer to a request that was carried out, as JSON."""
    fields = msgspec.json.encode(answer)
    return b'{"ok":true}' if fields == b"{}" else b'{"ok":true,' + fields[1:]
