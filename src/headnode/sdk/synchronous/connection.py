"""Blocking requests to a head: on its Unix socket, through the agent of a node, or by TLS."""

import threading
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from headnode.apps.client.client import Client

if TYPE_CHECKING:
    from headnode.apps.client.head_location import Head


class HeadTransport:
    """Carries requests to a head, one after the other; each stream of answers has a connection of its own.

    Threads may share it.
    """

    def __init__(self, head: "Head") -> None:
        self.head = head
        self._client = Client(head)
        self._turn = threading.Lock()

    def ask(self, verb: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of the head.

        If a request that creates something loses its answer, it is sent again for some seconds.
        Raises:  the head's refusal as the error it is; Unavailable ``no-head`` or ``head-gone``.
        """
        with self._turn:
            try:
                return self._client.ask(verb, **fields)
            except Exception:
                raise
            except BaseException:
                self._client.close()  # interrupted: the answer to this request must not answer another one
                raise

    def follow(
        self, verb: str, fields: dict[str, Any], timeout: float | None = None
    ) -> Generator[dict[str, Any], None, None]:
        """Yield the answers of the head as they come, up to the one that is marked as the last.

        Unit:    seconds (`timeout`, for all answers; None waits for ever).
        Raises:  TimeoutError; as `ask`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        conversation = self._client.begin(verb, **fields)
        try:
            done = False
            while not done:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                if left == 0.0:  # a socket would not block at all
                    raise TimeoutError
                answer = conversation.receive(left)
                done = bool(answer.get("done"))
                yield answer
        finally:
            conversation.close()

    def close(self) -> None:
        """Hang up; the next request connects anew."""
        with self._turn:
            self._client.close()


def pause(seconds: float) -> None:
    """Wait for some time."""
    time.sleep(seconds)
