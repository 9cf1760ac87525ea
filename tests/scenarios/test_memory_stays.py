"""The engine's memory follows what is alive, not what has ended."""

import gc
import tracemalloc
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from headnode.adapters.clock import VirtualClock
from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.core.model.job import JobSpec
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.scheduling import policies
from headnode.core.state.join import RegisterNode
from headnode.core.state.submit import CreateJob
from headnode.engine.engine import Engine
from testbed.in_process import InProcessNodes

WARM_UP, MORE = 300, 600  # jobs
MAX_GROWTH = 400  # bytes for each job: less than one running job in the picture takes
CACHED = type(lru_cache(int))
ADA = User(name="ada", uid=1000, gid=1000)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    opened = SqliteJournal(tmp_path / "journal.db")
    yield opened
    opened.close()


def run_jobs(engine: Engine, nodes: InProcessNodes, clock: VirtualClock, numbers: range) -> None:
    """Run jobs with limits and deadlines that are far away, each before some that wait for it."""
    for number in numbers:
        task = TaskSpec(command=f"./run {number}")
        now = clock.now()
        end_by = Instant(now + 86_400.0 * 30) if number % 2 else None
        spec = JobSpec(name=f"job {number}", tasks=(task, task), run_time=Seconds(86_400.0), end_by=end_by)
        engine.handle([CreateJob(by=ADA, spec=spec, submit=True)])
        if number % 3 == 0:  # more jobs than fit, so that the policy plans with those that run
            continue
        while held := nodes.running():
            engine.handle([nodes.ended(held[0], clock.now(), started=now)])
        clock.advance(Seconds(1.0))


def memory() -> int:
    """Return the bytes that are in use, without caches of functions: those have a bound."""
    gc.unfreeze()  # what was there before the tests has caches, too
    gc.collect()
    for each in gc.get_objects():
        if isinstance(each, CACHED):
            each.cache_clear()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_memory_does_not_grow_with_the_jobs_that_have_ended(journal: SqliteJournal) -> None:
    clock, nodes = VirtualClock(Instant(1_700_000_000.0)), InProcessNodes()
    engine = Engine(journal, clock, {"easy": policies.plan_easy}, nodes)
    facts = NodeFacts(name="n1", processors=2, memory=1000, boot_id="b")
    engine.handle([RegisterNode(facts=facts, approved=True)])
    tracemalloc.start()
    try:
        run_jobs(engine, nodes, clock, range(WARM_UP))
        before = memory()
        run_jobs(engine, nodes, clock, range(WARM_UP, WARM_UP + MORE))
        after = memory()
    finally:
        tracemalloc.stop()
    assert engine.cluster.next_job > WARM_UP + MORE
    assert (after - before) / MORE < MAX_GROWTH
