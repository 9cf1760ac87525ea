"""What is left of one head when another begins otherwise, and what must not go on for ever."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from agent_scene import Scene, alive, scene_fixture

from headnode.adapters.processes.agent_link import boot_time
from headnode.apps.agent.agent import ENDED, Agent
from headnode.apps.agent.head_link import HeadEnded, LocalTransport
from headnode.apps.agent.places import Places
from headnode.core.model.node import NodeFacts
from heads import TIMEOUT, RealHead, processes, real_head

scene = scene_fixture()


def test_a_head_knows_its_name_again_and_removes_nodes_that_it_no_longer_runs(tmp_path: Path) -> None:
    head = RealHead(tmp_path / "state", nodes=2, processors=1)
    head.wait_until_ready()
    names = {node["name"] for node in head.ask("nodes")["nodes"]}
    head.stop()
    head.options = ["--nodes", "1", "--processors", "1", "--name", "blue"]
    head.nodes = 1
    head.start_again()
    try:
        deadline = time.monotonic() + TIMEOUT
        while len(left := head.ask("nodes")["nodes"]) > 1:
            assert time.monotonic() < deadline, left
            time.sleep(0.05)
        assert left[0]["state"] == "Ready"
        assert left[0]["name"] not in names
        head.stop()
        head.options = ["--nodes", "1", "--processors", "1"]
        head.start_again()
        assert head.ask("ping")["cluster"] == "blue"
    finally:
        head.stop()


def test_an_agent_of_this_machine_that_no_head_ever_welcomed_ends(tmp_path: Path) -> None:
    async def alone() -> None:
        facts = NodeFacts(name="n1", processors=1)
        agent = Agent(Places(tmp_path / "state"), facts, LocalTransport(tmp_path / "nodes.sock"))
        agent.head_is_off(boot_time() + 1, ended=True)
        running = asyncio.ensure_future(agent.run())
        await asyncio.wait((running,), timeout=1.0)
        assert not running.done()
        agent.head_is_off(boot_time() + 3600, ended=False)
        await asyncio.wait_for(running, TIMEOUT)

    asyncio.run(alone())


def test_a_head_that_is_interrupted_from_the_keyboard_takes_its_agents_with_it(tmp_path: Path) -> None:
    with real_head(tmp_path) as head:
        words = (b"headnode.apps.agent", str(head.state).encode())
        assert list(processes(*words))
        head.process.send_signal(signal.SIGINT)
        assert head.process.wait(TIMEOUT) == 0
        head.until(lambda: not list(processes(*words)))
        head.start_again()


def test_a_head_whose_directory_was_removed_has_ended(tmp_path: Path) -> None:
    with pytest.raises(HeadEnded):
        asyncio.run(LocalTransport(tmp_path / "removed" / "nodes.sock").dial())


def test_an_agent_that_begins_while_its_head_is_stopped_does_not_outlive_it(tmp_path: Path) -> None:
    with real_head(tmp_path) as head:
        words = (b"headnode.apps.agent", str(head.state).encode())
        (first,) = processes(*words)
        os.kill(first, signal.SIGKILL)
        head.until(lambda: set(processes(*words)) - {first})
        head.ask("stop_head")
        head.process.wait(TIMEOUT)
        head.until(lambda: not list(processes(*words)))
        head.start_again()


def test_an_agent_that_cannot_reach_its_head_ends_when_the_head_was_stopped(scene: Scene) -> None:
    scene.job("while [ ! -e go ]; do sleep 0.02; done; exit 4")
    scene.head.run(1, (1, 1))
    shepherd = scene.shepherd()
    scene.head.end()
    deadline = time.monotonic() + TIMEOUT
    while not scene.agent_has_ended():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert alive(shepherd)
    (scene.work / "go").touch()
    scene.head.listen()
    scene.start()
    assert scene.head.result(1).exit_code == 4


def test_an_agent_waits_for_a_head_that_was_killed(scene: Scene) -> None:
    hellos = len(scene.head.hellos)
    scene.head.hang_up()
    assert scene.agent is not None
    with pytest.raises(subprocess.TimeoutExpired):
        scene.agent.wait(ENDED + 1)
    scene.head.listen()
    scene.head.until(lambda: len(scene.head.hellos) > hellos)


def test_shepherds_that_die_again_and_again_fail_the_task_with_the_reason(scene: Scene) -> None:
    scene.suspendable = True
    scene.job("true")
    scene.head.suspend(1)  # nothing starts, so that each shepherd dies before
    for attempt in (1, 2, 3):
        scene.head.run(1, (1, attempt))
        shepherd = scene.shepherd()
        scene.head.until(lambda: "queued" in next((scene.state / "jobs").glob("*.journal")).read_text())
        os.kill(shepherd, signal.SIGKILL)
        result = scene.head.result(1, attempt=attempt)
        assert result.kind == ("never-ran" if attempt < 3 else "not-started")
        scene.head.until(lambda gone=shepherd: not alive(gone))
    assert "died 3 times" in result.message


def test_a_shepherd_that_was_killed_leaves_no_private_directory(scene: Scene) -> None:
    scene.job(
        "mkdir -p deep/er; echo x > deep/er/file; pwd > ../where; exec sleep 600", private_directory=True
    )
    scene.head.run(1, (1, 1))
    where = scene.work / "where"
    scene.head.until(lambda: where.exists() and where.read_text().strip())
    made = Path(where.read_text().strip())
    assert (made / "deep").exists()
    os.kill(scene.shepherd(), signal.SIGKILL)
    assert scene.head.result(1).kind == "lost"
    with contextlib.suppress(FileNotFoundError):
        scene.head.until(lambda: not made.exists())
    assert not made.exists()
