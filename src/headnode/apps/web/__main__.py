"""The gateway's process: reads its options, serves its routes to browsers and programs, ends cleanly."""

import argparse
import asyncio
import contextlib
import logging
import os
import socket
import ssl
import sys
from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Final

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from headnode.adapters.wire.frames import allow_many, listen_at
from headnode.apps.web.console.serving import console_routes
from headnode.apps.web.control import ControlSocket
from headnode.apps.web.conversations import Conversations
from headnode.apps.web.event_streams import stream_routes
from headnode.apps.web.gateway import BodyRoom, Gateway
from headnode.apps.web.head_client import HeadClient
from headnode.apps.web.hpc_pack.routes import hpc_pack_routes
from headnode.apps.web.http_server import BoundedHttp, SlowReaders
from headnode.apps.web.identity import RequestIdentity, WebSessions
from headnode.apps.web.login.choices import (
    LOCAL,
    OPENID,
    OWN_USER,
    PAM,
    OneTimeLogins,
    OpenidOptions,
    SessionPages,
    login_routes,
)
from headnode.apps.web.metrics import metrics_routes
from headnode.apps.web.openapi import document_routes
from headnode.apps.web.pilot.requests import PREFIX
from headnode.apps.web.pilot.routes import pilot_routes, refusal
from headnode.apps.web.problems import answering, problem_response, wrong
from headnode.apps.web.rest import rest_routes
from headnode.apps.web.security_headers import LOOPBACK_NAMES, HostCheck, SecurityHeaders, host_without_port
from headnode.core.model.bounds import WEB_CONNECTIONS, WEB_HEAD, WEB_MESSAGE
from headnode.core.model.errors import BadRequest, Broken, HeadnodeError, NotFound, Unavailable

log = logging.getLogger("headnode.web")

DEFAULT_PORT: Final = 8170
LOOPBACK: Final = "127.0.0.1"
COLOURS: Final = ("blue", "green", "amber", "red", "purple", "grey")
_LAST_ANSWERS: Final = 5  # seconds that requests may take when the gateway ends
_KEEP_ALIVE: Final = 30  # seconds that a client may keep a connection without a request


class WebOptions(msgspec.Struct, frozen=True):
    """How to start a gateway."""

    state: Path  # state directory of the head
    directory: Path  # where its control socket is
    address: str = LOOPBACK
    port: int | None = None  # 0: a free one; None: DEFAULT_PORT, or a free one
    certificate: str = ""  # file in PEM; empty: no TLS
    key: str = ""
    url: str = ""  # as browsers call it, where that is not the address
    proxies: tuple[str, ...] = ()  # addresses and networks of proxies whose X-Forwarded-For is believed
    login: str = OWN_USER  # its own user; LOCAL: every user, by hn web; PAM, OPENID: that, and by these
    openid: OpenidOptions | None = None
    colour: str = COLOURS[0]  # of the cluster's name in the console
    verbose: bool = False


