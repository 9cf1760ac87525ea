"""The head as a program sees it: questions with fields, answers or errors.

Source:  docs/contracts/01-local-protocol.md, which lists the questions."""

# ruff: noqa: PTH118 (pathlib costs 6 ms of every command)

import os
import time

from headnode.apps.client.connection import Connection, granted
from headnode.apps.client.creating_questions import CREATING_QUESTIONS
from headnode.apps.client.local_addresses import SOCKET_NAME, AgentRoute, WebRoute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from headnode.apps.client.conversation import ClientConversation
    from headnode.apps.client.head_location import Head
    from headnode.apps.client.logins import HeadLogin
    from headnode.core.model.errors import HeadnodeError

KEY = "idempotency"


class Client:
    """Asks a head.  Connects when first asked."""

    def __init__(self, head: "Head | Callable[[], Head]") -> None:
        """`head` may be a function that finds it: commands that ask nobody need none."""
        self._head = head
        self._connection: Connection | None = None
        self._sent = False  # the question of now, as a whole

    @property
    def head(self) -> "Head":
        """The head that is asked.

        Raises:  what keeps it from being found.
        """
        if callable(self._head):
            self._head = self._head()
        return self._head

    @property
    def state_directory(self) -> str:
        """Where the head lives on this machine; empty when it lives on another."""
        return self.head if isinstance(self.head, str) else ""

    @property
    def login(self) -> "HeadLogin | None":
        """What we are known by on the machine of the head; None when that is this one."""
        return None if isinstance(self.head, str | AgentRoute | WebRoute) else self.head

    @property
    def shares_directories(self) -> bool:
        """Whether a directory of this machine is expected on the nodes by the same path."""
        return self.login is None or self.login.shared

    def ask(self, question: str, **fields: "Any") -> "dict[str, Any]":
        """Return the head's answer; fields that are None are left out.

        A question that makes something gets an idempotency key, and is asked again for some seconds when its
        answer is lost: it is carried out once.
        Raises:  the head's refusal as the error it is; Unavailable ``no-head`` or ``head-gone``.
        """
        request = _request(question, fields)
        if question in CREATING_QUESTIONS:
            request.setdefault(KEY, os.urandom(16).hex())
        try:
            return granted(self._answer_to(request))
        except (OSError, EOFError, ValueError, OverflowError) as trouble:
            lost = KEY in request and self._sent and not isinstance(trouble, TimeoutError | OverflowError)
            failure = self._unavailable(trouble)
        if not lost:
            raise failure

        return granted(answer_again(self, request, failure))

    def _answer_to(self, request: "dict[str, Any]") -> "dict[str, Any]":
        self._sent = False
        connection = self._connected()
        try:
            connection.send(request)
        except (BrokenPipeError, ConnectionResetError):  # what refused the connection may be there to read
            return connection.receive()
        self._sent = True
        return connection.receive()

    def follow(self, question: str, **fields: "Any") -> "Iterator[dict[str, Any]]":
        """Yield the head's answers as they come, up to the one that is marked as the last.

        Raises:  as `ask`.
        """
        done = False
        try:
            connection = self._connected()
            connection.send(_request(question, fields))
            while not done:
                answer = granted(connection.receive(timeout=None))
                done = bool(answer.get("done"))
                yield answer
        except (OSError, EOFError, ValueError, OverflowError) as trouble:
            raise self._unavailable(trouble) from trouble
        finally:
            if not done:
                self.close()  # answers may still be on their way; a later question must not get them

    def begin(self, question: str, **fields: "Any") -> "ClientConversation":
        """Ask for a conversation; it has a connection of its own, and its first word is the head's.

        Raises:  Unavailable ``no-head``; what refuses it comes as the head's first word.
        """
        from headnode.apps.client.conversation import ClientConversation

        own = Client(self.head)
        try:
            connection = own._connected()
            connection.send(_request(question, fields))
        except (OSError, OverflowError) as trouble:
            raise own._unavailable(trouble) from trouble
        return ClientConversation(connection, own._unavailable)

    def close(self) -> None:
        """Hang up; the next question connects anew."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> Connection:
        if self._connection is not None and self._connection.ended:
            self.close()  # the head was started anew since the last answer
        if self._connection is None:
            self._connection = self.connect()
        return self._connection

    def connect(self) -> Connection:
        """Return a new connection to the head.

        Raises:  OSError; HeadnodeError when it is on another machine and is not reached, or knows us not.
        """
        if isinstance(self.head, str):
            return Connection.to(os.path.join(self.state_directory, SOCKET_NAME))
        if isinstance(self.head, AgentRoute):
            from headnode.apps.client.agent_connection import connect_through_agent

            return connect_through_agent(self.head)
        if isinstance(self.head, WebRoute):
            from headnode.apps.client.web_connection import connect_to_gateway

            return connect_to_gateway(self.head)
        from headnode.apps.client.tls_connection import connect

        return connect(self.head)

    def _unavailable(self, trouble: Exception) -> "HeadnodeError":
        from headnode.apps.client.failures import failure_of

        connected = self._connection is not None
        self.close()
        address = "" if isinstance(self.head, str) else self.head.address
        return failure_of(trouble, self.state_directory, connected=connected, address=address)


def _request(question: str, fields: "dict[str, Any]") -> "dict[str, Any]":
    return {"verb": question, **{name: value for name, value in fields.items() if value is not None}}


RETRY_TIME = 15.0  # seconds: a head that was killed and is started again is back sooner
RETRY_PAUSE = 0.2


def answer_again(client: Client, request: "dict[str, Any]", failure: "HeadnodeError") -> "dict[str, Any]":
    """Return the answer to a request with a key whose first answer was lost.

    Raises:  Unavailable with the code of `failure` and the key, when the head does not come back in time.
    """
    from headnode.core.model.errors import Unavailable

    deadline = time.monotonic() + RETRY_TIME
    while time.monotonic() < deadline:
        time.sleep(RETRY_PAUSE)
        try:
            return client._answer_to(request)
        except (OSError, EOFError, ValueError, Unavailable):  # Unavailable: it cannot be connected to yet
            client.close()
    raise lost_answer(failure, request)


def lost_answer(failure: "HeadnodeError", request: "dict[str, Any]") -> "HeadnodeError":
    """Return what to say of a request with a key that may have been carried out."""
    from headnode.core.model.errors import Unavailable

    return Unavailable(
        code=failure.code,
        what=f"{failure.what}; whether the request was carried out is not known",
        fix=f"repeat it with the same idempotency key, to carry it out only once: {request[KEY]}",
    )
