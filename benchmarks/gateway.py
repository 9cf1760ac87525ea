"""What the gateway costs: the head's processor time for a job alone, with a gateway, with 1 and 200 streams.

The head, its journal and both protocols are the real ones; the agents start no processes, as in
``million_jobs.py``.  Then the memory of the gateway, and the time of its pages over all these jobs.
Promised: streams cost the head under 10 %, an idle gateway nothing that can be measured; the gateway stays
under 120 MB, and a page takes under 0.2 s.
"""

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from heads import PATIENCE, Head, head, machine, resident
from million_jobs import Submission, agents

STREAMS = 200
PAGES = ("/", "/jobs", "/jobs?state=Failed", "/nodes", "/api/v1/jobs")
LOOKS = 15  # at each page
ROUNDS = 5  # without a gateway, with one, with streams in turn: a loaded machine changes between them
MOST_COST, MOST_MEMORY, LONGEST_PAGE = 1.10, 120.0, 0.2  # ratio, MB, seconds
TICK = os.sysconf("SC_CLK_TCK")


class GatewayProcess:
    """A gateway beside the head, and a browser that has logged in."""

    def __init__(self, one: Head) -> None:
        words = [sys.executable, "-P", "-m", "headnode.apps.web", "--state", str(one.state), "--port", "0"]
        with (one.state / "web.log").open("ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, cwd="/")
        self._control = one.state / "web.sock"
        self.address = self._ask("status")["address"]
        self.browser = httpx.Client(base_url=self.address, timeout=PATIENCE)
        self.browser.get(self._ask("login")["address"])

    def _ask(self, question: str) -> dict[str, str]:
        deadline = time.monotonic() + PATIENCE
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
        self.process.wait(PATIENCE)


def processor_time(process: int) -> float:
    """Return the processor time of a process so far, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


async def jobs_through(one: Head, jobs: int) -> float:
    """Let so many jobs go through the head; return its processor time for one, in seconds."""
    begun = processor_time(one.process.pid)
    await Submission(one.state, jobs, already=ended(one)).run()
    return (processor_time(one.process.pid) - begun) / jobs


def ended(one: Head) -> int:
    counts = one.client.ask("cluster")["cluster"]["jobs"]
    return sum(counts.get(state, 0) for state in ("Finished", "Failed", "Canceled"))


class Streams:
    """Clients of the event stream that read all they get."""

    def __init__(self) -> None:
        self.events = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._open = asyncio.Semaphore(0)

    async def open(self, gateway: GatewayProcess, number: int = STREAMS) -> None:
        """Open so many streams."""
        where = urlsplit(gateway.address)
        request = (
            f"GET /api/v1/event-stream HTTP/1.1\r\nHost: {where.netloc}\r\nCookie: {gateway.cookies}\r\n\r\n"
        )
        for _ in range(number):
            reader, writer = await asyncio.open_connection(where.hostname, where.port)
            writer.write(request.encode())
            self._tasks.append(asyncio.create_task(self._read(reader, writer)))
        for _ in range(number):
            await self._open.acquire()

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        status = await reader.readline()
        if b" 200 " not in status:
            raise SystemExit(f"a stream was refused: {status!r}")
        await reader.readuntil(b": headnode")
        self._open.release()
        try:
            while piece := await reader.read(1 << 20):
                self.events += piece.count(b"\nevent: ")
        finally:
            writer.close()

    async def close(self) -> None:
        """Hang up."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()


async def measure(one: Head, jobs: int) -> bool:
    """Print the figures; return whether the promises were kept."""
    if (processors := sorted(os.sched_getaffinity(0)))[
        1:
    ]:  # clients on its processor would slow the head down
        os.sched_setaffinity(one.process.pid, processors[:1])
        os.sched_setaffinity(0, processors[1:])
    await jobs_through(one, jobs)  # warm
    alone: list[float] = []
    beside: dict[int, list[float]] = {0: [], 1: [], STREAMS: []}  # by the number of streams
    streams = Streams()
    memory = 0.0
    for _ in range(ROUNDS):
        alone.append(await jobs_through(one, jobs))
        gateway = GatewayProcess(one)
        try:
            for number, costs in beside.items():
                await streams.open(gateway, number)
                costs.append(await jobs_through(one, jobs))
                await streams.close()
            memory = max(memory, resident(gateway.process.pid))
        finally:
            gateway.stop()
    plain = statistics.median(alone)
    idle, few, cost = (statistics.median(costs) / plain for costs in beside.values())
    print(f"head, processor time of a job: {1000 * plain:.2f} ms without a gateway")
    print(f"with an idle gateway {idle:.2f} of it, with 1 stream {few:.2f}, with {STREAMS} {cost:.2f}")
    print(f"{streams.events:,} events were read; the gateway has {memory:.0f} MB")
    gateway = GatewayProcess(one)
    try:
        slowest = max(page_time(gateway, path) for path in PAGES)
    finally:
        gateway.stop()
    return cost <= MOST_COST and memory <= MOST_MEMORY and slowest <= LONGEST_PAGE


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
    with head(nodes=0) as one, agents(one):
        kept = asyncio.run(measure(one, options.jobs))
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
