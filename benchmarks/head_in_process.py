"""What a job of one task costs the head alone: requests, engine, journal and messages; no other processes.

    python benchmarks/head_in_process.py [--rounds 12] [--jobs 256] [--profile FILE]

The head runs in this process, with all its parts and a node that takes every job and reports it as ended.
Its journal is in memory (`/dev/shm`), so the figure has no wait for a disk.  Two rows: jobs that are
submitted one after the other and run, and jobs that are submitted 64 together and stay in the queue of a
busy node.  Microseconds of processor time for each job, the least of the rounds; it takes 10 s.  To compare
revisions, run it in turns with `PYTHONPATH` set to the `src` of each.
"""

import argparse
import asyncio
import cProfile
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec

from headnode.adapters.identity.users import account
from headnode.adapters.journal.sqlite import open_journal
from headnode.adapters.nodes.link import NodeLink
from headnode.adapters.wire.agent_messages import AttemptResult, Results
from headnode.apps.server.api.pipeline import ClientSession, client_session
from headnode.apps.server.api.verbs import encode_answer
from headnode.apps.server.main import Head, HeadOptions
from headnode.core.model.node import NodeFacts
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.user import User
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event
from headnode.core.state.job_events import InstancesDispatched
from headnode.core.state.join import RegisterNode
from headnode.protocol.answers import VerbAnswer
from heads import machine

TOGETHER = 64  # submissions that arrive together
RUN_TIME = Seconds(0.001)
BUSY = {"terms": {"numprocessors": "2"}, "tasks": [{"command": "sleep 3600", "numprocessors": "2"}]}
_encoder = msgspec.msgpack.Encoder()


class Connection:
    """The writing end of a connection that takes everything."""

    def __init__(self) -> None:
        self.transport = self

    def is_closing(self) -> bool:
        """Tell that it is open."""
        return False

    def write(self, data: bytes) -> None:
        """Drop the data."""

    def get_write_buffer_size(self) -> int:
        """Tell that all was taken."""
        return 0


class Node:
    """An `Effects` that reports each dispatched job as ended, in the next turn of the loop."""

    def __init__(self, head: Head) -> None:
        self.answers = True
        self._head, self._number = head, 0
        self._link = head.links.links["n"] = NodeLink("n", Connection())  # type: ignore[arg-type]

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Report what was dispatched."""
        for event in events:
            if isinstance(event, InstancesDispatched) and self.answers:
                asyncio.get_running_loop().call_soon(self._report, event.job)

    def _report(self, job: JobId) -> None:
        self._number, at = self._number + 1, time.time()
        outcome = AttemptOutcome("exited", 0, started=Instant(at - RUN_TIME), ended=Instant(at))
        results = Results(number=self._number, job=job, results=(AttemptResult(1, 1, 1, outcome),))
        self._head.links._receive(self._link, _encoder.encode(results))


class Client:
    """A client of this machine."""

    near, session, origin, host = True, False, "pid 1", "here"

    def __init__(self, head: Head) -> None:
        self._head = head

    def user(self) -> User:
        """Return root, with the roles that it has now."""
        return self._head.context.roles.of(account("root"))


class Submitter:
    """Submits jobs that differ in their names and command lines."""

    def __init__(self, session: ClientSession) -> None:
        self._session, self._number = session, 0

    def _next(self) -> dict[str, Any]:
        self._number += 1
        return {
            "terms": {"jobname": f"job {self._number}"},
            "tasks": [{"command": f"/bin/echo {self._number}"}],
        }

    async def submit(self, **fields: Any) -> None:
        """Send one submission and take its answer."""
        reply = await self._session.carry_out(json.dumps({"verb": "submit_job", **fields}).encode())
        assert isinstance(reply, VerbAnswer)
        encode_answer(reply)

    async def singly(self, jobs: int) -> None:
        """Submit jobs one after the other, with idempotency keys, as `hn` and the SDK do; let each end."""
        for _ in range(jobs):
            await self.submit(**self._next(), idempotency=f"key {self._number}")
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def together(self, jobs: int) -> None:
        """Submit jobs that arrive together."""
        for _ in range(jobs // TOGETHER):
            await asyncio.gather(*(self.submit(**self._next()) for _ in range(TOGETHER)))


async def least(submit: Callable[[int], Awaitable[None]], rounds: int, jobs: int) -> float:
    """Return the microseconds of processor time of a job in the best round."""
    best = float("inf")
    for _ in range(rounds):
        begun = time.process_time()
        await submit(jobs)
        best = min(best, 1e6 * (time.process_time() - begun) / jobs)
    return best


async def measure(state: Path, rounds: int, jobs: int) -> None:
    """Print the table."""
    journal = open_journal(state)
    head = Head(HeadOptions(state, "bench", nodes=1, processors=2), journal)
    await head.batcher.ask(RegisterNode(facts=NodeFacts(name="n", processors=2), approved=True))
    node = Node(head)
    head._effects.effects.append(node)
    with client_session(head.context, Client(head)) as session:
        submitter = Submitter(session)
        print(f"| one after the other, until its end | {await least(submitter.singly, rounds, jobs):,.0f} |")
        node.answers = False
        await submitter.submit(**BUSY)
        cost = await least(submitter.together, rounds, jobs)
        print(f"| {TOGETHER} together, into the queue | {cost:,.0f} |")
    journal.close()


def main() -> None:
    """Read the options and print the table."""
    parser = argparse.ArgumentParser(description="What a job of one task costs the head alone.")
    parser.add_argument("--rounds", type=int, default=12, help="rounds of which the best counts (12)")
    parser.add_argument("--jobs", type=int, default=256, help="jobs in a round (256)")
    parser.add_argument("--profile", type=Path, help="file for what cProfile counts; then no figure is right")
    asked = parser.parse_args()
    print(machine())
    print("| jobs of one task | processor time of the head (us) |", "|---|---|", sep="\n")
    profile = cProfile.Profile() if asked.profile else None
    with tempfile.TemporaryDirectory(dir="/dev/shm") as state, profile or nullcontext():
        asyncio.run(measure(Path(state), asked.rounds, asked.jobs))
    if profile is not None:
        profile.dump_stats(asked.profile)


if __name__ == "__main__":
    main()
