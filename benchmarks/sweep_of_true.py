"""A sweep of 2,000 x /bin/true, submit to all finished, against xargs on the same machine in the same run.

Then the same tasks with a memory limit, which have control groups where there are some, and bound to
processors, in turns with plain ones; and plain ones with 1,000,000 ended jobs in the store: each with all
events of its life.
"""

import argparse
import contextlib
import statistics
import subprocess
import sys
import time
from pathlib import Path

from msgspec.structs import replace

from headnode.adapters.clock import VirtualClock
from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.core.model.job import JobSpec
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.scheduling.policies import POLICIES
from headnode.core.state.apply_events import apply_event
from headnode.core.state.events import Event
from headnode.core.state.join import RegisterNode
from headnode.core.state.submit import CreateJob
from headnode.engine.engine import Engine
from headnode.engine.ports import EndedJob
from headnode.engine.recovery import save
from heads import Head, head, machine
from journal_model import ModelJournal
from testbed.in_process import InProcessNodes

TASKS = 2_000
ROUNDS = 3


def xargs() -> float:
    """Return how many /bin/true a second xargs runs, two at a time."""
    numbers = "\n".join(map(str, range(TASKS)))
    begun = time.perf_counter()
    subprocess.run(["xargs", "-P2", "-n1", "/bin/true"], input=numbers, text=True, check=True)
    return TASKS / (time.perf_counter() - begun)


def sweep(here: Head, **terms: str) -> float:
    """Return how many instances a second a sweep runs, from submission to the end of the job."""
    begun = time.perf_counter()
    tasks = [{"command": "/bin/true", "parametric": f"1-{TASKS}"}]
    job = here.client.ask("submit_job", tasks=tasks, terms=terms)["job"]
    for answer in here.client.follow("watch_jobs", job=job):
        if answer["done"] and answer["jobs"][0]["state"] != "Finished":
            sys.exit(f"the sweep ended badly: {answer['jobs'][0]}")
    return TASKS / (time.perf_counter() - begun)


def one_life() -> tuple[Engine, list[Event], EndedJob]:
    """Return an engine through which one job has gone, the events of the job, and what the archive keeps."""
    journal, clock, nodes = ModelJournal(), VirtualClock(Instant(1.0)), InProcessNodes()
    engine = Engine(journal, clock, dict(POLICIES), nodes)
    engine.handle([RegisterNode(facts=NodeFacts(name="old", processors=2), approved=True)])
    first = engine.number
    spec = JobSpec(name="old", tasks=(TaskSpec(command="/bin/true"),))
    engine.handle([CreateJob(by=User(name="old", uid=1, gid=1), spec=spec, submit=True)])
    for held in nodes.running():
        engine.handle([nodes.started(held, clock.now()), nodes.ended(held, clock.now())])
    ended = journal.ended_job(JobId(1))
    assert ended is not None
    return engine, [event for _, event in journal.replay(first)], ended


def fill(state: Path, jobs: int) -> None:
    """Put ended jobs with all their events into a store that no head uses."""
    engine, life, ended = one_life()
    with contextlib.closing(SqliteJournal(state / "journal.db")) as journal:
        number = journal.append([event for _, event in engine.journal.replay()])
        for batch in range(2, jobs + 2, 2_000):
            ids = [JobId(each) for each in range(batch, min(batch + 2_000, jobs + 2))]
            events = [replace(event, job=each) for each in ids for event in life]
            number = journal.append(events, [replace(ended, id=each) for each in ids])
        for event in life:
            apply_event(engine.cluster, replace(event, job=JobId(jobs + 1)))
        journal.keep_snapshot(number, save(engine.cluster))


def rates(here: Head, label: str, promised: float = 0.6) -> None:
    """Print the medians of a few rounds of each, taken turn by turn."""
    peers, ours = [], []
    for _ in range(ROUNDS):
        peers.append(xargs())
        ours.append(sweep(here))
    ratio = statistics.median(ours) / statistics.median(peers)
    print(
        f"{label}: {statistics.median(ours):,.0f} tasks/s; xargs -P2: {statistics.median(peers):,.0f}; "
        f"ratio {ratio:.2f} (promised: {promised})"
    )


LIMITED = {"estimatedprocessmemory": "100"}
KINDS: dict[str, tuple[str, dict[str, str]]] = {  # which jobs are bound, and the terms
    "plain": ("NoJobs", {}),
    "bound to processors": ("AllJobs", {}),
    "with a memory limit": ("NoJobs", LIMITED),
    "with a memory limit, bound to processors": ("AllJobs", LIMITED),
}


def rates_beside_plain(here: Head, promised: float = 0.75) -> None:
    """Print the medians of sweeps with limits, in turns with plain ones and xargs."""
    peers: list[float] = []
    ours: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(ROUNDS):
        peers.append(xargs())
        for kind, (bound, terms) in KINDS.items():
            here.client.ask("set_parameters", values={"AffinityType": bound})
            ours[kind].append(sweep(here, **terms))
    here.client.ask("set_parameters", values={"AffinityType": None})
    plain, peer = statistics.median(ours["plain"]), statistics.median(peers)
    for kind, seen in ours.items():
        rate = statistics.median(seen)
        print(
            f"sweep of {TASKS:,} {kind}: {rate:,.0f} tasks/s; ratio to xargs {rate / peer:.2f}, "
            f"to plain {rate / plain:.2f} (promised: {promised})"
        )


def main() -> None:
    """Print the figures beside what was promised."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ended-jobs", type=int, default=1_000_000, help="ended jobs in the second store")
    asked = parser.parse_args()
    print(machine())
    with head(processors=2) as fresh:
        rates(fresh, f"sweep of {TASKS:,} on a new store")
        rates_beside_plain(fresh)
    with head(processors=2) as old:
        old.client.ask("stop_head")
        old.client.close()
        old.process.wait()
        fill(old.state, asked.ended_jobs)
        old.start_again()
        old.wait_until_ready(1)
        rates(old, f"sweep of {TASKS:,} with {asked.ended_jobs:,} ended jobs in the store")


if __name__ == "__main__":
    main()
