"""The provider of OpenID Connect: its places, its keys, and the name in an identity token of it."""

import base64
import hashlib
import time
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import httpx
import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from headnode.core.model.errors import BadRequest, NotAllowed, Unavailable

ALGORITHMS: Final = ("RS256", "PS256", "ES256", "EdDSA")
"""Signatures that are accepted: none with a shared secret, and never none at all."""
PATIENCE: Final = 10.0  # seconds for each answer of the provider
REMEMBERED: Final = 3600.0  # seconds that its places and keys are believed
LARGEST_ANSWER: Final = 1 << 20  # bytes
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
            told = await self._fetch(f"{self._issuer}/.well-known/openid-configuration")
            if str(told.get("issuer", "")).rstrip("/") != self._issuer:
                raise _unavailable("it has another issuer")
            names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
            places = ProviderPlaces(*(str(told.get(name, "")) for name in names))
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
        told = await self._fetch(
            places.token, form | ({"client_secret": self._secret} if self._secret else {})
        )
        return self._name_in(str(told.get("id_token", "")), nonce)

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
            raise _refused(f"the identity token is not accepted: {error}") from None
        if claims.get("azp", self.client) != self.client:
            raise _refused("the identity token is for another client")
        name = claims.get(self._claim)
        if not isinstance(name, str) or not name:
            raise _refused(f"the identity token has no {self._claim!r}")
        return name

    async def _fetch(self, address: str, form: dict[str, str] | None = None) -> dict[str, Any]:
        """Return a JSON object of the provider.

        Raises:  NotAllowed ``log-in`` when it refuses a form; Unavailable ``openid``.
        """
        data = b""
        try:
            async with (
                httpx.AsyncClient(timeout=PATIENCE, follow_redirects=False) as http,
                http.stream("POST" if form else "GET", address, data=form) as answer,
            ):
                async for piece in answer.aiter_bytes():
                    data += piece
                    if len(data) > LARGEST_ANSWER:
                        raise _unavailable("its answer is too large")
                status = answer.status_code
            told = msgspec.json.decode(data, type=dict[str, Any])
        except (httpx.HTTPError, httpx.InvalidURL, msgspec.MsgspecError) as error:
            raise _unavailable(str(error) or type(error).__name__) from None
        if form and 400 <= status < 500:
            raise _refused("the provider did not accept the code")
        if status != 200:
            raise _unavailable(f"it answers with status {status}")
        return told


def code_challenge(verifier: str) -> str:
    """Return the challenge of PKCE, method S256.

    >>> code_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
    'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'
    """
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _key_set(told: dict[str, Any]) -> Any:
    try:
        return KeySet.import_key_set({"keys": told["keys"]})
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


def _refused(what: str) -> NotAllowed:
    return NotAllowed(code="log-in", what=what, fix="log in again: /login")


def _unavailable(why: str) -> Unavailable:
    return Unavailable(
        code="openid", what=f"the provider of log-ins cannot be used: {why}", fix="try again later"
    )
