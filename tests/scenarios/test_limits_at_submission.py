"""Limits of users and projects at the doors of the head: refusals, repeated requests, changes, roles."""

from pathlib import Path
from typing import Any

import pytest
from test_local_socket import Scene, run
from test_many_submissions import GOOD, TWO, codes, submit
from test_who_may import ADMINISTRATOR, OPERATOR, OTHER, OWNER, entries

from headnode.core.model.errors import BadRequest, NotAllowed, Refused, WrongState
from headnode.core.model.user import User
from testbed.function_door import call


async def limit(scene: Scene, users: str = "", projects: str = "") -> None:
    values = {"UserLimits": users or None, "ProjectLimits": projects or None}
    await call(scene.context, ADMINISTRATOR, "set_parameters", values=values)


async def submitted(scene: Scene, by: User = OWNER, command: str = "true", **more: Any) -> int:
    answer = await call(scene.context, by, "submit_job", tasks=[{"command": command}], **more)
    job: int = answer["job"]
    return job


async def state(scene: Scene, job: int) -> str:
    shown: str = (await call(scene.context, OWNER, "job", job=job))["job"]["state"]
    return shown


def test_of_many_submissions_those_are_accepted_that_the_limit_leaves_room_for(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await limit(scene, "*:submitted=3")
        answer = await submit(scene, GOOD, TWO, TWO, GOOD)
        assert codes(answer) == ["", "", "limit", "limit"]
        assert "and has 3" in answer["submissions"][3]["refused"]["what"]
        assert sorted(scene.engine.cluster.jobs) == answer["jobs"] == [1, 2, 3]
        await limit(scene, "*:submitted=6")
        assert codes(await submit(scene, TWO, TWO, GOOD)) == ["", "limit", ""]
        assert codes(await submit(scene, GOOD, GOOD)) == ["limit", "limit"]
        assert codes(await submit(scene, GOOD, by=OTHER)) == [""]

    run(tmp_path, story)


def test_many_submissions_for_all_or_none_are_refused_at_the_first_that_has_no_room(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await limit(scene, projects="wind:submitted=2")
        wind = {**GOOD, "terms": {"projectname": "wind"}}
        with pytest.raises(
            WrongState, match=r"submission 4 of 4: project 'wind' may have 2 submitted jobs"
        ) as no:
            await submit(scene, wind, GOOD, wind, wind, all_or_none=True)
        assert (no.value.code, no.value.path) == ("limit", ("submissions", 3, "project"))
        assert not scene.engine.cluster.jobs

    run(tmp_path, story)


def test_a_repeated_request_is_answered_as_before_whatever_the_limit_is_now(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await limit(scene, "*:submitted=2")
        one = {"tasks": [{"command": "true"}], "terms": {"numprocessors": "2"}}
        first = await call(scene.context, OWNER, "submit_job", **one, idempotency="a")
        many = await submit(scene, GOOD, GOOD, idempotency="b")
        assert codes(many) == ["", "limit"]
        await limit(scene, "*:submitted=0,processors=1")
        again = await call(scene.context, OWNER, "submit_job", **one, idempotency="a")
        assert (again["job"], again["repeated"]) == (first["job"], True)
        repeated = await submit(scene, GOOD, GOOD, idempotency="b")
        assert (codes(repeated), repeated["jobs"]) == (codes(many), many["jobs"])
        await limit(scene)
        with pytest.raises(BadRequest, match="idempotency-conflict"):
            await submit(scene, GOOD, idempotency="b")

    run(tmp_path, story)


def test_a_request_that_was_refused_for_a_limit_succeeds_later_with_the_same_key(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await limit(scene, "*:submitted=0")
        for _ in range(2):
            with pytest.raises(WrongState, match="limit"):
                await submitted(scene, idempotency="a")
        await limit(scene)
        assert await submitted(scene, idempotency="a") == 1

    run(tmp_path, story)


def test_a_job_that_is_alone_above_a_limit_is_refused_and_by_a_dry_run_too(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        two = {"numprocessors": "2", "projectname": "wind"}
        for users, projects, word in (
            ("*:processors=1", "", "user 'ada' may have 1 processor"),
            ("ada:jobs=0", "", "user 'ada' may have 0 running jobs"),
            ("", "wind:processors=1", "project 'wind' may have 1 processor"),
        ):
            await limit(scene, users, projects)
            for program in (None, "/bin/true"):
                await call(scene.context, ADMINISTRATOR, "set_parameters", values={"LicenceProgram": program})
                with pytest.raises(BadRequest, match=word) as no:
                    await submitted(scene, terms=two)
                assert no.value.code == "never-fits"
            with pytest.raises(BadRequest, match=word):
                await call(scene.context, OWNER, "check_job", tasks=[{"command": "true"}], terms=two)
        assert await submitted(scene, OTHER, terms={"numprocessors": "2"}) == 1

    run(tmp_path, story)


def test_a_job_keeps_its_other_options_changeable_when_its_limit_was_lowered(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        running, queued = [await submitted(scene, terms={"numprocessors": "2"}) for _ in range(2)]
        assert [await state(scene, job) for job in (running, queued)] == ["Running", "Queued"]
        await limit(scene, "ada:processors=1")
        for job, terms in (
            (running, {"runtime": "0:1:0"}), (queued, {"priority": "Lowest"}), (queued, {"jobname": "n"})
        ):  # fmt: skip
            assert (await call(scene.context, OWNER, "modify_job", job=job, terms=terms))["changed"]
        await limit(scene, "ada:processors=2", "wind:processors=1")
        with pytest.raises(BadRequest, match="never-fits"):
            await call(scene.context, OWNER, "modify_job", job=queued, terms={"projectname": "wind"})
        await call(scene.context, OWNER, "modify_job", job=queued, terms={"numprocessors": "1"})
        await call(scene.context, OWNER, "modify_job", job=queued, terms={"projectname": "wind"})

    run(tmp_path, story)


def test_only_administrators_change_limits_and_each_change_is_on_record(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        for by in (OWNER, OPERATOR):
            with pytest.raises(NotAllowed, match="not-administrator"):
                await call(scene.context, by, "set_parameters", values={"UserLimits": "ada:jobs=unlimited"})
        await limit(scene, "*:jobs=2", "wind:gpus=4")
        with pytest.raises(Refused, match="limits"):
            await limit(scene, "*:jobs=3", "wind")
        await limit(scene, "*:jobs=2")
        found = await call(
            scene.context, ADMINISTRATOR, "parameter_history", names=["userlimits", "ProjectLimits"]
        )
        assert [(x["name"], x["before"], x["value"], x["by"]) for x in found["changes"]] == [
            ("UserLimits", None, "*:jobs=2", "root"),
            ("ProjectLimits", None, "wind:gpus=4", "root"),
            ("ProjectLimits", "wind:gpus=4", None, "root"),
        ]
        lines = [line for line in entries(scene) if line["verb"] == "set_parameters"]
        assert [line["outcome"] for line in lines] == ["not-administrator"] * 2 + ["done", "limits", "done"]
        assert "*:jobs=2" in str(lines[2])

    run(tmp_path, story)


def test_a_dry_run_and_an_explanation_of_a_job_that_was_made_look_at_the_limits_of_its_owner(
    tmp_path: Path,
) -> None:
    async def story(scene: Scene) -> None:
        made = (await call(scene.context, OWNER, "create_job", tasks=[{"command": "true"}]))["job"]
        await limit(scene, "root:submitted=0")
        await call(scene.context, ADMINISTRATOR, "check_job", job=made)
        explained = await call(scene.context, ADMINISTRATOR, "explain_job", job=made)
        assert explained["refused"] is None
        await limit(scene, "ada:submitted=0")
        with pytest.raises(WrongState, match=r"'ada' may have 0 submitted jobs"):
            await call(scene.context, ADMINISTRATOR, "check_job", job=made)
        explained = await call(scene.context, ADMINISTRATOR, "explain_job", job=made)
        assert explained["refused"]["code"] == "limit"

    run(tmp_path, story)
