"""Who sends a request: a token in its header, or the session of a browser; and that a change is meant.

A change that a browser asks for must come from a page of this gateway: `Sec-Fetch-Site` or `Origin` says so,
and the page knows the secret of its session.
Source:  OWASP Cross-Site Request Forgery Prevention Cheat Sheet.
"""

import time
from typing import Final

from starlette.requests import Request

from headnode.apps.web.head_client import WebCaller
from headnode.apps.web.problems import cross_site, not_logged_in
from headnode.apps.web.sessions import WebSession, WebSessions, is_same
from headnode.core.model.bounds import NAME

SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
CSRF_HEADER: Final = "x-csrf-token"
CSRF_FIELD: Final = "csrf"


class RequestIdentity:
    """Finds the user of each request."""

    def __init__(self, sessions: WebSessions, origin: str) -> None:
        """`origin` of the pages as browsers see it, where a proxy is before us; "" for the address asked."""
        self.sessions, self._origin = sessions, origin

    def session(self, request: Request) -> WebSession | None:
        """Return the session of a browser; None if it has none."""
        return self.sessions.find(request.cookies.get(self.sessions.cookie), time.time())

    def caller(self, request: Request) -> WebCaller:
        """Return the user of a request of the REST API.

        Raises:  NotAllowed ``not-logged-in``; ``cross-site`` for a change that no page of ours asked for.
        """
        if (said := request.headers.get("authorization")) is not None:
            return WebCaller(address_of(request), token=_token_in(said))
        session = self.session(request)
        if session is None:
            raise not_logged_in()
        if request.method not in SAFE_METHODS:
            self.check_change(request, session, request.headers.get(CSRF_HEADER))
        return WebCaller(address_of(request), user=session.user)

    def check_change(self, request: Request, session: WebSession, secret: str | None) -> None:
        """Refuse a change unless a page of this session asks for it; pages send the secret with it.

        Raises:  NotAllowed ``cross-site``.
        """
        if not self.is_from_here(request) or not is_same(secret, session.csrf):
            raise cross_site()

    def is_from_here(self, request: Request) -> bool:
        """Whether a browser says that a page of this gateway, or its user, asks for it.

        A program that says neither passes here; it has no cookie that it was not given.
        """
        site = request.headers.get("sec-fetch-site")
        if site is not None and site not in ("same-origin", "none"):
            return False
        origin = request.headers.get("origin")
        ours = self._origin or f"{request.url.scheme}://{request.headers.get('host', '')}"
        return origin is None or origin == ours


def address_of(request: Request) -> str:
    """Return the address of the client, for the audit log."""
    return request.client.host[: NAME.most] if request.client is not None else "?"


def _token_in(header: str) -> str:
    """Return the token of an Authorization header.

    Raises:  NotAllowed ``not-logged-in``.
    """
    scheme, _, token = header.partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not 0 < len(token) <= NAME.most or not token.isascii():
        raise not_logged_in()
    return token
