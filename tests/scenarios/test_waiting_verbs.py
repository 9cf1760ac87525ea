"""A head is asked to suspend, resume, hold and release, and tells of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from test_explaining import NOW, explained, submitted
from test_local_socket import Peer, Scene, run

from headnode.core.model.quantities import JobId


async def suspendable(peer: Peer, **more: Any) -> int:
    described = {"suspendable": True, "tasks": [{"command": "x", "processors": 2}]} | more
    answer = await peer.done(verb="submit_job", jobfile=json.dumps(described), dialect="native")
    return int(answer["job"])


async def stand_still(scene: Scene, peer: Peer, job: int) -> None:
    """Suspend a job, and let its nodes say that all stands still."""
    await peer.done(verb="suspend_job", job=job)
    cluster = scene.engine.cluster
    run_of = cluster.jobs[JobId(job)].run
    from headnode.core.state import suspend as c

    assert run_of is not None
    for node in run_of.places:
        await scene.batcher.ask(c.ReportSuspended(node=node, job=JobId(job), number=run_of.suspensions))


async def shown(peer: Peer, job: int) -> dict[str, Any]:
    answer = await peer.done(verb="job", job=job)
    found: dict[str, Any] = answer["job"]
    return found


def test_a_suspended_job_says_since_when_and_what_lets_it_go_on(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            job = await suspendable(peer)
            answer = await peer.done(verb="suspend_job", job=job)
            assert answer["state"] == "suspending"
            await stand_still(scene, peer, job)
            reply = await shown(peer, job)
            assert (reply["state"], reply["state_detail"]) == ("Suspended", "suspended")
            assert (reply["suspended_since"], reply["allocated"]) == (NOW, 0)
            assert reply["pending_reason"].startswith("it has been suspended since ")
            assert reply["allocation"]
            listed = await peer.done(verb="jobs", states=["Suspended"])
            assert [each["id"] for each in listed["jobs"]] == [job]
            (reason,) = (await explained(peer, job))["reasons"]
            assert (reason["kind"], reason["subject"]) == ("hold", "suspended")
            other = await submitted(peer, "2")
            assert (await shown(peer, other))["state"] == "Running"
            assert (await peer.done(verb="resume_job", job=job))["state"] == "resuming"
            needs = "to resume, it needs 2 processors on n1; none free now"
            assert (await explained(peer, job))["reasons"][0]["text"] == needs
            assert (await shown(peer, job))["pending_reason"] == needs
            await scene.end(other)
            reply = await shown(peer, job)
            assert (reply["state"], reply["starts"]) == ("Running", 1)
            texts = [entry["text"] for entry in reply["history"]]
            assert any(text.startswith("Suspend requested by ") for text in texts)
            assert any(text.startswith("Resumed on n1 with 2 cores") for text in texts)

    run(tmp_path, story)


def test_a_held_job_names_each_hold_and_who_set_it(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            blocker = await submitted(peer, "2")
            job = await submitted(peer, "1")
            await peer.done(verb="hold_job", job=job)
            answer = await peer.done(verb="hold_job", job=job, name="data", message="no input yet")
            assert [(hold["name"], hold["message"]) for hold in answer["holds"]] == [
                ("user", ""), ("data", "no input yet"),
            ]  # fmt: skip
            by = answer["holds"][0]["by"]
            reasons = [
                reason for reason in (await explained(peer, job))["reasons"] if reason["kind"] == "hold"
            ]
            assert [reason["subject"] for reason in reasons] == ["user", "data"]
            assert f"'data', set by {by} at " in reasons[1]["text"]
            assert reasons[1]["text"].endswith(": no input yet")
            await scene.end(blocker)
            reply = await shown(peer, job)
            assert reply["state"] == "Queued"
            assert "'user'" in reply["pending_reason"]
            assert (await peer.done(verb="release_job", job=job))["holds"][0]["name"] == "data"
            assert (await peer.done(verb="release_job", job=job, all=True))["holds"] == []
            reply = await shown(peer, job)
            assert reply["state"] == "Running"
            texts = [entry["text"] for entry in reply["history"]]
            assert f"Hold data set by {by}: no input yet" in texts
            assert f"Hold data released by {by}" in texts

    run(tmp_path, story)


def test_a_dry_run_reports_holds_and_of_the_deadline(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            described = {
                "holds": ["data"],
                "run_time": "1h",
                "end_by": NOW + 7200,
                "tasks": [{"command": "x"}],
            }
            answer = await peer.done(verb="check_job", jobfile=json.dumps(described), dialect="native")
            reply = answer["explanation"]
            assert [reason["text"] for reason in reply["reasons"]] == ["it would have the hold 'data'"]
            assert (reply["deadline"]["at"], reply["deadline"]["last_start"]) == (NOW + 7200, NOW + 3600)

    run(tmp_path, story)


@pytest.mark.parametrize("verb", ["suspend_job", "resume_job", "hold_job", "release_job"])
def test_a_job_that_is_over_is_refused_with_what_to_do(tmp_path: Path, verb: str) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            job = await submitted(peer, "1")
            await scene.end(job)
            answer = await peer.ask(verb=verb, job=job)
            assert (answer["ok"], answer["code"]) == (False, "job-over")
            assert f"hn job requeue {job}" in answer["fix"]

    run(tmp_path, story)


@pytest.mark.parametrize(("blocked_for", "late"), [(60, -600), (90, 1200)])
def test_a_queued_job_that_may_miss_its_deadline_says_by_how_much(
    tmp_path: Path, blocked_for: int, late: int
) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            await submitted(peer, "2", runtime=str(blocked_for))
            job = await suspendable(peer, run_time="2h", end_by=NOW + 3 * 3600 + 600)
            deadline = (await explained(peer, job))["deadline"]
            assert deadline["at"] == NOW + 3 * 3600 + 600
            assert deadline["last_start"] == NOW + 3600 + 600
            assert deadline["by_limits"] == late

    run(tmp_path, story)
