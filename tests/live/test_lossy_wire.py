"""Messages that are lost, come twice or come late while connections stay: nothing is stuck or runs twice."""

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lossy_wire import BAD, Fate, LossyWire

from headnode.apps.client.client import Client
from headnode.core.model.errors import HeadnodeError
from heads import RealHead, real_head

TIMEOUT = 60.0  # seconds for anything that must happen
UNTIL_ALL_ARE_HARMED = 5 * TIMEOUT  # rare kinds need many rounds, and a busy machine takes seconds for one
MAX_READERS = 8  # who wait for output at the same time
ENOUGH = 0.8  # how often a kind is let pass that has met every fate
OF_JOBS = ("OpenJob", "Run", "Started", "Results", "ResultsAck", "Stop", "CloseJob", "JobClosed")
OF_SUSPENSION = ("Suspend", "Suspended", "Continue")
OF_TABLES = ("Heartbeat", "HeartbeatAck", "GetTable", "Table")
OF_NODES = ("CheckHealth", "Health", "ReadOutput", "OutputRead")
OF_LAUNCHES = ("Launch", "LaunchData", "LaunchAck", "LaunchesEnded", "KillLaunches")
KINDS = OF_JOBS + OF_SUSPENSION + OF_TABLES + OF_NODES


class Scene:
    """A head, and a node whose agent reaches it by a bad wire; `harm` says how often it is bad."""

    def __init__(self, directory: Path, head: RealHead, seed: int) -> None:
        self.directory, self.head = directory, head
        self.dice = random.Random(seed)
        self.harm = 0.0
        self.only: tuple[str, ...] = ()  # kinds that are harmed; all of KINDS when empty
        self.fates: tuple[Fate, ...] = BAD
        self.log = directory / "told"
        self.log.touch()
        nodes = head.state / "nodes.sock"
        self.wire = LossyWire(directory / "wire.sock", nodes, self._fate, random.Random(seed + 1))
        self.state = directory / "agent"
        words = ["--head", str(directory / "wire.sock"), "--state", str(self.state), "--name", "n1"]
        with (directory / "agent.log").open("ab") as log:
            command = [sys.executable, "-m", "headnode.apps.agent", *words, "--processors", "4"]
            self.agent = subprocess.Popen(command, stdout=log, stderr=log)

    def _fate(self, kind: str) -> Fate:
        if kind not in (self.only or KINDS) or self.dice.random() >= self.harm:
            return "passes"
        missing = [fate for fate in self.fates if not self.wire.harmed[kind, fate]]
        if not missing and not self.only and self.dice.random() < ENOUGH:
            return "passes"
        return self.dice.choice(missing or self.fates)

    def until(self, holds: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not holds():
            log = (self.directory / "agent.log").read_text()[-2000:]
            jobs = self.head.ask("jobs", states=["active"])["jobs"]
            assert time.monotonic() < deadline, f"not so: {what}\n{jobs}\n{self.head.log()}\n{log}"
            time.sleep(0.02)

    def job(self, job: int) -> dict[str, Any]:
        found: dict[str, Any] = self.head.ask("job", job=job)["job"]
        return found

    def is_over(self, job: int) -> bool:
        return self.job(job)["state"] in ("Finished", "Failed", "Canceled")

    def counted(self) -> Counter[str]:
        """Return how often each attempt wrote that it ran."""
        return Counter(self.log.read_text().split())

    def agree(self) -> None:
        """Wait until head and agent agree without a question, on a wire that is well."""
        self.harm = 0.0
        before = self.wire.passed["GetTable"], self.wire.passed["HeartbeatAck"]

        def quiet() -> bool:
            nonlocal before
            asked, received = self.wire.passed["GetTable"], self.wire.passed["HeartbeatAck"]
            if asked != before[0]:
                before = asked, received
            return received >= before[1] + 3

        self.until(quiet, "head and agent agree")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with real_head(tmp_path, nodes=0) as head:
        head.ask("set_parameters", values={"HeartbeatInterval": "1", "InactivityCount": "120"})
        made = Scene(tmp_path, head, seed=1)
        try:
            made.until(
                lambda: [n["state"] for n in head.ask("nodes")["nodes"]] == ["Ready"], "the node is ready"
            )
            yield made
        finally:
            made.harm = 0.0
    made.agent.wait(TIMEOUT)
    made.wire.close()


def short(scene: Scene) -> str:
    return f"echo $HEADNODE_TASK >> {scene.log}; sleep {scene.dice.choice(('0', '0.1', '0.4'))}"


def once(scene: Scene, command: str, **more: Any) -> int:
    return scene.head.submit(command, rerunnable="false", **more)


def test_whatever_is_lost_doubled_or_late_every_task_runs_once_and_every_job_ends(scene: Scene) -> None:
    """Until every kind of message has met every fate."""
    scene.harm = 0.5
    jobs: list[int] = []
    stopped: set[int] = set()
    suspended: int | None = None
    readers: list[threading.Thread] = []
    deadline = time.monotonic() + UNTIL_ALL_ARE_HARMED
    while missing := [(kind, fate) for kind in KINDS for fate in BAD if not scene.wire.harmed[kind, fate]]:
        assert time.monotonic() < deadline, f"never harmed: {missing}"
        jobs.append(once(scene, short(scene)))
        if suspended is None or scene.is_over(suspended):
            terms = {"suspendable": "true"}
            suspended = once(scene, f"echo $HEADNODE_TASK >> {scene.log}; sleep 3", terms=terms)
            jobs.append(suspended)
        _suspend_or_resume(scene, suspended)
        longer = once(scene, f"echo $HEADNODE_TASK >> {scene.log}; exec sleep 600")
        jobs.append(longer)
        program = scene.dice.choice(("/bin/true", "/bin/false", ""))
        scene.head.ask("set_parameters", values={"HealthCheckProgram": program})
        _read_something(scene, jobs, readers)
        time.sleep(scene.dice.choice((0.05, 0.5)))
        scene.head.ask("cancel_job", job=longer)
        stopped.add(longer)
    scene.head.ask("set_parameters", values={"HealthCheckProgram": ""})
    scene.agree()
    if suspended is not None and not scene.is_over(suspended):
        scene.head.ask("resume_job", job=suspended)
    for job in jobs:
        scene.until(lambda job=job: scene.is_over(job), f"job {job} is over")
        assert scene.job(job)["state"] == ("Canceled" if job in stopped else "Finished"), scene.job(job)
    ran = scene.counted()
    assert max(ran.values()) == 1, ran.most_common(5)
    assert {f"{job}.1.1.1" for job in jobs if job not in stopped} <= ran.keys()
    scene.agree()
    assert not list((scene.state / "jobs").iterdir())
    for reader in readers:
        reader.join(TIMEOUT)
        assert not reader.is_alive()


def _suspend_or_resume(scene: Scene, job: int) -> None:
    verb = "suspend_job" if scene.job(job)["state"] == "Running" else "resume_job"
    try:
        scene.head.ask(verb, job=job)
    except HeadnodeError:
        return  # it has not begun, or is over


def _read_something(scene: Scene, jobs: list[int], readers: list[threading.Thread]) -> None:
    """Read captured output without waiting for it: the head waits long for an answer that was lost."""
    for job in jobs[-6:]:
        busy = sum(reader.is_alive() for reader in readers)
        if busy < MAX_READERS and scene.job(job)["state"] == "Finished":
            readers.append(threading.Thread(target=_read, args=(scene.head.state, job)))
            readers[-1].start()


def _read(state: Path, job: int) -> None:
    client = Client(str(state))
    try:
        client.ask("read_output", job=job, task=1)
    except HeadnodeError:
        return  # there is none, or the answer was lost
    finally:
        client.close()


@pytest.mark.parametrize("kind", [*OF_JOBS, *OF_SUSPENSION])
def test_of_one_kind_every_message_is_lost_for_a_while_and_nothing_is_stuck(scene: Scene, kind: str) -> None:
    scene.only, scene.fates, scene.harm = (kind,), ("lost",), 1.0
    end = scene.directory / "end"
    waits = f"until [ -e {end} ]; do sleep 0.02; done"
    job = once(scene, f"echo $HEADNODE_TASK >> {scene.log}; {waits}", terms={"suspendable": "true"})
    long = once(scene, "exec sleep 600")
    if kind in OF_SUSPENSION:
        scene.until(lambda: scene.job(job)["state"] == "Running", "it runs")
        scene.head.ask("suspend_job", job=job)
    if kind == "Continue":
        scene.until(lambda: scene.job(job)["state"] == "Suspended", "it stands still")
        scene.head.ask("resume_job", job=job)
    if kind in ("Stop", "Suspended", "Suspend", "CloseJob", "JobClosed"):
        scene.until(lambda: scene.job(long)["state"] == "Running", "it runs")
        scene.head.ask("cancel_job", job=long, force=True)
    if kind not in OF_SUSPENSION:
        end.touch()
    scene.until(
        lambda: scene.wire.harmed[kind, "lost"] >= 2 or kind in ("Started", "JobClosed"), "it is lost"
    )
    scene.harm = 0.0
    if kind in ("Suspend", "Suspended"):
        scene.until(lambda: scene.job(job)["state"] == "Suspended", "it stands still")
        scene.head.ask("resume_job", job=job)
    end.touch()
    if kind == "Started":
        scene.until(lambda: scene.job(long)["state"] == "Running", "it is known to run")
    if not scene.is_over(long):
        scene.head.ask("cancel_job", job=long)
    scene.until(lambda: scene.is_over(job) and scene.is_over(long), "both are over")
    assert (scene.job(job)["state"], scene.job(long)["state"]) == ("Finished", "Canceled")
    assert scene.counted() == {f"{job}.1.1.1": 1}
    scene.agree()
    scene.until(lambda: not list((scene.state / "jobs").iterdir()), "nothing of them is kept")


def test_without_a_health_check_no_node_stays_drained_by_one_though_its_last_report_is_lost(
    scene: Scene,
) -> None:
    scene.head.ask("set_parameters", values={"HealthCheckProgram": "/bin/false"})
    job = once(scene, "true")
    scene.until(lambda: scene.head.ask("nodes")["nodes"][0]["state"] in ("Draining", "Drained"), "it drains")
    scene.only, scene.fates, scene.harm = ("Health",), ("lost",), 1.0
    scene.head.ask("set_parameters", values={"HealthCheckProgram": ""})
    scene.until(lambda: scene.wire.harmed["Health", "lost"], "the report is lost")
    again = once(scene, "true")
    scene.until(lambda: scene.is_over(job) and scene.is_over(again), "both are over")
    assert (scene.job(job)["state"], scene.job(again)["state"]) == ("Finished", "Finished")


def launches(scene: Scene, number: int) -> int:
    """Submit a task that sends something through a command that it launches, and leaves another behind."""
    left = "sleep 600 < /dev/null > /dev/null 2>&1 &"
    script = (
        f"echo $HEADNODE_TASK >> {scene.log}; $HEADNODE_LAUNCH -n n1 '{left}' || exit 8; "
        f"seq 20000 | $HEADNODE_LAUNCH n1 'cat; exit {number}' > {scene.directory}/came-{number}; "
        f"[ $? = {number} ] || exit 9"
    )
    return once(scene, script, numprocessors="2")


def test_what_is_launched_arrives_whole_over_a_bad_wire_and_nothing_of_it_stays(scene: Scene) -> None:
    scene.only, scene.harm = OF_LAUNCHES, 0.2
    jobs: list[int] = []
    deadline = time.monotonic() + UNTIL_ALL_ARE_HARMED
    while not all(any(scene.wire.harmed[kind, fate] for fate in BAD) for kind in OF_LAUNCHES[:2]):
        assert time.monotonic() < deadline, scene.wire.harmed
        job = launches(scene, len(jobs) + 1)
        scene.until(lambda job=job: scene.is_over(job), f"job {job} is over")
        jobs.append(job)
    scene.harm = 0.0
    whole = "".join(f"{line}\n" for line in range(1, 20_001))
    for number, job in enumerate(jobs, 1):
        assert scene.job(job)["state"] == "Finished", str(scene.head.task(job))
        assert (scene.directory / f"came-{number}").read_text() == whole
    assert scene.counted() == {f"{job}.1.1.1": 1 for job in jobs}
    scene.agree()
    scene.until(lambda: not list((scene.state / "jobs").iterdir()), "nothing of them is kept")


def test_a_greeting_that_is_lost_is_said_again(scene: Scene) -> None:
    for kind in ("Hello", "Welcome"):
        scene.only, scene.fates, scene.harm = (kind,), ("lost",), 1.0
        scene.agent.kill()
        scene.agent.wait()
        words = ["--head", str(scene.directory / "wire.sock"), "--state", str(scene.state), "--name", "n1"]
        scene.agent = subprocess.Popen(
            [sys.executable, "-m", "headnode.apps.agent", *words, "--processors", "4"], env=dict(os.environ)
        )
        scene.until(lambda kind=kind: scene.wire.harmed[kind, "lost"], "it is lost")
        scene.harm = 0.0
        job = once(scene, "true")
        scene.until(lambda job=job: scene.is_over(job), "the agent is heard")
        assert scene.job(job)["state"] == "Finished"
