"""An agent whose head takes nothing: it hangs, or its machine does."""

from pathlib import Path

from agent_scene import JOB, PATIENCE, Scene

from headnode.adapters.wire.messages import ReadOutput

MB = 1 << 20


def test_an_agent_that_is_told_to_end_ends_though_its_head_reads_nothing(tmp_path: Path) -> None:
    with Scene(tmp_path) as scene:
        scene.job(f"head -c {MB} /dev/zero")
        scene.head.run(1, (1, 1))
        assert scene.head.result(1).exit_code == 0
        for number in range(8):  # more than sockets hold
            scene.head.send(ReadOutput(number=number, job=JOB, task=1, instance=1, offset=0, limit=MB))
        assert scene.agent is not None
        scene.agent.terminate()
        assert scene.agent.wait(PATIENCE) == 0
