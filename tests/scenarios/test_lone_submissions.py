"""A submission beside which nothing else is to be done is carried out at once; others have their batches."""

import asyncio
from math import inf
from pathlib import Path

import pytest
from test_local_socket import Scene, run

from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.state.submit import CreateJob

ANN = User("ann", 1001, 1001)
SUBMITTED = CreateJob(by=ANN, spec=JobSpec(tasks=(TaskSpec(command="/bin/true"),)), submit=True)


def commits(scene: Scene) -> int:
    return sum(scene.engine.commits.counts)


def test_a_submission_alone_in_its_turn_is_on_the_disk_before_the_turn_ends(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await asyncio.sleep(0.01)  # all else is done
        before, answering = commits(scene), scene.batcher.answer(SUBMITTED)
        with pytest.raises(StopIteration) as answered:
            answering.send(None)  # it waits for nothing
        assert [type(event).__name__ for event in answered.value.value] == ["JobCreated", "JobSubmitted"]
        assert commits(scene) == before + 1

    run(tmp_path, story)


def test_submissions_of_one_turn_have_one_commit(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        before = commits(scene)
        await asyncio.gather(*(scene.batcher.answer(SUBMITTED) for _ in range(8)))
        assert commits(scene) == before + 1

    run(tmp_path, story)


def test_a_connection_that_sends_job_files_without_a_pause_lets_the_loop_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is carried out at once, and the next has arrived: nothing makes this connection wait."""

    async def story(scene: Scene) -> None:
        monkeypatch.setattr(scene.context.audit, "_quick", inf)  # a slow disk makes it wait
        async with scene.peer() as busy:
            job_file = '{"tasks": [{"command": "/bin/true"}]}'
            for _ in range(40):
                busy.send(verb="submit_job", jobfile=job_file)
            selector, turns = asyncio.get_running_loop()._selector, 0  # type: ignore[attr-defined]
            look = selector.select

            def counted(timeout: float | None) -> object:
                nonlocal turns
                turns += 1
                return look(timeout)

            monkeypatch.setattr(selector, "select", counted)
            assert all([(await busy.receive())["ok"] for _ in range(40)])
            assert turns > 40

    run(tmp_path, story)
