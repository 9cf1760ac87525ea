"""What the parts of a gateway share: the head, the identity of requests, the room for their bodies.

Bodies are read within their bounds of size, time and memory.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import NamedTuple

from starlette.requests import Request

from headnode.apps.web.conversations import Conversations
from headnode.apps.web.head_client import HeadClient
from headnode.apps.web.identity import RequestIdentity
from headnode.apps.web.problems import too_slow, wrong
from headnode.core.model.bounds import WEB_BODIES, WEB_BODY, WEB_BODY_TIME
from headnode.core.model.errors import Unavailable


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
