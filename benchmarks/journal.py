"""How fast the journal records, beside bare sqlite3 with the same bytes, and what a long past costs.

    python benchmarks/journal.py [--past 1000000]

Every batch is synced to the disk before the next begins, in both.  The figures end with the ratio to bare
sqlite3, which inserts the events encoded beforehand and nothing else: no checksums, no archive, no instances.
"""

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.core.model.job import JobSpec
from headnode.core.model.outcome import AttemptOutcome, ResourceUsage
from headnode.core.model.quantities import Instant, JobId, Priority
from headnode.core.model.task import TaskSpec
from headnode.core.state.events import Event, encode
from headnode.core.state.job_events import InstanceEnd, InstancesDispatched, InstancesEnded
from headnode.core.state.job_record import JobRecord, encode_record, encode_spec
from headnode.core.state.transitions import JobState
from headnode.engine.ports import EndedJob
from sweep_of_true import one_life

NOW = Instant(1_700_000_000.5)
SPEC = JobSpec(name="a job", tasks=(TaskSpec(command="simulate --steps 1000 --output result.dat"),))
RECORD = encode_record(
    JobRecord(JobId(1), "user1", 1, 1, encode_spec(SPEC), JobState.FINISHED, Priority(2000), NOW)
)
EXITED = AttemptOutcome("exited", 0, None, NOW, NOW, usage=ResourceUsage(peak_memory=5000))
SIZES = (2, 50, 500)
EVENTS = 50_000  # at most, for one measurement


def batches(size: int, job: JobId) -> Iterator[list[Event]]:
    """Yield batches as a sweep makes them: half of the events dispatch an instance, half end one."""
    for first in range(1, 1 + min(EVENTS, 3000 * size) // 2, size // 2):
        batch: list[Event] = []
        for number in range(first, first + size // 2):
            place = (("node01", (number % 64,)),)
            done = InstanceEnd(1, number, 1, "finished", EXITED, "node01")
            batch.append(
                InstancesDispatched(at=NOW, job=job, task=1, placement=place, attempts=((number, 1),))
            )
            batch.append(InstancesEnded(at=NOW, job=job, ended=(done,)))
        yield batch


def ended(job: int) -> EndedJob:
    """Return an ended job; its record is as long as that of a plain job."""
    state = ("finished", "finished", "failed", "canceled")[job % 4]
    return EndedJob(
        id=JobId(job),
        owner=f"user{job % 50}",
        name="a job",
        project="",
        state=state,
        submitted=NOW,
        ended=NOW,
        record=RECORD,
    )


def timed(append: Callable[[list[Event]], object], work: Sequence[list[Event]]) -> tuple[float, float]:
    """Return batches per second and events per second."""
    began = time.perf_counter()
    for batch in work:
        append(batch)
    took = time.perf_counter() - began
    return len(work) / took, sum(map(len, work)) / took


def bare(folder: Path, work: Sequence[list[Event]]) -> tuple[float, float]:
    """Return the same figures for sqlite3 with one table and nothing around it."""
    database = sqlite3.connect(folder / "bare.db", isolation_level=None)
    database.execute("pragma journal_mode = wal")
    database.execute("pragma synchronous = full")
    database.execute("create table if not exists events (number integer primary key, body blob)")
    bodies = {id(batch): [(encode(event),) for event in batch] for batch in work}

    def append(batch: list[Event]) -> None:
        database.execute("begin immediate")
        database.executemany("insert into events (body) values (?)", bodies[id(batch)])
        database.execute("commit")

    figures = timed(append, work)
    database.close()
    return figures


def show_appends(journal: SqliteJournal, folder: Path, title: str) -> None:
    """Print how fast batches of several sizes are recorded."""
    print(title)
    for size in SIZES:
        work = list(batches(size, JobId(1_000_000_000 + size)))
        ours, theirs = timed(journal.append, work), bare(folder, work)
        print(
            f"  batches of {size:3}: {ours[0]:7,.0f} batches/s, {ours[1]:9,.0f} events/s;"
            f"  bare sqlite3 {theirs[0]:7,.0f} batches/s; ratio {ours[0] / theirs[0]:.2f}"
        )


def show_questions(journal: SqliteJournal, jobs: int) -> None:
    """Print how long a page of each list takes."""
    middle = jobs // 2 or None
    questions: dict[str, Callable[[], object]] = {
        "one ended job": lambda: journal.ended_job(JobId(jobs // 3)),
        "50 newest of all": lambda: journal.ended_jobs(owner=None, states=(), before=middle, limit=50),
        "50 failed of all": lambda: journal.ended_jobs(
            owner=None, states=("failed",), before=middle, limit=50
        ),
        "50 of one user": lambda: journal.ended_jobs(owner="user7", states=(), before=middle, limit=50),
        "50 of a state nobody is in": lambda: journal.ended_jobs(
            owner="user4", states=("canceled",), before=None, limit=50
        ),
        "counts of all": lambda: journal.count_ended(owner=None),
        "one instance": lambda: journal.instance(JobId(1), 1, jobs // 3),
        "50 instances": lambda: journal.instances(JobId(1), 1, after=jobs // 3, limit=50),
        "history of a job": lambda: journal.history(JobId(1), 50),
    }
    for name, ask in questions.items():
        began = time.perf_counter()
        for _ in range(100):
            ask()
        print(f"  {name:27} {(time.perf_counter() - began) * 10:8.3f} ms")


def make_past(journal: SqliteJournal, count: int) -> None:
    """End `count` jobs, each with all events of its life, and `count` instances of one job."""
    _, life, _ = one_life()
    for first in range(1, count + 1, 1000):
        numbers = range(first, min(first + 1000, count + 1))
        done = tuple(InstanceEnd(1, n, 1, "finished", EXITED, "node01") for n in numbers)
        lives = [replace(event, job=JobId(number)) for number in numbers for event in life]
        instances = InstancesEnded(at=NOW, job=JobId(1), ended=done)
        journal.append([*lives, instances], ended=[ended(number) for number in numbers])


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--past", type=int, default=1_000_000, help="ended jobs, and ended instances")
    parser.add_argument("--folder", type=Path, help="where to work; a real disk, not one in memory")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        journal = SqliteJournal(folder / "journal.db")
        show_appends(journal, folder, "an empty journal")
        show_questions(journal, 0)
        make_past(journal, options.past)
        show_appends(journal, folder, f"with {options.past:,} ended jobs and as many ended instances")
        show_questions(journal, options.past)
        journal.close()
        size = (folder / "journal.db").stat().st_size
        began = time.perf_counter()
        SqliteJournal(folder / "journal.db").close()
        print(f"the file: {size / 1e6:,.0f} MB; opened and closed in {time.perf_counter() - began:.3f} s")


if __name__ == "__main__":
    main()
