"""A head with many recurring jobs, whose next times take long to find, answers others in between."""

import asyncio
import os
from pathlib import Path

import pytest
from msgspec.structs import replace
from test_local_socket import Scene, run
from test_who_may import OWNER, described

from headnode.apps.server import recurring_jobs as clock_of_recurring
from headnode.apps.server.api import recurring as verbs
from headnode.core.model.errors import WrongState
from headnode.core.state.job_record import decode_spec
from headnode.core.state.recurring_record import CreateRecurring
from headnode.protocol.recurring_answers import ListRecurringRequest, ModifyRecurringRequest

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


def test_of_two_changes_of_options_at_the_same_time_none_is_lost_in_silence(tmp_path: Path) -> None:
    owner = replace(OWNER, uid=os.geteuid())  # of whom the head needs no account

    async def story(scene: Scene) -> None:
        await scene.batcher.ask(CreateRecurring(by=owner, owner=owner, recurring=described()))
        terms: list[dict[str, str]] = [{"priority": "Lowest"}, {"jobname": "other"}]
        asked = [ModifyRecurringRequest(recurring="1", terms=each) for each in terms]
        both = [verbs.modify_recurring_job(scene.context, owner, each) for each in asked]
        first, second = await asyncio.gather(*both, return_exceptions=True)
        assert not isinstance(first, BaseException)
        assert isinstance(second, WrongState)
        assert second.code == "changed"
        await verbs.modify_recurring_job(scene.context, owner, asked[1])
        spec = decode_spec(scene.context.cluster.recurring.record(1).recurring.spec)
        assert (spec.priority, spec.name) == (0, "other")

    run(tmp_path, story)
