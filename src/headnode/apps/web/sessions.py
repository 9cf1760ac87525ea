"""Sessions of browsers: kept here, named by a random cookie, with an end by idleness and by age.

Source:  OWASP Session Management Cheat Sheet; RFC 6265bis, section 4.1.3 (cookie prefixes).
"""

import hashlib
import hmac
import secrets
from typing import Final, NamedTuple

from starlette.responses import Response

from headnode.core.model.bounds import WEB_SESSIONS, WEB_SESSIONS_OF_USER

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


def is_same(given: str | None, expected: str) -> bool:
    """Whether a secret is the expected one; takes the same time wherever they differ."""
    return hmac.compare_digest((given or "").encode(), expected.encode())


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _is_over(session: WebSession, now: float) -> bool:
    return now - session.used > IDLE_END or now - session.began > LAST_END
