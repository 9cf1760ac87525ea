"""Head and agent are killed with SIGKILL at random moments, again and again, under a load of real processes.

Afterwards the archive is compared with what the tasks themselves wrote: nothing acknowledged is lost, no
task ran twice, every exit code was kept.  More rounds:
``make test TESTS='tests/live/test_chaos.py --chaos-rounds 5000 --timeout 0'``.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headnode.apps.client.client import Client
from headnode.core.model.errors import HeadnodeError, Unavailable

PATIENCE = 60.0  # seconds for anything that must happen
EXITS = 7  # tasks end with exit codes 0 to 6


class Victim:
    """A head with one node of two processors, whose processes may be killed at any moment."""

    def __init__(self, directory: Path) -> None:
        self.state = directory / "state"
        self.state.mkdir()
        self.client = Client(str(self.state))
        self.head = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [
            sys.executable,
            "-m",
            "headnode.apps.server",
            "--state",
            str(self.state),
            "--processors",
            "2",
        ]
        with (self.state / "head.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def kill_head(self) -> None:
        """Kill the head and start another."""
        self.head.kill()
        self.head.wait()
        self.client.close()
        self.head = self._start()

    def kill_agent(self) -> None:
        """Kill the agent, if there is one just now; the head starts another."""
        for pid in self._agents():
            with suppress(ProcessLookupError):  # one whose head is gone may have ended by itself
                os.kill(pid, signal.SIGKILL)

    def _agents(self) -> Iterator[int]:
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"headnode.apps.agent" in words and str(self.state).encode() in b" ".join(words):
                yield int(folder.name)

    def ask(self, question: str, **fields: Any) -> dict[str, Any]:
        """Ask the head, waiting for it while it is away; for questions that may be asked twice."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self.client.ask(question, **fields)
            except Unavailable:
                assert self.head.poll() is None, f"the head died by itself:\n{self.log()}"
                assert time.monotonic() < deadline, f"no head for {PATIENCE} s:\n{self.log()}"
                time.sleep(0.01)

    def log(self) -> str:
        """Return the end of the head's log."""
        return (self.state / "head.log").read_text()[-5000:]

    def stop(self) -> None:
        """End everything."""
        self.ask("down", cancel_jobs=True)
        self.client.close()
        self.head.wait(PATIENCE)


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Victim]:
    made = Victim(tmp_path)
    try:
        yield made
    finally:
        made.stop()


def submit(victim: Victim, tracks: Path, dice: random.Random) -> tuple[int, int] | None:
    """Submit a job of a few tasks; return its id and size if the head acknowledged it."""
    count = dice.randint(1, 12)
    pause = dice.choice(("0", "0", "0.02", "0.2"))
    command = f"echo $HEADNODE_TASK >> {tracks}; sleep {pause}; exit $(( * % {EXITS} ))"
    try:
        answer = victim.client.ask(
            "submit_job", tasks=[{"command": command, "parametric": f"1-{count}", "rerunnable": "false"}]
        )
    except Unavailable:
        return None
    return answer["job"], count


def test_nothing_acknowledged_is_lost_and_nothing_runs_twice(
    victim: Victim, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    rounds = int(pytestconfig.getoption("--chaos-rounds"))
    dice = random.Random(rounds)
    tracks = tmp_path / "tracks"
    tracks.touch()
    acknowledged: dict[int, int] = {}
    for number in range(rounds):
        if number % 2:  # a busy machine would kill every head while it starts
            victim.ask("ping")
        until = time.monotonic() + dice.uniform(0.0, 0.35)
        while time.monotonic() < until:
            made = submit(victim, tracks, dice) if _backlog(victim) < 30 else None
            if made:
                acknowledged[made[0]] = made[1]
        for kill in dice.choice(
            ((victim.kill_head,), (victim.kill_agent,), (victim.kill_head, victim.kill_agent))
        ):
            kill()
    _wait_until_all_are_over(victim, acknowledged)
    _compare(victim, acknowledged, tracks)


def _backlog(victim: Victim) -> int:
    try:
        counts = victim.client.ask("cluster")["cluster"]["jobs"]
    except HeadnodeError:
        time.sleep(0.005)
        return 1_000
    return int(counts.get("Queued", 0)) + int(counts.get("Running", 0))


def _wait_until_all_are_over(victim: Victim, acknowledged: dict[int, int]) -> None:
    deadline = time.monotonic() + PATIENCE
    while left := _backlog(victim):
        assert time.monotonic() < deadline, (
            f"{left} jobs are stuck: {victim.ask('jobs', states=['active'])['jobs'][:5]}\n{victim.log()}"
        )
        time.sleep(0.02)
    assert acknowledged, "nothing was ever acknowledged"


def _compare(victim: Victim, acknowledged: dict[int, int], tracks: Path) -> None:
    """Compare what the head says with what the tasks wrote."""
    ran: dict[str, int] = {}
    for line in tracks.read_text().split():
        instance = line.rpartition(".")[0]
        ran[instance] = ran.get(instance, 0) + 1
    twice = {instance: times for instance, times in ran.items() if times > 1}
    assert not twice, f"ran more than once: {twice}"
    for job, count in acknowledged.items():
        tasks = victim.ask("tasks", job=job, expand=1)["tasks"]
        assert len(tasks) == count, f"job {job} has {len(tasks)} of {count} instances"
        for task in tasks:
            expected = task["instance"] % EXITS
            name = f"{job}.1.{task['instance']}"
            assert ran.get(name) == 1, f"{name} never ran: {task}"
            assert task["exit_code"] == expected, f"{name} ended with {task}"
            assert task["state"] == ("Finished" if expected == 0 else "Failed"), f"{name}: {task}"
