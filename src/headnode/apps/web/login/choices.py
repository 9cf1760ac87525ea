"""The ways to log in that a gateway was started with, and addresses that log in once, which it always has.

Only the libraries of these ways are imported.  An address is made for a user whom the kernel has identified,
at the control socket; opening it logs in at once.  If another page led there, the user is asked first: else
that page could log a browser in as another user.
"""

import hashlib
import secrets
import time
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from headnode.apps.web.gateway import Gateway
from headnode.apps.web.identity import CSRF_FIELD, CSRF_HEADER
from headnode.apps.web.problems import answering, cross_site, not_logged_in
from headnode.core.model.errors import BadRequest, NotAllowed, NotFound

LIFETIME: Final = 600.0  # seconds
MAX_ADDRESSES: Final = 1000  # addresses that wait; then the oldest ends
PATH: Final = "/login/once"
SESSION: Final = "/api/v1/session"
"""Where scripts of our pages read what they send with a change."""


class OneTimeLogins:
    """The addresses that were made and not used yet; only digests of their keys are kept."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[str, float]] = {}  # by digest: the user, and the end

    def offer(self, user: str, now: float) -> str:
        """Return the path of a new address for a user."""
        self._waiting = {digest: each for digest, each in self._waiting.items() if each[1] > now}
        for digest in list(self._waiting)[: max(0, len(self._waiting) + 1 - MAX_ADDRESSES)]:
            del self._waiting[digest]
        key = secrets.token_urlsafe(32)
        self._waiting[_digest(key)] = user, now + LIFETIME
        return f"{PATH}/{key}"

    def take(self, key: str, now: float) -> str:
        """Return the user of an address, which ends with that.

        Raises:  NotAllowed ``used-address``.
        """
        user, end = self._waiting.pop(_digest(key), ("", 0.0))
        if end <= now:
            raise NotAllowed(
                code="used-address",
                what="this address has been used, or is older than 10 minutes",
                fix="print another one: hn web",
            )
        return user


class SessionPages:
    """The addresses by which users log in with a key, look at their session, and log out."""

    def __init__(self, gateway: Gateway, logins: OneTimeLogins) -> None:
        self._gateway, self._logins = gateway, logins
        self._sessions = gateway.identity.sessions

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            Route(SESSION, answering(self.session), methods=["GET"]),
            Route(PATH + "/{key}", answering(self.open_address), methods=["GET"]),
            Route(PATH + "/{key}", answering(self.log_in), methods=["POST"]),
            Route("/logout", answering(self.log_out), methods=["POST"]),
        ]

    async def session(self, request: Request) -> Response:
        """Show the user of a session, and the secret that its changes need."""
        current = self._gateway.identity.session(request)
        if current is None:
            raise not_logged_in()
        return JSONResponse({"user": current.user, "csrf": current.csrf})

    async def open_address(self, request: Request) -> Response:
        """Log in, or ask first if another page led here."""
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return HTMLResponse(_ASK_FIRST)
        return await self.log_in(request)

    async def log_in(self, request: Request) -> Response:
        """Begin a session with a new key; that of before ends."""
        if not self._gateway.identity.is_from_here(request):
            raise cross_site()
        user = self._logins.take(request.path_params["key"], time.time())
        response = RedirectResponse("/", 303)
        self._sessions.close(request.cookies.get(self._sessions.cookie))
        self._sessions.open(user, response, time.time())
        return response

    async def log_out(self, request: Request) -> Response:
        """End the session."""
        session = self._gateway.identity.session(request)
        response = RedirectResponse("/login", 303)
        if session is not None:
            async with self._gateway.bodies.body_of(request, _MAX_LOG_OUT) as body:
                self._gateway.identity.check_change(request, session, _csrf_in(request, body))
            self._sessions.close(request.cookies.get(self._sessions.cookie))
            self._sessions.remove_cookie(response)
        return response


_MAX_LOG_OUT: Final = 4096  # bytes


def _csrf_in(request: Request, body: bytes) -> str | None:
    values = parse_qs(body.decode("latin-1"), max_num_fields=10).get(CSRF_FIELD)
    return values[0] if values else request.headers.get(CSRF_HEADER)


_ASK_FIRST: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Log in - Headnode</title></head>
<body><main><h1>Log in</h1><p>Another page led you here. Log in only if you have asked for this address.</p>
<form method="post"><button>Log in</button></form></main></body></html>
"""


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


OWN_USER: Final = "one-user"
LOCAL: Final = "local"
PAM: Final = "pam"
OPENID: Final = "oidc"


class OpenidOptions(msgspec.Struct, frozen=True):
    """A provider of OpenID Connect."""

    issuer: str
    client: str
    secret_file: str = ""
    claim: str = "preferred_username"  # names the user
    users_file: str = ""  # values of the claim and users of this machine; empty: the value is the user


def login_routes(gateway: Gateway, way: str, openid: OpenidOptions | None, address: str) -> list[BaseRoute]:
    """Return the pages by which users log in beside the addresses of `hn web`; `address` of the gateway.

    Raises:  NotFound ``no-pam-service``, ``no-library``; BadRequest ``openid-file``, ``openid-address``.
    """
    if way == PAM:
        from headnode.apps.web.login.passwords import PamPasswords, PasswordPages

        return PasswordPages(gateway, PamPasswords()).routes()
    if openid is None:
        return []
    try:
        from headnode.apps.web.login.openid import OpenidPages, OpenidProvider, users_in
    except ImportError as missing:
        raise NotFound(
            code="no-library",
            what=f"log-in by OpenID Connect needs {missing.name}",
            fix="pip install headnode[oidc]",
        ) from None
    provider = OpenidProvider(openid.issuer, openid.client, _text(openid.secret_file).strip(), openid.claim)
    return OpenidPages(gateway, provider, address, users_in(_text(openid.users_file))).routes()


def _text(path: str) -> str:
    """Return what a file says, "" for none.

    Raises:  BadRequest ``openid-file``.
    """
    try:
        return Path(path).read_text(encoding="utf-8") if path else ""
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(
            code="openid-file",
            what=f"{path!r} cannot be read: {error}",
            fix="name a file that the user of the gateway can read",
        ) from None
