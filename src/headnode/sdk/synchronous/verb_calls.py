"""How the verbs of the protocol are asked: a request in its type, answers in theirs.

Printed by `make bless` (scripts/sdk_source.py): do not edit.
"""

import os
from collections.abc import Generator
from contextlib import closing

from headnode.protocol.requests import VerbRequest
from headnode.sdk.messages import Answer, request_fields, typed_answer
from headnode.sdk.synchronous.connection import HeadTransport


class VerbCalls:
    """Asks a head for verbs.  The classes of the verbs extend it."""

    def __init__(self, transport: HeadTransport) -> None:
        self._transport = transport

    def _ask(
        self, verb: str, request: VerbRequest, answer: type[Answer], idempotency: str | None = None
    ) -> Answer:
        fields = self._transport.ask(verb, request_fields(request, idempotency))
        return typed_answer(fields, answer)

    def _follow(
        self, verb: str, request: VerbRequest, answer: type[Answer], timeout: float | None
    ) -> Generator[Answer, None, None]:
        with closing(self._transport.follow(verb, request_fields(request), timeout)) as answers:
            for fields in answers:
                yield typed_answer(fields, answer)


def new_key() -> str:
    """Return an idempotency key that no other request has."""
    return os.urandom(16).hex()
