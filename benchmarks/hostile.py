"""A head under attack: how long a good user waits for `hn job list`, and how large the head becomes.

Of each kind of bad connection 100 press for some seconds, on the loopback only; meanwhile the good user lists
jobs again and again.  As root the attackers are another user (nobody), else the same one, which is harder.
KINDS chooses some kinds, SECONDS how long each presses.
"""

import contextlib
import json
import multiprocessing
import os
import pwd
import socket
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from headnode.adapters.wire import agent_messages as m
from headnode.core.model.bounds import TASKS as TASKS_AT_ONCE
from headnode.core.model.node import NodeFacts
from heads import Head, head, machine

CONNECTIONS = 100
SECONDS = float(os.environ.get("SECONDS", "8"))
PROMISED, PROMISED_MEMORY = 0.5, 300.0  # seconds for a list, MB of the head
HN = str(Path(sys.executable).with_name("hn"))
ATTACKERS = 4  # processes


def framed(data: bytes) -> bytes:
    """Return a message behind its length."""
    return len(data).to_bytes(4, "big") + data


def request(**fields: object) -> bytes:
    """Return a request of a client."""
    return framed(json.dumps(fields).encode())


class Target:
    """Where to attack."""

    def __init__(self, state: Path, address: str) -> None:
        self.state = state
        host, _, port = address.rpartition(":")
        self.place = host, int(port)

    def local(self) -> socket.socket:
        """Return a connection to the socket of clients."""
        plain = socket.socket(socket.AF_UNIX)
        plain.settimeout(5.0)
        plain.connect(str(self.state / "head.sock"))
        return plain

    def tcp(self) -> socket.socket:
        """Return a connection to the port of other machines that has not shaken hands."""
        return socket.create_connection(self.place, 5.0)

    def tls(self) -> socket.socket:
        """Return one that has."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(self.tcp(), server_hostname="head")


Kind = tuple[Callable[[Target], socket.socket], bytes, bool]
"""How to connect, what to say, and whether answers are read before it is said again; else it is kept open."""

GREETING = m.Join(
    protocol=m.PROTOCOL, secret="x", facts=NodeFacts(name="n", processors=10**9), certificate_request=b"x"
)
TASKS = [{"command": f"sleep {number}"} for number in range(TASKS_AT_ONCE.most)]
KINDS: dict[str, Kind] = {
    "no TLS handshake": (Target.tcp, b"", False),
    "half a TLS handshake": (Target.tcp, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", False),
    "TLS and silence": (Target.tls, b"", False),
    "60 of 64 MB": (Target.local, (64 << 20).to_bytes(4, "big") + bytes(60 << 20), False),
    "15 of 16 MB": (Target.local, (16 << 20).to_bytes(4, "big") + bytes(15 << 20), False),
    "half requests of strangers": (Target.tls, (4000).to_bytes(4, "big") + bytes(3000), False),
    "pipelined lists": (Target.local, request(verb="jobs", limit=1000) * 100, True),
    "pipelined checks": (
        Target.local,
        request(verb="check_job", terms={"numprocessors": "1-2"}, tasks=[{"command": "true"}] * 100) * 100,
        True,
    ),
    "lists that nobody reads": (Target.local, request(verb="jobs", limit=1000) * 1000, False),
    "deep MessagePack": (Target.tls, framed(b"\x91" * 100_000), True),
    "deep JSON": (Target.local, framed(b'{"verb": "ping", "x": ' + b"[" * 1_000_000), True),
    "many values": (Target.local, framed(b'{"verb": "ping", "x": [' + b"[]," * 5_000_000 + b"[]]}"), True),
    "garbage": (Target.local, framed(os.urandom(100_000)), True),
    "garbage of strangers": (Target.tls, framed(os.urandom(1000)), True),
    "giant names": (
        Target.local,
        request(verb="submit_job", terms={"jobname": "x" * 5_000_000}, tasks=[{"command": "true"}]),
        True,
    ),
    "numbers beyond 2^63": (Target.local, request(verb="job", job=2**70) * 100, True),
    "many tasks": (Target.local, request(verb="submit_job", tasks=TASKS, terms={}), True),
    "too many tasks": (Target.local, request(verb="submit_job", tasks=TASKS * 10, terms={}), True),
    "greetings with 10^9 processors": (Target.tls, framed(msgspec.msgpack.encode(GREETING)), True),
}


def press(target: Target, kind: str, connections: int, uid: int, until: float) -> None:
    """Press with so many connections, each again when it is ended."""
    if uid:
        os.setuid(uid)
    connect, words, reads = KINDS[kind]
    kept: list[socket.socket] = []
    while time.time() < until:
        kept = [each for each in kept if not _ended(each)]
        with contextlib.suppress(OSError):
            while len(kept) < connections and time.time() < until:
                made = connect(target)
                made.settimeout(0.0 if not reads else 0.05)
                kept.append(made)
                _send(made, words)
        if reads:
            for each in kept:
                _again(each, words)
        else:
            time.sleep(0.05)
    for each in kept:
        each.close()


def _send(connection: socket.socket, words: bytes) -> None:
    with contextlib.suppress(OSError):
        connection.settimeout(0.3)
        connection.sendall(words)


def _again(connection: socket.socket, words: bytes) -> None:
    with contextlib.suppress(OSError):
        connection.settimeout(0.05)
        if connection.recv(1 << 20):
            _send(connection, words)


def _ended(connection: socket.socket) -> bool:
    try:
        connection.settimeout(0.0)
        if isinstance(connection, ssl.SSLSocket):
            return connection.fileno() < 0
        return connection.recv(1, socket.MSG_PEEK) == b""
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True


@contextlib.contextmanager
def attackers(target: Target, kind: str, uid: int) -> Iterator[None]:
    """Let 100 connections of a kind press meanwhile."""
    until = time.time() + SECONDS + 2
    share = CONNECTIONS // ATTACKERS
    made = [
        multiprocessing.Process(target=press, args=(target, kind, share, uid, until), daemon=True)
        for _ in range(ATTACKERS)
    ]
    for each in made:
        each.start()
    time.sleep(1.0)  # they begin
    try:
        yield
    finally:
        for each in made:
            each.join(10.0)
            if each.is_alive():
                each.kill()
                each.join()


def lists(here: Head) -> tuple[list[float], float]:
    """Return the seconds of each `hn job list` of the good user, and the most memory of the head in MB."""
    took, memory = [], 0.0
    until = time.monotonic() + SECONDS - 1
    while time.monotonic() < until:
        began = time.perf_counter()
        words = [HN, "--state", str(here.state), "job", "list"]
        done = subprocess.run(words, check=False, capture_output=True, timeout=60)
        took.append(time.perf_counter() - began)
        if done.returncode:
            raise SystemExit(f"the good user was refused: {done.stderr.decode()}")
        memory = max(memory, here.memory())
    return took, memory


def free_address() -> str:
    """Return an address of this machine at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def clean(here: Head) -> None:
    """Cancel the jobs that an attack has left."""
    while jobs := here.client.ask("jobs", states=["queued"], limit=1000)["jobs"]:
        for job in jobs:
            here.client.ask("cancel_job", job=job["id"], force=True)
    for job in here.client.ask("jobs", states=["active"], limit=1000)["jobs"]:
        here.client.ask("cancel_job", job=job["id"], force=True)


