"""A small bank that answers as Gold's server does, in a process of its own that may be killed at any time.

It charges as often as it is told to.  What it has done is on the disk before it answers.  The file `faults`
of its directory says how it misbehaves.
Source:  Gold's own server (2.2), at which the tests of the bank run too: `gold_bank`.
"""

import base64
import hashlib
import hmac
import json
import random
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Tree

TIMEOUT = 30.0  # seconds
TABLES = """
create table if not exists accounts (project text primary key, amount integer);
create table if not exists reservations (name text primary key, project text, amount integer, job integer);
create table if not exists jobs (id integer primary key, name text, machine text, project text, user text,
    stage text, charge integer);
create table if not exists told (action text, name text, amount integer, message text);
"""
HEADERS = 'HTTP/1.1 200 OK\r\nContent-Type: text/xml; charset="utf-8"\r\nTransfer-Encoding: chunked\r\n\r\n'


class Refused(Exception):
    """What the bank refuses: a code and a message."""


class Till:
    """The accounts, in one file.  A processor costs 1 for each second."""

    def __init__(self, path: Path) -> None:
        self.database = sqlite3.connect(path, isolation_level=None, timeout=TIMEOUT)
        self.database.execute("pragma synchronous = full")
        self.database.executescript(TABLES)

    def one(self, query: str, *values: Any) -> Any:
        row = self.database.execute(query, values).fetchone()
        return None if row is None else row[0]

    def answer(self, request: Tree.Element) -> tuple[int, str, str]:
        """Carry out a request; return an amount or a count, a message and the data."""
        job = {one.tag: one.text or "" for one in request.findall("Data/Job/*")}
        where = {one.get("name"): one.text for one in request.findall("Where")}
        option = {one.get("name"): one.text for one in request.findall("Option")}
        match request.get("action"), request.findtext("Object"):
            case "Query", "Job":
                if not where.keys() <= {"JobId", "Machine", "User", "Project", "Stage"}:
                    raise Refused("318", f"{[*where]}: not a valid attribute for the Job object")
                return self.query(str(where["JobId"]), str(where["Machine"]))
            case "Delete", "Reservation":
                gone = self.release(str(where["Name"]))
                parts = f" and {gone} associations" if gone else ""
                return gone, f"Successfully deleted {gone} Reservations{parts}", ""
            case "Refund", "Job":
                return self.refund(str(option["JobId"]))
            case ("Quote" | "Reserve" | "Charge") as action, "Job":
                return self.price(action, job, replaces=option.get("Replace") == "True")
        raise Refused("740", f"{request.get('action')} is not a valid action for this object")

    def release(self, name: str) -> int:
        """Remove the reservations with a name, of whatever machine; return how many there were."""
        return self.database.execute("delete from reservations where name = ?", (name,)).rowcount

    def query(self, name: str, machine: str) -> tuple[int, str, str]:
        rows = self.database.execute(
            "select name, stage, charge from jobs where name = ? and machine = ?", (name, machine)
        ).fetchall()
        found = [
            f"<Job><JobId>{name}</JobId><Stage>{stage}</Stage><Charge>{charge}</Charge></Job>"
            for name, stage, charge in rows
        ]
        return len(rows), "", "".join(found)

    def price(self, action: str, job: dict[str, str], *, replaces: bool) -> tuple[int, str, str]:
        name, project = job["JobId"], job.get("ProjectId", "")
        amount = int(job["Processors"]) * int(job["WallDuration"])
        if self.one("select amount from accounts where project = ?", project) is None:
            raise Refused("740", f"Project {project} does not exist")
        removed = self.release(name) if replaces else 0
        if action != "Charge" and amount > self.free(project):
            why = "satisfy quotation" if action == "Quote" else "reserve job"
            raise Refused("784", f"Insufficient balance to {why}")
        if action == "Quote":
            return (
                amount,
                f"Successfully quoted {amount} credits",
                f"<Quote><Amount>{amount}</Amount></Quote>",
            )
        held = self.one("select job from reservations where name = ?", name) if action == "Charge" else None
        if held is None:  # each reservation has a record of its own, which the charge takes over
            keep = "insert into jobs (name, machine, project, user, charge) values (?, ?, ?, ?, 0)"
            made = self.database.execute(keep, (name, job["MachineName"], project, job["UserId"]))
            held = made.lastrowid
        self.database.execute("update jobs set stage = ? where id = ?", (action, held))
        if action == "Reserve":
            self.database.execute(
                "insert into reservations values (?, ?, ?, ?)", (name, project, amount, held)
            )
            found = f"<Reserve><Amount>{amount}</Amount><Job>{held}</Job></Reserve>"
            return amount, f"Successfully reserved {amount} credits for job {name}{_removed(removed)}", found
        self.database.execute("update jobs set charge = charge + ? where id = ?", (amount, held))
        self.database.execute("update accounts set amount = amount - ? where project = ?", (amount, project))
        removed = self.release(name)
        found = f"<Charge><Amount>{amount}</Amount><Job>{held}</Job></Charge>"
        return amount, f"Successfully charged job {name} for {amount} credits{_removed(removed)}", found

    def refund(self, name: str) -> tuple[int, str, str]:
        rows = self.database.execute(
            "select id, charge, project from jobs where name = ? and stage = 'Charge'", (name,)
        ).fetchall()
        if not rows:
            raise Refused("740", "There are no jobs matching the specified job id")
        if len(rows) > 1:
            raise Refused("740", "There are multiple jobs matching the specified job id.")
        ((number, amount, project),) = rows
        if not amount:
            raise Refused("740", "There are no charges to refund")
        self.database.execute("update jobs set charge = 0 where id = ?", (number,))
        self.database.execute("update accounts set amount = amount + ? where project = ?", (amount, project))
        found = f"<Refund><JobId>{name}</JobId><Refund>{amount}</Refund></Refund>"
        return amount, f"Successfully refunded {amount} credits for job {name}", found

    def free(self, project: str) -> int:
        """Return the balance of a project: what it has, less what is reserved."""
        held = self.one("select coalesce(sum(amount), 0) from reservations where project = ?", project)
        return int(self.one("select amount from accounts where project = ?", project) - held)


