"""The headers that every answer has, and the check that a request names this host.

A page of another site may have pointed its own name at the gateway.
Source:  DNS rebinding; RFC 9110, section 7.4 (421)."""

from collections.abc import Iterable, MutableMapping
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headnode.apps.web.problems import problem_response, wrong
from headnode.core.model.bounds import WEB_QUERY

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What pages may load: only files of this gateway, and no script or style inside a page."""


def policy_with_nonce(nonce: str) -> str:
    """Return the policy of a page whose scripts make style elements with this nonce."""
    return POLICY.replace("style-src 'self'", f"style-src 'self' 'nonce-{nonce}'")


SANDBOX: Final = "default-src 'none'; sandbox; frame-ancestors 'none'"
"""The policy for bytes that users made: output of tasks, job files."""

_ALWAYS: Final = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_TLS_ONLY_TIME: Final = "max-age=31536000"


class SecurityHeaders:
    """Adds the headers to every answer, unless it has its own policy already."""

    def __init__(self, app: ASGIApp, *, encrypted: bool) -> None:
        """`encrypted`: the users' browsers come by TLS."""
        self._app, self._encrypted = app, encrypted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._add(message)
            await send(message)

        await self._app(scope, receive, send_on)

    def _add(self, message: MutableMapping[str, object]) -> None:
        headers = MutableHeaders(raw=message["headers"])  # type: ignore[arg-type]
        headers.setdefault("content-security-policy", POLICY)
        headers.setdefault("cache-control", "no-store")
        for name, value in _ALWAYS.items():
            headers.setdefault(name, value)
        if self._encrypted:
            headers.setdefault("strict-transport-security", _TLS_ONLY_TIME)


LOOPBACK_NAMES: Final = frozenset(("localhost", "127.0.0.1", "[::1]"))


class HostCheck:
    """Passes on requests whose Host is one of ours, and whose address is not too long."""

    def __init__(self, app: ASGIApp, *, hosts: frozenset[str]) -> None:
        """`hosts`: without ports; empty: any."""
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] in ("http", "websocket"):
            headers = [value for name, value in scope["headers"] if name == b"host"]
            if self._hosts and not self._is_ours(headers):
                refused = wrong(
                    "wrong-host",
                    "the Host of the request is not a name of this gateway",
                    "an administrator can add it: hn web --url URL",
                )
                await problem_response(refused)(scope, receive, send)
                return
            if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > WEB_QUERY.most:
                refused = wrong("long-address", f"the address is longer than {WEB_QUERY}")
                await problem_response(refused)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_ours(self, headers: Iterable[bytes]) -> bool:
        names = [host_without_port(value.decode("latin-1")) for value in headers]
        return len(names) == 1 and names[0] in self._hosts


def host_without_port(host: str) -> str:
    """Return the name in a Host header, in lower case.

    >>> host_without_port("LocalHost:8080"), host_without_port("[::1]:8080"), host_without_port("[::1]")
    ('localhost', '[::1]', '[::1]')
    """
    name, colon, port = host.strip().lower().rpartition(":")
    return name if colon and port.isdecimal() else host.strip().lower()
