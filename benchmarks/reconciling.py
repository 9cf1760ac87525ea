"""A head that is killed under 10,000 running tasks on 100 nodes: how soon it knows again what they run.

The agents are simulated in a process of their own, over real TLS connections.  As real ones, they dial again
each 0.15 s, and send a heartbeat when they are welcome and then at the default interval.  The state is put
right when every node is ready and every agent's digest of what it runs is what the new head expects.
"""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from headnode.adapters.wire.tls import keep_buffers_small
from headnode.core.model.errors import HeadnodeError
from heads import Head, head, machine
from simulated_agents import SimulatedAgent

NODES = int(os.environ.get("NODES", "100"))
EACH = 100  # tasks that run on a node
SWEEPS = NODES // 2  # jobs of as many tasks as a node has processors
SMALL = 10  # tasks of each of the other jobs
AT_ONCE = 20  # that join at the same time
ROUNDS = 5
PROMISED = 2.0  # seconds
TIMEOUT = 300.0  # seconds for everything before and between


async def agents(directory: Path, invitations: list[str]) -> None:
    """Be all agents; print a line when all agree with a head, and wait for one to kill it."""
    keep_buffers_small()
    agreed: set[str] = set()
    made = [
        SimulatedAgent(f"n{number:03}", EACH, directory, lambda name=f"n{number:03}": agreed.add(name))  # type: ignore[misc]
        for number in range(len(invitations))
    ]
    door = asyncio.Semaphore(AT_ONCE)

    async def join(agent: SimulatedAgent, invitation: str) -> None:
        async with door:
            await agent.join(invitation)

    await asyncio.gather(*(join(agent, text) for agent, text in zip(made, invitations, strict=True)))
    lives = [asyncio.create_task(agent.live()) for agent in made]
    print("joined", flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        agreed.clear()
        while len(agreed) < len(made):
            await asyncio.sleep(0.005)
        print(f"agreed {time.time()}", flush=True)
    for life in lives:
        life.cancel()


def fill(here: Head) -> None:
    """Let every processor have a task that runs."""
    sweep = {"command": "simulated", "parametric": f"1-{EACH}"}
    for _ in range(SWEEPS):
        here.client.ask("submit_job", tasks=[sweep], terms={"numprocessors": f"1-{EACH}"})
    for _ in range((NODES - SWEEPS) * EACH // SMALL):
        here.client.ask("submit_job", tasks=[{"command": "simulated"}] * SMALL, terms={})
    deadline = time.monotonic() + TIMEOUT
    while running(here) < NODES * EACH:
        if time.monotonic() > deadline:
            raise SystemExit(f"only {running(here)} tasks run")
        time.sleep(0.2)


def running(here: Head) -> int:
    """Return how many processors have a task."""
    found: int = here.client.ask("cluster")["cluster"]["processors"]["used"]
    return found


def free_address() -> str:
    """Return an address of this machine at which nobody listens: the head is to be found there again."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def spent_by(process: int) -> float:
    """Return the processor seconds that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ready(here: Head) -> bool:
    """Whether the head answers and has all its nodes."""
    with contextlib.suppress(HeadnodeError):
        return int(here.client.ask("cluster")["cluster"]["nodes"].get("Ready", 0)) == NODES
    return False


def main() -> int:
    """Print the figures beside what was promised."""
    print(machine())
    with head(nodes=0, listen=free_address()) as here, tempfile.TemporaryDirectory() as directory:
        invitations = [here.client.ask("invite_node", approve=True)["invitation"] for _ in range(NODES)]
        words = [sys.executable, __file__, "--agents", directory, *invitations]
        others = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert others.stdin is not None
        assert others.stdout is not None
        try:
            others.stdout.readline()
            while not ready(here):
                time.sleep(0.05)
            fill(here)
            print(f"{NODES * EACH} tasks run on {NODES} nodes (the head has {here.memory():.0f} MB)")
            took, spent = [], []
            for _ in range(ROUNDS):
                here.kill()
                began = time.time()
                here.start_again()
                others.stdin.write("go\n")
                others.stdin.flush()
                agreed = float(others.stdout.readline().split()[1])
                while not ready(here):
                    time.sleep(0.005)
                took.append(max(agreed, time.time()) - began)
                spent.append(spent_by(here.process.pid))
                assert running(here) == NODES * EACH
        finally:
            others.kill()
            others.wait()
            here.kill()  # nobody is there who could end the tasks
    worst = max(took)
    print(
        f"after a head was killed all was put right in {sorted(took)[len(took) // 2]:.2f} s, "
        f"at worst of {ROUNDS} in {worst:.2f} s (promised: {PROMISED:.0f}); "
        f"the head used {max(spent):.2f} s of a processor at most"
    )
    return int(worst > PROMISED)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--agents"]:
        asyncio.run(agents(Path(sys.argv[2]), sys.argv[3:]))
        os._exit(0)
    sys.exit(main())
