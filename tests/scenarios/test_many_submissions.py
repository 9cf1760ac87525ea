"""Many submissions in one request: each is admitted as if it were alone, in one step, and never twice."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from test_local_socket import Scene, run
from test_who_may import ADMINISTRATOR, OTHER, OWNER, entries

from headnode.core.model.errors import BadRequest, NotAllowed, Refused, Unavailable
from headnode.core.model.user import User
from testbed.function_door import call

GOOD = {"tasks": [{"command": "true"}]}
WRONG_TERM = {"tasks": [{"command": "true", "numprocesors": "2"}]}
TOO_LARGE = {"terms": {"numprocessors": "99"}, "tasks": [{"command": "true"}]}
HIGH = {"terms": {"priority": "Highest"}, "tasks": [{"command": "true"}]}
NO_PARENT = {"jobfile": '{"command": "true", "parents": [4711]}'}
FILE = {"jobfile": '{"name": "f", "command": "true"}', "dialect": "native-json"}
TWO = {"jobfile": '{"jobs": [{"name": "a", "command": "true"}, {"command": "true", "parents": "a"}]}'}


async def submit(scene: Scene, *submissions: dict[str, Any], by: User = OWNER, **more: Any) -> dict[str, Any]:
    return await call(scene.context, by, "submit_jobs", submissions=[*submissions], **more)


def codes(answer: dict[str, Any]) -> list[str]:
    return [each.get("refused", {}).get("code", "") for each in answer["submissions"]]


def test_what_is_refused_is_named_with_its_place_and_keeps_no_other(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        answer = await submit(scene, GOOD, WRONG_TERM, HIGH, TOO_LARGE, FILE, NO_PARENT, TWO)
        unknown, high = answer["submissions"][1]["refused"], answer["submissions"][2]["refused"]
        assert codes(answer) == [
            "", "unknown-option", "priority-privilege", "never-fits", "", "no-such-parent", ""
        ]  # fmt: skip
        assert unknown["path"][:2] == ["submissions", 1]
        assert (high["path"], high["class"]) == (["submissions", 2, "priority"], "not-allowed")
        assert answer["jobs"] == sorted(scene.engine.cluster.jobs) == [1, 2, 3, 4]
        assert [each.get("job") for each in answer["submissions"]] == [1, None, None, None, 2, None, 4]
        assert answer["submissions"][6]["jobs"] == [3, 4]
        assert list(scene.engine.cluster.jobs[4].waits_for) == [3]
        assert list(scene.engine.cluster.jobs[2].waits_for) == []

    run(tmp_path, story)


def test_each_gets_the_refusal_that_it_would_get_alone(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        refused = (WRONG_TERM, HIGH, TOO_LARGE, NO_PARENT, {"tasks": [{"command": " "}]}, {"jobfile": "<Job"})
        together = (await submit(scene, *refused))["submissions"]
        for number, one in enumerate(refused):
            with pytest.raises(Refused) as no:
                await call(scene.context, OWNER, "submit_job", **one)
            alone = no.value.as_fields()
            assert together[number]["refused"] == {**alone, "path": ["submissions", number, *alone["path"]]}

    run(tmp_path, story)


def test_all_or_none_makes_none_and_shows_the_first_refusal(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        for bad, path in ((WRONG_TERM, ("tasks", 0)), (HIGH, ("priority",)), (TOO_LARGE, ())):
            with pytest.raises((BadRequest, NotAllowed), match="submission 2 of 3") as no:
                await submit(scene, GOOD, bad, GOOD, all_or_none=True)
            assert no.value.path[: 2 + len(path)] == ("submissions", 1, *path)
        assert not scene.engine.cluster.jobs
        assert (await submit(scene, GOOD, GOOD, all_or_none=True))["jobs"] == [1, 2]

    run(tmp_path, story)


def test_a_repeated_request_makes_nothing_and_names_the_same_jobs_and_codes(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        first = await submit(scene, WRONG_TERM, GOOD, HIGH, TWO, idempotency="k")
        await submit(scene, GOOD)
        again = await submit(scene, WRONG_TERM, GOOD, HIGH, TWO, idempotency="k")
        assert (again["repeated"], again["jobs"], codes(again)) == (True, first["jobs"], codes(first))
        for old, new in zip(first["submissions"], again["submissions"], strict=True):
            assert (old.get("job"), old.get("jobs")) == (new.get("job"), new.get("jobs"))
            if "refused" in old:
                assert {
                    old["refused"][each] == new["refused"][each] for each in ("class", "exit_status")
                } == {True}
        assert len(scene.engine.cluster.jobs) == 4
        with pytest.raises(BadRequest, match="idempotency-conflict"):
            await submit(scene, GOOD, idempotency="k")

    run(tmp_path, story)


def test_the_audit_log_names_the_jobs_and_what_was_refused(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await submit(scene, GOOD, HIGH, GOOD)
        line = entries(scene)[-1]
        assert (line["verb"], line["outcome"], line["jobs"]) == ("submit_jobs", "done", [1, 2])
        assert line["refused"] == ["1: priority-privilege"]

    run(tmp_path, story)


def test_a_job_is_exported_as_the_file_of_its_own_submission(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await submit(scene, FILE, GOOD, {**FILE, "jobfile": '{"name": "g", "command": "false"}'})
        for job, name in ((1, "f"), (3, "g")):
            exported = await call(scene.context, OWNER, "export_job", job=job, dialect="submitted")
            assert f'"name": "{name}"' in exported["text"]
        with pytest.raises(Refused, match="no-job-file"):
            await call(scene.context, OWNER, "export_job", job=2, dialect="submitted")

    run(tmp_path, story)


def test_others_are_answered_while_a_large_request_is_read(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        seen: list[int] = []

        async def ask_on() -> None:
            while not scene.engine.cluster.jobs:
                await call(scene.context, OTHER, "whoami")
                seen.append(len(scene.engine.cluster.jobs))

        asking = asyncio.create_task(ask_on())
        answer = await submit(scene, *[GOOD] * 1000)
        await asking
        assert len(answer["jobs"]) == 1000
        assert len(seen) > 3

    run(tmp_path, story)


def test_more_than_the_bounds_are_refused_as_a_whole(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        with pytest.raises(BadRequest, match="field"):
            await submit(scene, *[GOOD] * 1001)
        with pytest.raises(BadRequest, match="too-many-jobs"):
            await submit(scene, *[TWO] * 501)
        with pytest.raises(BadRequest, match="too-many-tasks"):
            await submit(scene, *[{"tasks": [{"command": "true"}] * 2001}] * 10)
        assert not scene.engine.cluster.jobs

    run(tmp_path, story)


def test_when_the_journal_cannot_write_nothing_was_submitted_and_the_key_stays_free(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        append = scene.engine.journal.append

        def full(*_: Any) -> int:
            raise Unavailable(code="journal-full", what="no space", fix="make room")

        scene.engine.journal.append = full
        with pytest.raises(Unavailable):
            await submit(scene, GOOD, HIGH, GOOD, idempotency="k")
        scene.engine.journal.append = append
        answer = await submit(scene, GOOD, HIGH, GOOD, idempotency="k")
        assert (answer["jobs"], answer.get("repeated")) == ([1, 2], None)

    run(tmp_path, story)


def test_an_administrator_submits_for_nobody_unknown_and_the_others_are_made(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        strange = {"terms": {"user": "nobody-of-this-name"}, "tasks": [{"command": "true"}]}
        answer = await submit(scene, GOOD, strange, HIGH, by=ADMINISTRATOR)
        assert (codes(answer), answer["jobs"]) == (["", "no-such-user", ""], [1, 2])

    run(tmp_path, story)
