"""A head with many recurring jobs, whose next times take long to find, answers others in between."""

import asyncio
from pathlib import Path

import pytest
from test_local_socket import Scene, run
from test_who_may import OWNER, described

from headnode.apps.server import recurring_jobs as clock_of_recurring
from headnode.apps.server.api import recurring as verbs
from headnode.core.state.recurring_record import CreateRecurring
from headnode.protocol.recurring_answers import ListRecurringRequest

MANY = 20


@pytest.mark.parametrize("what", ["a list", "the clock"])
def test_others_are_answered_while_recurring_jobs_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(clock_of_recurring, "LONGEST_TURN", 0.0)  # each takes longer

    async def story(scene: Scene) -> None:
        for number in range(MANY):
            asked = CreateRecurring(by=OWNER, owner=OWNER, recurring=described(f"nightly{number}"))
            await scene.batcher.ask(asked)
        looks_at = (
            verbs.recurring_jobs(scene.context, OWNER, ListRecurringRequest())
            if what == "a list"
            else clock_of_recurring.RecurringJobs(scene.context)._round()
        )
        looking, turns = asyncio.ensure_future(looks_at), 0
        while not looking.done():
            await asyncio.sleep(0)
            turns += 1
        assert looking.result()
        assert turns >= MANY

    run(tmp_path, story)
