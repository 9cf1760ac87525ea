"""Output of tasks as bytes, whole or a range of it; it is read by the head with the rights of the job's user.

Source:  RFC 9110, section 14.
"""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from headnode.apps.web.head_client import HeadClient, WebCaller
from headnode.apps.web.problems import wrong
from headnode.apps.web.security_headers import SANDBOX
from headnode.core.model.errors import NotFound
from headnode.protocol.requests import ReadOutputRequest
from headnode.protocol.task_answers import OutputBytesAnswer

PIECE: Final = 1 << 18  # bytes that the head is asked for at once
_RANGE: Final = re.compile(r"bytes=(\d{0,15})-(\d{0,15})")


async def output_response(
    head: HeadClient, caller: WebCaller, request: Request, fields: Mapping[str, Any]
) -> Response:
    """Return output as it is now; what is written meanwhile is left for the next request.

    Raises:  NotFound ``no-output``; BadRequest ``bad-range``; what refuses it.
    """
    if taken := fields.keys() & {"offset", "limit"}:
        what = f"{min(taken)!r} is for answers in JSON"
        raise wrong("field", what, "send Accept: application/json, or use Range", (min(taken),))
    asked = msgspec.convert(dict(fields), ReadOutputRequest)
    begin = await _read(head, caller, asked, 0, 1)
    if begin.missing is True:
        raise NotFound(
            code="no-output",
            what=f"task {asked.task} of job {asked.job} has written no {asked.stream.replace('_', ' ')} yet",
        )
    said = None if "if-range" in request.headers else request.headers.get("range")
    part = _part_of(said, begin.size)
    first, end = part or (0, begin.size)
    headers = {
        "accept-ranges": "bytes",
        "cache-control": "private, no-cache",
        "content-disposition": f'attachment; filename="job-{asked.job}-task-{asked.task}.txt"',
        "content-length": str(end - first),
        "content-security-policy": SANDBOX,
    }
    if part:
        headers["content-range"] = f"bytes {first}-{end - 1}/{begin.size}"
    return StreamingResponse(
        _pieces(head, caller, asked, first, end),
        206 if part else 200,
        headers,
        media_type="text/plain; charset=utf-8",
    )


def _part_of(header: str | None, size: int) -> tuple[int, int] | None:
    """Return the first byte and the one behind the last; None for the whole, also for several ranges.

    Raises:  BadRequest ``bad-range`` for a range behind the end.
    """
    found = _RANGE.fullmatch((header or "").replace(" ", ""))
    if found is None or not any(found.groups()):
        return None
    begin, last = found.groups()
    if not begin:
        first, end = max(0, size - int(last)), size
    else:
        first, end = int(begin), min(size, int(last) + 1 if last else size)
    if last and begin and int(last) < int(begin):
        return None  # no range at all, says the RFC: ignored
    if first >= end:
        raise wrong("bad-range", f"the output has {size} bytes", "ask for a range that begins before its end")
    return first, end


async def _pieces(
    head: HeadClient, caller: WebCaller, asked: ReadOutputRequest, first: int, end: int
) -> AsyncIterator[bytes]:
    """Yield the bytes from `first` to before `end`."""
    at = first
    while at < end:
        told = await _read(head, caller, asked, at, min(PIECE, end - at))
        if not told.data:
            return  # the task has made its file shorter
        yield told.data
        at += len(told.data)


async def _read(
    head: HeadClient, caller: WebCaller, asked: ReadOutputRequest, offset: int, most: int
) -> OutputBytesAnswer:
    request = msgspec.structs.replace(asked, offset=offset, limit=most)
    return await head.ask(caller, "read_output", request, OutputBytesAnswer)
