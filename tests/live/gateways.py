"""Real gateways for live tests: a process beside a real head, and clients of its own user and of tokens."""

import contextlib
import ipaddress
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headnode.apps.client.connection import Connection
from heads import TIMEOUT, RealHead

PYTHON_OF_ALL = ("env", f"PYTHONPATH={os.pathsep.join(filter(None, sys.path))}", "/usr/bin/python3")
"""A Python that every user can run, with what ours imports."""


FixtureScope = Literal["function", "module"]


class RealGateway:
    """A gateway process at a free port of loopback."""

    def __init__(
        self, head: RealHead, *options: str, user: int | None = None, inside: Sequence[str] = ()
    ) -> None:
        """`inside`: a command that ends with the Python of the gateway, for example in a name space."""
        self.head = head
        self.directory = head.state.parent / f"web-{user or 0}"
        self.directory.mkdir(exist_ok=True)
        if user is not None:
            self.directory.chmod(0o777)
        self._user = user
        self._options, self.inside = options, inside
        self._log = self.directory / "web.log"
        self.process = self._spawn()
        self.address = self.control("status")["address"]

    def _spawn(self) -> "subprocess.Popen[bytes]":
        python = PYTHON_OF_ALL if self._user is not None else [] if self.inside else [sys.executable]
        command = [*python, "-P", "-m", "headnode.apps.web", "--state", str(self.head.state)]
        command += ["--directory", str(self.directory), "--port", "0", *self._options]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*self.inside, *command], stdout=log, stderr=log, user=self._user, cwd="/"
            )

    def control(self, question: str) -> dict[str, Any]:
        """Ask the control socket, as soon as it is there."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.connect(str(self.directory / "web.sock"))
                    connection.sendall(json.dumps({"verb": question}).encode() + b"\n")
                    answer: dict[str, Any] = json.loads(connection.makefile().readline())
                    return answer
            except (OSError, ValueError):
                assert self.process.poll() is None, self.log()
                assert time.monotonic() < deadline, self.log()
                time.sleep(0.01)

    def log(self) -> str:
        return self._log.read_text()[-5000:]

    def token(self, role: str = "all") -> str:
        """Return a new token of the user of these tests, as `hn token new --web` prints it."""
        login = self.head.ask("create_token", web=True, role=role)["login"]
        connection = Connection.to(str(self.head.state / "gateway.sock"))
        try:
            connection.send({"verb": "exchange_login", "secret": login})
            return str(connection.receive()["token"])
        finally:
            connection.close()

    @contextmanager
    def browser(self) -> Iterator[httpx.Client]:
        """Yield a client that has logged in with an address that works once."""
        with httpx.Client(base_url=self.address, timeout=TIMEOUT) as client:
            answer = client.get(self.control("login")["address"])
            assert answer.status_code == 303, answer.text
            client.headers["X-CSRF-Token"] = client.get("/api/v1/session").json()["csrf"]
            yield client

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(TIMEOUT)


@contextmanager
def real_gateway(
    head: RealHead, *options: str, user: int | None = None, inside: Sequence[str] = ()
) -> Iterator[RealGateway]:
    """Start a gateway beside a head, and end it afterwards."""
    gateway = RealGateway(head, *options, user=user, inside=inside)
    try:
        yield gateway
    finally:
        gateway.stop()


def gateway_fixture(
    scope: Literal["function", "module"] = "function",
) -> Callable[..., Iterator[RealGateway]]:
    """Return a fixture: a gateway beside the fixture `head`, for each test or for all tests of a file."""

    @pytest.fixture(scope=scope)
    def gateway(head: RealHead) -> Iterator[RealGateway]:
        with real_gateway(head) as running:
            yield running

    return gateway


def raw_exchange(gateway: RealGateway, pieces: Sequence[bytes]) -> bytes:
    """Send bytes to a gateway, and return all that it answers until it closes the connection."""
    host, _, port = gateway.address.partition("://")[2].partition(":")
    with socket.create_connection((host, int(port)), TIMEOUT) as connection:
        for piece in pieces:
            connection.sendall(piece)
        found = b""
        with contextlib.suppress(ConnectionResetError):  # closed while we still sent
            while piece := connection.recv(65536):
                found += piece
    return found


def write_certificate(directory: Path) -> tuple[Path, Path]:
    """Write a certificate for loopback that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gateway of a test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    certificate, private = directory / "certificate.pem", directory / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return certificate, private
