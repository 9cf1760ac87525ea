"""The handlers of the REST API: each carries out the verb of its route for the user of the request.

Output of tasks is sent as bytes, whole or a range of it (RFC 9110, section 14)."""

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from headnode.apps.web.event_streams import SILENCE
from headnode.apps.web.gateway import Gateway
from headnode.apps.web.head_client import HeadClient, WebCaller
from headnode.apps.web.head_connection import without_ok
from headnode.apps.web.problems import answering, wrong
from headnode.apps.web.request_fields import JSON, Fields, fields_of
from headnode.apps.web.security_headers import SANDBOX
from headnode.core.model.errors import HeadnodeError, NotFound
from headnode.protocol.job_answers import OutputBytesAnswer
from headnode.protocol.requests import ReadOutputRequest
from headnode.protocol.rest_route import RestForm, RestRoute
from headnode.protocol.rest_routes import PREFIX, ROUTES

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
            fix="ask again when it has written some; see the state of the task",
        )
    ranges = None if "if-range" in request.headers else request.headers.get("range")
    part = _part_of(ranges, begin.size)
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
    match = _RANGE.fullmatch((header or "").replace(" ", ""))
    if match is None or not any(match.groups()):
        return None
    begin, last = match.groups()
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
    head: HeadClient, caller: WebCaller, request: ReadOutputRequest, first: int, end: int
) -> AsyncIterator[bytes]:
    """Yield the bytes from `first` to before `end`."""
    at = first
    while at < end:
        piece = await _read(head, caller, request, at, min(PIECE, end - at))
        if not piece.data:
            return  # the task has made its file shorter
        yield piece.data
        at += len(piece.data)


async def _read(
    head: HeadClient, caller: WebCaller, asked: ReadOutputRequest, offset: int, most: int
) -> OutputBytesAnswer:
    request = msgspec.structs.replace(asked, offset=offset, limit=most)
    return await head.ask(caller, "read_output", request, OutputBytesAnswer)


_BY_PLACE: Final = {(route.method, route.path): route for route in ROUTES}
_CREATED: Final = {"submit_job": "/jobs/{job}", "create_job": "/jobs/{job}", "clone_job": "/jobs/{job}"}
"""Where a thing that a verb has made is found."""
_FREE_NAME: Final = re.compile(r"\{(template|group)\}")
"""Fields in a path that may have a slash in them, which is %2F in the address."""


def rest_routes(gateway: Gateway) -> list[Route]:
    """Return a route of the server for each route of the table."""
    return [
        Route(
            PREFIX + _FREE_NAME.sub(r"{\1:path}", route.path),
            answering(partial(_answer, gateway, route)),
            methods=[route.method],
        )
        for route in ROUTES
    ]


async def _answer(gateway: Gateway, route: RestRoute, request: Request) -> Response:
    """Carry out a request.

    Raises:  HeadnodeError.
    """
    caller = gateway.identity.caller(request)
    if caller.token is not None:
        await gateway.head.admit(caller)  # before anything is read of a user that is none
    async with gateway.bodies.body_of(request) as body:
        fields = fields_of(route, request, body)
        del body
        if (key := request.headers.get("idempotency-key")) is not None:
            fields["idempotency"] = key
        if (tags := request.headers.get("if-match")) is not None and route.guard:
            fields["if_match"] = _guard_of(route, fields, tags)
        match route.form:
            case RestForm.BYTES if JSON not in request.headers.get("accept", ""):
                return await output_response(gateway.head, caller, request, fields)
            case RestForm.LINES:
                updates = _updates(gateway, caller, route, fields)
                first = await anext(updates)
                return StreamingResponse(_lines(first, updates), media_type="application/x-ndjson")
        asked = gateway.head.ask_fields(caller, route.verb, fields)
        del fields  # they may hold a large body, which is encoded once more by now
        answer = await asked
    return _object_response(route, request, without_ok(answer))


def _object_response(route: RestRoute, request: Request, body: bytes) -> Response:
    headers = {"cache-control": "private, no-cache"}
    if route.method == "GET":
        tag = entity_tag(body)
        headers["etag"] = tag
        if _names(request.headers.get("if-none-match", ""), tag):
            return Response(status_code=304, headers=headers)
    if route.status == 201 and (place := _CREATED.get(route.verb)):
        job = msgspec.json.decode(body)["job"]
        headers["location"] = PREFIX + place.format(job=int(job))
    return Response(body, route.status, headers, media_type="application/json")


def _updates(
    gateway: Gateway, caller: WebCaller, route: RestRoute, fields: Fields
) -> AsyncGenerator[dict[str, Any], None]:
    if route.verb == "run_on_nodes":
        return gateway.conversations.run_on_nodes(caller, fields)
    return gateway.head.update_fields(caller, route.verb, fields)


_ENDING: Final[set["asyncio.Task[dict[str, Any] | None]"]] = set()
"""What ends the long answers whose clients have left: the event loop alone does not keep a task."""


async def _lines(
    first: dict[str, Any], more: AsyncGenerator[dict[str, Any], None]
) -> AsyncGenerator[bytes, None]:
    """Yield answers, each as a line; an error that ends them is the last line.

    An empty line in between shows clients and proxies that more may come.
    """
    yield msgspec.json.encode(first) + b"\n"
    following: asyncio.Task[dict[str, Any] | None] | None = None
    try:
        while True:
            following = following or asyncio.create_task(_next_of(more))
            done, _ = await asyncio.wait((following,), timeout=SILENCE)
            if not done:
                yield b"\n"
                continue
            if (answer := following.result()) is None:
                return
            following = None
            yield msgspec.json.encode(answer) + b"\n"
    except HeadnodeError as error:
        yield msgspec.json.encode({"problem": error.as_fields()}) + b"\n"
    finally:  # if the client has disconnected, each await here is cancelled again
        if following is None:
            await more.aclose()
        else:
            _ENDING.add(following)
            following.add_done_callback(_ENDING.discard)
            following.cancel()  # this ends `more`, too


async def _next_of(answers: AsyncGenerator[dict[str, Any], None]) -> dict[str, Any] | None:
    return await anext(answers, None)


_TAG: Final = re.compile(r'(?:W/)?"([\x21\x23-\x7e\x80-\xff]*)"')


def entity_tag(body: bytes) -> str:
    """Return the entity tag of a representation."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def _names(tags: str, tag: str) -> bool:
    """Whether a list of entity tags has this one."""
    return tags.strip() == "*" or tag.strip('"') in _TAG.findall(tags)


def _guard_of(route: RestRoute, fields: Fields, tags: str) -> Fields:
    """Return the condition of a change: the head compares the tags of what the user has read."""
    guard = _BY_PLACE["GET", route.guard]
    wanted = {field.name for field in msgspec.structs.fields(guard.request)}
    asked = {name: value for name, value in fields.items() if f"{{{name}}}" in route.guard and name in wanted}
    known = ["*"] if tags.strip() == "*" else _TAG.findall(tags)
    return {"verb": guard.verb, "fields": asked, "tags": known}
