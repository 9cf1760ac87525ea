"""A sweep of 2,000 x /bin/true, submit to all finished, against xargs on the same machine in the same run.

Then the same with 1,000,000 ended jobs in the store.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.core.lifecycle.events import JobCreated
from headnode.core.lifecycle.records import JobRecord, encode_record, encode_spec
from headnode.core.lifecycle.states import JobState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId, Priority
from headnode.core.model.task import TaskSpec
from headnode.engine.ports import EndedJob
from heads import Head, head, machine

TASKS = 2_000
ROUNDS = 3


def xargs() -> float:
    """Return how many /bin/true a second xargs runs, two at a time."""
    numbers = "\n".join(map(str, range(TASKS)))
    begun = time.perf_counter()
    subprocess.run(["xargs", "-P2", "-n1", "/bin/true"], input=numbers, text=True, check=True)
    return TASKS / (time.perf_counter() - begun)


def sweep(here: Head) -> float:
    """Return how many instances a second a sweep runs, from submission to the end of the job."""
    begun = time.perf_counter()
    job = here.client.ask("submit_job", tasks=[{"command": "/bin/true", "parametric": f"1-{TASKS}"}])["job"]
    for answer in here.client.follow("watch_job", job=job):
        if answer["done"] and answer["jobs"][0]["state"] != "Finished":
            sys.exit(f"the sweep ended badly: {answer['jobs'][0]}")
    return TASKS / (time.perf_counter() - begun)


def fill(state: Path, jobs: int) -> None:
    """Put ended jobs into a store that no head uses."""
    journal = SqliteJournal(state / "journal.db")
    spec = JobSpec(name="old", tasks=(TaskSpec(command="/bin/true"),))
    first = 1_000_000
    for batch in range(first, first + jobs, 10_000):
        ended = []
        for number in range(batch, min(batch + 10_000, first + jobs)):
            record = JobRecord(
                id=JobId(number),
                owner="old",
                uid=1,
                gid=1,
                spec=encode_spec(spec),
                state=JobState.FINISHED,
                priority=Priority(2000),
                created=Instant(0.0),
            )
            ended.append(
                EndedJob(
                    id=JobId(number),
                    owner="old",
                    name="old",
                    project="",
                    state="finished",
                    submitted=Instant(0.0),
                    ended=Instant(float(number)),
                    record=encode_record(record),
                )
            )
        made = JobCreated(
            at=Instant(0.0), job=JobId(batch), owner="old", uid=1, gid=1, spec=encode_spec(spec)
        )
        journal.append([made], ended)
    journal.close()


def rates(here: Head, label: str) -> None:
    """Print the best of a few rounds of each, taken turn by turn."""
    peers, ours = [], []
    for _ in range(ROUNDS):
        peers.append(xargs())
        ours.append(sweep(here))
    ratio = statistics.median(ours) / statistics.median(peers)
    print(
        f"{label}: {statistics.median(ours):,.0f} tasks/s; xargs -P2: {statistics.median(peers):,.0f}; "
        f"ratio {ratio:.2f} (promised: 0.6)"
    )


def main() -> None:
    """Print the figures beside what was promised."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ended-jobs", type=int, default=1_000_000, help="ended jobs in the second store")
    asked = parser.parse_args()
    print(machine())
    with head(processors=2) as fresh:
        rates(fresh, f"sweep of {TASKS:,} on a new store")
    with head(processors=2) as old:
        old.client.ask("down")
        old.client.close()
        old.process.wait()
        fill(old.state, asked.ended_jobs)
        old.start_again()
        old.wait_until_ready(1)
        rates(old, f"sweep of {TASKS:,} with {asked.ended_jobs:,} ended jobs in the store")


if __name__ == "__main__":
    main()
