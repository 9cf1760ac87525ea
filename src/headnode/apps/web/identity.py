"""The user of a request, by a token in its header or the session of a browser; and that a change is meant.

A change that a browser asks for must come from a page of this gateway: `Sec-Fetch-Site` or `Origin` says so,
and the page knows the secret of its session.  Users of this machine other than root may log in by a password
or a provider; then they go on to a page of this gateway only.
Source:  OWASP Cross-Site Request Forgery Prevention Cheat Sheet.
"""

import hashlib
import hmac
import secrets
import time
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from headnode.adapters.identity.users import account
from headnode.apps.web.head_client import WebCaller
from headnode.apps.web.problems import cross_site, not_logged_in
from headnode.core.model.bounds import NAME, WEB_SESSIONS, WEB_SESSIONS_OF_USER
from headnode.core.model.errors import NotAllowed, NotFound

IDLE_END: Final = 4 * 3600.0  # seconds without a request
LAST_END: Final = 24 * 3600.0  # seconds since the log-in
_KEY_BYTES: Final = 32
SECURE_COOKIE: Final = "__Host-headnode"
PLAIN_COOKIE: Final = "headnode-session"
"""The name over http on loopback: browsers keep no `__Host-` cookie there that is not Secure."""


class WebSession(NamedTuple):
    """A browser that has logged in."""

    user: str
    csrf: str  # what forms and scripts of the pages send with a change
    began: float
    used: float


class WebSessions:
    """All sessions of a gateway; only digests of their keys are kept."""

    def __init__(self, *, secure: bool) -> None:
        """`secure`: browsers come by TLS."""
        self.secure = secure
        self._known: dict[str, WebSession] = {}  # by digest, in the order of log-ins

    @property
    def cookie(self) -> str:
        """The name of the cookie."""
        return SECURE_COOKIE if self.secure else PLAIN_COOKIE

    def open(self, user: str, response: Response, now: float) -> WebSession:
        """Begin a session, always with a new key; the answer gives it to the browser."""
        self._forget_ended(now)
        self._make_room(user)
        key = secrets.token_urlsafe(_KEY_BYTES)
        session = WebSession(user, secrets.token_urlsafe(_KEY_BYTES), now, now)
        self._known[_digest(key)] = session
        response.set_cookie(self.cookie, key, path="/", secure=self.secure, httponly=True, samesite="lax")
        return session

    def find(self, key: str | None, now: float) -> WebSession | None:
        """Return the session of a cookie, and count this as its use; None if there is none."""
        digest = _digest(key or "")
        session = self._known.get(digest)
        if session is None:
            return None
        if _is_over(session, now):
            del self._known[digest]
            return None
        self._known[digest] = session._replace(used=now)
        return session

    def close(self, key: str | None) -> None:
        """End the session of a cookie."""
        self._known.pop(_digest(key or ""), None)

    def remove_cookie(self, response: Response) -> None:
        """Let the browser forget its cookie."""
        response.delete_cookie(self.cookie, path="/", secure=self.secure, httponly=True, samesite="lax")

    def _forget_ended(self, now: float) -> None:
        for digest in [digest for digest, each in self._known.items() if _is_over(each, now)]:
            del self._known[digest]

    def _make_room(self, user: str) -> None:
        """End the oldest sessions of a user, or of all, when there are too many."""
        own = [digest for digest, each in self._known.items() if each.user == user]
        for digest in own[: max(0, len(own) + 1 - WEB_SESSIONS_OF_USER.most)]:
            del self._known[digest]
        for digest in list(self._known)[: max(0, len(self._known) + 1 - WEB_SESSIONS.most)]:
            del self._known[digest]


def is_same(token: str | None, expected: str) -> bool:
    """Whether a secret is the expected one; takes the same time wherever they differ."""
    return hmac.compare_digest((token or "").encode(), expected.encode())


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _is_over(session: WebSession, now: float) -> bool:
    return now - session.used > IDLE_END or now - session.began > LAST_END


SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
CSRF_HEADER: Final = "x-csrf-token"
CSRF_FIELD: Final = "csrf"


class RequestIdentity:
    """Finds the user of each request."""

    def __init__(self, sessions: WebSessions, origin: str) -> None:
        """`origin` of the pages as browsers see it, where a proxy is before us; "" for the address asked."""
        self.sessions, self._origin = sessions, origin

    def session(self, request: HTTPConnection) -> WebSession | None:
        """Return the session of a browser; None if it has none."""
        return self.sessions.find(request.cookies.get(self.sessions.cookie), time.time())

    def caller(self, request: Request) -> WebCaller:
        """Return the user of a request of the REST API.

        Raises:  NotAllowed ``not-logged-in``; ``cross-site`` for a change that no page of ours asked for.
        """
        if (header := request.headers.get("authorization")) is not None:
            return WebCaller(address_of(request), token=_token_in(header))
        session = self.session(request)
        if session is None:
            raise not_logged_in()
        if request.method not in SAFE_METHODS:
            self.check_change(request, session, request.headers.get(CSRF_HEADER))
        return WebCaller(address_of(request), user=session.user)

    def socket_caller(self, client: HTTPConnection) -> tuple[WebCaller, str | None]:
        """Return the user of a WebSocket, and the secret that its first message must have; None with a token.

        A page of another site could open it with the cookie, so `Origin` must be ours.
        Raises:  NotAllowed ``not-logged-in``, ``cross-site``.
        """
        if (header := client.headers.get("authorization")) is not None:
            return WebCaller(address_of(client), token=_token_in(header)), None
        session = self.session(client)
        if session is None:
            raise not_logged_in()
        if "origin" not in client.headers or not self.is_from_here(client):
            raise cross_site()
        return WebCaller(address_of(client), user=session.user), session.csrf

    def check_change(self, request: Request, session: WebSession, secret: str | None) -> None:
        """Refuse a change unless a page of this session asks for it; pages send the secret with it.

        Raises:  NotAllowed ``cross-site``.
        """
        if not self.is_from_here(request) or not is_same(secret, session.csrf):
            raise cross_site()

    def is_from_here(self, request: HTTPConnection) -> bool:
        """Whether a browser says that a page of this gateway, or its user, asks for it.

        A program that says neither passes here; it has no cookie that it was not given.
        """
        site = request.headers.get("sec-fetch-site")
        if site is not None and site not in ("same-origin", "none"):
            return False
        origin = request.headers.get("origin")
        return origin is None or origin == self.origin_of(request)

    def origin_of(self, request: HTTPConnection) -> str:
        """Return how clients call this gateway, without a path."""
        scheme = request.url.scheme.replace("ws", "http")
        return self._origin or f"{scheme}://{request.headers.get('host', '')}"


def address_of(request: HTTPConnection) -> str:
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


def user_to_log_in(name: str) -> str:
    """Return the name of a user as this machine has it; root logs in with an address of `hn web` only.

    Raises:  NotAllowed ``log-in``.
    """
    try:
        user = account(name)
    except NotFound:
        user = None
    if user is None or user.uid == 0:
        raise NotAllowed(
            code="log-in",
            what=f"{name[:200]!r} is not a user who may log in here",
            fix="ask an administrator, or log in as another user: /login",
        )
    return user.name


def local_path(address: str) -> str:
    r"""Return a path of this gateway to go on to; ``/`` for every other address.

    >>> [local_path(each) for each in ("/jobs?page=2", "//evil.example/", "https://evil.example", "/\\evil")]
    ['/jobs?page=2', '/', '/', '/']
    """
    plain = address.isascii() and address.isprintable() and "\\" not in address
    if not plain or not address.startswith("/") or address.startswith("//"):
        return "/"
    parts = urlsplit(address)
    return "/" if parts.scheme or parts.netloc else address
