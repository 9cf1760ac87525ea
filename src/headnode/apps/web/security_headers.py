"""The headers that every answer has: what a browser may load, frame, guess and send on."""

from collections.abc import MutableMapping
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
