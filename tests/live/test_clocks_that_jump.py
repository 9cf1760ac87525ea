"""The time of day jumps, on the head's machine or on a node's: nothing is given up, lost or run twice for it.

The processes under test are shown another time of day by libfaketime (Debian: faketime); clocks that nobody
can set go on as they are.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from headnode.apps.cli.standby_daemon import ask_standby
from headnode.apps.client.client import Client
from heads import TIMEOUT, RealHead
from standbys import Standby, is_head
from testbed.debian_packages import CannotInstall, install
from testbed.processes import free_address, until

LIBRARIES = [Path(f"/usr/lib/{kind}-linux-gnu/faketime/libfaketime.so.1") for kind in ("x86_64", "aarch64")]
DAY = 86_400


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    """See that the library is there."""
    if not any(map(Path.exists, LIBRARIES)):
        try:
            install("faketime")
        except CannotInstall as why:
            pytest.skip(f"libfaketime is missing: {why}")


class Clock:
    """The time of day of the processes that are started with `environment`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.environment = {
            **os.environ,
            "LD_PRELOAD": str(next(filter(Path.exists, LIBRARIES))),
            "FAKETIME_TIMESTAMP_FILE": str(path),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        self.set(0)

    def set(self, offset: int) -> None:
        """Be so many seconds ahead of the machine's own."""
        scratch = self._path.with_suffix(".new")
        scratch.write_text(f"{offset:+d}\n")
        scratch.replace(self._path)


class Scene:
    """A head and the agent of a node, each with a clock of its own."""

    def __init__(self, directory: Path, ahead: int = 0) -> None:
        """`ahead`: seconds that the clock of the node is ahead of that of the head from the beginning."""
        self.directory = directory
        self.clocks = {"head": Clock(directory / "head.time"), "node": Clock(directory / "node.time")}
        self.clocks["node"].set(ahead)
        self.head = HeadWithClock(directory / "state", self.clocks["head"])
        self.head.wait_until_ready()
        self.head.ask("set_parameters", values={"HeartbeatInterval": "1", "InactivityCount": "3"})
        words = ["--head", str(self.head.state / "nodes.sock"), "--state", str(directory / "agent")]
        with (directory / "agent.log").open("ab") as log:
            self._agent = subprocess.Popen(
                [sys.executable, "-m", "headnode.apps.agent", *words, "--name", "n1", "--processors", "5"],
                stdout=log, stderr=log, env=self.clocks["node"].environment,
            )  # fmt: skip

    def until_task_is(self, job: int, state: str) -> dict[str, Any]:
        self.head.wait_for(job, state)
        return self.head.task(job)

    def close(self) -> None:
        for clock in self.clocks.values():
            clock.set(0)
        self.head.stop()
        self._agent.wait(TIMEOUT)


class HeadWithClock(RealHead):
    """A head without nodes, that sees the time of a clock."""

    def __init__(self, state: Path, clock: Clock) -> None:
        self._clock = clock
        super().__init__(state, nodes=0)

    def _spawn(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "headnode.apps.server", "--state", str(self.state), *self.options]
        with (self.state.parent / "head.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=self._clock.environment)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with ExitStack() as stack:
        made = Scene(tmp_path)
        stack.callback(made.close)
        yield made


@pytest.mark.parametrize("offset", [DAY, -DAY], ids=["forward", "back"])
@pytest.mark.parametrize("side", ["head", "node"])
def test_a_day_that_jumps_costs_no_task_and_runs_none_twice(scene: Scene, side: str, offset: int) -> None:
    found, end = scene.directory / "told", scene.directory / "end"
    command = f"echo $HEADNODE_TASK >> {found}; while [ ! -e {end} ]; do sleep 0.05; done; exit 3"
    lasting = scene.head.submit(command, rerunnable="true")
    limited = [limited_to(scene, limit, end) for limit in ("3s", "1h")]
    for job in (lasting, *limited):
        scene.head.until(lambda job=job: scene.head.task(job)["state"] != "Queued")
    scene.clocks[side].set(offset)
    assert scene.head.wait(scene.head.submit("true"))["state"] == "Finished"
    after = scene.head.ask("nodes")["nodes"]
    quick = [scene.head.submit(f"echo $HEADNODE_TASK >> {found}") for _ in range(3)]
    assert [scene.head.wait(job)["state"] for job in quick] == ["Finished"] * 3
    _a_few_heartbeats_later(scene)
    assert [node["state"] for node in (*after, *scene.head.ask("nodes")["nodes"])] == ["Ready", "Ready"]
    assert scene.head.task(lasting)["state"] == "Running"
    late = limited_to(scene, "1s", end)  # by the clock as it is now
    for job in (limited[0], late):
        assert scene.head.wait(job)["state"] == "Canceled"
        assert "run time" in str(scene.head.ask("job", job=job)["job"]["message"])
    assert scene.head.task(limited[1])["state"] == "Running"
    end.touch()
    assert scene.head.wait(limited[1])["state"] == "Finished"
    assert scene.head.wait(lasting)["state"] == "Failed"
    assert scene.head.task(lasting)["exit_code"] == 3
    assert sorted(found.read_text().split()) == sorted(f"{job}.1.1.1" for job in (lasting, *quick))


def test_a_head_that_is_asked_nothing_sees_that_its_clock_was_set(scene: Scene) -> None:
    end = scene.directory / "end"
    lasting = scene.head.submit(f"while [ ! -e {end} ]; do sleep 0.05; done")
    scene.until_task_is(lasting, "Running")
    due = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 1800))
    held = scene.head.submit("true", terms={"holduntil": due})
    scene.clocks["head"].set(3600)
    scene.head.until(lambda: scene.head.task(held)["state"] == "Finished")
    (user,) = scene.head.ask("shares")["users"]
    assert user["used"] < 300  # not the hour by which it was set
    end.touch()
    assert scene.head.wait(lasting)["state"] == "Finished"


