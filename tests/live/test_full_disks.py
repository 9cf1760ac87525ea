"""A node whose disk is full: below its agent's state directory, and below the work directory of tasks.

The journal alone is in `test_agent_survives`.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_scene import Scene

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
