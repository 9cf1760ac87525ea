"""Head, agent, shepherds and factory are killed or frozen at random moments under a load of real processes.

Afterwards the archive is compared with what the tasks themselves wrote: nothing acknowledged is lost, no
task ran twice, every exit code was kept.  The figures are printed.  More of it:
``make test TESTS='tests/live/test_chaos.py --chaos-kills 1000 --chaos-freezes 50 --timeout 0 -s'``.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from depth import share_of
from headnode.adapters.processes.job_journal import lives, read
from headnode.apps.client.client import Client
from headnode.core.model.errors import HeadnodeError, NotFound, Unavailable

TIMEOUT = 60.0  # seconds for anything that must happen
EXITS = 7  # tasks end with exit codes 0 to 6
PARTS = ("head", "agent", "factory", "shepherd")


class Victim:
    """A head with one node of two processors, whose processes may be killed or frozen at any moment."""

    def __init__(self, directory: Path) -> None:
        self.state = directory / "state"
        self.state.mkdir()
        self.client = Client(str(self.state))
        self.head = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        words = ["-m", "headnode.apps.server", "--state", str(self.state), "--processors", "2"]
        with (self.state / "head.log").open("ab") as log:
            return subprocess.Popen([sys.executable, *words], stdout=log, stderr=log)

    def kill(self, which: str) -> int:
        """Kill the processes of one part, or all of them; return how many were there.

        A killed head is started again; the head starts agents, agents the factory.
        """
        found = self.processes(which)
        send(found, signal.SIGKILL)
        if which in ("head", "all"):
            self.head.wait()
            self.client.close()
            self.head = self._start()
        return len(found)

    def freeze(self, which: str, seconds: float) -> int:
        """Stop the processes of a part for some time; return how many were there."""
        found = self.processes(which)
        send(found, signal.SIGSTOP)
        time.sleep(seconds)  # the time is what is tried
        send(found, signal.SIGCONT)
        return len(found)

    def processes(self, which: str) -> list[int]:
        """Return the processes of a part that live now."""
        if which == "all":
            return [number for part in PARTS for number in self.processes(part)]
        if which == "head":
            return [self.head.pid]
        if which == "shepherd":
            return self._shepherds()
        agents = [
            number
            for number, _, words in commands()
            if b"headnode.apps.agent" in words and str(self.state).encode() in b" ".join(words)
        ]
        if which == "agent":
            return agents
        return [
            number
            for number, parent, words in commands()
            if parent in agents and b"fork_server" in b" ".join(words)
        ]

    def _shepherds(self) -> list[int]:
        """Return the shepherds whose journals say that they live."""
        found = []
        for journal in (self.state / "nodes").glob("*/jobs/*.journal"):
            with suppress(OSError):  # it has ended meanwhile
                if lives(journal) and (story := read(journal)) is not None:
                    found.append(story.header.process)
        return found

    def ask(self, question: str, **fields: Any) -> dict[str, Any]:
        """Ask the head, waiting for it while it is away; for questions that may be asked twice."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                return self.client.ask(question, **fields)
            except Unavailable:
                assert self.head.poll() is None, f"the head died by itself:\n{self.log()}"
                assert time.monotonic() < deadline, f"no head for {TIMEOUT} s:\n{self.log()}"
                time.sleep(0.01)

    def log(self) -> str:
        """Return the end of the head's log."""
        return (self.state / "head.log").read_text()[-5000:]

    def stop(self) -> None:
        """End everything."""
        self.ask("stop_head", cancel_jobs=True)
        self.client.close()
        self.head.wait(TIMEOUT)


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Victim]:
    made = Victim(tmp_path)
    try:
        yield made
    finally:
        made.stop()


def submit(victim: Victim, tracks: Path, dice: random.Random) -> tuple[int, list[str]] | None:
    """Submit a job of a few tasks; return its id and its instances if the head acknowledged it.

    It is a sweep, or a list of different tasks; most of a list are short, so that they are dispatched ahead.
    """
    count = dice.randint(1, 12)
    tasks: list[dict[str, str]]
    if dice.random() < 0.5:
        pause = dice.choice(("0", "0.02", "0.2", "0.6"))
        command = f"echo $HEADNODE_TASK >> {tracks}; sleep {pause}; exit $(( * % {EXITS} ))"
        tasks = [{"command": command, "parametric": f"1-{count}", "rerunnable": "false"}]
        names = [f"1.{instance}" for instance in range(1, count + 1)]
    else:
        count = dice.choice((count, 60))
        tasks = [_different(task, tracks, dice) for task in range(1, count + 1)]
        names = [f"{task}.1" for task in range(1, count + 1)]
    try:
        answer = victim.client.ask("submit_job", tasks=tasks)
    except Unavailable:
        return None
    return answer["job"], names


def _different(task: int, tracks: Path, dice: random.Random) -> dict[str, str]:
    """Return a task of a list, which may be as long as the others or longer, and want two processors."""
    pause = dice.choice(("", "", "", "", "", "", "sleep 0.02;", "sleep 0.2;"))
    command = f"echo $HEADNODE_TASK >> {tracks}; {pause} exit {task % EXITS}"
    wide = {"numprocessors": "2"} if dice.random() < 0.05 else {}
    return {"command": command, "rerunnable": "false", **wide}


