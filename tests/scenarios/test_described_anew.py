"""A job that was created and never submitted can be described anew; its number stays."""

from pathlib import Path
from typing import Any

import pytest
from test_local_socket import Scene, run
from test_who_may import OTHER, OWNER

from headnode.core.model.errors import BadRequest, NotAllowed, WrongState
from testbed.function_door import call

GRID = '{"version": 2, "tasks": [{"id": "a", "children": ["b"]}, {"id": "b"}]}'
WHOLE = """{"version": 2, "tasks": [
    {"id": "a", "children": ["b"], "definition": {"version": 2, "executable": "/bin/date"}},
    {"id": "b", "definition": {"version": 2, "executable": "/bin/true"}}]}"""

TWO = """<JobGroup><Id>g</Id><Job><Id>1</Id><Executable>/bin/date</Executable></Job>
    <Job><Id>2</Id><Executable>/bin/true</Executable></Job></JobGroup>"""


async def created(scene: Scene, **fields: Any) -> int:
    return int((await call(scene.context, OWNER, "create_job", **fields))["job"])


async def commands(scene: Scene, job: int) -> list[str]:
    found = await call(scene.context, OWNER, "tasks", job=job)
    return [task["command"] for task in found["tasks"]]


def test_a_grid_job_gets_the_definitions_of_its_tasks_and_runs(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        job = await created(scene, jobfile=GRID, dialect="grid")
        with pytest.raises(BadRequest):
            await call(scene.context, OWNER, "submit_job", job=job)
        answer = await call(scene.context, OWNER, "replace_job", job=job, jobfile=WHOLE, dialect="grid")
        assert (answer["job"], answer["changed"]) == (job, ["tasks"])
        assert await commands(scene, job) == ["/bin/date", "/bin/true"]
        assert (await call(scene.context, OWNER, "submit_job", job=job))["job"] == job

    run(tmp_path, story)


def test_tasks_that_the_new_description_does_not_have_are_gone(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        job = await created(scene, tasks=[{"command": "x"}, {"command": "y"}], terms={"jobname": "old"})
        await call(scene.context, OWNER, "replace_job", job=job, tasks=[{"command": "z"}])
        assert await commands(scene, job) == ["z"]
        assert (await call(scene.context, OWNER, "job", job=job))["job"]["name"] == ""

    run(tmp_path, story)


def test_only_a_job_that_was_never_submitted_is_described_anew(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        job = await created(scene, tasks=[{"command": "x"}])
        with pytest.raises(NotAllowed, match="not-owner"):
            await call(scene.context, OTHER, "replace_job", job=job, tasks=[{"command": "z"}])
        await call(scene.context, OWNER, "submit_job", job=job)
        with pytest.raises(WrongState, match="already-submitted"):
            await call(scene.context, OWNER, "replace_job", job=job, tasks=[{"command": "z"}])
        other = await created(scene, tasks=[{"command": "x"}])
        await call(scene.context, OWNER, "cancel_task", job=other, task=1)
        with pytest.raises(WrongState, match="already-submitted"):
            await call(scene.context, OWNER, "replace_job", job=other, tasks=[{"command": "z"}])

    run(tmp_path, story)


def test_a_file_with_several_jobs_describes_none_anew(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        job = await created(scene, tasks=[{"command": "x"}])
        with pytest.raises(BadRequest, match="several-jobs"):
            await call(scene.context, OWNER, "replace_job", job=job, jobfile=TWO)
        assert await commands(scene, job) == ["x"]

    run(tmp_path, story)
