"""A million jobs through one head, or 100,000: its memory at each tenth of them.

The head, its journal on the disk, the clients' protocol and the agents' protocol are the real ones.  The
agents start no processes: a task ends when it is dispatched.  All jobs have different names and commands.

Memory must be flat from the second tenth on.  ``python benchmarks/million_jobs.py --jobs 1000000`` takes
about a quarter of an hour on a machine that has nothing else to do, and 3 GB of disk.
"""

import argparse
import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import read_frame
from heads import Head, head, machine

AGENTS, PROCESSORS = 4, 32
CONNECTIONS = 16  # of clients that submit
MAX_OPEN = 1_000  # jobs that were submitted and have not ended
FLAT = 20.0  # MB that memory may differ from the second sample on
MAX_ANSWER = 1 << 20  # bytes
LIMITS = ("0:10", "1:00", "4:00", "12:00")  # run time limits; with the sizes they make classes of requests


def request(number: int) -> dict[str, Any]:
    """Return the submission of one job."""
    tasks: list[dict[str, str]] = [{"command": f"./simulate --seed {number} input-{number}.dat"}]
    if number % 5 == 0:
        tasks = [{"command": f"./part {number} *", "parametric": "1-4"}]
    terms = {
        "jobname": f"simulation {number}",
        "runtime": LIMITS[number % len(LIMITS)],
        "numprocessors": f"1-{1 + number % 3}",
    }
    return {"verb": "submit_job", "terms": terms, "tasks": tasks}


class Submission:
    """Submits jobs over several connections, never too many ahead of those that end."""

    def __init__(self, state: Path, jobs: int, already: int = 0) -> None:
        """`already`: jobs that have ended before."""
        self._socket, self._jobs, self._already = state / "head.sock", jobs, already
        self._next = 0
        self.ended = 0

    async def run(self) -> None:
        """Submit all jobs and wait until the last has ended."""
        watch = asyncio.create_task(self._watch())
        await asyncio.gather(*(self._client() for _ in range(CONNECTIONS)))
        await watch

    async def _client(self) -> None:
        reader, writer = await asyncio.open_unix_connection(self._socket)
        while self._next < self._jobs:
            if self._next - self.ended >= MAX_OPEN:
                await asyncio.sleep(0.05)
                continue
            self._next += 1
            await _ask(reader, writer, request(self._next))
        writer.close()

    async def _watch(self) -> None:
        reader, writer = await asyncio.open_unix_connection(self._socket)
        while self.ended < self._jobs:
            counts = (await _ask(reader, writer, {"verb": "cluster"}))["cluster"]["jobs"]
            over = sum(counts.get(state, 0) for state in ("Finished", "Failed", "Canceled"))
            self.ended = over - self._already
            await asyncio.sleep(0.1)
        writer.close()


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, question: dict[str, Any]
) -> dict[str, Any]:
    writer.write(frame(msgspec.json.encode(question)))
    data = await read_frame(reader, MAX_ANSWER)
    if data is None:
        raise SystemExit("the head hung up")
    answer: dict[str, Any] = msgspec.json.decode(data)
    if not answer.pop("ok"):
        raise SystemExit(f"the head refused: {answer}")
    return answer


async def measure(one: Head, jobs: int, every: int) -> list[float]:
    """Submit so many jobs; print a line after each `every` and return the head's memory then, in MB."""
    submission = Submission(one.state, jobs)
    work = asyncio.create_task(submission.run())
    memory: list[float] = []
    begun = last = time.perf_counter()
    for sample in range(every, jobs + 1, every):
        while submission.ended < sample and not work.done():
            await asyncio.sleep(0.2)
        if work.done():
            work.result()  # raises what ended it
        now = time.perf_counter()
        memory.append(one.memory())
        size = sum(file.stat().st_size for file in one.state.glob("journal.db*")) / 1e6
        print(
            f"{submission.ended:>9,} jobs ended: head {memory[-1]:6.1f} MB, journal {size:7.1f} MB, "
            f"{every / (now - last):5.0f} jobs/s, {now - begun:6.0f} s",
            flush=True,
        )
        last = now
    await work
    return memory


@contextlib.contextmanager
def agents(one: Head) -> Iterator[None]:
    """Run the agents in a process of their own."""
    program = str(Path(__file__).with_name("ending_agents.py"))
    words = [sys.executable, program, str(one.state), str(AGENTS), str(PROCESSORS)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE)
    try:
        one.wait_until_ready(AGENTS)
        yield
    finally:
        process.kill()
        process.wait()


def main() -> int:
    """Print the figures; return 1 if memory was not flat from the second sample on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    options = parser.parse_args()
    print(machine())
    with head(nodes=0) as one, agents(one):
        print(f"head before the first job: {one.memory():.1f} MB", flush=True)
        memory = asyncio.run(measure(one, options.jobs, max(1, options.jobs // 10)))
    later = sorted(memory[1:]) or [0.0]
    spread = later[-1] - later[0]
    print(f"memory differs by {spread:.1f} MB from the second line on (promised: {FLAT:.0f})")
    return int(spread > FLAT)


if __name__ == "__main__":
    sys.exit(main())
