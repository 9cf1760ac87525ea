"""What SSSRMAP queries cost a head at its full rate: a sweep, with 200 queries a second beside it.

The head, its journal, the listener and all protocols are the real ones; the agents start no processes, so the
head is what limits the sweep.  Each query is a connection of its own, signed and framed as Gold's clients do:
a third are a scheduler's poll of active jobs, a third ask for one of 50 jobs, a third for the nodes.

The listener and the client need a processor of their own.  Where they have none, they slow down the head as
any other program does, and that is not what is measured: the same queries go to the listener of the head and,
turn by turn, to that of another head that is idle.  The ratio is the median over pairs of rounds.
Promised: the processor time of the head for an instance grows by less than 5 %.
"""

import argparse
import asyncio
import contextlib
import os
import pwd
import statistics
import subprocess
import sys
import time
from typing import Any

from gateway import processor_time
from headnode.adapters.wire.sssrmap import exchange
from headnode.core.formats.sss.sssrmap.messages import envelope
from headnode.core.formats.sss.sssrmap.signatures import signature_of
from heads import Head, head, machine
from million_jobs import agents

KEY = b"the key of a benchmark"
RATE = 200  # queries a second
SWEEP = 20_000  # instances of a sweep
MAX_OPEN = 200  # queries that are not answered yet
QUEUED = 50  # jobs that wait, and are asked for
ROUNDS = 12
POLLS = 200  # of each kind, to see what one costs
MAX_COST = 1.05
GETS = "".join(f'<Get name="{name}"></Get>' for name in ("JobId", "JobState", "UserId", "WallDuration"))


class Listener:
    """A listener beside the head."""

    def __init__(self, one: Head) -> None:
        self.actor = pwd.getpwuid(os.geteuid()).pw_name
        one.client.ask("set_parameters", values={"SiteKeyRoles": self.actor})  # who may be root
        key, log = one.state / "auth_key", one.state / "sssrmap.log"
        key.write_bytes(KEY)
        key.chmod(0o600)
        words = ["-P", "-m", "headnode.apps.web.sssrmap", "--state", str(one.state), "--port", "0"]
        with log.open("ab") as written:
            self.process = subprocess.Popen(
                [sys.executable, *words, "--key-file", str(key)], stdout=written, stderr=written, cwd="/"
            )
        while " port " not in log.read_text():
            if self.process.poll() is not None:
                raise SystemExit(log.read_text())
            time.sleep(0.02)
        self.port = int(log.read_text().split(" port ")[1].split()[0])

    def message(self, kind: str, inside: str) -> bytes:
        """Return a signed query."""
        asked = f'<Request action="Query" actor="{self.actor}"><Object>{kind}</Object>{inside}</Request>'
        body = f"<Body>{asked}</Body>"
        return envelope(body, signature_of(body, KEY))


class Queries:
    """Queries at a steady rate until they are told to end."""

    def __init__(self, listener: Listener, jobs: list[int]) -> None:
        poll = listener.message("Job", f'{GETS}<Where name="JobClass">active</Where>')
        nodes = listener.message("Node", '<Get name="NodeId"></Get><Get name="Available/Processors"></Get>')
        single = [listener.message("Job", f'{GETS}<Where name="JobId">{job}</Where>') for job in jobs]
        self._messages = [message for one in single for message in (poll, nodes, one)]
        self._port = listener.port
        self.times: list[float] = []

    async def warm(self) -> None:
        """Ask each question once."""
        for message in self._messages:
            await self._ask(message)
        self.times.clear()

    async def run(self, ended: asyncio.Event) -> None:
        """Ask, each on a connection of its own."""
        begun, number = time.perf_counter(), 0
        asked: set[asyncio.Task[None]] = set()
        while not ended.is_set():
            if len(asked) >= MAX_OPEN:  # this machine does not keep up: the rate that is printed tells it
                await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
                continue
            asked.add(task := asyncio.create_task(self._ask(self._messages[number % len(self._messages)])))
            task.add_done_callback(asked.discard)
            number += 1
            await asyncio.sleep(max(0.0, begun + number / RATE - time.perf_counter()))
        await asyncio.gather(*asked)

    async def _ask(self, message: bytes) -> None:
        begun = time.perf_counter()
        (answer,) = await exchange("127.0.0.1", self._port, message)
        self.times.append(time.perf_counter() - begun)
        if b"<Code>000</Code>" not in answer or b"<Data>" not in answer:
            raise SystemExit(f"a query failed: {answer[:500]!r}")


