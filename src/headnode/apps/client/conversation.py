"""A conversation with the head on a connection of its own, as commands on nodes need it."""

from binascii import a2b_base64, b2a_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from headnode.apps.client.connection import Connection
    from headnode.core.model.errors import HeadnodeError

MAX_INPUT = 48 * 1024  # bytes in one piece


class ClientConversation:
    """Goes both ways until the head says that it is done.  Whoever closes it ends what it is about."""

    def __init__(self, connection: "Connection", failure: "Callable[[Exception], HeadnodeError]") -> None:
        self._connection, self._failure = connection, failure

    def send(self, **fields: "Any") -> None:
        """Send a message.  If the head has closed the connection, the next read finds its last answer.

        Raises:  Unavailable ``no-answer``.
        """
        try:
            self._connection.send(fields)
        except (TimeoutError, OverflowError) as trouble:
            raise self._failure(trouble) from trouble
        except OSError:
            return

    def receive(self, timeout: float | None = None) -> "dict[str, Any]":
        """Return what the head says next.

        Unit:    seconds (`timeout`; None waits for ever).
        Raises:  the head's refusal as the error it is; Unavailable ``head-gone``; TimeoutError after
                 `timeout`: then the conversation can only be closed.
        """
        from headnode.apps.client.connection import granted

        try:
            return granted(self._connection.receive(timeout))
        except TimeoutError as trouble:
            if timeout is None:
                raise self._failure(trouble) from trouble
            raise
        except (OSError, EOFError, ValueError) as trouble:
            raise self._failure(trouble) from trouble

    def fileno(self) -> int:
        """Return what may be waited for: readable when the head says something."""
        return self._connection.fileno()

    @property
    def pending(self) -> bool:
        """Whether the head has said something that waiting would not show any more."""
        return self._connection.pending

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


def to_base64(data: bytes) -> str:
    """Return bytes as they are said."""
    return b2a_base64(data, newline=False).decode()


def from_base64(text: str) -> bytes:
    """Return the bytes that were said."""
    return a2b_base64(text)