def main() -> int:
    """Print the figures of each kind; fail when one is below what was promised."""
    print(machine(), flush=True)
    uid = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else 0
    chosen = [kind for kind in KINDS if kind in os.environ.get("KINDS", ",".join(KINDS)).split(",")]
    address = free_address()
    missed = 0
    with head(processors=2, listen=address) as here:
        here.state.chmod(0o755)
        target = Target(here.state, address)
        quiet, memory = lists(here)
        print(f"nobody presses: hn job list {statistics.median(quiet):.3f} s, head {memory:.0f} MB")
        for kind in chosen:
            with attackers(target, kind, uid):
                took, memory = lists(here)
            bad = max(took) > PROMISED or memory > PROMISED_MEMORY
            missed += bad
            figures = f"{statistics.median(took):.3f} s, at worst {max(took):.3f} s of {len(took)}"
            verdict = "  BELOW WHAT WAS PROMISED" if bad else ""
            print(f"{kind}: hn job list {figures}; head {memory:.0f} MB{verdict}", flush=True)
            clean(here)
        log = (here.state / "head.log").read_text(errors="replace")
        traces = log.count("Traceback")
        print(f"log of the head: {len(log) // 1024} KB, {traces} tracebacks (promised: 0)")
    print(f"promised for each: {PROMISED} s at worst, {PROMISED_MEMORY:.0f} MB")
    return int(missed > 0 or traces > 0)


if __name__ == "__main__":
    sys.exit(main())
