"""A disk that is full: below an agent's state directory, below the work directory of tasks, and the head's.

The journal of a shepherd alone is in `test_agent_survives`.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_scene import Scene

from headnode.core.model.errors import HeadnodeError
from heads import real_head

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk"),
]
FILL = "head -c 4000000 /dev/zero"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of a megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "small", str(disk)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {done.stderr}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_captured_output_that_fills_the_disk_fails_its_program_and_loses_no_result(
    small: Path, tmp_path: Path
) -> None:
    scene = Scene(tmp_path)
    scene.state = small / "state"
    with scene:
        scene.job(f"{FILL} || exit 7", "exit 5", "echo again; exit 6")
        scene.head.run(1, (1, 1))
        filled = scene.head.result(1)
        assert (filled.kind, filled.exit_code) == ("exited", 7)
        scene.head.run(2, (1, 1), processor=1)
        other = scene.head.result(2)  # runs if there is room for one more line of the journal
        assert (other.kind, other.exit_code) == ("exited", 5) or "no space" in other.message
        scene.captured(1).unlink()
        scene.head.run(3, (1, 1))
        assert scene.head.result(3).exit_code == 6
        assert scene.captured(3).read_text() == "again\n"


def test_an_agent_that_starts_on_a_full_disk_still_tells_what_became_of_tasks(
    small: Path, tmp_path: Path
) -> None:
    scene = Scene(tmp_path)
    scene.state = small / "state"
    with scene:
        scene.job("while [ ! -e go ]; do sleep 0.05; done; exit 9")
        scene.head.run(1, (1, 1))
        scene.head.until(lambda: (1, 1, 1) in scene.head.started)
        (small / "ballast").write_bytes(b"")
        subprocess.run(["sh", "-c", f"{FILL} > {small}/ballast"], capture_output=True, check=False)
        scene.kill_agent()
        (scene.work / "go").touch()
        scene.start()
        assert scene.head.result(1).exit_code == 9
        (small / "ballast").unlink()


def test_a_full_work_directory_fails_its_own_tasks_only(small: Path, tmp_path: Path) -> None:
    with Scene(tmp_path) as scene:
        scene.job(
            f"{FILL} > big || exit 7", "echo x > other || exit 8", "echo beside", work_directory=str(small)
        )
        scene.head.run(1, (1, 1))
        assert scene.head.result(1).exit_code == 7
        scene.head.run(2, (1, 1), processor=1)
        scene.head.run(3, (1, 1))
        assert (scene.head.result(2).exit_code, scene.head.result(3).exit_code) == (8, 0)
        (small / "big").unlink()
        scene.head.run(2, (1, 2))
        assert scene.head.result(2, attempt=2).exit_code == 0


def test_a_head_on_a_full_disk_keeps_its_nodes_shows_its_jobs_and_goes_on_when_there_is_room(
    tmp_path: Path,
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=8m", "small", str(disk)]
    done = subprocess.run(mounted, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {done.stderr}")
    log, ballast, go = tmp_path / "head.log", disk / "ballast", tmp_path / "go"
    try:
        with real_head(disk) as head:
            log = disk / "head.log"
            job = head.submit(f"while [ ! -e {go} ]; do sleep 0.05; done")
            head.wait_for(job, "Running")
            subprocess.run(["sh", "-c", f"cat /dev/zero > {ballast}"], capture_output=True, check=False)
            subprocess.run(["sh", "-c", f"tr '\\0' x < /dev/zero >> {log}"], capture_output=True, check=False)
            filled = log.read_text()
            go.touch()
            (agent,) = (disk / "state" / "nodes").iterdir()
            said = (agent / "agent.log").read_text()
            began = time.monotonic()
            while time.monotonic() - began < 3.5:
                assert head.ask("job", job=job)["job"]["state"] == "Running"
                assert head.ask("nodes")["nodes"][0]["state"] == "Ready"
                time.sleep(0.05)
            with pytest.raises(HeadnodeError, match="no space is left"):
                head.submit("true")
            ballast.unlink()
            assert head.wait(job)["state"] == "Finished"
            assert head.wait(head.submit("true"))["state"] == "Finished"
            told = log.read_text().removeprefix(filled) + (agent / "agent.log").read_text().removeprefix(said)
            assert "Traceback" not in told
            assert len(told.splitlines()) < 10, told
    finally:
        ballast.unlink(missing_ok=True)
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