async def sweeps(one: Head, instances: int) -> tuple[float, float]:
    """Let sweeps go through the head; return the seconds that they took, and those of the processor."""
    begun, used = time.perf_counter(), processor_time(one.process.pid)
    tasks = [{"command": "./part *", "parametric": f"1-{SWEEP}"}]
    for _ in range(max(1, instances // SWEEP)):
        job = (await asyncio.to_thread(one.client.ask, "submit_job", tasks=tasks))["job"]
        state = ""
        while state not in ("Finished", "Failed"):
            await asyncio.sleep(0.1)
            state = (await asyncio.to_thread(one.client.ask, "job", job=job))["job"]["state"]
    return time.perf_counter() - begun, processor_time(one.process.pid) - used


def share_of_head(one: Head) -> float:
    """Return the share of a processor that the head needs for a poll of jobs and of nodes each second."""
    times = []
    states = ["Configuring", "Queued", "Running", "Suspended"]
    for verb, fields in (("jobs", {"states": states, "limit": 1000}), ("nodes", {})):
        used = processor_time(one.process.pid)
        for _ in range(POLLS):
            one.client.ask(verb, **fields)
        times.append((processor_time(one.process.pid) - used) / POLLS)
    return sum(times)


def held_jobs(one: Head) -> list[int]:
    """Submit jobs that wait; return their ids."""
    tasks = [{"command": "./wait"}]
    return [one.client.ask("submit_job", tasks=tasks, terms={"hold": "user"})["job"] for _ in range(QUEUED)]


async def beside(queries: Queries, one: Head, instances: int) -> tuple[float, float, float]:
    """Let sweeps go through the head beside queries; return what `sweeps` does, and the queries a second."""
    before, ended = len(queries.times), asyncio.Event()
    begun = time.perf_counter()
    asking = asyncio.create_task(queries.run(ended))
    took, used = await sweeps(one, instances)
    ended.set()
    await asking
    return took, used, (len(queries.times) - before) / (time.perf_counter() - begun)


async def measure(one: Head, listeners: list[Listener], jobs: list[list[int]], options: Any) -> bool:
    """Print the figures; return whether the promise was kept.

    listeners, jobs:  of the head that is measured, and of the idle one
    """
    with contextlib.suppress(PermissionError):  # the agents, and others, must not slow down what is measured
        for process in (0, one.process.pid, *(each.process.pid for each in listeners)):
            os.setpriority(os.PRIO_PROCESS, process, -10)
    own, idle = (Queries(listener, some) for listener, some in zip(listeners, jobs, strict=True))
    await sweeps(one, SWEEP)  # warm
    await own.warm()
    await idle.warm()
    asks = share_of_head(one)
    alone, elsewhere, here = [], [], []
    listened = processor_time(listeners[0].process.pid)
    for _ in range(options.rounds):
        alone.append(await sweeps(one, options.instances))
        elsewhere.append(await beside(idle, one, options.instances))
        here.append(await beside(own, one, options.instances))
    listened = processor_time(listeners[0].process.pid) - listened
    for name, some in (("alone", alone), ("queries to another head", elsewhere), ("queries to it", here)):
        rate = options.instances / statistics.median(each[0] for each in some)
        cost = statistics.median(each[1] for each in some) / options.instances * 1e6
        print(f"{name}: {rate:,.0f} instances/s, {cost:.1f} us of the head for each")
    middle, slow = (sorted(own.times)[int(len(own.times) * part)] * 1000 for part in (0.5, 0.95))
    print(
        f"{statistics.median(each[2] for each in here):.0f} queries/s, {middle:.1f} ms (median), "
        f"{slow:.1f} ms (95 %); listener: {listened / len(own.times) * 1000:.2f} ms of a processor for each"
    )
    print(f"what they ask the head for: {asks * 100:.2f} % of a processor")
    ratio = statistics.median(after[1] / before[1] for before, after in zip(elsewhere, here, strict=True))
    print(
        f"ratio of processor times: {ratio:.3f} (promised: under {MAX_COST}); load {os.getloadavg()[0]:.1f}"
    )
    return ratio < MAX_COST


def main() -> int:
    """Print the figures; return 1 if the promise was not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=40_000, help="in each round")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each kind")
    options = parser.parse_args()
    print(machine())
    with head(nodes=0) as one, agents(one), head(nodes=0) as other, agents(other):
        listeners: list[Listener] = []
        try:
            listeners += [Listener(one), Listener(other)]
            jobs = [held_jobs(each) for each in (one, other)]
            kept = asyncio.run(measure(one, listeners, jobs, options))
        finally:
            for listener in listeners:
                listener.process.terminate()
                listener.process.wait()
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
