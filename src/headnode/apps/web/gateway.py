"""What the parts of a gateway share: the head, requests and their users, the room for their bodies.

Bodies are read within their bounds of size, time and memory.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any, ClassVar, Final, NamedTuple

from starlette.requests import Request

from headnode.apps.web.conversations import Conversations
from headnode.apps.web.head_client import HeadClient, WebCaller
from headnode.apps.web.identity import RequestIdentity
from headnode.apps.web.problems import too_slow, wrong
from headnode.core.model.bounds import WEB_BODIES, WEB_BODY, WEB_BODY_TIME
from headnode.core.model.errors import NotFound, Unavailable

_FIX_OF: Final = {
    "count": "write how many jobs",
    **dict.fromkeys(("since", "until"), "write the period as seconds since 1970: FROM-TO"),
}
"""What to write in place of a part of a path, if it is not the number of a job, task or instance."""


class BodyRoom:
    """The memory that bodies of all requests may take together."""

    def __init__(self) -> None:
        self._held = 0

    @contextlib.asynccontextmanager
    async def body_of(self, request: Request, most: int = WEB_BODY.most) -> AsyncIterator[bytes]:
        """Yield the body of a request, and count it as long as it is used.

        Raises:  BadRequest ``too-large``; Unavailable ``too-slow``, ``gateway-busy``.
        """
        pieces: list[bytes] = []
        held = 0
        try:
            _refuse_announced(request, most)
            try:
                async with asyncio.timeout(WEB_BODY_TIME.most):
                    async for piece in request.stream():
                        held += len(piece)
                        self._hold(len(piece))
                        if held > most:
                            raise _too_large(most)
                        pieces.append(piece)
            except TimeoutError:
                raise too_slow(WEB_BODY_TIME.most) from None
            whole = [b"".join(pieces)]
            pieces.clear()  # a large body is in memory once, and only as long as its reader keeps it
            yield whole.pop()
        finally:
            self._held -= held

    def _hold(self, size: int) -> None:
        self._held += size
        if self._held > WEB_BODIES.most:
            raise Unavailable(
                code="gateway-busy", what="the gateway receives many large requests", fix="try again later"
            )


def _refuse_announced(request: Request, most: int) -> None:
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and (len(length) > 12 or int(length) > most):
        raise _too_large(most)


def _too_large(most: int) -> Exception:
    return wrong("too-large", f"the body is larger than {most:,} bytes", "divide it into several requests")


class Gateway(NamedTuple):
    """The parts that routes, the console and the log-in use."""

    head: HeadClient
    identity: RequestIdentity
    bodies: BodyRoom
    conversations: Conversations


NUMBER: Final = re.compile(r"[0-9]{1,15}")


class DoorRequest:
    """A request whose user is known."""

    NUMBERS: ClassVar[str]
    """What numbers in paths are of."""

    def __init__(self, gateway: Gateway, request: Request, caller: WebCaller) -> None:
        self._head, self._request, self._caller = gateway.head, request, caller

    async def ask(self, verb: str, **fields: Any) -> dict[str, Any]:
        """Return the answer of the head to a verb.

        Raises:  HeadnodeError.
        """
        return await self._head.ask_plain(self._caller, verb, **fields)

    def path(self, name: str) -> str:
        """Return a part of the path."""
        return str(self._request.path_params[name])

    def number(self, name: str) -> int:
        """Return a number in the path.

        Raises:  NotFound ``no-path``.
        """
        if not NUMBER.fullmatch(text := self.path(name)):
            raise NotFound(
                code="no-path",
                what=f"{text[:64]!r} is not a number",
                fix=_FIX_OF.get(name, f"write the number of {self.NUMBERS}"),
            )
        return int(text)
