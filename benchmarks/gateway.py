"""What the gateway costs: the head's processor time for a job alone, with a gateway, with 1 and 200 streams.

The head, its journal and both protocols are the real ones; the agents start no processes, as in
``million_jobs.py``.  Then the memory of the gateway, and the time of its pages over all these jobs.
Promised: streams cost the head under 10 %, an idle gateway nothing that can be measured; the gateway stays
under 120 MB, and a page takes under 0.2 s.
"""

import argparse
import asyncio
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx

from heads import TIMEOUT, Head, head, machine, resident
from million_jobs import Submission, agents

STREAMS = 200
PAGES = ("/", "/jobs", "/jobs?state=Failed", "/nodes", "/api/v1/jobs")
LOOKS = 15  # at each page
ROUNDS = 5  # without a gateway, with one, with streams in turn: a loaded machine changes between them
MAX_COST, MAX_MEMORY, MAX_PAGE = 1.10, 120.0, 0.2  # ratio, MB, seconds
TICK = os.sysconf("SC_CLK_TCK")


class GatewayProcess:
    """A gateway beside the head, and a browser that has logged in."""

    def __init__(self, one: Head) -> None:
        words = [sys.executable, "-P", "-m", "headnode.apps.web", "--state", str(one.state), "--port", "0"]
        with (one.state / "web.log").open("ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, cwd="/")
        self._control = one.state / "web.sock"
        self.address = self._ask("status")["address"]
        self.browser = httpx.Client(base_url=self.address, timeout=TIMEOUT)
        self.browser.get(self._ask("login")["address"])

    def _ask(self, question: str) -> dict[str, str]:
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.connect(str(self._control))
                    connection.sendall(json.dumps({"verb": question}).encode() + b"\n")
                    answer: dict[str, str] = json.loads(connection.makefile().readline())
                    return answer
            except (OSError, ValueError):
                if time.monotonic() > deadline:
                    raise SystemExit("the gateway did not become ready") from None
                time.sleep(0.02)

    @property
    def cookies(self) -> str:
        """The header of the session."""
        return "; ".join(f"{name}={value}" for name, value in self.browser.cookies.items())

    def stop(self) -> None:
        """End it."""
        self.browser.close()
        self.process.terminate()
        self.process.wait(TIMEOUT)


def processor_time(process: int) -> float:
    """Return the processor time of a process so far, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


class Cost(NamedTuple):
    """What a job costs the head and the gateway, in seconds of processor time; jobs in a second."""

    head: float
    gateway: float
    rate: float


async def jobs_through(one: Head, jobs: int, gateway: GatewayProcess | None = None) -> Cost:
    """Let so many jobs go through the head; return what they cost."""
    processes = [one.process.pid] + ([gateway.process.pid] if gateway else [])
    already, before = ended(one), [*map(processor_time, processes)]
    begun = time.perf_counter()
    await Submission(one.state, jobs, already).run()
    took = time.perf_counter() - begun
    used = [(processor_time(each) - at) / jobs for each, at in zip(processes, before, strict=True)]
    return Cost(used[0], used[1] if gateway else 0.0, jobs / took)


def ended(one: Head) -> int:
    counts = one.client.ask("cluster")["cluster"]["jobs"]
    return sum(counts.get(state, 0) for state in ("Finished", "Failed", "Canceled"))


class Reader(asyncio.BufferedProtocol):
    """A client of the event stream that reads all it gets, at little cost: it shares a processor."""

    buffer = memoryview(bytearray(1 << 20))  # of all of them: what is read is only counted

    def __init__(self, opened: "asyncio.Queue[None]") -> None:
        self.events = 0
        self._opened: asyncio.Queue[None] | None = opened

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Count the events."""
        piece = bytes(self.buffer[:nbytes])
        if self._opened is not None and b": headnode" in piece:
            self._opened.put_nowait(None)
            self._opened = None
        self.events += piece.count(b"\nevent: ")


class Streams:
    """Clients of the event stream."""

    def __init__(self) -> None:
        self.events = 0
        self._open: list[tuple[asyncio.BaseTransport, Reader]] = []

    async def open(self, gateway: GatewayProcess, number: int = STREAMS) -> None:
        """Open so many streams."""
        where, loop = urlsplit(gateway.address), asyncio.get_running_loop()
        request = (
            f"GET /api/v1/event-stream HTTP/1.1\r\nHost: {where.netloc}\r\nCookie: {gateway.cookies}\r\n\r\n"
        )
        opened: asyncio.Queue[None] = asyncio.Queue()
        for _ in range(number):
            transport, reader = await loop.create_connection(
                lambda: Reader(opened), where.hostname or "", where.port or 0
            )
            transport.write(request.encode())
            self._open.append((transport, reader))
        async with asyncio.timeout(TIMEOUT):
            for _ in range(number):
                await opened.get()

    def close(self) -> None:
        """Hang up."""
        for transport, reader in self._open:
            self.events += reader.events
            transport.close()
        self._open.clear()


@contextlib.contextmanager
def computing() -> Iterator[None]:
    """Run a program that only computes, where the clients run."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


async def measure(one: Head, jobs: int) -> bool:
    """Print the figures; return whether the promises were kept."""
    await jobs_through(one, jobs)  # warm
    plain: list[Cost] = []
    beside: dict[int, list[Cost]] = {0: [], 1: [], STREAMS: []}  # by the number of streams
    computed: list[Cost] = []
    streams = Streams()
    memory = 0.0
    for _ in range(ROUNDS):
        plain.append(await jobs_through(one, jobs))
        with computing():
            computed.append(await jobs_through(one, jobs))
        gateway = GatewayProcess(one)
        try:
            for number, costs in beside.items():
                await streams.open(gateway, number)
                costs.append(await jobs_through(one, jobs, gateway))
                streams.close()
            memory = max(memory, resident(gateway.process.pid))
        finally:
            gateway.stop()
    print("processor time of a job; ratios are medians of the rounds, each beside the time without a gateway")
    show("no gateway", plain, plain)
    show("a program computes", computed, plain)
    for number, costs in beside.items():
        cost = show(f"{number} streams", costs, plain)
    print(f"{streams.events:,} events were read; the gateway has {memory:.0f} MB")
    gateway = GatewayProcess(one)
    try:
        slowest = max(page_time(gateway, path) for path in PAGES)
    finally:
        gateway.stop()
    return cost <= MAX_COST and memory <= MAX_MEMORY and slowest <= MAX_PAGE


def show(what: str, costs: Sequence[Cost], plain: Sequence[Cost]) -> float:
    """Print what jobs cost; return the ratio of the head's time to that without a gateway."""
    ratios = sorted(each.head / alone.head for each, alone in zip(costs, plain, strict=True))
    ratio = statistics.median(ratios)
    head, gateway, rate = (statistics.median(each) for each in zip(*costs, strict=True))
    print(
        f"{what:20} head {1000 * head:5.2f} ms, {ratio:.3f} ({ratios[0]:.2f} to {ratios[-1]:.2f}); "
        f"gateway {1000 * gateway:5.2f} ms; {rate:4.0f} jobs/s",
        flush=True,
    )
    return ratio


def page_time(gateway: GatewayProcess, path: str) -> float:
    """Print and return how long a page takes, the median in seconds."""
    times = []
    for _ in range(LOOKS):
        begun = time.perf_counter()
        answer = gateway.browser.get(path)
        times.append(time.perf_counter() - begun)
    middle = statistics.median(times)
    print(f"{path:24} {answer.status_code} {len(answer.content) / 1000:7.1f} kB {middle * 1000:7.1f} ms")
    return middle


def main() -> int:
    """Print the figures; return 1 if a promise was not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=4_000, help="in each round")
    options = parser.parse_args()
    print(machine())
    processors = sorted(os.sched_getaffinity(0))
    with head(nodes=0) as one:
        if processors[1:]:  # agents and clients on its processor would slow the head down
            os.sched_setaffinity(one.process.pid, processors[:1])
            os.sched_setaffinity(0, processors[1:])
        with agents(one):
            kept = asyncio.run(measure(one, options.jobs))
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
