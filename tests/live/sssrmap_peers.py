"""A real SSSRMAP listener beside a real head, and a peer that frames and signs as Gold's clients do."""

import os
import pwd
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gateways import PYTHON_OF_ALL

from headnode.adapters.wire.sssrmap import request_frame
from headnode.core.formats.sss.sssrmap.messages import RmapResponse, envelope, parsed_answer, read_response
from headnode.core.formats.sss.sssrmap.signatures import SHA1, signature_of
from heads import TIMEOUT, RealHead, real_head

KEY = b"sss"
ROOT = os.geteuid() == 0
ACTOR = "games" if ROOT else pwd.getpwuid(os.geteuid()).pw_name
GATEWAY = "daemon" if ROOT else ""
_READY = re.compile(r"is answered at 127\.0\.0\.1 port (\d+)")
_CHUNK = re.compile(rb"([0-9A-F]+)\r\n")


class RealListener:
    """A listener process at a free port of loopback."""

    def __init__(self, head: RealHead, *options: str, key: bytes = KEY) -> None:
        self.head = head
        self.directory = Path(tempfile.mkdtemp(prefix="sssrmap-", dir=head.state.parent))
        key_file = self.directory / "auth_key"
        key_file.write_bytes(key + b"\n")
        key_file.chmod(0o600)
        account = pwd.getpwnam(GATEWAY).pw_uid if GATEWAY else None
        if account is not None:
            os.chown(self.directory, account, -1)
            os.chown(key_file, account, -1)
        self.log = self.directory / "log"
        python = PYTHON_OF_ALL if account is not None else [sys.executable]
        words = ["-P", "-m", "headnode.apps.web.sssrmap", "--state", str(head.state), "--port", "0"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*python, *words, "--key-file", str(key_file), *options],
                stdout=log,
                stderr=log,
                user=account,
                cwd="/",
            )
        deadline = time.monotonic() + TIMEOUT
        while not (found := _READY.search(self.log.read_text())):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.01)
        self.port = int(found[1])

    def exchange(self, *pieces: bytes, ends: bool = False) -> bytes:
        """Send bytes, and return all that is answered until the connection is closed."""
        with socket.create_connection(("127.0.0.1", self.port), TIMEOUT) as connection:
            found = b""
            with suppress(ConnectionError):
                for piece in pieces:
                    connection.sendall(piece)
                if ends:
                    connection.shutdown(socket.SHUT_WR)
                while piece := connection.recv(65536):
                    found += piece
            return found

    def send(self, body: str, key: bytes = KEY, method: str = SHA1) -> RmapResponse:
        """Send the text of a Body with its signature, and return the answer."""
        return self.read(self.exchange(request_frame(envelope(body, signature_of(body, key, method)))))[0]

    def read(self, reply: bytes) -> list[RmapResponse]:
        """Return the messages of an answer, read as peers read it: a header of 88 bytes, no line ends."""
        assert reply[:17].endswith(b" OK\r\n"), reply[:200]
        assert reply.index(b"\r\n\r\n") + 4 == 88
        found, at = [], 88
        while (size := _CHUNK.match(reply, at)) is not None and int(size[1], 16):
            end = size.end() + int(size[1], 16)
            found.append(read_response(parsed_answer(reply[size.end() : end])))
            at = end
        assert reply[at:] == b"0\r\n"
        return found

    def ask(
        self, action: str, kind: str, inside: str = "", *, actor: str = ACTOR, more: str = ""
    ) -> RmapResponse:
        """Send a request."""
        return self.send(
            f'<Body><Request action="{action}" actor="{actor}"{more}><Object>{kind}</Object>{inside}'
            "</Request></Body>"
        )

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(TIMEOUT) == 0, self.log.read_text()


@contextmanager
def real_listener(head: RealHead, *options: str) -> Iterator[RealListener]:
    """Start a listener beside a head, and end it afterwards."""
    listener = RealListener(head, *options)
    try:
        yield listener
    finally:
        listener.stop()


@contextmanager
def listener_with_head(processors: int = 2) -> Iterator[RealListener]:
    """Start a head and a listener beside it."""
    with head_for_peers(processors) as head, real_listener(head) as found:
        yield found


@contextmanager
def head_for_peers(processors: int = 2) -> Iterator[RealHead]:
    """Start a head in a directory that the account of the listener can reach."""
    with tempfile.TemporaryDirectory(prefix="headnode-") as made:
        Path(made).chmod(0o755)
        with real_head(Path(made), processors=processors, gateway_user=GATEWAY) as head:
            yield head