def _removed(reservations: int) -> str:
    return f"\n{reservations} reservations were removed" if reservations else ""


def serve(directory: Path) -> None:
    """Answer for ever."""
    till, one_at_a_time, faults = Till(directory / "bank.db"), threading.Lock(), directory / "faults"
    server = socket.create_server(("127.0.0.1", int((directory / "port").read_text())), backlog=64)

    def converse(connection: socket.socket) -> None:
        with connection, suppress(OSError, ValueError), connection.makefile("rb") as stream:
            while stream.readline() not in (b"\r\n", b""):
                pass
            size = stream.readline()
            message = stream.read(int(size, 16))
            fault = json.loads(faults.read_text()) if faults.exists() else {}
            if random.random() < fault.get("deaf", 0):  # it is lost before it is carried out
                return
            with one_at_a_time:
                answer = answered(till_of_thread(), message, directory)
            time.sleep(fault.get("slow", 0))
            if random.random() < fault.get("mute", 0):  # it is carried out, and the answer is lost
                return
            for old, new in fault.get("lies", {}).items():
                answer = re.sub(old, new, answer)
            payload = answer.encode() + b" " * fault.get("huge", 0)
            connection.sendall(HEADERS.encode() + b"%X\r\n%b0\r\n" % (len(payload), payload))

    def till_of_thread() -> Till:
        return Till(directory / "bank.db")

    del till
    while True:
        connection, _ = server.accept()
        threading.Thread(target=converse, args=(connection,), daemon=True).start()


