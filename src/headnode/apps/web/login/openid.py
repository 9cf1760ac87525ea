"""Log-in by single sign-on: OpenID Connect, authorization code with PKCE, against one provider.

A claim of the identity token names a user of this machine, or a line of a file does.
Source:  OpenID Connect Core 1.0, sections 3.1 and 5.1; RFC 7636 (PKCE); RFC 9700 (best current practice).
"""

import logging
import secrets
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from headnode.apps.web.gateway import Gateway
from headnode.apps.web.identity import is_same
from headnode.apps.web.login.accounts import local_path, user_to_log_in
from headnode.apps.web.login.openid_provider import OpenidProvider, code_challenge
from headnode.apps.web.problems import answering
from headnode.core.model.errors import NotAllowed

log = logging.getLogger("headnode.web")

CALLBACK: Final = "/login/openid"
LIFETIME: Final = 600.0  # seconds between the way to the provider and the way back
MOST_BEGUN: Final = 1000  # log-ins under way; then the oldest ends


class BegunLogin(NamedTuple):
    """A browser that was sent to the provider."""

    browser: str  # the cookie that it has got
    verifier: str  # of PKCE
    nonce: str
    following: str
    end: float


class OpenidPages:
    """The way to the provider and back."""

    def __init__(
        self, gateway: Gateway, provider: OpenidProvider, address: str, users: Mapping[str, str]
    ) -> None:
        """`address` of this gateway for browsers; `users`: value of the claim -> user; empty: the same."""
        self._gateway, self._provider, self._users = gateway, provider, users
        self._callback = address + CALLBACK
        self._begun: dict[str, BegunLogin] = {}  # by `state`

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            Route("/login", answering(self.begin), methods=["GET"]),
            Route(CALLBACK, answering(self.come_back), methods=["GET"]),
        ]

    @property
    def _cookie(self) -> str:
        return self._gateway.identity.sessions.cookie + "-login"

    async def begin(self, request: Request) -> Response:
        """Send a browser to the provider."""
        where = await self._provider.places()
        state, browser, verifier, nonce = (secrets.token_urlsafe(32) for _ in range(4))
        following = local_path(request.query_params.get("next", "/"))
        self._remember(state, BegunLogin(browser, verifier, nonce, following, time.time() + LIFETIME))
        asked = {
            "response_type": "code",
            "client_id": self._provider.client,
            "redirect_uri": self._callback,
            "scope": "openid profile",
            "state": state,
            "nonce": nonce,
            "code_challenge": code_challenge(verifier),
            "code_challenge_method": "S256",
        }
        separator = "&" if "?" in where.authorization else "?"
        response = RedirectResponse(f"{where.authorization}{separator}{urlencode(asked)}", 303)
        response.set_cookie(
            self._cookie,
            browser,
            max_age=int(LIFETIME),
            path="/",
            secure=self._gateway.identity.sessions.secure,
            httponly=True,
            samesite="lax",
        )
        return response

    def _remember(self, state: str, begun: BegunLogin) -> None:
        now = time.time()
        self._begun = {key: each for key, each in self._begun.items() if each.end > now}
        for key in list(self._begun)[: max(0, len(self._begun) + 1 - MOST_BEGUN)]:
            del self._begun[key]
        self._begun[state] = begun

    async def come_back(self, request: Request) -> Response:
        """Begin a session, if the provider says who it is, and the same browser was sent there."""
        begun = self._begun.pop(request.query_params.get("state", ""), None)
        if begun is None or begun.end < time.time():
            raise _refused("the log-in was not begun here, or more than 10 minutes ago")
        if not is_same(request.cookies.get(self._cookie), begun.browser):
            raise _refused("the log-in was begun in another browser")
        code = request.query_params.get("code", "")
        if not code:
            log.warning("the provider refused a log-in: %r", request.query_params.get("error", "")[:200])
            raise _refused("the provider refused the log-in")
        name = await self._provider.name_for(code, begun.verifier, begun.nonce, self._callback)
        response = RedirectResponse(begun.following, 303)
        response.delete_cookie(self._cookie, path="/", secure=self._gateway.identity.sessions.secure)
        sessions = self._gateway.identity.sessions
        sessions.close(request.cookies.get(sessions.cookie))
        sessions.open(self._user_of(name), response, time.time())
        return response

    def _user_of(self, name: str) -> str:
        """Return the user of this machine for a name of the provider.

        Raises:  NotAllowed ``log-in``.
        """
        user = self._users.get(name, "") if self._users else name
        log.info("the provider has logged in %r, who is %r here", name[:200], user)
        return user_to_log_in(user)


def _refused(what: str) -> NotAllowed:
    return NotAllowed(code="log-in", what=what, fix="log in again: /login; or ask an administrator")


def users_in(text: str) -> dict[str, str]:
    r"""Return the users of a file: on each line a value of the claim and a user; # begins a comment.

    >>> users_in("# who is who\n248289761001 ada\n")
    {'248289761001': 'ada'}
    """
    found: dict[str, Any] = {}
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if len(words) == 2:
            found[words[0]] = words[1]
    return found
