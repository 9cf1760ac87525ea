"""Log-in by single sign-on: OpenID Connect, authorization code with PKCE, against one provider.

`OpenidProvider` has its places, its keys, and the name in an identity token of it.  A claim of the token
names a user of this machine, or a line of a file does.
Source:  OpenID Connect Core 1.0, sections 3.1 and 5.1; RFC 7636 (PKCE); RFC 9700 (best current practice).
"""

import base64
import hashlib
import logging
import secrets
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

import httpx
import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from headnode.apps.web.gateway import Gateway
from headnode.apps.web.identity import is_same, local_path, user_to_log_in
from headnode.apps.web.problems import answering
from headnode.core.model.errors import BadRequest, NotAllowed, Unavailable

ALGORITHMS: Final = ("RS256", "PS256", "ES256", "EdDSA")
"""Signatures that are accepted: none with a shared secret, and never none at all."""
TIMEOUT: Final = 10.0  # seconds for each answer of the provider
REMEMBERED: Final = 3600.0  # seconds that its places and keys are believed
MAX_ANSWER: Final = 1 << 20  # bytes
LEEWAY: Final = 60  # seconds that clocks may differ


class ProviderPlaces(NamedTuple):
    """Where a provider does what."""

    authorization: str
    token: str
    keys: str


class OpenidProvider:
    """One provider, asked over HTTPS; http is accepted on loopback only."""

    def __init__(self, issuer: str, client: str, secret: str, claim: str) -> None:
        """`claim` of the identity token that names the user; one that users cannot change.

        Raises:  BadRequest ``openid-address``.
        """
        self._issuer, self.client, self._secret, self._claim = issuer.rstrip("/"), client, secret, claim
        _check_address(issuer)
        self._places: ProviderPlaces | None = None
        self._keys: Any = None
        self._known_since = 0.0

    async def places(self) -> ProviderPlaces:
        """Return where the provider does what.

        Raises:  Unavailable ``openid``.
        """
        if self._places is None or time.monotonic() - self._known_since > REMEMBERED:
            configuration = await self._fetch(f"{self._issuer}/.well-known/openid-configuration")
            if str(configuration.get("issuer", "")).rstrip("/") != self._issuer:
                raise _unavailable("it has another issuer")
            names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
            places = ProviderPlaces(*(str(configuration.get(name, "")) for name in names))
            for place in places:
                _check_address(place)
            self._keys = _key_set(await self._fetch(places.keys))
            self._places, self._known_since = places, time.monotonic()
        return self._places

    async def name_for(self, code: str, verifier: str, nonce: str, callback: str) -> str:
        """Return the name of the user for whom the provider has given a code.

        Raises:  NotAllowed ``log-in``; Unavailable ``openid``.
        """
        places = await self.places()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback,
            "client_id": self.client,
            "code_verifier": verifier,
        }
        answer = await self._fetch(
            places.token, form | ({"client_secret": self._secret} if self._secret else {})
        )
        return self._name_in(str(answer.get("id_token", "")), nonce)

    def _name_in(self, token: str, nonce: str) -> str:
        """Return the name in an identity token.

        Raises:  NotAllowed ``log-in`` unless the provider has signed it for us, now, and for this log-in.
        """
        registry = jwt.JWTClaimsRegistry(
            leeway=LEEWAY,
            iss={"essential": True, "values": [self._issuer, f"{self._issuer}/"]},
            aud={"essential": True, "value": self.client},
            exp={"essential": True},
            iat={"essential": True},
            sub={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            claims = jwt.decode(token, self._keys, algorithms=ALGORITHMS).claims
            registry.validate(claims)
        except (JoseError, ValueError) as error:
            self._known_since = -REMEMBERED  # its keys may have changed
            raise _not_accepted(f"the identity token is not accepted: {error}") from None
        if claims.get("azp", self.client) != self.client:
            raise _not_accepted("the identity token is for another client")
        name = claims.get(self._claim)
        if not isinstance(name, str) or not name:
            raise _not_accepted(f"the identity token has no {self._claim!r}")
        return name

    async def _fetch(self, address: str, form: dict[str, str] | None = None) -> dict[str, Any]:
        """Return a JSON object of the provider.

        Raises:  NotAllowed ``log-in`` when it refuses a form; Unavailable ``openid``.
        """
        data = b""
        try:
            async with (
                httpx.AsyncClient(timeout=TIMEOUT, follow_redirects=False) as http,
                http.stream("POST" if form else "GET", address, data=form) as answer,
            ):
                async for piece in answer.aiter_bytes():
                    data += piece
                    if len(data) > MAX_ANSWER:
                        raise _unavailable("its answer is too large")
                status = answer.status_code
            decoded = msgspec.json.decode(data, type=dict[str, Any])
        except (httpx.HTTPError, httpx.InvalidURL, msgspec.MsgspecError) as error:
            raise _unavailable(str(error) or type(error).__name__) from None
        if form and 400 <= status < 500:
            raise _not_accepted("the provider did not accept the code")
        if status != 200:
            raise _unavailable(f"it answers with status {status}")
        return decoded


def code_challenge(verifier: str) -> str:
    """Return the challenge of PKCE, method S256.

    >>> code_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
    'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'
    """
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _key_set(keys: dict[str, Any]) -> Any:
    try:
        return KeySet.import_key_set({"keys": keys["keys"]})
    except (JoseError, ValueError, KeyError, TypeError) as error:
        raise _unavailable(f"its keys cannot be read: {error}") from None


def _check_address(address: str) -> None:
    """Refuse an address at which others could answer.

    Raises:  BadRequest ``openid-address``.
    """
    parts = urlsplit(address)
    if parts.scheme == "https" or (
        parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")
    ):
        return
    raise BadRequest(
        code="openid-address",
        what=f"{address[:200]!r} is not an https address",
        fix="use the https address of the issuer",
    )


def _not_accepted(what: str) -> NotAllowed:
    return NotAllowed(code="log-in", what=what, fix="log in again: /login")


def _unavailable(why: str) -> Unavailable:
    return Unavailable(
        code="openid", what=f"the provider of log-ins cannot be used: {why}", fix="try again later"
    )


log = logging.getLogger("headnode.web")

CALLBACK: Final = "/login/openid"
LIFETIME: Final = 600.0  # seconds between the way to the provider and the way back
MAX_BEGUN: Final = 1000  # log-ins under way; then the oldest ends


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
        for key in list(self._begun)[: max(0, len(self._begun) + 1 - MAX_BEGUN)]:
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
    users: dict[str, Any] = {}
    for line in text.splitlines():
        parts = line.partition("#")[0].split()
        if len(parts) == 2:
            users[parts[0]] = parts[1]
    return users
