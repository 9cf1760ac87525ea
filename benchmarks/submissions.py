"""Submissions of different jobs: singly, pipelined on one connection, on 64 connections, many in a request.

The node of the cluster is busy, so every job waits in the queue.  Each row has the rate by the clock and the
processor time of the head for each job.  ``--slow 3`` makes each wait for the disk take 3 ms longer.
It takes about a minute on a quiet machine.
"""

import argparse
import os
import selectors
import shutil
import socket
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from headnode.adapters.wire.frame_codec import HEADER, frame
from heads import Head, head, machine

WINDOW = 256  # requests of a pipelining connection that are not answered
CONNECTIONS = 64
IN_REQUEST = 1000
BUSY = {"terms": {"numprocessors": "2"}, "tasks": [{"command": "sleep 3600", "numprocessors": "2"}]}
SLOW_DISK = Path(__file__).parent.parent / "tests" / "testbed" / "slow_disk.c"


def submission(number: int) -> dict[str, Any]:
    """Return the submission of a job that is like no other."""
    return {"terms": {"jobname": f"job {number}"}, "tasks": [{"command": f"/bin/echo {number}"}]}


def singly(first: int, jobs: int) -> list[bytes]:
    """Return a request for each of some jobs, as it is sent."""
    numbers = range(first, first + jobs)
    return [frame(msgspec.json.encode({"verb": "submit_job"} | submission(each))) for each in numbers]


def together(first: int, jobs: int) -> list[bytes]:
    """Return requests for some jobs, as they are sent."""
    found = []
    for begin in range(first, first + jobs, IN_REQUEST):
        numbers = range(begin, min(begin + IN_REQUEST, first + jobs))
        request = {"verb": "submit_jobs", "submissions": [submission(each) for each in numbers]}
        found.append(frame(msgspec.json.encode(request)))
    return found


class Pipeline:
    """A connection with several requests that are not answered yet."""

    def __init__(self, path: Path, requests: Sequence[bytes], window: int) -> None:
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(str(path))
        self._requests, self._window = deque(requests), window
        self._open, self._read = 0, bytearray()

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._connection.fileno()

    def fill(self) -> None:
        """Send as many requests as may be without an answer."""
        fresh = [self._requests.popleft() for _ in range(min(self._window - self._open, len(self._requests)))]
        if fresh:
            self._connection.sendall(b"".join(fresh))
            self._open += len(fresh)

    def take(self) -> bool:
        """Read answers; return whether more are to come."""
        self._read += self._connection.recv(1 << 20)
        at = 0
        while len(self._read) - at >= HEADER:
            end = at + HEADER + int.from_bytes(self._read[at : at + HEADER], "big")
            if end > len(self._read):
                break
            if not self._read.startswith(b'{"ok":true', at + HEADER):
                raise SystemExit(f"refused: {bytes(self._read[at + HEADER : end])!r}")
            self._open -= 1
            at = end
        del self._read[:at]
        if self._open <= self._window // 2:
            self.fill()
        return bool(self._open)

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


def submit(one: Head, requests: Sequence[bytes], connections: int, window: int) -> None:
    """Send the requests and read their answers."""
    open_now = [
        Pipeline(one.state / "head.sock", requests[each::connections], window) for each in range(connections)
    ]
    with selectors.DefaultSelector() as selector:
        for each in open_now:
            each.fill()
            selector.register(each, selectors.EVENT_READ, each)
        while selector.get_map():
            for key, _ in selector.select():
                if not key.data.take():
                    selector.unregister(key.fileobj)
    for each in open_now:
        each.close()


Row = tuple[str, int, Callable[[int, int], list[bytes]], int, int]
ROWS: Sequence[Row] = (
    ("one at a time", 2_000, singly, 1, 1),
    (f"pipelined, {WINDOW} in flight", 12_000, singly, 1, WINDOW),
    (f"{CONNECTIONS} connections", 6_000, singly, CONNECTIONS, 1),
    (f"requests of {IN_REQUEST:,}", 40_000, together, 1, 2),
)


def measure(rows: Sequence[Row], scale: float) -> None:
    """Print a line for each row, of a head of its own."""
    for name, jobs, requests, connections, window in rows:
        jobs = int(jobs * scale)
        with head(nodes=1, processors=2) as one:
            one.client.ask("submit_job", **BUSY)
            submit(one, requests(1, jobs // 10), connections, window)
            sent = requests(jobs, jobs)
            used, begun = one.processor_time(), time.perf_counter()
            submit(one, sent, connections, window)
            spent, used = time.perf_counter() - begun, one.processor_time() - used
        print(f"| {name} | {jobs / spent:,.0f} | {1e6 * used / jobs:.0f} |", flush=True)


def make_disk_slow(milliseconds: float, directory: str) -> None:
    """Let each wait for the disk of heads that are started from now on take so much longer."""
    library = Path(directory) / "slow_disk.so"
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SystemExit("--slow needs a C compiler: apt-get install gcc")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SLOW_DISK, "-ldl"], check=True)
    os.environ |= {"LD_PRELOAD": str(library), "SLOW_DISK_MICROSECONDS": str(int(milliseconds * 1000))}


def main() -> None:
    """Print the table."""
    read = argparse.ArgumentParser(description=__doc__)
    read.add_argument("--rows", type=int, nargs="*", help="numbers of the rows, from 1 (default: all)")
    read.add_argument("--scale", type=float, default=1.0, help="multiply the numbers of jobs by this")
    read.add_argument(
        "--slow", type=float, default=0.0, metavar="MS", help="milliseconds added to each fsync"
    )
    options = read.parse_args()
    chosen = [ROWS[each - 1] for each in options.rows] if options.rows else ROWS
    print(machine())
    print("| submissions | a second | us of the head for each |\n|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="headnode-slow-") as directory:
        if options.slow:
            make_disk_slow(options.slow, directory)
        measure(chosen, options.scale)


if __name__ == "__main__":
    main()
