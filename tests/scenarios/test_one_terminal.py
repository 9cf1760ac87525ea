"""An interactive job has one client at a time, which ends it."""

import asyncio
from pathlib import Path

from test_local_socket import Peer, Scene, run

from headnode.core.model.quantities import JobId


def test_of_two_clients_that_come_at_once_one_gets_the_job_and_the_other_does_not_end_it(
    tmp_path: Path,
) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer, scene.peer() as first, scene.peer() as second:
            terms = {"interactive": "true", "hold": "true"}
            job = (await peer.done(verb="submit_job", terms=terms, tasks=[{"command": "sh"}]))["job"]
            for each in (first, second):
                each.send(verb="shell", job=job)
            answer = {each: await each.receive() for each in (first, second)}
            refused: list[Peer] = [each for each in answer if answer[each].get("ok") is False]
            assert [answer[each]["code"] for each in refused] == ["not-running"]
            refused[0].writer.close()
            await refused[0].writer.wait_closed()
            for _ in range(3):
                await peer.done(verb="job", job=job)
            assert JobId(job) in scene.engine.cluster.jobs
            (sitting,) = set(answer) - {*refused}
            sitting.writer.close()
            while JobId(job) in scene.engine.cluster.jobs:
                await asyncio.sleep(0)

    run(tmp_path, story)
