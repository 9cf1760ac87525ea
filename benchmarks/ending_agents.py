"""Agents on the head's own machine that end every task at once, without starting a process.

``python benchmarks/ending_agents.py STATE AGENTS PROCESSORS`` is their process.  Run alone, this prints
nothing: the other files use it.
"""

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path

from headnode.adapters.wire.agent_messages import AttemptResult, AttemptStart, Results, Started
from headnode.adapters.wire.messages import FromHead, ResultsAck, Run, Welcome
from headnode.core.model.outcome import AttemptOutcome, ResourceUsage
from headnode.core.model.quantities import Instant
from simulated_agents import SimulatedAgent

EXITS = 10  # every tenth instance ends with exit code 1


class EndingAgent(SimulatedAgent):
    """One agent of this machine.  A task starts and ends in the moment in which the head dispatches it."""

    def __init__(self, name: str, processors: int, state: Path) -> None:
        super().__init__(name, processors, state / "simulated", lambda: None)
        self._socket = state / "nodes.sock"
        self._results = 0
        self._unacknowledged: dict[int, Results] = {}

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a new connection to the head."""
        return await asyncio.open_unix_connection(self._socket)

    def obey(self, message: FromHead, data: bytes) -> None:
        """Obey, and forget results that the head has recorded."""
        if isinstance(message, Welcome):
            for results in self._unacknowledged.values():
                self.send(results)
        if isinstance(message, ResultsAck):
            self._unacknowledged.pop(message.number, None)
        super().obey(message, data)

    def run(self, message: Run) -> None:
        """Report the attempts as started and ended."""
        now = Instant(time.time())
        begun = tuple(AttemptStart(message.task, *who, now) for who in message.attempts)
        self.send(Started(job=message.job, started=begun))
        ended = tuple(
            AttemptResult(
                message.task, instance, attempt,
                AttemptOutcome(
                    "exited", int((message.job + instance) % EXITS == 0),
                    started=now, ended=now, usage=ResourceUsage(peak_memory=1000),
                ),
            )
            for instance, attempt in message.attempts
        )  # fmt: skip
        self._results += 1
        results = Results(number=self._results, job=message.job, results=ended)
        self._unacknowledged[self._results] = results
        self.send(results)


async def pulse(agents: list[EndingAgent]) -> None:
    """Let every agent send a heartbeat each second."""
    while True:
        await asyncio.sleep(1.0)
        for agent in agents:
            agent.beat()


async def main(state: Path, count: int, processors: int) -> None:
    """Run the agents until standard input ends."""
    agents = [EndingAgent(f"n{number:03}", processors, state) for number in range(count)]
    tasks = [asyncio.create_task(agent.live()) for agent in agents]
    tasks.append(asyncio.create_task(pulse(agents)))
    with contextlib.suppress(BrokenPipeError):
        await asyncio.to_thread(sys.stdin.read)
    os._exit(0)


if __name__ == "__main__" and len(sys.argv) == 4:
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
