"""What a job of one task costs the engine, over the number of nodes of a cluster that is half busy.

    python benchmarks/jobs_on_many_nodes.py [--nodes 1,1000,4000] [--jobs 100] [--rounds 4]

One engine and a journal in memory.  Nodes have four processors, of which jobs use two.  In turns a job
ends and another one is submitted, which starts at once.  Microseconds of processor time for each job, the
least of the rounds; it takes a minute.  To compare revisions, run it in turns with `PYTHONPATH` set to the
`src` of each.
"""

import argparse
import time
from collections import deque
from collections.abc import Sequence

from headnode.adapters.clock import VirtualClock
from headnode.adapters.journal.memory import MemoryJournal
from headnode.core.model.job import JobSpec
from headnode.core.model.node import NodeFacts
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.scheduling.policies import POLICIES
from headnode.core.state.command import AttemptReport
from headnode.core.state.events import Event
from headnode.core.state.job_events import InstancesDispatched
from headnode.core.state.join import RegisterNode
from headnode.core.state.report import ReportEnded
from headnode.core.state.submit import CreateJob
from headnode.engine.engine import Engine
from heads import machine

PROCESSORS, BUSY = 4, 2  # of each node
STEP = 0.001  # seconds between two commands
WARMING = 50  # jobs before the first round
USER = User(name="u", uid=1000, gid=1000)


class Nodes:
    """An `Effects` that keeps what was dispatched, in order."""

    def __init__(self) -> None:
        self.dispatched: deque[tuple[JobId, str]] = deque()

    def perform(self, events: Sequence[Event], cluster: object) -> None:
        """Keep the jobs that were dispatched, with their nodes."""
        for event in events:
            if isinstance(event, InstancesDispatched):
                self.dispatched.append((event.job, event.placement[0][0]))


class Cluster:
    """An engine with nodes that are half busy."""

    def __init__(self, nodes: int) -> None:
        self._clock, self._nodes = VirtualClock(Instant(1000.0)), Nodes()
        self._engine = Engine(MemoryJournal(), self._clock, dict(POLICIES), self._nodes)
        facts = (NodeFacts(name=f"n{number:05}", processors=PROCESSORS) for number in range(nodes))
        self._engine.handle([RegisterNode(facts=each, approved=True) for each in facts])
        self._engine.handle([self._submission() for _ in range(BUSY * nodes)])

    @staticmethod
    def _submission() -> CreateJob:
        return CreateJob(by=USER, spec=JobSpec(tasks=(TaskSpec(command="/bin/true"),)), submit=True)

    def _tick(self) -> Instant:
        self._clock.advance_to(Instant(self._clock.now() + STEP))
        return self._clock.now()

    def turn(self) -> None:
        """End the job that was dispatched first, and submit another."""
        job, node = self._nodes.dispatched.popleft()
        now = self._tick()
        outcome = AttemptOutcome("exited", 0, started=Instant(now - STEP), ended=now)
        report = AttemptReport(task=1, instance=1, attempt=1, outcome=outcome)
        self._engine.handle([ReportEnded(node=node, job=job, reports=(report,))])
        self._tick()
        self._engine.handle([self._submission()])


def cost(nodes: int, jobs: int, rounds: int) -> float:
    """Return the microseconds of processor time of a job in the best round."""
    cluster = Cluster(nodes)
    for _ in range(WARMING):
        cluster.turn()
    best = float("inf")
    for _ in range(rounds):
        begun = time.process_time()
        for _ in range(jobs):
            cluster.turn()
        best = min(best, 1e6 * (time.process_time() - begun) / jobs)
    return best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What a job costs the engine, over the number of nodes.")
    parser.add_argument("--nodes", default="1,1000,4000", help="numbers of nodes (1,1000,4000)")
    parser.add_argument("--jobs", type=int, default=100, help="jobs in a round (100)")
    parser.add_argument("--rounds", type=int, default=4, help="rounds of which the best counts (4)")
    asked = parser.parse_args()
    print(machine())
    print("| nodes | running jobs | microseconds a job |", "|---|---|---|", sep="\n")
    for nodes in map(int, asked.nodes.split(",")):
        print(f"| {nodes:,} | {BUSY * nodes:,} | {cost(nodes, asked.jobs, asked.rounds):,.0f} |", flush=True)


if __name__ == "__main__":
    main()
