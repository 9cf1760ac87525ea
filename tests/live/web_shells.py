"""Shells of jobs over the WebSocket of a gateway, for live tests."""

import base64
import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
from gateways import RealGateway
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)

from heads import TIMEOUT


class Shell:
    """A WebSocket to the shell of a job."""

    def __init__(self, gateway: RealGateway, job: int, headers: dict[str, str]) -> None:
        host = gateway.address.partition("://")[2]
        name, _, port = host.partition(":")
        self._socket = socket.create_connection((name, int(port)), TIMEOUT)
        self._protocol = WSConnection(ConnectionType.CLIENT)
        self._events: Iterator[Event] = self._received()
        lines = [(name.encode(), value.encode()) for name, value in headers.items()]
        self.send(Request(host=host, target=f"/api/v1/jobs/{job}/shell", extra_headers=lines))
        self.answer = next(self._events)

    def __enter__(self) -> "Shell":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, event: Event) -> None:
        self._socket.sendall(self._protocol.send(event))

    def say(self, **fields: Any) -> None:
        self.send(TextMessage(json.dumps(fields)))

    def type(self, text: str) -> None:
        self.say(**{"in": base64.b64encode(text.encode()).decode()})

    def _received(self) -> Iterator[Event]:
        while data := self._socket.recv(65536):
            self._protocol.receive_data(data)
            for event in self._protocol.events():
                if isinstance(event, Ping):
                    self.send(event.response())
                else:
                    yield event

    def receive(self) -> dict[str, Any] | int:
        """Return the next message, or the code with which the gateway closes."""
        text = ""
        for event in self._events:
            match event:
                case TextMessage(data=data, message_finished=finished):
                    text += data
                    if finished:
                        found: dict[str, Any] = json.loads(text)
                        return found
                case CloseConnection(code=code):
                    return code
        raise AssertionError("the gateway hung up")

    def refusal(self) -> tuple[int, str]:
        """Return the status and the code of a refused connection."""
        assert isinstance(self.answer, RejectConnection)
        body = b""
        for event in self._events:
            assert isinstance(event, RejectData)
            body += event.data
            if event.body_finished:
                break
        return self.answer.status_code, json.loads(body)["code"]

    def until(self, words: str) -> str:
        """Return the output of the terminal up to some words."""
        shown = ""
        while words not in shown:
            found = self.receive()
            assert isinstance(found, dict), (found, shown)
            shown += base64.b64decode(found.get("out", "")).decode()
        return shown

    def end(self) -> tuple[Any, int]:
        """Return the last frame, and how the gateway closes."""
        last: Any = None
        while not isinstance(found := self.receive(), int):
            last = found
        return last, found


def page(client: httpx.Client, gateway: RealGateway) -> dict[str, str]:
    """Return what a browser sends when a page of the gateway opens a WebSocket."""
    cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    return {"Cookie": cookies, "Origin": gateway.address}
