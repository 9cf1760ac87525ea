"""Jobs with a choice of places get their turns: those that can go nowhere now keep no other waiting."""

import asyncio
from pathlib import Path

import pytest

from headnode.adapters.batch.orders import ResourceStatus
from headnode.adapters.clock import WallClock
from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.apps.server import place_desk
from headnode.apps.server.command_batcher import CommandBatcher
from headnode.apps.server.place_desk import MAX_LOOKED_AT, PlaceDesk, SeenPlaces
from headnode.apps.server.predicted_starts import PredictedStarts
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId, Seconds
from headnode.core.model.resource import BatchResource
from headnode.core.model.resource_system import ResourceSystem
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.scheduling.policies import POLICIES
from headnode.core.state.resources import SetResource
from headnode.core.state.submit import CreateJob
from headnode.engine.engine import Engine
from testbed.in_process import InProcessNodes

ROOT = User(name="root", uid=0, gid=0, administrator=True)


def resource(name: str) -> SetResource:
    return SetResource(by=ROOT, resource=BatchResource(name=name, system=ResourceSystem.PBS, mark="12345678"))


def job(resource: str) -> CreateJob:
    spec = JobSpec(tasks=(TaskSpec(command="true"),), resource=resource, run_time=Seconds(60.0))
    return CreateJob(by=ROOT, spec=spec, submit=True)


def test_jobs_whose_resources_do_not_answer_keep_no_job_behind_them_from_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_desk, "LOOK", 0.0)

    async def look() -> None:
        journal, clock = SqliteJournal(tmp_path / "journal.db"), WallClock()
        engine = Engine(journal, clock, dict(POLICIES), InProcessNodes())
        batcher = CommandBatcher(engine, lambda: pytest.fail("the engine broke"))
        engine.handle([resource(name) for name in ("physics", "biology", "chemistry")])
        engine.handle([job("physics,biology")] * MAX_LOOKED_AT)
        engine.handle([job("physics,chemistry")])
        last = JobId(MAX_LOOKED_AT + 1)
        away = {
            name: ResourceStatus(name, clock.now(), Seconds(1.0), 0, "it is down")
            for name in ("physics", "biology")
        }
        starts = PredictedStarts(engine, journal, dict)
        seen = SeenPlaces(away, lambda _: None, lambda _: None)
        keeping = asyncio.create_task(PlaceDesk(engine, batcher, lambda: starts, seen, journal).keep())
        try:
            async with asyncio.timeout(10):
                while last in engine.cluster.resource_index.choosing:
                    assert not keeping.done()
                    await asyncio.sleep(0.001)
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            journal.close()
        assert len(engine.cluster.resource_index.choosing) == MAX_LOOKED_AT

    asyncio.run(look())
