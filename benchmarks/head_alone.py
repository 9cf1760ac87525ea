"""What a task costs the head without processes and disk, over the number of tasks: it must stay the same.

    python benchmarks/head_alone.py [--sizes 500,2000,10000] [--together 16]

One engine, a journal in memory, and a node of two processors that reports so many results together.
Microseconds of processor time for each task, from submission to the end of the job.  It takes 20 s.
"""

import argparse
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from statistics import median

from headnode.adapters.clock import VirtualClock
from headnode.core.model.job import JobSpec
from headnode.core.model.node import NodeFacts
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.task import TaskSpec, TaskType
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
from journal_model import ModelJournal

WIDTH = 100  # tasks in a layer
RUN_TIME = Seconds(0.001)


class Node:
    """An `Effects` that keeps what was dispatched, in order."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, int, int]] = deque()

    def perform(self, events: Sequence[Event], cluster: object) -> None:
        """Take over what was dispatched."""
        for event in events:
            if isinstance(event, InstancesDispatched):
                self.waiting += ((event.task, *who) for who in event.attempts)


def sweep(number: int) -> list[TaskSpec]:
    """Return one task with so many instances."""
    return [TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=number, increment=1)]


def different(number: int) -> list[TaskSpec]:
    """Return so many tasks with different commands."""
    return [TaskSpec(command=f"x {each}") for each in range(number)]


def layers(number: int) -> list[TaskSpec]:
    """Return layers of tasks, each of which depends on two of the layer before."""
    return [
        TaskSpec(
            command=f"x {each}",
            name=f"t{each}",
            depends_on=(f"t{each - WIDTH}", f"t{each - each % WIDTH - WIDTH + (each + 1) % WIDTH}")
            if each >= WIDTH
            else (),
        )
        for each in range(number)
    ]


def chain(number: int) -> list[TaskSpec]:
    """Return tasks each of which depends on the one before."""
    return [
        TaskSpec(command="x", name=f"t{each}", depends_on=(f"t{each - 1}",) if each else ())
        for each in range(number)
    ]


KINDS: dict[str, Callable[[int], list[TaskSpec]]] = {
    "sweep": sweep,
    "different": different,
    "layers": layers,
    "chain": chain,
}


def cost(kind: str, number: int, together: int) -> float:
    """Return the seconds of processor time for each task of a job."""
    node, clock = Node(), VirtualClock(Instant(1.0))
    engine = Engine(ModelJournal(), clock, dict(POLICIES), node)
    engine.handle([RegisterNode(facts=NodeFacts(name="n", processors=2), approved=True)])
    spec = JobSpec(tasks=tuple(KINDS[kind](number)))
    begun = time.process_time()
    engine.handle([CreateJob(by=User(name="u", uid=1, gid=1), spec=spec, submit=True)])
    [job] = engine.cluster.jobs
    ended = 0
    while node.waiting:
        reports = []
        for _ in range(min(together, len(node.waiting))):
            clock.advance(RUN_TIME)
            at = clock.now()
            outcome = AttemptOutcome("exited", 0, started=Instant(at - RUN_TIME), ended=at)
            reports.append(AttemptReport(*node.waiting.popleft(), outcome))
        engine.handle([ReportEnded(node="n", job=job, reports=tuple(reports))])
        ended += len(reports)
    if ended != number or engine.cluster.jobs:
        sys.exit(f"{kind}: {ended} of {number} tasks have ended")
    return (time.process_time() - begun) / number


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What a task costs the head alone.")
    parser.add_argument("--sizes", default="500,2000,10000", help="numbers of tasks (500,2000,10000)")
    parser.add_argument("--together", type=int, default=16, help="results in a report (16)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of which the median is taken (3)")
    asked = parser.parse_args()
    sizes = [int(size) for size in asked.sizes.split(",")]
    print(machine())
    print("| tasks | " + " | ".join(KINDS) + " |", "|---" * (len(KINDS) + 1) + "|", sep="\n")
    for size in sizes:
        found = [median(cost(kind, size, asked.together) for _ in range(asked.rounds)) for kind in KINDS]
        print(f"| {size:,} | " + " | ".join(f"{1e6 * each:.0f} µs" for each in found) + " |", flush=True)


if __name__ == "__main__":
    main()