@pytest.mark.parametrize("ahead", [3600, -3600])
def test_a_node_whose_clock_is_an_hour_off_tells_times_of_the_head(tmp_path: Path, ahead: int) -> None:
    with ExitStack() as stack:
        scene = Scene(tmp_path, ahead)
        stack.callback(scene.close)
        job = scene.head.submit("sleep 1; exit 3")
        scene.until_task_is(job, "Running")
        began = time.time()
        assert abs(scene.head.task(job)["started"] - began) < TIMEOUT
        assert scene.head.wait(job)["state"] == "Failed"
        task, ended = scene.head.task(job), time.time()
        assert abs(task["started"] - began) < TIMEOUT
        assert abs(task["ended"] - ended) < TIMEOUT
        assert 0.9 < task["ended"] - task["started"] < TIMEOUT


def limited_to(scene: Scene, limit: str, end: Path) -> int:
    """Submit a job with a run time limit, whose task goes on until there is the file `end`."""
    task = {"command": f"while [ ! -e {end} ]; do sleep 0.05; done"}
    described = json.dumps({"run_time": limit, "tasks": [task]})
    return int(scene.head.ask("submit_job", jobfile=described, dialect="native")["job"])


def _a_few_heartbeats_later(scene: Scene) -> None:
    """Wait until a node that said nothing would have been given up."""
    over = time.monotonic() + 5
    while time.monotonic() < over:
        assert [node["state"] for node in scene.head.ask("nodes")["nodes"]] == ["Ready"]
        time.sleep(0.1)


def test_a_head_that_starts_on_another_day_finds_everything_as_it_was(scene: Scene) -> None:
    end = scene.directory / "end"
    job = scene.head.submit(f"while [ ! -e {end} ]; do sleep 0.05; done", rerunnable="false")
    scene.until_task_is(job, "Running")
    scene.head.kill()
    scene.clocks["head"].set(-DAY)
    scene.head.start_again()
    end.touch()
    assert scene.head.wait(job)["state"] == "Finished"
    assert scene.head.task(job)["attempt"] == 1


@pytest.mark.parametrize("offset", [DAY, -DAY], ids=["ahead", "behind"])
def test_a_standby_whose_day_is_another_and_jumps_has_everything_and_takes_over(
    tmp_path: Path, offset: int
) -> None:
    clock, standby = Clock(tmp_path / "standby.time"), Standby(tmp_path / "second")
    head = RealHead(tmp_path / "first" / "state", nodes=0, listen=free_address())
    try:
        head.wait_until_ready()
        clock.set(offset)
        standby.join(head.ask("invite_standby")["invitation"])
        standby.start(environment=clock.environment)
        until(lambda: head.ask("standbys")["standbys"][0]["state"] == "InStep", "it is in step")
        jobs = {head.submit("true") for _ in range(3)}
        clock.set(-offset)
        jobs |= {head.submit("true") for _ in range(3)}
        assert [one["state"] for one in head.ask("standbys")["standbys"]] == ["InStep"]
        head.kill()
        until(lambda: not standby.status()["connected"], "it sees that the head is lost")
        ask_standby(str(standby.state), "take over", force=True)
        until(lambda: is_head(standby.state), "it is the head")
        with contextlib.closing(Client(str(standby.state))) as client:
            assert {job["id"] for job in client.ask("jobs", limit=100)["jobs"]} == jobs
            assert client.ask("submit_job", tasks=[{"command": "true"}])["job"] == max(jobs) + 1
    finally:
        head.kill()
        standby.stop(signal.SIGTERM)
