"""The head as a program sees it: questions with fields, answers or errors.

Source:  docs/contracts/01-local-protocol.md, which lists the questions.
"""
# ruff: noqa: PTH118 (pathlib costs 6 ms of every command)

import os

from headnode.apps.client.connection import Connection
from headnode.apps.client.where import SOCKET_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from headnode.core.model.errors import HeadnodeError


class Client:
    """Asks the head that lives in a state directory.  Connects when first asked."""

    def __init__(self, state_directory: str) -> None:
        self.state_directory = state_directory
        self._connection: Connection | None = None

    def ask(self, question: str, **fields: "Any") -> "dict[str, Any]":
        """Return the head's answer; fields that are None are left out.

        Raises:  the head's refusal as the error it is; Unavailable ``no-head`` or ``head-gone``.
        """
        try:
            connection = self._connected()
            connection.send(_request(question, fields))
            answer = connection.receive()
        except (OSError, EOFError, ValueError, OverflowError) as trouble:
            raise self._unavailable(trouble) from trouble
        return _granted(answer)

    def follow(self, question: str, **fields: "Any") -> "Iterator[dict[str, Any]]":
        """Yield the head's answers as they come, up to the one that is marked as the last.

        Raises:  as `ask`.
        """
        done = False
        try:
            connection = self._connected()
            connection.send(_request(question, fields))
            while not done:
                answer = _granted(connection.receive(patience=None))
                done = bool(answer.get("done"))
                yield answer
        except (OSError, EOFError, ValueError, OverflowError) as trouble:
            raise self._unavailable(trouble) from trouble
        finally:
            if not done:
                self.close()  # answers may still be on their way; a later question must not get them

    def close(self) -> None:
        """Hang up; the next question connects anew."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = Connection.to(os.path.join(self.state_directory, SOCKET_NAME))
        return self._connection

    def _unavailable(self, trouble: Exception) -> "HeadnodeError":
        from headnode.apps.client.failures import failure_of

        connected = self._connection is not None
        self.close()
        return failure_of(trouble, self.state_directory, connected=connected)


def _request(question: str, fields: "dict[str, Any]") -> "dict[str, Any]":
    return {"do": question, **{name: value for name, value in fields.items() if value is not None}}


def _granted(answer: "dict[str, Any]") -> "dict[str, Any]":
    if answer.pop("ok", None) is True:
        return answer
    from headnode.apps.client.failures import refusal_in

    raise refusal_in(answer)
