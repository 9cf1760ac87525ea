"""Gold itself as the bank of the tests: its server, database and shell, and a line that loses messages.

`HEADNODE_TEST_GOLD` is the prefix of an installation with which tests may do anything.  Its `goldd.conf`
has a database of PostgreSQL, made anew from `NAME_new` for each test.  docs/sssrmap.md says what that needs.
"""

import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

TIMEOUT = 30.0  # seconds
WHERE = os.environ.get("HEADNODE_TEST_GOLD", "")


class GoldBank:
    """The processes of Gold, the line to them, and a look into its books by `goldsh`."""

    look = 10  # seconds that a look takes, at most

    def __init__(self, directory: Path) -> None:
        self.prefix = Path(WHERE)
        directory.mkdir(mode=0o700)
        self.key_file = directory / "auth_key"
        self.key_file.write_bytes((self.prefix / "etc/auth_key").read_bytes())
        self.key_file.chmod(0o600)
        text = (self.prefix / "etc/goldd.conf").read_text()
        found = dict(re.findall(r"^([\w.]+) = (.*)$", text, re.MULTILINE))
        self.behind = int(found["server.port"])
        source = dict(word.split("=") for word in found["database.datasource"].split(":")[2].split(";"))
        self._database = source.pop("dbname")
        self._server = [f"--{name}={value}" for name, value in source.items()]
        self._faults: dict[str, Any] = {}
        self._asked: list[str] = []
        self.stop_server()
        for words in (["dropdb", "--if-exists", "-f"], ["createdb", "-T", f"{self._database}_new"]):
            subprocess.run([words[0], *self._server, *words[1:], self._database], check=True)
        self.line = socket.create_server(("127.0.0.1", 0))
        self.port = self.line.getsockname()[1]
        self.line.close()
        self.start()

    @property
    def parameters(self) -> dict[str, str]:
        return {"Bank": f"127.0.0.1:{self.port}", "BankKeyFile": str(self.key_file)}

    def start(self) -> None:
        (self.prefix / "etc/gold.pid").unlink(missing_ok=True)
        with Path(os.devnull).open("wb") as nowhere:
            subprocess.run([self.prefix / "sbin/goldd"], stdout=nowhere, stderr=nowhere, check=True)
        deadline = time.monotonic() + TIMEOUT
        while True:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self.behind), 1).close()
                break
            assert time.monotonic() < deadline, "goldd does not listen"
            time.sleep(0.02)
        self.line = socket.create_server(("127.0.0.1", self.port), backlog=64)
        threading.Thread(target=self._accept, args=(self.line,), daemon=True).start()

    def kill(self) -> None:
        """Kill the server and each process that carries out a message, without a warning."""
        with suppress(OSError):
            self.line.shutdown(socket.SHUT_RDWR)
        self.line.close()
        self.stop_server()

    def stop_server(self) -> None:
        with suppress(OSError, ValueError):
            os.killpg(int((self.prefix / "etc/gold.pid").read_text()), signal.SIGKILL)
        deadline = time.monotonic() + TIMEOUT
        with suppress(OSError):
            while True:
                socket.create_connection(("127.0.0.1", self.behind), 1).close()
                assert time.monotonic() < deadline, "goldd does not end"
                time.sleep(0.02)

    def misbehave(self, **faults: Any) -> None:
        """Change how the line misbehaves: the shares of messages (`deaf`) and answers (`mute`) it loses."""
        self._faults = faults

    # The line.

    def _accept(self, line: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = line.accept()
                threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, ValueError):
            message = b""
            while not message.endswith(b"0\r\n"):
                if not (piece := connection.recv(65536)):
                    return
                message += piece
            if random.random() < self._faults.get("deaf", 0):
                return
            answer = b""
            with socket.create_connection(("127.0.0.1", self.behind), TIMEOUT) as gold:
                gold.sendall(message)
                while piece := gold.recv(65536):
                    answer += piece
            if name := re.search(rb'action="Query".*name="JobId">([^<]+)<', message):
                self._asked.append(name[1].decode())
            time.sleep(self._faults.get("slow", 0))
            if random.random() < self._faults.get("mute", 0):
                return
            connection.sendall(self._spoiled(answer))

    def _spoiled(self, answer: bytes) -> bytes:
        if not self._faults.keys() & {"lies", "huge"}:
            return answer
        head, _, rest = answer.partition(b"\r\n\r\n")
        size, _, rest = rest.partition(b"\r\n")
        payload = rest[: int(size, 16)].decode()
        for old, new in self._faults.get("lies", {}).items():
            payload = re.sub(old, new, payload)
        spoiled = payload.encode() + b" " * self._faults.get("huge", 0)
        return head + b"\r\n\r\n%X\r\n%b0\r\n" % (len(spoiled), spoiled)

    # The books.

    def shell(self, command: str) -> str:
        """Return what `goldsh` prints for a command."""
        done = subprocess.run(
            [self.prefix / "bin/goldsh", "--raw", command],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout

    def rows(self, command: str) -> list[list[str]]:
        result = self.shell(command).splitlines()
        return [line.split("|") for line in result[1:] if "|" in line]

    def requests(self, action: str) -> dict[str, list[int]]:
        """Return what it was told to do and did: amounts by the names of runs."""
        if action == "Query":
            return {name: [self._asked.count(name)] for name in self._asked}
        found: dict[str, list[int]] = {}
        for name, amount in self.rows(f"Transaction Query Object==Job Action=={action} Show:=JobId,Amount"):
            found.setdefault(name, []).append(int(float(amount)))
        return found

    def reserved(self) -> dict[str, int]:
        joined = (
            "Reservation,ReservationAllocation Query Reservation.Id==ReservationAllocation.Reservation"
            " Show:=Reservation.Name,ReservationAllocation.Amount"
        )
        return {name: int(float(amount)) for name, amount in self.rows(joined)}

    def amount(self, project: str) -> int:
        result = self.shell(f"Account Balance Project:={project} IgnoreReservations:=True")
        found = re.search(r"balance is (-?\d+) credits", result)
        assert found, result
        return int(found[1])

    def leave(self, project: str, amount: int) -> None:
        """Take all but an amount from the account of a project."""
        numbers = {name: number for number, name in self.rows("Account Query Show:=Id,Name")}
        less = self.amount(project) - amount
        self.shell(f"Account Withdraw Id:={numbers[project]} Amount:={less}")


@contextmanager
def gold_bank(directory: Path) -> Iterator[GoldBank]:
    """Start Gold with the projects of the tests; stop it afterwards."""
    bank = GoldBank(directory)
    try:
        yield bank
    finally:
        bank.kill()
