"""What a journal has of large jobs that are over is not in memory after a start, nor while it is read."""

import gc
import tracemalloc
from pathlib import Path

from headnode.adapters.clock import VirtualClock
from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.scheduling.policies import POLICIES
from headnode.core.state.stop import StopJob
from headnode.core.state.submit import CreateJob
from headnode.engine.engine import Engine
from headnode.engine.prediction import RunTimeLearner
from headnode.engine.recovery import recover
from testbed.in_process import InProcessNodes

ADA = User(name="ada", uid=1000, gid=1000)
JOBS, MB = 12, 1024 * 1024
MOST = 5  # descriptions of 4 MB


def test_a_replay_and_a_learner_hold_few_large_jobs_at_a_time(tmp_path: Path) -> None:
    spec = JobSpec(tasks=tuple(TaskSpec(command="x" * 65_000) for _ in range(64)))
    journal = SqliteJournal(tmp_path / "journal.db")
    engine = Engine(journal, VirtualClock(Instant(1_000_000.0)), dict(POLICIES), InProcessNodes())
    for job in range(1, JOBS + 1):
        engine.handle([CreateJob(by=ADA, spec=spec, submit=True)])
        engine.handle([StopJob(by=ADA, job=job, outcome="canceled")])
    del engine
    gc.collect()
    tracemalloc.start()
    try:
        cluster, _, _ = recover(journal)
        for page in RunTimeLearner(cluster).read(journal):
            assert not page
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        journal.close()
    assert peak < MOST * 4 * MB
