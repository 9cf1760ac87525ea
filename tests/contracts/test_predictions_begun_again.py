"""Predicted starts that begin again after a failure have learned from the ended jobs once."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from headnode.adapters.clock import WallClock
from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.apps.server.predicted_starts import PredictedStarts
from headnode.core.scheduling.policies import POLICIES
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
