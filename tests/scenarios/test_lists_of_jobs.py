"""Lists of jobs find jobs by name, project and time, alive and over, with bounded work for one page."""

from pathlib import Path
from typing import Any

import pytest
from cli_scripted_head import ScriptedHead, hn, job
from test_local_socket import Peer, Scene, run

from headnode.apps.server.api import job_views, watch

NOW = 1_000_000.0


async def listed(peer: Peer, **fields: Any) -> list[int]:
    answer = await peer.done(verb="jobs", **fields)
    return [job["id"] for job in answer["jobs"]]


async def made(peer: Peer, *commands: str, **terms: str) -> list[int]:
    found = []
    for command in commands:
        answer = await peer.done(verb="submit_job", tasks=[{"command": command}], terms=terms)
        found.append(int(answer["job"]))
    return found


def test_jobs_alive_and_over_are_found_by_name_command_and_project(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            over, alive = await made(peer, "a", "b", jobname="Solve heat", projectname="Heat")
            (nameless,) = await made(peer, "solve sound")
            await made(peer, "c", jobname="other")
            await scene.end(over)
            assert await listed(peer, name="solve*") == [nameless, alive, over]
            assert await listed(peer, name="solve heat") == [alive, over]
            assert await listed(peer, name="solve") == []
            assert await listed(peer, project="HEAT") == [alive, over]
            assert await listed(peer, project="heat", states=["Finished"]) == [over]

    run(tmp_path, story)


def test_jobs_are_found_by_when_they_were_made(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            (first,) = await made(peer, "a")
            scene.clock.advance(3600.0)
            (second,) = await made(peer, "b")
            assert await listed(peer, since=NOW + 1800) == [second]
            assert await listed(peer, until=NOW + 1800) == [first]
            assert await listed(peer, since=NOW, until=NOW + 7200) == [second, first]

    run(tmp_path, story)


def test_a_page_looks_at_so_many_jobs_and_says_where_the_next_one_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_views, "MAX_LOOKED_AT", 2)

    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            (wanted,) = await made(peer, "a", jobname="needle")
            hay = await made(peer, "b", "c", "d", jobname="hay")
            first = await peer.done(verb="jobs", name="needle")
            assert (first["jobs"], first["more"]) == ([], hay[1])
            second = await peer.done(verb="jobs", name="needle", before=first["more"])
            assert [job["id"] for job in second["jobs"]] == [wanted]
            assert second["more"] is None

    run(tmp_path, story)


def test_a_list_shows_the_command_and_the_nodes_of_each_job(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            await made(peer, "x" * 1000)
            answer = await peer.done(verb="jobs")
            (job,) = answer["jobs"]
            assert (job["command"], job["nodes"]) == ("x" * 119 + "…", "n1")

    run(tmp_path, story)


def test_who_watches_a_queued_job_hears_again_why_and_until_when_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "BETWEEN_WAITING_UPDATES", 0.01)

    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            await made(peer, "a", "b", "c")
            reply = [await peer.ask(verb="watch_jobs", job=3)]
            reply += [await peer.receive() for _ in range(2)]
            assert [job["id"] for answer in reply for job in answer["jobs"]] == [3, 3, 3]
            assert all("expected" in job and job["pending_reason"] for job in reply[-1]["jobs"])

    run(tmp_path, story)


def test_more_jobs_than_a_page_holds_are_fetched_page_by_page(tmp_path: Path) -> None:
    def jobs(request: dict[str, Any]) -> dict[str, Any]:
        first = request.get("before", 2501) - 1
        page = [job(number) for number in range(first, max(0, first - min(request["limit"], 1000)), -1)]
        last = page[-1]["id"] if page else 1
        return {"jobs": page, "more": last if last > 1 else None, "total": 2500}

    with ScriptedHead(tmp_path, {"jobs": jobs}) as head:
        result = hn("job", "list", "--all", "--limit", "2200", "--quiet", state=tmp_path)
    assert [int(number) for number in result.stdout.split()] == list(range(2500, 300, -1))
    assert [request["limit"] for request in head.asked] == [2200, 1200, 200]


def test_every_page_is_in_the_order_of_ids_also_with_a_job_that_came_back(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            jobs = await made(peer, *"abcdefgh", hold="true")
            for number in (2, 5, 6):
                await peer.done(verb="cancel_job", job=jobs[number])
            await peer.done(verb="requeue_job", job=jobs[2])  # it is the last in memory now
            states = {job: str((await peer.done(verb="job", job=job))["job"]["state"]) for job in jobs}
            assert len(set(states.values())) > 1
            for wanted in ([], ["Canceled"], ["Queued"], ["Configuring", "Queued"], ["Finished"]):
                expected = [job for job in reversed(jobs) if not wanted or states[job] in wanted]
                assert await listed(peer, states=wanted) == expected
                for before in range(1, len(jobs) + 2):
                    rest = [job for job in expected if job < before]
                    assert await listed(peer, states=wanted, before=before, limit=3) == rest[:3]
            assert await listed(peer, owner="nobody") == []

    run(tmp_path, story)