def test_nothing_acknowledged_is_lost_and_nothing_runs_twice(
    victim: Victim, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    kills = pytestconfig.getoption("--chaos-kills") or share_of(200)
    freezes = pytestconfig.getoption("--chaos-freezes") or share_of(4)
    dice = random.Random(kills)
    tracks = tmp_path / "tracks"
    tracks.touch()
    acknowledged: dict[int, list[str]] = {}
    hits: Counter[str] = Counter()
    plan = ["kill"] * kills + ["freeze"] * freezes
    dice.shuffle(plan)
    for number, what in enumerate(plan):
        if number % 2:  # a busy machine would kill every head while it starts
            victim.ask("ping")
        until = time.monotonic() + dice.uniform(0.0, 0.35)
        while time.monotonic() < until:
            made = submit(victim, tracks, dice) if _backlog(victim) < 30 else None
            if made:
                acknowledged[made[0]] = made[1]
        part = dice.choice([*filter(victim.processes, PARTS), "all"])
        found = victim.kill(part) if what == "kill" else victim.freeze(part, dice.uniform(0.1, 3.0))
        hits[f"{what} {part}"] += found > 0
    _wait_until_all_are_over(victim, acknowledged)
    account = _account(victim, acknowledged, tracks)
    print(f"\n{account.in_words()}; {', '.join(f'{what}: {hits[what]}' for what in sorted(hits))}")
    assert account.lost + account.doubled + account.wrong == []
    assert sum(hits.values()) > 0.9 * (kills + freezes), f"what should be hit had ended: {hits}"
    assert account.known > account.instances / 2, f"hardly anything ran to its end: {account}"


def _backlog(victim: Victim) -> int:
    try:
        counts = victim.client.ask("cluster")["cluster"]["jobs"]
    except HeadnodeError:
        time.sleep(0.005)
        return 1_000
    return int(counts.get("Queued", 0)) + int(counts.get("Running", 0))


def _wait_until_all_are_over(victim: Victim, acknowledged: dict[int, list[str]]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while left := _backlog(victim):
        assert time.monotonic() < deadline, (
            f"{left} jobs are stuck: {victim.ask('jobs', states=['active'])['jobs'][:5]}\n{victim.log()}"
        )
        time.sleep(0.02)
    assert acknowledged, "nothing was ever acknowledged"


@dataclass
class Account:
    """What became of the acknowledged jobs; the lists name instances."""

    jobs: int = 0
    instances: int = 0
    known: int = 0  # instances whose exit code the head has
    lost: list[str] = field(default_factory=list)  # acknowledged, and not there or without an end
    doubled: list[str] = field(default_factory=list)  # ran more than once
    wrong: list[str] = field(default_factory=list)  # the head says otherwise than the task

    def in_words(self) -> str:
        """Return the figures in one line."""
        return (
            f"{self.jobs} jobs with {self.instances} instances acknowledged: {len(self.lost)} lost, "
            f"{len(self.doubled)} doubled, {len(self.wrong)} wrong; "
            f"{self.instances - self.known} ended by the death of their shepherd"
        )


def _account(victim: Victim, acknowledged: dict[int, list[str]], tracks: Path) -> Account:
    """Compare what the head says with what the tasks wrote."""
    ran = Counter(line.rpartition(".")[0] for line in tracks.read_text().split())
    account = Account(jobs=len(acknowledged), instances=sum(map(len, acknowledged.values())))
    account.doubled = [name for name, times in ran.items() if times > 1]
    for job, names in acknowledged.items():
        one_task = {"expand": 1} if names[-1].startswith("1.") else {}
        try:
            listed = victim.ask("tasks", job=job, **one_task)["tasks"]
        except NotFound:
            listed = []
        tasks = {f"{task['task']}.{task.get('instance') or 1}": task for task in listed}
        for number, each in enumerate(names, 1):
            name = f"{job}.{each}"
            _judge(account, name, tasks.get(each), ran[name], number % EXITS)
    return account


def _judge(account: Account, name: str, task: dict[str, Any] | None, times: int, expected: int) -> None:
    if task is None or task["state"] not in ("Finished", "Failed"):
        account.lost.append(f"{name}: {task}")
    elif task["exit_code"] is None:  # its shepherd was killed: it must have failed, with the reason
        if task["state"] != "Failed" or not task["message"]:
            account.wrong.append(f"{name}: {task}")
    else:
        account.known += 1
        if times == 0:
            account.lost.append(f"{name} never ran: {task}")
        state = "Finished" if expected == 0 else "Failed"
        if (task["exit_code"], task["state"]) != (expected, state):
            account.wrong.append(f"{name}: {task}")


def send(processes: list[int], what: signal.Signals) -> None:
    for number in processes:
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(number, what)


def commands() -> Iterator[tuple[int, int, list[bytes]]]:
    """Yield number, parent and words of each process."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                status = (folder / "stat").read_text().rpartition(")")[2].split()
                yield int(folder.name), int(status[1]), words
