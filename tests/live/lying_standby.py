"""Standbys and heads that say what a test wants: they have the keys of the cluster, and keep to no rule."""

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from headnode.adapters.nodes.membership import ask_to_be_standby, learn_authority, read_invitation
from headnode.adapters.wire.agent_messages import JoinStandby
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.messages import StandbyJoined
from headnode.adapters.wire.peers import HEAD_NAME, STANDBY
from headnode.adapters.wire.standby_messages import (
    STANDBY_PROTOCOL,
    FromLeader,
    FromStandby,
    HeadHello,
    decode_from_head,
    decode_from_standby,
    encode_message,
)
from headnode.adapters.wire.tls import Authority, head_side
from heads import RealHead

Lie = Callable[[FromLeader], FromStandby | bytes | None]
"""The answer to a message of the head; bytes are sent one by one; None: the connection is closed."""


class LyingStandby:
    """Listens with the keys of a head; the head dials it once it has joined."""

    def __init__(self, authority: Path, lie: Lie) -> None:
        self.lie = lie
        self.received: list[FromLeader] = []
        self._context = head_side(Authority(authority))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.place: tuple[str, int] = self._listening.getsockname()
        self.ended = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def join(self, head: RealHead, directory: Path, name: str = "liar") -> None:
        """Become a standby of a head."""
        directory.mkdir()
        answer = asyncio.run(_join(head.ask("invite_standby")["invitation"], directory, name, self.place))
        assert set(answer.authority) == {"authority.key", "authority.pem", "head.key", "head.pem"}

    def close(self) -> None:
        """Listen no more."""
        self.ended.set()
        self._listening.close()

    def _serve(self) -> None:
        while not self.ended.is_set():
            with contextlib.suppress(OSError):
                plain, _ = self._listening.accept()
                threading.Thread(target=self._converse, args=(plain,), daemon=True).start()

    def _converse(self, plain: socket.socket) -> None:
        with contextlib.suppress(OSError), self._context.wrap_socket(plain, server_side=True) as connection:
            stream = connection.makefile("rb")
            while size := stream.read(4):
                message = decode_from_head.decode(stream.read(struct.unpack(">I", size)[0]))
                self.received.append(message)
                answer = self.lie(message)
                if answer is None:
                    return
                if not isinstance(answer, bytes):
                    connection.sendall(frame(encode_message(answer)))
                    continue
                for byte in answer:
                    connection.sendall(bytes([byte]))
                    self.ended.wait(0.5)


async def _join(word: str, directory: Path, name: str, place: tuple[str, int]) -> StandbyJoined:
    invitation = read_invitation(word)
    authority = directory / "authority.pem"
    authority.write_bytes(await learn_authority(invitation))
    question = JoinStandby(STANDBY_PROTOCOL, invitation.secret, name, f"{place[0]}:{place[1]}")
    return await ask_to_be_standby(invitation, authority, question)


@contextlib.contextmanager
def connected(place: tuple[str, int]) -> Iterator[ssl.SSLSocket]:
    """Connect to a standby as a head does, trusting anybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([STANDBY])
    with (
        socket.create_connection(place, 10) as plain,
        context.wrap_socket(plain, server_hostname=HEAD_NAME) as secure,
    ):
        yield secure


def send(connection: ssl.SSLSocket, message: FromLeader) -> FromStandby:
    """Return what a standby answers."""
    connection.sendall(frame(encode_message(message)))
    stream = connection.makefile("rb")
    return decode_from_standby.decode(stream.read(int.from_bytes(stream.read(4), "big")))


def greet(place: tuple[str, int], greeting: HeadHello) -> FromStandby:
    """Return what a standby answers to a head."""
    with connected(place) as connection:
        return send(connection, greeting)


def hello(state: Path, **changed: Any) -> HeadHello:
    """Return the greeting of the head of a state directory for its standby."""
    fields = {
        "protocol": 1, "version": "0.3.0", "cluster": "c", "name": "b", "address": "x:1", "term": 0,
        "cluster_id": (state / "cluster-id").read_text().strip(),
        "secret": Authority(state / "authority").derived_secret("standby"),
    }  # fmt: skip
    return HeadHello(**{**fields, **changed})
