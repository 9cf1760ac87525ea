"""Refuses requests by a name that is not ours: a page of another site may have pointed its name at us.

Source:  DNS rebinding; RFC 9110, section 7.4 (421).
"""

from collections.abc import Iterable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from headnode.apps.web.problems import problem_response, wrong
from headnode.core.model.bounds import WEB_QUERY

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
                refused = wrong("wrong-host", "this gateway has another name", "see: hn web --url")
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
