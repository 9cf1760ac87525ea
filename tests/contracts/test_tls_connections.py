"""Connections with TLS to another machine, whatever it does while they are made."""

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle

import pytest

from headnode.adapters.wire.peers import connect_tls

TIMEOUT = 5.0  # seconds
RESET = struct.pack("ii", 1, 0)  # close sends a reset


def reset(peer: socket.socket) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def answer_and_end(peer: socket.socket) -> None:
    peer.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")


def end(peer: socket.socket) -> None:
    peer.shutdown(socket.SHUT_RDWR)


def receive_and_reset(peer: socket.socket) -> None:
    peer.recv(1)
    reset(peer)


@contextmanager
def machine(*ways: Callable[[socket.socket], None]) -> Iterator[tuple[str, int]]:
    """Listen, and end each connection in the next of the ways."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for way in cycle(ways):
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer:
                    try:
                        way(peer)
                    except OSError:
                        continue

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def context() -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    return made


def test_a_connection_that_ends_before_the_handshake_is_an_error_at_whatever_moment_it_ends() -> None:
    with machine(reset, end, answer_and_end, receive_and_reset) as place:
        for _ in range(400):
            with pytest.raises(OSError, match=r"\w") as caught:
                connect_tls(place, context(), "head.headnode.invalid", TIMEOUT, TIMEOUT)
            assert not isinstance(caught.value, ConnectionRefusedError)


def test_a_machine_that_does_not_shake_hands_is_waited_for_no_longer_than_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TimeoutError):
        connect_tls(silent.getsockname(), context(), "head.headnode.invalid", TIMEOUT, 0.05)


def test_the_next_address_of_a_host_is_tried_when_one_accepts_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with machine(end) as (host, port), socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()
        closed.close()
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", place) for place in (nobody, (host, port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        with pytest.raises(OSError, match=r"\w") as caught:
            connect_tls(("two.invalid", 1), context(), "head.headnode.invalid", TIMEOUT, TIMEOUT)
        assert not isinstance(caught.value, ConnectionRefusedError)


def test_a_host_of_which_no_address_accepts_a_connection_is_refused_in_the_words_of_the_last() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()
    with pytest.raises(ConnectionRefusedError):
        connect_tls(nobody, context(), "head.headnode.invalid", TIMEOUT, TIMEOUT)
