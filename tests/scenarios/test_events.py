"""Programs follow what happens by its numbers: nothing is missed, nothing comes twice."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from test_local_socket import Peer, Scene, run
from test_who_may import ADMINISTRATOR as ROOT
from test_who_may import OTHER, OWNER, asking

from documents.released_format import samples_of
from headnode.apps.server.api import events as verb
from headnode.apps.server.api.event_types import EVENT_TYPES, INTERNAL_EVENTS, OBJECTS
from headnode.core.model.errors import BadRequest, WrongState
from headnode.core.model.template import JobTemplate, encode_template
from headnode.core.state.events import EVENTS, TemplateSet
from headnode.core.state.job_events import JobEvent
from testbed.function_door import call


def test_every_event_has_a_type_or_a_reason_why_clients_are_not_told() -> None:
    assert {*EVENT_TYPES} | {*INTERNAL_EVENTS} == {*EVENTS}
    assert not {*EVENT_TYPES} & {*INTERNAL_EVENTS}


def test_every_event_that_clients_are_told_of_makes_an_object() -> None:
    template = encode_template(JobTemplate(name="long"))
    for event, (kind, data_of) in EVENT_TYPES.items():
        for one in samples_of(event):
            found = replace(one, template=template) if event is TemplateSet else one
            answer = msgspec.to_builtins(OBJECTS[event](7, found, lambda job: f"owner of {job}"))
            assert answer.items() >= msgspec.to_builtins(data_of(found)).items(), kind
            assert (answer["number"], answer["type"], answer["at"]) == (7, kind, found.at)
            assert answer.get("by", "") == getattr(found, "by", ""), kind
            if issubclass(event, JobEvent):
                assert (answer["job"], answer["owner"]) == (found.job, f"owner of {found.job}"), kind


async def submit(scene: Scene, command: str = "x") -> int:
    return int((await call(scene.context, OWNER, "submit_job", tasks=[{"command": command}]))["job"])


async def page(scene: Scene, **fields: Any) -> dict[str, Any]:
    return await call(scene.context, OWNER, "events", **fields)


def types(answer: dict[str, Any]) -> list[str]:
    return [each["type"] for each in answer["events"]]


def test_the_events_of_a_job_tell_its_life(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        job = await submit(scene)
        await scene.end(job, exit_code=3)
        found = await page(scene, after=0, jobs=[job])
        shown = [(each["type"], each.get("state")) for each in found["events"]]
        assert shown == [
            ("job.created", "configuring"),
            ("job.submitted", "queued"),
            ("job.started", "running"),
            ("task.ended", None),
            ("job.ended", "failed"),
        ]
        assert {(each["job"], each["owner"]) for each in found["events"]} == {(job, OWNER.name)}
        (task,) = found["events"][3]["tasks"]
        assert (task["state"], task["exit_code"], task["node"]) == ("failed", 3, "n1")
        assert found["events"][2]["nodes"] == {"n1": 1}
        assert found["after"] == found["newest"]

    run(tmp_path, story)


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_pages_of_any_size_give_every_event_once(tmp_path: Path, limit: int) -> None:
    async def story(scene: Scene) -> None:
        for _ in range(3):
            await scene.end(await submit(scene))
        whole = await page(scene, after=0)
        found: list[dict[str, Any]] = []
        after = 0
        while True:
            answer = await page(scene, after=after, limit=limit)
            assert len(answer["events"]) <= limit
            found += answer["events"]
            if answer["after"] == answer["newest"]:
                break
            after = answer["after"]
        assert found == whole["events"]

    run(tmp_path, story)


def test_filters_leave_out_what_was_not_asked_for(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        mine, other = await submit(scene), await submit(scene)
        await call(scene.context, OTHER, "submit_job", tasks=[{"command": "y"}])
        assert {e["job"] for e in (await page(scene, after=0, jobs=[mine, other]))["events"]} == {mine, other}
        assert {e["owner"] for e in (await page(scene, after=0, owner=OTHER.name))["events"]} == {OTHER.name}
        assert {*types(await page(scene, after=0, types=["job.submitted", "node"]))} == {
            "job.submitted",
            "node.registered",
        }
        with pytest.raises(BadRequest, match=r"did you mean 'job\.ended'"):
            await page(scene, types=["job.endet"])

    run(tmp_path, story)


def test_a_number_of_another_life_of_the_cluster_is_refused(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        newest = (await page(scene))["newest"]
        with pytest.raises(WrongState, match="events-gone"):
            await page(scene, after=newest + 1)

    run(tmp_path, story)


async def follow(peer: Peer, until: str, **fields: Any) -> list[dict[str, Any]]:
    """Return the events up to the first of a type."""
    found: list[dict[str, Any]] = []
    answer = await peer.done(verb="watch_events", **fields)
    while True:
        found += answer["events"]
        if any(each["type"] == until for each in found):
            return found
        answer = await peer.receive()


def test_one_who_follows_misses_nothing_at_the_seam_of_past_and_present(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        first = await submit(scene)
        async with asking(scene, OWNER) as peer:
            task = asyncio.ensure_future(follow(peer, "node.paused", after=0))
            await asyncio.sleep(0)
            for _ in range(5):
                await scene.end(first)
                first = await submit(scene)
            await scene.end(first)
            await call(scene.context, ROOT, "pause_node", node="n1")
            found = await task
        assert found == (await page(scene, after=0))["events"]

    run(tmp_path, story)


def test_one_who_is_far_behind_reads_on_from_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verb, "MAX_SEEN", 5)

    async def story(scene: Scene) -> None:
        async with asking(scene, OWNER) as peer:
            task = asyncio.ensure_future(follow(peer, "node.paused", limit=3))
            await follows(scene)
            for _ in range(20):
                await scene.end(await submit(scene))
            await call(scene.context, ROOT, "pause_node", node="n1")
            found = await task
        begin = found[0]["number"] - 1
        whole: list[dict[str, Any]] = []
        while not whole or whole[-1]["type"] != "node.paused":
            whole += (answer := await page(scene, after=begin))["events"]
            begin = answer["after"]
        assert found == whole

    run(tmp_path, story)


def test_events_stay_in_memory_until_all_who_follow_have_looked_at_them(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        feed = scene.context.feed
        with feed.following() as quick, feed.following() as slow:
            begin = quick.position
            await scene.end(await submit(scene))
            newest = begin + len(list(feed.after(begin) or ()))
            assert newest == scene.context.engine.number
            feed.seen(quick, newest)
            assert len(list(feed.after(begin) or ())) == newest - begin
            feed.seen(slow, newest - 1)
            assert feed.after(begin) is None
            assert [number for number, _ in feed.after(newest - 1) or ()] == [newest]
        with feed.following():
            assert feed.after(newest - 1) is None

    run(tmp_path, story)


async def follows(scene: Scene) -> None:
    """Wait until somebody follows."""
    while not scene.context.feed.followed:
        await asyncio.sleep(0)


def test_the_head_forgets_one_who_has_gone(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with asking(scene, OWNER) as peer:
            await peer.done(verb="watch_events")
        assert not scene.context.feed.followed

    run(tmp_path, story, seconds=10)


async def states(scene: Scene, job: int, **fields: Any) -> list[dict[str, Any]]:
    """Return all changes, asked page by page."""
    found: list[dict[str, Any]] = []
    after, more = 0, True
    while more:
        answer = await call(scene.context, OWNER, "job_states", job=job, after=after, **fields)
        found += answer["changes"]
        after, more = answer["after"], answer["more"]
    return found


@pytest.mark.parametrize("limit", [1, 1000])
def test_the_states_of_a_job_and_its_tasks_are_shown_with_time_and_reason(tmp_path: Path, limit: int) -> None:
    async def story(scene: Scene) -> None:
        other = await submit(scene)
        job = await submit(scene)
        await scene.end(other)
        await scene.end(job, exit_code=3)
        found = await states(scene, job, limit=limit)
        assert [(each.get("task"), each["state"], each.get("exit_code")) for each in found] == [
            (None, "configuring", None),
            (None, "queued", None),
            (None, "running", None),
            (1, "failed", 3),
            (None, "failed", None),
        ]
        ended = found[3]
        assert (ended["first"], ended["last"], ended["node"]) == (1, 1, "n1")
        assert found[2]["why"].startswith("Started on n1")
        assert [each["at"] for each in found] == sorted(each["at"] for each in found)
        assert await states(scene, job, task=1, limit=limit) == [ended]

    run(tmp_path, story)


def test_the_states_of_tasks_that_never_started_are_reported_in_spans(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        sweep = {"command": "x", "parametric": "1-4"}
        job = int((await call(scene.context, OWNER, "create_job", tasks=[sweep]))["job"])
        await call(scene.context, OWNER, "cancel_task", job=job, task=1, message="wrong input")
        (change,) = await states(scene, job, task=1)
        assert (change["state"], change["first"], change["last"]) == ("canceled", 1, 4)
        assert "wrong input" in change["why"]

    run(tmp_path, story)
