"""A socket in front of a head that notes every request, and can lose answers."""

import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headnode.adapters.wire.frame_codec import HEADER, FrameDecoder, frame


class RequestRelay:
    """Passes requests on to a head and answers back.  `asked` counts the requests by their verbs."""

    def __init__(self, directory: Path, head: Path) -> None:
        self.state, self._head = directory, head
        self.asked: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()  # verbs of which so many answers are still to be lost
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(directory / "head.sock"))
        self._door.listen()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        head = socket.socket(socket.AF_UNIX)
        self._open += [client, head]
        with suppress(OSError), client, head:
            head.connect(str(self._head / "head.sock"))
            threading.Thread(target=self._back, args=(head, client), daemon=True).start()
            decoder = FrameDecoder(1 << 26)
            while data := client.recv(1 << 16):
                for message in decoder.feed(data):
                    self._pass(message, head, client)
        _end(client)
        _end(head)

    def _pass(self, message: bytes, head: socket.socket, client: socket.socket) -> None:
        verb = str(json.loads(message).get("verb", ""))
        self.asked[verb] += 1
        if self.lost[verb] > 0:
            self.lost[verb] -= 1
            _carry_out_unheard(self._head, message)
            _end(client)
            return
        head.sendall(frame(message))

    @staticmethod
    def _back(head: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := head.recv(1 << 16):
                client.sendall(data)
        _end(client)

    def close(self) -> None:
        self._door.close()
        for each in self._open:
            _end(each)


def _carry_out_unheard(head: Path, message: bytes) -> None:
    """Have the head carry a request out, and read its answer instead of the client."""
    with socket.socket(socket.AF_UNIX) as own:
        own.connect(str(head / "head.sock"))
        own.sendall(frame(message))
        own.recv(HEADER, socket.MSG_WAITALL)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def request_relay(directory: Path, head: Path) -> Iterator[RequestRelay]:
    """Open a relay to a head; `relay.state` is the state directory that clients name."""
    directory.mkdir()
    relay = RequestRelay(directory, head)
    try:
        yield relay
    finally:
        relay.close()
