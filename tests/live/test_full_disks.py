"""A disk that is full: below an agent's state directory, below the work directory of tasks, and the head's.

The journal of a shepherd alone is in `test_agent_survives`.
"""

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from agent_scene import Scene
from hand_off_chaos import hand_off_processes
from test_notices import Post, open_post

from headnode.adapters.processes.site_programs import HookProgram, run_once
from headnode.apps.server.job_notices import BETWEEN_DELIVERIES
from headnode.core.model.errors import HeadnodeError
from heads import TIMEOUT, RealHead, real_head
from testbed.pbs_peer import pbs_peer
from testbed.small_disks import small_disk

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk"),
]
FILL = "head -c 4000000 /dev/zero"


class SlowPost(Post):
    """A mail server that takes letters when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go_on = threading.Event(), threading.Event()

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.asked.set()
        await asyncio.to_thread(self.go_on.wait, TIMEOUT)
        return await super().handle_DATA(server, session, envelope)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of a megabyte."""
    with small_disk(tmp_path / "disk", "1m") as disk:
        yield disk


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


@pytest.mark.parametrize("code", [0, 3])
def test_a_hook_that_fills_the_disk_runs_once_and_its_result_is_known(small: Path, code: int) -> None:
    script = small.parent / "hook"
    script.write_text(f"#!/bin/sh\necho ran >> {script}.log\ncat /dev/zero > {small}/fill\nexit {code}\n")
    script.chmod(0o755)
    result = asyncio.run(run_once(HookProgram(str(script), "the prolog", {}, 60.0), small / "outcome"))
    assert Path(f"{script}.log").read_text() == "ran\n"
    assert (result.status, b"No space left" in result.output) == (code, True)


def test_a_hook_is_not_run_where_its_result_could_not_be_kept(small: Path) -> None:
    script = small.parent / "hook"
    script.write_text(f"#!/bin/sh\necho ran >> {script}.log\n")
    script.chmod(0o755)
    subprocess.run(["/bin/sh", "-c", f"cat /dev/zero > {small}/fill"], check=False, capture_output=True)
    result = asyncio.run(run_once(HookProgram(str(script), "the prolog", {}, 60.0), small / "outcome"))
    assert "cannot be run: there is no room for its result: no space left on device" in result.trouble
    assert not result.started
    assert not Path(f"{script}.log").exists()


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """Leave no byte on a disk."""
    subprocess.run(["sh", "-c", f"cat /dev/zero > {disk}/ballast"], capture_output=True, check=False)
    try:
        yield
    finally:
        (disk / "ballast").unlink()


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MB for the state of a head; its log has room."""
    with small_disk(tmp_path / "state", "8m") as disk:
        yield disk


def test_a_head_on_a_full_disk_keeps_its_nodes_shows_its_jobs_and_goes_on_when_there_is_room(
    state: Path, tmp_path: Path
) -> None:
    log, go = tmp_path / "head.log", tmp_path / "go"
    with real_head(tmp_path) as head:
        job = head.submit(f"while [ ! -e {go} ]; do sleep 0.05; done")
        head.wait_for(job, "Running")
        (agent,) = (state / "nodes").iterdir()
        logs = (log, agent / "agent.log")
        before = [len(each.read_text()) for each in logs]
        with full(state):
            go.touch()
            began = time.monotonic()
            while time.monotonic() - began < 3.5:
                assert head.ask("job", job=job)["job"]["state"] == "Running"
                assert head.ask("nodes")["nodes"][0]["state"] == "Ready"
                time.sleep(0.05)
            with pytest.raises(HeadnodeError, match="no space is left"):
                head.submit("true")
        assert head.wait(job)["state"] == "Finished"
        assert head.wait(head.submit("true"))["state"] == "Finished"
        output = "".join(each.read_text()[size:] for each, size in zip(logs, before, strict=True))
        assert "Traceback" not in output
        assert len(output.splitlines()) < 10, output


def processor_time(head: RealHead) -> float:
    """Return how long the head has used a processor, in seconds."""
    fields = Path(f"/proc/{head.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_letter_is_sent_once_though_the_disk_is_too_full_to_note_it(state: Path, tmp_path: Path) -> None:
    post = SlowPost()
    with open_post(post) as server, real_head(tmp_path) as head:
        head.ask("set_parameters", values={"EmailSmtpServer": server})
        wishes = {"notifyoncompletion": "true", "emailaddress": "ann@example.org"}
        assert head.wait(head.submit("true", terms=wishes))["state"] == "Finished"
        head.until(post.asked.is_set)
        head.wait_for(head.submit("sleep 60"), "Running")  # something more to note
        with full(state):
            post.go_on.set()
            began, worked = time.monotonic(), processor_time(head)
            while time.monotonic() - began < BETWEEN_DELIVERIES + 2:
                assert head.ask("ping")["cluster"]
                assert len(post.letters) <= 1
                time.sleep(0.05)
            assert len(post.letters) == 1
            assert processor_time(head) - worked < 2.0
            assert len((tmp_path / "head.log").read_text().splitlines()) < 20
            assert head.ask("cluster")["cluster"]["notices"]["waiting"] == 1
        head.until(lambda: head.ask("cluster")["cluster"]["notices"]["waiting"] == 0)
    assert len(post.letters) == 1


def test_a_head_that_is_started_on_a_full_disk_says_so_and_loses_no_letter(
    state: Path, tmp_path: Path
) -> None:
    post = SlowPost()
    with open_post(post) as server, real_head(tmp_path) as head:
        head.ask("set_parameters", values={"EmailSmtpServer": server})
        wishes = {"notifyoncompletion": "true", "emailaddress": "ann@example.org"}
        assert head.wait(head.submit("true", terms=wishes))["state"] == "Finished"
        head.until(post.asked.is_set)
        head.client.close()
        head.process.terminate()  # which leaves no file that has room for what comes next
        head.process.wait(TIMEOUT)
        before = len(head.log())
        with full(state):
            head.process = head._spawn()
            assert head.process.wait(TIMEOUT) == 1
            found = head.log()[before:]
            assert "Traceback" not in found
            assert "free some space in" in found
        assert not (state / "notices.damaged").exists()
        post.go_on.set()
        head.start_again()
        head.until(lambda: post.letters)


def test_a_hand_off_process_that_dies_while_the_disk_is_full_is_replaced_by_one_that_knows_all(
    state: Path, tmp_path: Path
) -> None:
    go, attempts = tmp_path / "go", tmp_path / "attempts"
    attempts.mkdir()
    with pbs_peer(tmp_path / "site") as peer, real_head(tmp_path, nodes=0) as head:
        paths = {"programs": str(peer.programs), "directory": str(attempts)}
        head.ask("set_resource", name="old", system="pbs", **paths, poll=1.0, settle=6.0)
        job = head.submit(
            f"while [ ! -e {go} ]; do sleep 0.05; done; exit 3", terms={"resource": "old"}, workdir="/"
        )
        head.wait_for(job, "Running")
        (process,) = hand_off_processes(head)
        with full(state):
            go.touch()
            head.until(lambda: "no space is left" in head.log())  # its end is known, and cannot be noted
            os.kill(process, signal.SIGKILL)
            head.until(lambda: "headnode.apps.handoff has ended" in head.log())
        late = head.submit("exit 4", terms={"resource": "old"}, workdir="/")
        for one, code in ((job, 3), (late, 4)):
            assert head.wait(one)["state"] == "Failed"
            assert head.task(one)["exit_code"] == code
        assert len(peer.names()) == len(set(peer.names())) == 2