def read_options(arguments: list[str]) -> WebOptions:
    """Return the options of the command line; argparse ends the process with 2 when they are wrong."""
    parser = _parser()
    read = parser.parse_args(arguments)
    if read.port is not None and not 0 <= read.port <= 65535:
        parser.error("--port must be 0 to 65535")
    if bool(read.certificate) is not bool(read.key):
        parser.error("--certificate and --key belong together")
    if read.url and not read.url.startswith(("http://", "https://")):
        parser.error("--url begins with http:// or https://")
    if read.login == OPENID and not (read.oidc_issuer and read.oidc_client):
        parser.error("--login oidc needs --oidc-issuer and --oidc-client")
    try:
        proxies = [str(ip_network(each.strip())) for each in read.trusted_proxy.split(",") if each.strip()]
    except ValueError as error:
        parser.error(f"--trusted-proxy has addresses and networks: {error}")
    openid = OpenidOptions(
        read.oidc_issuer, read.oidc_client, read.oidc_secret_file, read.oidc_claim, read.oidc_users
    )
    state = Path(os.path.abspath(read.state))  # noqa: PTH100  (resolve() would follow a link that may move)
    return WebOptions(
        state=state,
        directory=Path(os.path.abspath(read.directory)) if read.directory else state,  # noqa: PTH100
        address=read.address,
        port=read.port,
        certificate=read.certificate,
        key=read.key,
        url=read.url.rstrip("/"),
        proxies=tuple(proxies),
        login=read.login,
        openid=openid if read.login == OPENID else None,
        colour=read.colour,
        verbose=read.verbose,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m headnode.apps.web", description="Run a gateway in the foreground."
    )
    parser.add_argument("--state", type=Path, required=True, help="state directory of the head")
    parser.add_argument("--directory", type=Path, help="where its control socket is (default: the state)")
    parser.add_argument("--address", default=LOOPBACK, help="address to listen at (default: %(default)s)")
    parser.add_argument("--port", type=int, help=f"0: a free one (default: {DEFAULT_PORT}, or a free one)")
    parser.add_argument("--certificate", default="", metavar="FILE", help="certificate chain for TLS, PEM")
    parser.add_argument("--key", default="", metavar="FILE", help="private key of the certificate, PEM")
    parser.add_argument("--url", default="", help="how browsers call this gateway, behind a proxy")
    parser.add_argument(
        "--trusted-proxy", default="", metavar="ADDRESS,...", help="proxies that say where a client is"
    )
    parser.add_argument(
        "--login",
        choices=(OWN_USER, LOCAL, PAM, OPENID),
        default=OWN_USER,
        help="who may log in, and how (default: %(default)s)",
    )
    parser.add_argument("--oidc-issuer", default="", metavar="URL", help="provider of OpenID Connect")
    parser.add_argument("--oidc-client", default="", metavar="ID", help="how the provider calls this gateway")
    parser.add_argument("--oidc-secret-file", default="", metavar="FILE", help="secret of the client")
    parser.add_argument("--oidc-claim", default="preferred_username", help="names the user (%(default)s)")
    parser.add_argument("--oidc-users", default="", metavar="FILE", help="lines: value of the claim, user")
    parser.add_argument("--colour", choices=COLOURS, default=COLOURS[0], help="of the name of the cluster")
    parser.add_argument("--verbose", action="store_true", help="log more")
    return parser


