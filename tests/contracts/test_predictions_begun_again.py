"""When starts are predicted again, and what is learned from the ended jobs then."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from worlds import ADA, World

from headnode.adapters.clock import WallClock
from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.apps.server.predicted_starts import PredictedStarts
from headnode.core.model.quantities import FOREVER, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.prediction.run_times import JobTraits
from headnode.engine.engine import Engine
from headnode.engine.ports import EndedJob
from testbed.in_process import InProcessNodes


class CountedJournal(SqliteJournal):
    """A journal that counts how often it was asked for ended jobs."""

    asked = 0

    def ended_jobs(
        self, *, owner: str | None, states: Sequence[str], before: int | None, limit: int
    ) -> list[EndedJob]:
        self.asked += 1
        return super().ended_jobs(owner=owner, states=states, before=before, limit=limit)


def test_the_ended_jobs_are_read_once_however_often_predictions_begin_again(tmp_path: Path) -> None:
    async def scene() -> None:
        journal = CountedJournal(tmp_path / "journal.db")
        starts = PredictedStarts(
            Engine(journal, WallClock(), dict(POLICIES), InProcessNodes()), journal, dict
        )
        for _ in range(2):
            keeping = asyncio.create_task(starts.keep())
            async with asyncio.timeout(10):
                while not starts.has_learned:
                    await asyncio.sleep(0.001)
            await asyncio.sleep(0)  # the second begins
            await asyncio.to_thread(journal.size)  # behind what it may read
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
        assert journal.asked == 1
        journal.close()

    asyncio.run(scene())


def test_a_start_that_was_expected_by_now_is_predicted_again_when_asked() -> None:
    made = World(1)
    starts = PredictedStarts(made.engine, made.journal, dict)
    starts.foreseer.learner.teach([(JobTraits(ADA.name, "", FOREVER), "finished", Seconds(1.0))] * 2)
    task = TaskSpec(command="sleep")
    made.submit(task, by=ADA)
    waiting = made.submit(task, by=ADA)
    starts.perform([event for _, event in made.journal.replay()], made.cluster)
    for seconds in (10.0, 30.0):  # the job that runs has outlived all that is known of its like
        made.wait(seconds)
        asyncio.run(starts.fresh(waiting))
        expected = starts.foreseer.expected(waiting)
        assert expected is not None
        assert expected.p50 is not None
        assert expected.p50 > made.clock.now()
