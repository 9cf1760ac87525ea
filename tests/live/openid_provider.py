"""A provider of OpenID Connect for tests: logs in the user that it is told, and checks what it is asked."""

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CLIENT, SECRET = "headnode", "a secret of the client"


class FakeProvider:
    """What the provider knows; `claims` are added to the tokens, None removes one; `signed` makes them."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, parameters={"kid": "1", "alg": "RS256", "use": "sig"})
        self.signed = self.properly_signed
        self.claims: dict[str, Any] = {}
        self.issuer = ""
        self.codes: dict[str, dict[str, str]] = {}

    def get(self, path: str, query: dict[str, str]) -> tuple[int, Any]:
        """Return a status, and an object or the address to go to."""
        match path:
            case "/.well-known/openid-configuration":
                names = {
                    "authorization_endpoint": "/authorize",
                    "token_endpoint": "/token",
                    "jwks_uri": "/keys",
                }
                return 200, {"issuer": self.issuer} | {name: self.issuer + end for name, end in names.items()}
            case "/keys":
                return 200, KeySet([self.key]).as_dict(private=False)
            case "/authorize":
                code = f"code-{len(self.codes)}"
                self.codes[code] = query
                return 303, f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"
        return 404, {}

    def token(self, form: dict[str, str]) -> tuple[int, Any]:
        """Return the tokens for a code, once, if the verifier and the client are right."""
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = _encoded(digest)
        if (
            asked is None
            or asked["code_challenge"] != challenge
            or form["redirect_uri"] != asked["redirect_uri"]
            or (form["client_id"], form.get("client_secret")) != (CLIENT, SECRET)
        ):
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "sub": "4711", "iat": now, "exp": now + 300}
        claims |= {"nonce": asked["nonce"], "preferred_username": "games"} | self.claims
        claims = {name: value for name, value in claims.items() if value is not None}
        return 200, {"id_token": self.signed(claims), "access_token": "x", "token_type": "Bearer"}

    def properly_signed(self, claims: dict[str, Any]) -> str:
        """Return a token that is signed with the key of the provider."""
        return jwt.encode({"alg": "RS256", "kid": "1"}, claims, self.key)

    def signed_with_another_key(self, claims: dict[str, Any]) -> str:
        """Return a token that somebody else has signed."""
        return jwt.encode({"alg": "RS256", "kid": "1"}, claims, RSAKey.generate_key(2048))

    def signed_with_the_public_key(self, claims: dict[str, Any]) -> str:
        """Return a token whose "shared secret" is the public key, which everybody has."""
        begin = _joined({"alg": "HS256", "kid": "1"}, claims)
        mac = hmac.digest(self.key.as_pem(private=False), begin.encode(), "sha256")
        return f"{begin}.{_encoded(mac)}"

    def not_signed(self, claims: dict[str, Any]) -> str:
        """Return a token without a signature."""
        return _joined({"alg": "none"}, claims) + "."


def _joined(*parts: dict[str, Any]) -> str:
    return ".".join(_encoded(json.dumps(part).encode()) for part in parts)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@contextmanager
def fake_provider() -> Iterator[FakeProvider]:
    """Run a provider at a port of loopback."""
    provider = FakeProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            self._answer(*provider.get(parts.path, _first(parts.query)))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._answer(*provider.token(_first(body)))

        def _answer(self, status: int, expected: Any) -> None:
            self.send_response(status)
            if status == 303:
                self.send_header("Location", expected)
            self.end_headers()
            self.wfile.write(b"" if status == 303 else json.dumps(expected).encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.issuer = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _first(text: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(text).items()}