def main(arguments: list[str]) -> int:
    """Run a gateway until it is told to end; return its exit status."""
    options = read_options(arguments)
    logging.raiseExceptions = False  # a log that cannot be written must not be filled with that
    logging.basicConfig(
        level=logging.DEBUG if options.verbose else logging.INFO,
        format="%(asctime)s %(name)s %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    os.umask(0o077)
    try:
        asyncio.run(WebServer(options).run())
    except HeadnodeError as error:
        log.critical("%s", error)
        return error.exit_status
    return 0


class WebServer:
    """Everything of one gateway, put together."""

    def __init__(self, options: WebOptions) -> None:
        self._options = options
        self._head, self._logins = HeadClient(options.state), OneTimeLogins()

    async def run(self) -> None:
        """Serve until told to end.

        Raises:  Unavailable ``listen``; BadRequest ``certificate``; what `login_routes` raises.
        """
        allow_many()
        _check_certificate(self._options)
        listening = _listen(self._options.address, self._options.port)
        address = self._address(listening.getsockname()[1])
        server = uvicorn.Server(self._settings(self._application(address)))

        def stop() -> None:
            server.should_exit = True

        for_all = self._options.login != OWN_USER
        control = ControlSocket(self._logins, self._options.state, address, stop, for_all=for_all)
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(self._head.close)
            commands = await control.open(self._options.directory)
            stack.callback(commands.close)
            tidying = asyncio.create_task(self._tidy())
            stack.callback(tidying.cancel)
            log.info("the gateway is ready at %s", address)
            await server.serve(sockets=[listening])

    def _application(self, address: str) -> Starlette:
        """Return the application; `address` is how browsers call it."""
        options = self._options
        encrypted = address.startswith("https://")
        identity = RequestIdentity(WebSessions(secure=encrypted), options.url)
        gateway = Gateway(self._head, identity, BodyRoom(), Conversations(self._head, identity))
        more = [
            *pilot_routes(gateway, options.directory),
            *login_routes(gateway, options.login, options.openid, address),
            *console_routes(gateway, options.colour),
        ]
        return application(gateway, self._logins, hosts=_hosts(options), encrypted=encrypted, more=more)

    def _settings(self, served: Starlette) -> uvicorn.Config:
        options = self._options
        return uvicorn.Config(
            served,
            http=BoundedHttp,
            ws="wsproto",
            ws_max_size=WEB_MESSAGE.most,
            ws_per_message_deflate=False,  # a small message could become a large one
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=bool(options.proxies),
            forwarded_allow_ips=[*options.proxies],
            server_header=False,
            h11_max_incomplete_event_size=WEB_HEAD.most,
            limit_concurrency=WEB_CONNECTIONS.most,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=_LAST_ANSWERS,
            ssl_certfile=options.certificate or None,
            ssl_keyfile=options.key or None,
        )

    def _address(self, port: int) -> str:
        """Return how browsers call this gateway."""
        options = self._options
        if options.url:
            return options.url
        host = LOOPBACK if options.address == LOOPBACK else socket.getfqdn()
        host = options.address if options.address not in ("0.0.0.0", "::", LOOPBACK) else host  # noqa: S104
        host = f"[{host}]" if ":" in host else host
        return f"{'https' if options.certificate else 'http'}://{host}:{port}"

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(10)
            self._head.close_idle()


def _check_certificate(options: WebOptions) -> None:
    """Refuse a certificate that cannot be used.

    Raises:  BadRequest ``certificate``.
    """
    if not options.certificate:
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(options.certificate, options.key)
    except OSError as error:  # an SSLError is one
        raise BadRequest(
            code="certificate",
            what=f"the certificate {options.certificate!r} with key {options.key!r} cannot be used: {error}",
            fix="give PEM files: the chain, the server's own certificate first, and its private key",
        ) from None


def _hosts(options: WebOptions) -> frozenset[str]:
    """Return the names by which this gateway may be called; empty: by any."""
    named = host_without_port(options.url.partition("://")[2]) if options.url else ""
    if options.address in (*LOOPBACK_NAMES, "::1"):
        return LOOPBACK_NAMES | ({named} if named else frozenset())
    return frozenset((named, options.address)) if named else frozenset()


def _listen(address: str, port: int | None) -> socket.socket:
    """Return a socket that listens; at a free port if none is named and the usual one is in use.

    Raises:  Unavailable ``listen``.
    """
    if port is None:
        with contextlib.suppress(Unavailable):
            return listen_at(address, DEFAULT_PORT)
    return listen_at(address, port or 0)


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
    """Return what the routing refuses as a problem; of the grid service as its text."""
    path = request.url.path
    status = error.status_code if isinstance(error, HTTPException) else 500
    paths = next((where for part, where in _OTHER_PATHS.items() if path.startswith(part)), "see /api/v1/docs")
    problem: HeadnodeError = wrong("request", "the request cannot be read")
    if status == 405:
        problem = wrong("no-method", f"{request.method[:16]} is not a method of this address", paths)
    elif status == 404:
        problem = NotFound(code="no-path", what="there is nothing at this address", fix=paths)
    response = refusal(problem) if path.startswith(f"{PREFIX}/") else problem_response(problem)
    if status == 405:
        response.headers["allow"] = (
            (error.headers or {}).get("Allow", "") if isinstance(error, HTTPException) else ""
        )
    return response


_OTHER_PATHS: Final = {
    f"{PREFIX}/": "the page docs/grid-service.md lists the paths",
    "/hpc/": "the page docs/contracts/06-hpc-pack-rest.md lists the paths",
}
"""The beginning of an address -> where its paths are listed, if not in the document of the REST API."""


async def _fault(request: Request, error: Exception) -> Response:  # noqa: ARG001
    """Return an error of ours as a problem that tells nothing of our inside; the log has the rest."""
    return problem_response(
        Broken(
            code="gateway-fault",
            what="the gateway failed",
            fix="an administrator finds the reason in web.log",
        )
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
