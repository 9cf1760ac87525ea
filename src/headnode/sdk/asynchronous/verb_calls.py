"""How the verbs of the protocol are asked: a request in its type, answers in theirs."""

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing

from headnode.protocol.requests import VerbRequest
from headnode.sdk.asynchronous.connection import AsyncHeadTransport
from headnode.sdk.messages import Answer, request_fields, typed_answer


class AsyncVerbCalls:
    """Asks a head for verbs.  The classes of the verbs extend it."""

    def __init__(self, transport: AsyncHeadTransport) -> None:
        self._transport = transport

    async def _ask(
        self, verb: str, request: VerbRequest, answer: type[Answer], idempotency: str | None = None
    ) -> Answer:
        fields = await self._transport.ask(verb, request_fields(request, idempotency))
        return typed_answer(fields, answer)

    async def _follow(
        self, verb: str, request: VerbRequest, answer: type[Answer], timeout: float | None
    ) -> AsyncGenerator[Answer, None]:
        async with aclosing(self._transport.follow(verb, request_fields(request), timeout)) as answers:
            async for fields in answers:
                yield typed_answer(fields, answer)


def new_key() -> str:
    """Return an idempotency key that no other request has."""
    return os.urandom(16).hex()
