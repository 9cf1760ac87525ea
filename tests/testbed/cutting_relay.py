"""A TCP relay that cuts its first connection when the client has sent so many bytes."""

import contextlib
import socket
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def cutting_relay(port: int, after: int) -> Iterator[tuple[int, list[int]]]:
    """Pass connections on to a port of this machine; give the own port, and how much each client has sent."""
    passed: list[int] = []
    opened: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as door:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = door.accept()
                    passed.append(0)
                    pair = client, socket.create_connection(("127.0.0.1", port))
                    number = len(passed) - 1
                    opened.extend(pair)
                    threading.Thread(target=forth, args=(*pair, number), daemon=True).start()
                    threading.Thread(target=back, args=pair, daemon=True).start()

        def forth(client: socket.socket, server: socket.socket, number: int) -> None:
            with contextlib.suppress(OSError):
                while data := client.recv(1 << 16):
                    passed[number] += len(data)
                    server.sendall(data)
                    if number == 0 and passed[0] > after:
                        break
            _end(server, socket.SHUT_WR)  # what was sent arrives
            _end(client)

        def back(client: socket.socket, server: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while data := server.recv(1 << 16):
                    client.sendall(data)
            _end(client)

        threading.Thread(target=accept, daemon=True).start()
        yield door.getsockname()[1], passed
        door.shutdown(socket.SHUT_RDWR)
    for side in opened:
        _end(side)
        side.close()


def _end(side: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    with contextlib.suppress(OSError):
        side.shutdown(how)
