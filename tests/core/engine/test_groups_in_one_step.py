"""Jobs that come together: one record in the journal, whatever happens on the way."""

from collections.abc import Iterable, Sequence

import pytest
from worlds import ADA, World

from headnode.core.model.dependency import Condition, DependencyLink
from headnode.core.model.errors import Unavailable
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec
from headnode.core.scheduling.policies import POLICIES
from headnode.core.state import groups as c
from headnode.core.state.events import Event
from headnode.core.state.job_events import JobCreated, JobSubmitted
from headnode.engine.engine import Engine
from headnode.engine.ports import EndedJob
from headnode.engine.recovery import save
from journal_model import ModelJournal


class WatchedJournal(ModelJournal):
    """A journal that remembers its batches, and whose disk may be full."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False
        self.batches: list[list[Event]] = []

    def append(
        self, events: Sequence[Event], ended: Iterable[EndedJob] = (), revived: Sequence[JobId] = ()
    ) -> int:
        """Record the events, if there is room."""
        if self.full:
            raise Unavailable(code="journal-full", what="the disk is full", fix="make room")
        self.batches.append(list(events))
        return super().append(events, ended, revived)


class WatchedWorld(World):
    """A world with such a journal."""

    journal: WatchedJournal

    def __init__(self, *processors: int) -> None:
        super().__init__(*processors)
        kept = self.journal
        self.journal = WatchedJournal()
        self.journal.append([event for _, event in kept.replay()])
        self.engine = Engine(self.journal, self.clock, dict(POLICIES), self.nodes)
        self.journal.batches.clear()


def many(jobs: int) -> c.CreateJobs:
    """Return jobs of which each waits for the one before, and for the start of the first."""
    specs = tuple(
        JobSpec(name=f"job {number}", job_group="many", tasks=(TaskSpec(command="x"),))
        for number in range(jobs)
    )
    chain = (DependencyLink(number, number - 1) for number in range(1, jobs))
    starts = (DependencyLink(number, 0, Condition.ON_START) for number in range(1, jobs))
    return c.CreateJobs(by=ADA, specs=specs, links=(*chain, *starts), submit=True)


@pytest.mark.parametrize("jobs", [1, 2, 1000])
def test_all_jobs_of_a_file_are_one_record_of_the_journal(jobs: int) -> None:
    world = WatchedWorld(1)
    world.do(many(jobs))
    (batch,) = world.journal.batches
    assert [event.job for event in batch if isinstance(event, JobCreated)] == list(range(1, jobs + 1))
    assert sum(isinstance(event, JobSubmitted) for event in batch) == jobs
    world.check_replay()


def test_when_the_journal_cannot_write_none_of_them_is_there() -> None:
    world = WatchedWorld(1)
    before = save(world.cluster)
    world.journal.full = True
    (answer,) = world.engine.handle([many(5)])
    assert isinstance(answer, Unavailable)
    assert save(world.cluster) == before
    world.journal.full = False
    assert world.do(many(5))[0].job == 1  # type: ignore[attr-defined]


def test_a_thousand_jobs_in_a_row_run_one_after_the_other() -> None:
    world = WatchedWorld(1)
    world.do(many(1000))
    for number in range(1, 1001):
        assert world.cluster.running == {number}
        world.end(JobId(number), 1)
    assert world.cluster.jobs == {}
