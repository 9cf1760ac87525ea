"""The demo runs three jobs to their results, and leaves nothing behind but those."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headnode.apps.demo import DemoFolder, end_leftovers, started_with
from headnode.core.model.errors import NotFound

DEMO = [sys.executable, "-m", "headnode.apps.demo"]
RESULTS = (
    "pi = 3.141592653590",
    "200000 numbers, smallest 8383, median 1077499782, largest 2147483531",
    "2 processes: the middle cooled from 100 to 86.239 degrees; theory says 86.239",
)


def environment(folder: Path) -> dict[str, str]:
    return os.environ | {"TMPDIR": str(folder), "HOME": str(folder)}


def test_the_demo_shows_the_results_of_all_three_jobs_and_stops_everything(tmp_path: Path) -> None:
    done = subprocess.run(DEMO, env=environment(tmp_path), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    for result in RESULTS:
        assert f"  {result}\n" in done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith("$ hn ")][0::6] == [
        "$ hn up",
        "$ hn down",
    ]
    assert len(re.findall(r"job 1 .*: \w+, \d+/13 tasks", done.stdout)) >= 2
    (folder,) = tmp_path.glob("headnode-demo-*")
    assert sorted(entry.name for entry in folder.iterdir()) == ["flow", "parallel", "sweep"]
    assert running_in(folder) == []


def test_a_demo_that_is_interrupted_stops_everything(tmp_path: Path) -> None:
    with subprocess.Popen(DEMO, env=environment(tmp_path), stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if line.startswith("$ hn job wait"):
                break
        demo.send_signal(signal.SIGINT)
        demo.stdout.read()
    assert demo.returncode == 130
    (folder,) = tmp_path.glob("headnode-demo-*")
    assert running_in(folder) == []


def running_in(folder: Path) -> list[str]:
    """Return the command lines that name the folder."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in command:
            found.append(command)
    return found


def test_what_stays_is_found_by_its_mark_and_killed() -> None:
    mark = ("HEADNODE_DEMO", "test-of-leftovers")
    with subprocess.Popen(["sleep", "60"], env=os.environ | dict([mark])) as sleeper:
        try:
            deadline = time.monotonic() + 10
            while started_with(mark) != [sleeper.pid] and time.monotonic() < deadline:
                pass  # the system shows the environment a moment after the start
            assert started_with(mark) == [sleeper.pid]
            assert started_with((mark[0], mark[1][:-1])) == []
            assert end_leftovers(mark, timeout=0.0) == [sleeper.pid]
            assert sleeper.wait() == -signal.SIGKILL
        finally:
            sleeper.kill()


def test_the_job_files_point_at_the_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shop = DemoFolder()
    text = "".join(file.read_text() for file in shop.folder.glob("*/*.xml"))
    assert f'WorkDirectory="{shop.folder}/sweep"' in text
    assert "%USERPROFILE%" not in text
    shutil.rmtree(shop.folder)


def test_a_place_without_examples_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no-examples"):
        DemoFolder(tmp_path)
