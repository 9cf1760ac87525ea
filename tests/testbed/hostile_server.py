"""A server on loopback that answers every connection with bytes of its own, without end if they are so."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Iterator

_LARGEST = 1 << 20  # bytes of a request that are read


@contextlib.contextmanager
def hostile_server(answer: Callable[[socket.socket], Iterable[bytes]]) -> Iterator[str]:
    """Send what `answer` yields to each client until it is gone; give the host with its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        over = threading.Event()

        def serve(client: socket.socket) -> None:
            with client, contextlib.suppress(OSError):
                client.settimeout(10)
                for data in answer(client):
                    if over.is_set():
                        return
                    client.sendall(data)

        def accept() -> None:
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    client, _ = listener.accept()
                    threading.Thread(target=serve, args=(client,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


def after_request(client: socket.socket) -> None:
    """Read the head of an HTTP request."""
    read = b""
    while b"\r\n\r\n" not in read and len(read) < _LARGEST:
        data = client.recv(65536)
        if not data:
            return
        read += data
