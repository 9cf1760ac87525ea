"""Requests and answers of the SDK as the protocol has them."""

from typing import Any, TypeVar

import msgspec

from headnode.core.model.errors import Unavailable
from headnode.protocol.answers import VerbAnswer
from headnode.protocol.requests import VerbRequest

Answer = TypeVar("Answer", bound=VerbAnswer)
IDEMPOTENCY = "idempotency"
"""The field of a request that creates something: the head carries the requests of one key out once."""


def request_fields(request: VerbRequest, idempotency: str | None = None) -> dict[str, Any]:
    """Return the fields of a request; those that have their defaults are left out."""
    fields: dict[str, Any] = msgspec.to_builtins(request)
    return fields if idempotency is None else {**fields, IDEMPOTENCY: idempotency}


def typed_answer(fields: dict[str, Any], kind: type[Answer]) -> Answer:
    """Return an answer in its type; keys that only a newer head knows are ignored.

    Raises:  Unavailable ``other-version`` if it does not have the type.
    """
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise Unavailable(
            code="other-version",
            what=f"the answer of the head is not a {kind.__name__}: {error}",
            fix="use the version of the SDK that the head has: hn version",
        ) from None
