"""What SSSRMAP queries cost a head at its full rate: a sweep alone, and with 200 queries a second beside it.

The head, its journal, the listener and all protocols are the real ones; the agents start no processes, so the
head is what limits the sweep.  Each query is a connection of its own, signed and framed as Gold's clients do:
a third are a scheduler's poll of active jobs, a third ask for one of 50 jobs, a third for the nodes.  Rounds
with and without queries are taken turn by turn.
The ratio is the median over pairs of rounds, one after the other.
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

from gateway import processor_time
from headnode.adapters.wire.sssrmap_client import exchange
from headnode.core.formats.sss.sssrmap.messages import envelope
from headnode.core.formats.sss.sssrmap.signatures import signature_of
from heads import Head, head, machine
from million_jobs import agents

KEY = b"the key of a benchmark"
RATE = 200  # queries a second
SWEEP = 20_000  # instances of a sweep
QUEUED = 50  # jobs that wait, and are asked for
ROUNDS = 12
MOST_COST = 1.05
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
            await asyncio.sleep(0.02)
            state = (await asyncio.to_thread(one.client.ask, "job", job=job))["job"]["state"]
    return time.perf_counter() - begun, processor_time(one.process.pid) - used


async def measure(one: Head, listener: Listener, instances: int) -> bool:
    """Print the figures; return whether the promise was kept."""
    with contextlib.suppress(PermissionError):  # the agents, and others, must not slow down what is measured
        for process in (0, listener.process.pid, one.process.pid):
            os.setpriority(os.PRIO_PROCESS, process, -10)
    tasks = [{"command": "./wait"}]
    held = [one.client.ask("submit_job", tasks=tasks, terms={"hold": "user"})["job"] for _ in range(QUEUED)]
    alone, beside, queries = [], [], Queries(listener, held)
    await sweeps(one, SWEEP)  # warm
    await queries.warm()
    seconds, listened = 0.0, processor_time(listener.process.pid)
    for _ in range(ROUNDS):
        alone.append(await sweeps(one, instances))
        ended = asyncio.Event()
        asking = asyncio.create_task(queries.run(ended))
        begun = time.perf_counter()
        beside.append(await sweeps(one, instances))
        ended.set()
        await asking
        seconds += time.perf_counter() - begun
    listened = processor_time(listener.process.pid) - listened
    rates = [instances / statistics.median(took for took, _ in some) for some in (alone, beside)]
    costs = [statistics.median(used for _, used in some) / instances * 1e6 for some in (alone, beside)]
    ratio = statistics.median(after / before for (_, before), (_, after) in zip(alone, beside, strict=True))
    print(f"sweeps of {SWEEP:,}: {rates[0]:,.0f} instances/s alone, {rates[1]:,.0f} beside the queries")
    print(f"head, processor time of an instance: {costs[0]:.1f} us alone, {costs[1]:.1f} us beside them")
    middle, slow = (sorted(queries.times)[int(len(queries.times) * part)] * 1000 for part in (0.5, 0.95))
    print(
        f"{len(queries.times) / seconds:.0f} queries/s, {middle:.1f} ms (median), {slow:.1f} ms (95 %); "
        f"listener: {listened / len(queries.times) * 1000:.2f} ms of a processor for each"
    )
    print(f"ratio of processor times: {ratio:.3f} (promised: under {MOST_COST})")
    return ratio < MOST_COST


def main() -> int:
    """Print the figures; return 1 if the promise was not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=40_000, help="in each round")
    options = parser.parse_args()
    print(machine())
    with head(nodes=0) as one, agents(one):
        listener = Listener(one)
        try:
            kept = asyncio.run(measure(one, listener, options.instances))
        finally:
            listener.process.terminate()
            listener.process.wait()
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
