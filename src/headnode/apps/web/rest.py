"""The handlers of the REST API: each carries out the verb of its route for the user of the request."""

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from headnode.apps.web.event_streams import SILENCE
from headnode.apps.web.gateway import Gateway
from headnode.apps.web.head_client import WebCaller
from headnode.apps.web.head_connection import without_ok
from headnode.apps.web.problems import answering
from headnode.apps.web.request_fields import JSON, Fields, fields_of
from headnode.apps.web.task_files import output_response
from headnode.core.model.errors import HeadnodeError
from headnode.protocol.rest_routes import PREFIX, ROUTES, RestForm, RestRoute

_BY_PLACE: Final = {(route.method, route.path): route for route in ROUTES}
_CREATED: Final = {"submit_job": "/jobs/{job}", "create_job": "/jobs/{job}", "clone_job": "/jobs/{job}"}
"""Where a thing that a verb has made is found."""


def rest_routes(gateway: Gateway) -> list[Route]:
    """Return a route of the server for each route of the table."""
    return [
        Route(PREFIX + route.path, answering(partial(_answer, gateway, route)), methods=[route.method])
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


async def _lines(
    first: dict[str, Any], more: AsyncGenerator[dict[str, Any], None]
) -> AsyncGenerator[bytes, None]:
    """Yield answers, each as a line; an error that ends them is the last line.

    An empty line in between shows clients and proxies that more may come.
    """
    yield msgspec.json.encode(first) + b"\n"
    following: asyncio.Task[dict[str, Any] | None] | None = None
    async with aclosing(more):
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
        finally:
            if following is not None:
                following.cancel()
                await asyncio.wait((following,))


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
