"""The paths of the grid service below `/pilot`, each with its function."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from headnode.apps.web.gateway import Gateway
from headnode.apps.web.pilot import delegations, service
from headnode.apps.web.pilot.records import GridRecords
from headnode.apps.web.pilot.requests import PREFIX, GridReply, GridRequest, content_md5
from headnode.apps.web.problems import status_of
from headnode.core.model.errors import HeadnodeError

Function = Callable[[GridRequest], Awaitable[GridReply]]

PATHS: Final[tuple[tuple[str, str, Function], ...]] = (
    ("GET", "/jobs", service.jobs),
    ("POST", "/jobs", service.create_job),
    ("GET", "/jobs/{job}", service.job),
    ("PUT", "/jobs/{job}", service.change_job),
    ("DELETE", "/jobs/{job}", service.delete_job),
    ("GET", "/jobs/{job}/{task}", service.task),
    ("PUT", "/jobs/{job}/{task}", service.define_task),
    ("GET", "/v2/jobs/{job}/resources", service.resources),
    ("GET", "/v2/accounting/last/{count}", service.last_jobs),
    ("GET", "/v2/accounting/period/{since}-{until}", service.jobs_of_period),
    ("GET", "/delegations", delegations.delegations),
    ("GET", "/delegations/{delegation}", delegations.delegation),
    ("PUT", "/delegations/{delegation}", delegations.keep),
    ("DELETE", "/delegations/{delegation}", delegations.forget),
    ("PUT", "/delegations/{delegation}/renew", delegations.renew),
    ("GET", "/version", service.version),
    ("GET", "/policy/job", service.policy),
)


def pilot_routes(gateway: Gateway, directory: Path) -> list[BaseRoute]:
    """Return two routes of the server for each path: with a slash at its end, and without.

    directory: where the service keeps its records
    """
    records = GridRecords(directory / "pilot.db")
    return [
        Route(PREFIX + path + slash, _handler(gateway, records, function), methods=[method])
        for method, path, function in PATHS
        for slash in ("", "/")
    ]


def _handler(
    gateway: Gateway, records: GridRecords, function: Function
) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        try:
            caller = gateway.identity.caller(request)
            if caller.token is not None:
                await gateway.head.admit(caller)
            async with gateway.bodies.body_of(request) as body:
                asked = GridRequest(gateway, records, request, caller, body)
                return _response(await function(asked))
        except HeadnodeError as error:
            return refusal(error)

    return handle


def _response(reply: GridReply) -> Response:
    headers = {"cache-control": "private, no-cache", **reply.headers}
    if reply.body is ...:
        return Response(status_code=reply.status, headers=headers)
    body = msgspec.json.encode(reply.body)
    return Response(
        body, reply.status, headers | {"content-md5": content_md5(body)}, media_type="application/json"
    )


def refusal(error: HeadnodeError) -> Response:
    """Return an error as the service tells it: a text, repeated in a header."""
    status = 401 if error.code == "not-owner" else status_of(error)
    text = f"{error.what}; {error.fix}" if error.fix else error.what
    body = text.encode()
    line = "".join(each if each.isascii() and each.isprintable() else "?" for each in text)[:1000]
    headers = {"x-pilot-error-message": line, "content-md5": content_md5(body), "cache-control": "no-store"}
    if status == 401:
        headers["www-authenticate"] = 'Bearer realm="headnode"'
    return Response(body, status, headers, media_type="text/plain; charset=utf-8")
