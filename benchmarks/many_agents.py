"""2,000 agents over TLS: how soon all have joined, what their heartbeats cost the head, how it loses half.

The connections of 500 are reset, as when an agent is killed; 500 others fall silent, as by a pulled cable.

The agents are simulated in a process of their own: each has its own key, certificate and connection, says who
it is and lives, and runs nothing.
"""

import asyncio
import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from headnode.adapters.nodes.membership import NodeIdentity, read_invitation
from headnode.adapters.wire import agent_messages as m
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.message_checks import digest_of_holdings
from headnode.adapters.wire.tls import keep_buffers_small
from headnode.apps.client.client import Client
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Seconds
from heads import head, machine

AGENTS = int(os.environ.get("AGENTS", "2000"))
LOST = AGENTS // 4
AT_ONCE = 50  # that join at the same time
HEARTBEAT = 15.0  # seconds: three times in a lease of the default length
SILENT = 120.0  # seconds: InactivityCount heartbeats of the default interval, and the lease
STEADY = 60.0  # seconds over which heartbeats are counted

_hearing: set["asyncio.Task[None]"] = set()
_encode = msgspec.msgpack.Encoder().encode


async def live(number: int, directory: Path, invitation: str, writers: list[asyncio.StreamWriter]) -> None:
    """Join, and say who we are."""
    facts = NodeFacts(name=f"n{number:04}", processors=16, memory=65536, boot_id="b")
    identity = NodeIdentity(directory / facts.name)
    await identity.join(read_invitation(invitation), facts)
    reader, writer = await identity.dial()
    writer.write(frame(_encode(m.Hello(protocol=m.PROTOCOL, facts=facts))))
    writers.append(writer)
    _hearing.add(asyncio.create_task(receive(reader)))


async def receive(reader: asyncio.StreamReader) -> None:
    """Take in the answers to heartbeats."""
    with contextlib.suppress(OSError):
        while await reader.read(4096):
            pass


async def beat(writer: asyncio.StreamWriter, delay: float) -> None:
    """Say that we live, for ever."""
    await asyncio.sleep(delay)
    number, digest = 0, digest_of_holdings(m.Table(number=0))
    while not writer.is_closing():
        number += 1
        writer.write(frame(_encode(m.Heartbeat(number=number, digest=digest, lease=Seconds(45.0)))))
        await asyncio.sleep(HEARTBEAT)


async def agents(directory: Path, invitations: list[str]) -> None:
    """Be all agents; on a line of standard input the first of them die, on the next others fall silent."""
    keep_buffers_small()
    writers: list[asyncio.StreamWriter] = []
    door = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, invitation: str) -> None:
        async with door:
            await live(number, directory, invitation, writers)

    await asyncio.gather(*(one(number, text) for number, text in enumerate(invitations)))
    beats = [
        asyncio.create_task(beat(writer, HEARTBEAT * number / len(writers)))
        for number, writer in enumerate(writers)
    ]
    await asyncio.to_thread(sys.stdin.readline)
    for writer in writers[:LOST]:
        writer.transport.abort()
    await asyncio.to_thread(sys.stdin.readline)
    for task in beats[LOST : 2 * LOST]:
        task.cancel()
    await asyncio.to_thread(sys.stdin.readline)
    for task in beats:
        task.cancel()


def spent_by(process: int) -> float:
    """Return the processor seconds that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def until(client: Client, holds: Callable[[dict[str, int]], bool]) -> float:
    """Wait until the counts of nodes by state are as requested; return how long it took, in seconds."""
    begun = time.perf_counter()
    while not holds(client.ask("cluster")["cluster"]["nodes"]):
        time.sleep(0.02)
    return time.perf_counter() - begun


def main() -> int:
    """Print the figures beside what was promised."""
    print(machine())
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with head(nodes=0, listen="127.0.0.1:0") as here, tempfile.TemporaryDirectory() as directory:
        invitations = [here.client.ask("invite_node", approve=True)["invitation"] for _ in range(AGENTS)]
        words = [sys.executable, __file__, "--agents", directory]
        others = subprocess.Popen(words, stdin=subprocess.PIPE, text=True)
        assert others.stdin is not None
        try:
            begun = time.perf_counter()
            others.stdin.write(" ".join(invitations) + "\n")
            others.stdin.flush()
            until(here.client, lambda nodes: nodes.get("Ready", 0) == AGENTS)
            joined = time.perf_counter() - begun
            print(f"{AGENTS} agents joined in {joined:.1f} s (promised: 60)")
            before, since = spent_by(here.process.pid), time.perf_counter()
            time.sleep(STEADY)
            share = 100 * (spent_by(here.process.pid) - before) / (time.perf_counter() - since)
            print(f"their heartbeats cost the head {share:.1f} % of a processor (promised: 15)")
            memory = here.memory()
            print(f"memory of the head: {memory:.0f} MB (promised: 400)")
            others.stdin.write("die\n")
            others.stdin.flush()
            lost = until(here.client, lambda nodes: nodes.get("Unreachable", 0) == LOST)
            print(f"{LOST} whose connections were reset at once were known in {lost:.2f} s (promised: 5)")
            others.stdin.write("be silent\n")
            others.stdin.flush()
            silent = until(here.client, lambda nodes: nodes.get("Unreachable", 0) == 2 * LOST)
            print(f"{LOST} that fell silent at once were known in {silent:.0f} s (promised: {SILENT:.0f})")
        finally:
            with contextlib.suppress(BrokenPipeError):
                others.stdin.close()
            others.kill()
            others.wait()
    return int(joined > 60 or share > 15 or memory > 400 or lost > 5 or silent > SILENT)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--agents"]:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        asyncio.run(agents(Path(sys.argv[2]), sys.stdin.readline().split()))
        os._exit(0)  # thousands of connections end with the process, not one by one
    sys.exit(main())
