"""What a monitoring system collects of the head: counters that follow the events."""

from pathlib import Path

from test_local_socket import Scene, run
from test_who_may import OWNER

from headnode.core.model.quantities import LIFE_BOUNDS, DurationHistogram, Seconds
from testbed.function_door import call


def test_a_duration_is_counted_up_to_its_bound() -> None:
    found = DurationHistogram((1.0, 10.0))
    for seconds in (0.0, 1.0, 1.5, 10.0, 11.0, -3.0):
        found.add(seconds)
    assert (found.counts, found.total) == ([3, 2, 1], 23.5)


def test_waits_runs_and_ends_of_jobs_are_counted(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        jobs = [
            (await call(scene.context, OWNER, "submit_job", tasks=[{"command": "x"}, {"command": "x"}]))[
                "job"
            ]
            for _ in range(2)
        ]
        scene.clock.advance(Seconds(30.0))
        for exit_code, job in zip((0, 1), jobs, strict=True):
            await scene.end(job, exit_code)
        found = await call(scene.context, OWNER, "metrics")
        assert (found["jobs_submitted"], found["jobs_started"]) == (2, 2)
        assert found["jobs_ended"] == {"finished": 1, "failed": 1, "canceled": 0}
        assert found["tasks_ended"] == {"finished": 2, "failed": 2, "canceled": 0, "queued": 0}
        assert found["jobs"] == {"Finished": 1, "Failed": 1}
        at_once, in_a_minute = LIFE_BOUNDS.index(1.0), LIFE_BOUNDS.index(60.0)
        waits = found["waits"]["Default"]
        assert (waits["counts"][at_once], waits["counts"][in_a_minute], waits["total"]) == (1, 1, 30.0)
        assert sum(found["runs"]["Default"]["counts"]) == 2
        assert sum(found["commits"]["counts"]) > 0
        assert found["event_number"] == scene.engine.number

    run(tmp_path, story)


def test_a_job_that_is_requeued_waits_from_then_on(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        job = (await call(scene.context, OWNER, "submit_job", tasks=[{"command": "x"}]))["job"]
        scene.clock.advance(Seconds(5000.0))
        await scene.end(job, 1)
        await call(scene.context, OWNER, "requeue_job", job=job)
        found = await call(scene.context, OWNER, "metrics")
        assert found["waits"]["Default"]["total"] == 0.0
        assert found["jobs_started"] == 2

    run(tmp_path, story)
