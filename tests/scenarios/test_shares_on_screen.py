"""Shares and what is used of them: who sees them, in pages, on screen; and what orders waiting jobs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_scripted_head import hn
from test_local_socket import Scene, run
from test_owner_limits_on_screen import limit, submit
from test_who_may import ADMINISTRATOR, OPERATOR, OTHER, OWNER, asking

from headnode.core.model.quantities import Seconds
from headnode.core.model.user import User
from testbed.function_door import call


async def shown(scene: Scene, by: User, verb: str = "shares", **fields: Any) -> dict[str, Any]:
    async with asking(scene, by) as peer:
        return await peer.done(verb=verb, **fields)


def accounts(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["user"], each["project"]) for each in answer["users"]]


def test_a_user_sees_its_own_shares_and_an_operator_those_of_all(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await limit(scene, ProjectLimits="idle:jobs=3;*:jobs=9", ProjectShares="new:2;chem:3;*:1")
        await submit(scene, OWNER, "chem")
        await submit(scene, OTHER)
        mine = await shown(scene, OWNER)
        named = [("ada", "chem"), ("ada", "idle"), ("ada", "new")]
        assert (accounts(mine), mine["every"]) == (named, False)
        assert [each["project"] for each in mine["projects"]] == ["chem", "idle", "new"]
        of_bob = await shown(scene, OTHER)
        assert not any(each["used"] for each in of_bob["projects"]), "what others use is theirs"
        every = await shown(scene, OPERATOR)
        assert {("ada", "chem"), ("bob", "")} <= {*accounts(every)}
        assert every["every"]
        assert mine["half_life"] == 604800.0
        assert every["total"] >= sum(each["used"] for each in every["users"]) >= 0.0
        parts = {(each["user"], each["project"]): each["part"] for each in every["users"]}
        assert (parts["ada", "chem"], parts["bob", ""]) == (0.75, 0.25)
        assert [each["shares"] for each in every["projects"]] == [3, 1, 2]

    run(tmp_path, story)


def test_shares_are_listed_in_pages(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        for project in ("", "a,b"):
            await submit(scene, OWNER, project)
        seen, after = list[tuple[str, str]](), ""
        for _ in range(2):
            page = await shown(scene, ADMINISTRATOR, after=after, limit=1)
            seen, after = seen + accounts(page), page["more"] or ""
        assert (seen, after) == ([("ada", ""), ("ada", "a,b")], "")

    run(tmp_path, story)


def test_the_priorities_of_waiting_jobs_have_their_factors_with_weights_and_none_without(
    tmp_path: Path,
) -> None:
    async def story(scene: Scene) -> None:
        waiting = [await submit(scene, by) for by in (OWNER, OWNER, OTHER, OTHER)][2:]
        plain = await shown(scene, OWNER, "priorities")
        assert {each["job"] for each in plain["jobs"]} >= set(waiting)
        assert {each["score"] for each in plain["jobs"]} == {None}
        await limit(scene, PriorityWeights="fair-share=1000,size=100")
        found, after = list[dict[str, Any]](), 0
        while after is not None:
            page = await shown(scene, OWNER, "priorities", after=after, limit=1)
            found, after = found + page["jobs"], page["more"]
        assert [each["job"] for each in found] == [each["job"] for each in plain["jobs"]]
        assert page["weights"] == {"fair_share": 1000, "age": 0, "size": 100}
        assert all(0 < each["score"]["fair_share"] <= 1000 for each in found)
        answer = await shown(scene, OWNER, "explain_job", job=waiting[-1])
        (of_job,) = (each["score"] for each in found if each["job"] == waiting[-1])
        assert answer["score"]["size"] == of_job["size"]
        assert answer["score"]["fair_share"] == pytest.approx(of_job["fair_share"], rel=0.01)

    run(tmp_path, story)


def test_the_pages_of_a_list_of_priorities_are_of_one_time_and_are_worked_out_once(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await limit(scene, PriorityWeights="age=1000", PriorityMaxAge="60")
        jobs = [await submit(scene, OWNER) for _ in range(7)]

        async def page(after: int) -> dict[str, Any]:
            return await shown(scene, OWNER, "priorities", after=after, limit=1)

        first = await page(0)
        kept, waiting = scene.context.priority_list, [job for job in jobs if job >= first["jobs"][0]["job"]]
        scene.clock.advance(Seconds(30))
        await submit(scene, OWNER)
        await call(scene.context, OWNER, "cancel_job", job=waiting[2])
        second = await page(first["more"])
        assert [each["score"] for each in second["jobs"]] == [first["jobs"][0]["score"]]
        third = await page(second["more"])
        assert (third["jobs"], third["more"]) == ([], waiting[2]), "it waits no more"
        assert scene.context.priority_list is kept is not None
        scene.clock.advance(Seconds(31))
        old = await page(third["more"])
        assert scene.context.priority_list is not kept
        assert old["jobs"][0]["score"]["age"] == 1000.0
        again = await page(0)
        assert again["jobs"][0]["job"] == waiting[0]
        every = await shown(scene, OWNER, "priorities")
        assert every["more"] is None
        assert scene.context.priority_list is None, "nothing is kept of a list that was read"

    run(tmp_path, story)


def output(state: Path, *words: str) -> str:
    done = hn(*words, state=state)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_the_screen_lists_projects_with_their_users_and_says_if_no_job_is_ordered_by_them(
    state: Path,
) -> None:
    assert "PriorityWeights has no fair-share" in output(state, "cluster", "shares")
    output(state, "cluster", "params", "PriorityWeights=fair-share=1000,age=10", "ProjectShares=chem:3;bio:1")
    for project in ("chem", "bio", "bio"):
        output(state, "job", "submit", "-n", "2", "-t", "10m", f"/projectname:{project}", "sleep", "600")
    shown = output(state, "cluster", "shares")
    rows = [line.split() for line in shown.splitlines()]
    user = next(row[1] for row in rows[2:] if row[1] != "(all)")
    assert rows[0] == [
        "Project",
        "User",
        "Share",
        "Of",
        "Cluster",
        "Hours",
        "Used",
        "Of",
        "Usage",
        "Fair",
        "Share",
    ]
    assert "also counts what running jobs may still use" in shown
    assert [row[:5] for row in rows[2:] if row[0] != "hn:"] == [
        ["bio", "(all)", "1", "25.0", "%"], ["bio", user, "1", "25.0", "%"],
        ["chem", "(all)", "3", "75.0", "%"], ["chem", user, "1", "75.0", "%"],
    ]  # fmt: skip
    assert [line.split()[0] for line in output(state, "cluster", "shares", "chem").splitlines()[2:]] == [
        "chem"
    ] * 2
    found = json.loads(output(state, "cluster", "shares", "bio", "--json"))
    assert [(each["user"], each["project"], each["shares"]) for each in found] == [
        ("", "bio", 1),
        (user, "bio", 1),
    ]
    assert "you may not see them" in output(state, "cluster", "shares", "nobody")


def test_an_explanation_says_what_orders_the_job(state: Path) -> None:
    output(state, "cluster", "params", "PriorityWeights=fair-share=1000,size=-10")
    for _ in range(3):
        output(state, "job", "submit", "-n", "2", "-t", "10m", "sleep", "600")
    last = max(job["id"] for job in json.loads(output(state, "job", "list", "/state:queued", "--json")))
    text = " ".join(output(state, "job", "explain", str(last)).split())
    number = r"-?\d+\.\d"
    found = re.search(rf"score ({number}) = fair share ({number}) \+ size ({number}); larger scores", text)
    assert found, text
    assert float(found[1]) == pytest.approx(float(found[2]) + float(found[3]), abs=0.11)
    assert float(found[3]) < 0
    asked = json.loads(output(state, "job", "submit", "--dry-run", "--json", "-n", "2", "-t", "1m", "true"))
    assert "'score': {" in str(asked)


def test_weights_that_are_wrong_change_nothing(state: Path) -> None:
    before = output(state, "cluster", "params", "PriorityWeights", "--json")
    done = hn("cluster", "params", "PriorityWeights=fairshare=1", state=state)
    assert done.returncode != 0
    assert "'fairshare' is not one of fair-share, age, size" in done.stderr
    assert output(state, "cluster", "params", "PriorityWeights", "--json") == before
