"""The counts of a job that is watched follow its events; they are what counting all tasks would give."""

import random
from pathlib import Path
from typing import Any

import pytest
from test_local_socket import Peer, Scene, run

from headnode.apps.server.api import job_briefs
from headnode.apps.server.api.job_briefs import WatchedCounts, task_counts
from headnode.core.model.quantities import JobId


def tasks(number: int) -> list[dict[str, Any]]:
    kinds: list[dict[str, Any]] = [
        {"command": "true"},
        {"command": "part *", "parametric": "1-3"},
        {"command": "false"},
    ]
    return [{**kinds[at % 3], "name": f"t{at}"} for at in range(number)]


@pytest.mark.parametrize("seed", range(6))
def test_they_are_those_of_all_tasks_whatever_happens(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)

    async def step(scene: Scene, peer: Peer, job: int) -> None:
        running = [held for held in scene.nodes.running() if held.job == job]
        match dice.randrange(8):
            case 0:
                await peer.ask(verb="cancel_task", job=job, task=dice.randint(1, 9))
            case 1:
                await peer.ask(verb="requeue_task", job=job, task=dice.randint(1, 9))
            case 2:
                await peer.ask(verb="requeue_job", job=job)
            case 3 if running:
                await scene.batcher.ask(scene.nodes.started(dice.choice(running), scene.clock.now()))
            case _ if running:
                ended = scene.nodes.ended(
                    dice.choice(running), scene.clock.now(), exit_code=dice.randrange(2)
                )
                await scene.batcher.ask(ended)

    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            job = (await peer.done(verb="submit_job", tasks=tasks(9)))["job"]
            signal = scene.watchers.watch([job])
            counts = scene.watchers.counts[job]
            for _ in range(60):
                await step(scene, peer, job)
                record = scene.engine.cluster.jobs.get(JobId(job))
                if record is None:
                    break
                brief = scene.context.briefs.of(scene.context.lookups.job(job))
                assert counts.of(brief.instances, record.run) == task_counts(brief.instances, record.run)
            scene.watchers.leave([job], signal)
            assert not scene.watchers.counts

    run(tmp_path, story)


def test_an_update_counts_the_tasks_that_have_changed_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[object] = []
    count = job_briefs._counted
    monkeypatch.setattr(job_briefs, "_counted", lambda progress: counted.append(progress) or count(progress))

    async def story(scene: Scene) -> None:
        async with scene.peer() as peer, scene.peer() as other:
            job = (await peer.done(verb="submit_job", tasks=[{"command": "true"}] * 400))["job"]
            other.send(verb="watch_jobs", job=job)
            assert (await other.receive())["jobs"][0]["tasks"]["total"] == 400
            counted.clear()
            (held, *_) = (held for held in scene.nodes.running() if held.job == job)
            await scene.batcher.ask(scene.nodes.ended(held, scene.clock.now()))
            assert (await other.receive())["jobs"][0]["tasks"]["finished"] == 1
            assert 1 <= len(counted) < 20

    run(tmp_path, story)


def test_what_is_not_known_of_an_event_is_counted_anew() -> None:
    counts = WatchedCounts()
    assert counts.of(3, None).queued == 3
