"""Asks again what may have been carried out already, until the head is back.  Imported only then."""

import time

from headnode.apps.client.client import KEY, Client
from headnode.core.model.errors import HeadnodeError, Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PATIENCE = 15.0  # seconds: a head that was killed and is started again is back sooner
PAUSE = 0.2


def answer_again(client: Client, request: "dict[str, Any]", failure: HeadnodeError) -> "dict[str, Any]":
    """Return the answer to a request with a key whose first answer was lost.

    Raises:  Unavailable with the code of `failure` and the key, when the head does not come back in time.
    """
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        time.sleep(PAUSE)
        try:
            return client._answer_to(request)
        except (OSError, EOFError, ValueError):
            client.close()
    raise Unavailable(
        code=failure.code,
        what=f"{failure.what}; whether the request was carried out is not known",
        fix=f"repeat it with the same idempotency key, to carry it out only once: {request[KEY]}",
    )
