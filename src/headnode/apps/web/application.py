"""The application that the gateway serves: its routes, and what every request passes first."""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from headnode.apps.web.event_streams import stream_routes
from headnode.apps.web.gateway import Gateway
from headnode.apps.web.hpc_pack.routes import hpc_pack_routes
from headnode.apps.web.http_server import SlowReaders
from headnode.apps.web.login.one_time import OneTimeLogins, SessionPages
from headnode.apps.web.metrics import metrics_routes
from headnode.apps.web.openapi import document_routes
from headnode.apps.web.problems import answering, problem_response, wrong
from headnode.apps.web.rest import rest_routes
from headnode.apps.web.security_headers import HostCheck, SecurityHeaders
from headnode.core.model.errors import Broken, NotFound


def application(
    gateway: Gateway,
    logins: OneTimeLogins,
    *,
    hosts: frozenset[str],
    encrypted: bool,
    more: Sequence[BaseRoute] = (),
) -> Starlette:
    """Return the application.

    hosts:     names by which browsers may call this gateway; empty: by any
    encrypted: browsers come by TLS
    more:      routes of the console, events and other interfaces
    """
    routes = [
        *rest_routes(gateway),
        *stream_routes(gateway),
        *gateway.conversations.routes(),
        *metrics_routes(gateway),
        *hpc_pack_routes(gateway),
        *document_routes(),
        *SessionPages(gateway, logins).routes(),
        *health_routes(gateway),
        *more,
    ]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(SlowReaders),
            Middleware(SecurityHeaders, encrypted=encrypted),
            Middleware(HostCheck, hosts=hosts),
        ],
        exception_handlers={HTTPException: _http_problem, Exception: _fault},
    )


def health_routes(gateway: Gateway) -> list[BaseRoute]:
    """Return the addresses that say whether the gateway lives, and whether the head answers it."""

    async def live(request: Request) -> Response:  # noqa: ARG001
        return Response("ok\n", media_type="text/plain")

    async def ready(request: Request) -> Response:  # noqa: ARG001
        await gateway.head.reach()
        return Response("ok\n", media_type="text/plain")

    return [Route("/health/live", live), Route("/health/ready", answering(ready))]


async def _http_problem(request: Request, error: Exception) -> Response:
    """Return what the routing refuses as a problem."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 405:
        response = problem_response(
            wrong("no-method", f"{request.method[:16]} is not a method of this address", "see /api/v1/docs")
        )
        allowed = (error.headers or {}).get("Allow", "") if isinstance(error, HTTPException) else ""
        response.headers["allow"] = allowed
        return response
    if status == 404:
        return problem_response(
            NotFound(code="no-path", what="there is nothing at this address", fix="see /api/v1/docs")
        )
    return problem_response(wrong("request", "the request cannot be read"))


async def _fault(request: Request, error: Exception) -> Response:  # noqa: ARG001
    """Return an error of ours as a problem that tells nothing of our inside; the log has the rest."""
    return problem_response(
        Broken(
            code="gateway-fault", what="the gateway has a fault", fix="an administrator finds it in its log"
        )
    )