def answered(till: Till, message: bytes, directory: Path) -> str:
    """Return the answer to a message, carried out and on the disk."""
    body = message[message.index(b"<Body") : message.index(b"</Body>") + 7]
    digest = hashlib.sha1(body, usedforsecurity=False).digest()
    key = (directory / "auth_key").read_bytes().split(b"\n")[0]
    envelope = Tree.fromstring(message)
    value = base64.b64encode(hmac.digest(key, digest, "sha1")).decode()
    request = envelope.find("Body/Request")
    assert request is not None
    till.database.execute("begin immediate")
    try:
        if envelope.findtext("Signature/SignatureValue") != value:
            raise Refused(
                "424", "Failed authenticating message: (Incoming MAC does not match calculated MAC)."
            )
        amount, words, data = till.answer(request)
        code, word = "000", "Success"
    except Refused as refused:
        till.database.execute("rollback")
        till.database.execute("begin immediate")
        amount, data, (code, words), word = 0, "", refused.args, "Failure"
    name = request.findtext("Data/Job/JobId") or "".join(
        one.text or "" for one in request.iter() if one.get("name") in ("JobId", "Name")
    )
    note = (f"{word} {request.get('action')}", name, amount, body.decode())
    till.database.execute("insert into told values (?, ?, ?, ?)", note)
    till.database.execute("commit")
    words = f"<Message>{words}</Message>" if words else ""
    status = f"<Status><Value>{word}</Value><Code>{code}</Code>{words}</Status>"
    count = f"<Count>{amount}</Count>" if word == "Success" else ""
    found = f"<Data>{data}</Data>" if data else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<Envelope><Body><Response actor="root">'
        f"{status}{count}{found}</Response></Body></Envelope>"
    )


class BankPeer:
    """The process of a bank, and a look into its books."""

    look = 1  # seconds that a look takes, at most

    def __init__(self, directory: Path, **accounts: int) -> None:
        self.directory = directory
        directory.mkdir(mode=0o700)
        self.key_file = directory / "auth_key"
        self.key_file.write_text("of the bank\n")
        self.key_file.chmod(0o600)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        (directory / "port").write_text(str(self.port))
        self.till = Till(directory / "bank.db")
        for project, amount in accounts.items():
            self.till.database.execute("insert into accounts values (?, ?)", (project, amount))
        self.start()

    @property
    def parameters(self) -> dict[str, str]:
        return {"Bank": f"127.0.0.1:{self.port}", "BankKeyFile": str(self.key_file)}

    def start(self) -> None:
        self.process = subprocess.Popen([sys.executable, __file__, str(self.directory)])
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            else:
                return

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def misbehave(self, **faults: Any) -> None:
        """Change how it misbehaves: the shares of lost messages (`deaf`) and answers (`mute`), and more."""
        new = self.directory / "new"
        new.write_text(json.dumps(faults))
        new.replace(self.directory / "faults")

    def requests(self, action: str) -> dict[str, list[int]]:
        """Return what it was told to do and did: amounts by the names of runs."""
        found: dict[str, list[int]] = {}
        rows = self.till.database.execute(
            "select name, amount from told where action = ?", (f"Success {action}",)
        ).fetchall()
        for name, amount in rows:
            found.setdefault(name, []).append(amount)
        return found

    def reserved(self) -> dict[str, int]:
        return dict(self.till.database.execute("select name, amount from reservations").fetchall())

    def leave(self, project: str, amount: int) -> None:
        """Take all but an amount from the account of a project."""
        self.till.database.execute("update accounts set amount = ? where project = ?", (amount, project))

    def amount(self, project: str) -> int:
        return int(self.till.one("select amount from accounts where project = ?", project))


@contextmanager
def bank_peer(directory: Path, **accounts: int) -> Iterator[BankPeer]:
    """Start a bank with projects and what they have; stop it afterwards."""
    bank = BankPeer(directory, **accounts)
    try:
        yield bank
    finally:
        bank.kill()
        bank.till.database.close()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
