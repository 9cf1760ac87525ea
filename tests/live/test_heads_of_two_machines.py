"""A head and its standby on machines of their own, which lose their power and their network.

What was acknowledged is compared with what the next head has, and with what the tasks wrote themselves.
"""

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headnode.adapters.files.standby_place import REPLACED
from headnode.apps.cli.standby_daemon import ask_standby
from headnode.apps.client.client import Client
from headnode.apps.standby.former_head import REPORT
from headnode.core.formats.text.quantities import parse_span
from headnode.core.model.errors import HeadnodeError
from testbed.clusters import PAUSE, PORT, Node
from testbed.machines import Machine, Network, network, obstacle

TIMEOUT = 120.0  # seconds for anything that must happen: a silent head is believed for 30
NODES = ("n1", "n2", "n3")
SHORTEST = "30s"  # without the head, until the standby takes over
HEARTBEAT = 2  # seconds

pytestmark = pytest.mark.skipif(bool(obstacle()), reason=obstacle() or "machines can be made")


class TwoHeads:
    """The machines `one` and `two`, which are heads in turns, and three nodes."""

    def __init__(self, directory: Path, made: Network) -> None:
        self.directory, self._machines = directory, made.machines
        self.log = directory / "told"
        self._started: list[subprocess.Popen[bytes]] = []
        self.nodes = {name: Node(made.machines[name], 2) for name in NODES}

    def machine(self, name: str) -> Machine:
        return self._machines[name]

    def state(self, name: str) -> Path:
        return self.directory / name / "state"

    def client(self, name: str) -> Client:
        return Client(str(self.state(name)))

    def ask(self, name: str, verb: str, **fields: Any) -> dict[str, Any]:
        client = self.client(name)
        try:
            return client.ask(verb, **fields)
        finally:
            client.close()

    def hn(self, name: str, *words: str) -> str:
        """Run hn on a machine; return what it printed."""
        command = [
            sys.executable,
            "-m",
            "headnode.apps.cli",
            *words,
            "--state-directory",
            str(self.state(name)),
        ]
        done = self.machine(name).run(command)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start_head(self, name: str) -> None:
        """Start the head of a machine, without nodes of its own."""
        self.state(name).mkdir(parents=True, exist_ok=True)
        words = ["--state", str(self.state(name)), "--nodes", "0", "--listen", f"{name}:{PORT}"]
        log = self.directory / name / "head.log"
        self._started.append(
            self.machine(name).start([sys.executable, "-m", "headnode.apps.server", *words], log)
        )

    def until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not holds():
            if time.monotonic() > deadline:
                logs = [path.read_text()[-2000:] for path in self.directory.glob("*/**/head.log")]
                raise TimeoutError("\n".join([f"it is not so that {what}", *logs]))
            time.sleep(PAUSE)

    def is_head(self, name: str) -> bool:
        with suppress(HeadnodeError):
            return bool(self.ask(name, "ping"))
        return False

    def node_states(self, head: str) -> set[str]:
        return {node["state"] for node in self.ask(head, "nodes")["nodes"]}

    def standby_state(self, head: str) -> str:
        found = self.ask(head, "standbys")["standbys"]
        return str(found[0]["state"]) if found else ""

    def begin(self) -> None:
        """Start the head on `one`, the standby on `two`, and the nodes."""
        self.start_head("one")
        self.until(lambda: self.is_head("one"), "the head answers")
        self.ask("one", "set_parameters", values={"HeartbeatInterval": str(HEARTBEAT)})
        self.join("two", of="one")
        for name, node in self.nodes.items():
            node.join(self.ask("one", "invite_node", approve=True, node=name)["invitation"])
            node.start_agent()
        self.until(lambda: self.node_states("one") == {"Ready"}, "all nodes are ready")
        self.until(self._nodes_know_the_standby, "nodes know the standby")

    def _nodes_know_the_standby(self) -> bool:
        files = [node.state / "identity" / "membership.json" for node in self.nodes.values()]
        return all("two" in file.read_text() for file in files)

    def join(self, name: str, *, of: str) -> str:
        """Make a machine the standby of a head."""
        self.state(name).mkdir(parents=True, exist_ok=True)
        line = self.hn(of, "standby", "invite").split()[-1]
        result = self.hn(
            name, "standby", "join", line, "--listen", f"{name}:{PORT}", "--name", name,
            "--takeover-after", SHORTEST,
        )  # fmt: skip
        self.until(lambda: self.standby_state(of) == "InStep", "the standby is in step")
        (standby,) = self.ask(of, "standbys")["standbys"]
        assert standby["takeover_after"] == parse_span(SHORTEST)
        return result

    def close(self) -> None:
        for node in self.nodes.values():
            node.power_off()
        for name in ("one", "two"):
            self.machine(name).power_off()
        for process in self._started:
            process.wait(TIMEOUT)


@pytest.fixture
def heads(tmp_path: Path) -> Iterator[TwoHeads]:
    with network(tmp_path, ("one", "two", *NODES)) as made:
        two = TwoHeads(tmp_path, made)
        try:
            two.begin()
            yield two
        finally:
            two.close()


class Submitter(threading.Thread):
    """Submits jobs to the head of a machine until it is told to end; knows those that were acknowledged."""

    def __init__(self, heads: TwoHeads, name: str) -> None:
        super().__init__(daemon=True)
        self._heads, self._name = heads, name
        self._ended = threading.Event()
        self.acknowledged: list[int] = []
        self.refusals: Counter[str] = Counter()

    def run(self) -> None:
        number = 0
        while not self._ended.is_set():
            number += 1
            task = {"command": f"echo $CCP_JOBID >> {self._heads.log}", "rerunnable": "false"}
            try:
                answer = self._heads.ask(
                    self._name, "submit_job", tasks=[task], terms={"jobname": f"j{number}"}
                )
                self.acknowledged.append(int(answer["job"]))
            except HeadnodeError as error:
                self.refusals[error.code] += 1
                self._ended.wait(PAUSE)

    def end(self) -> None:
        self._ended.set()
        self.join(TIMEOUT)


def wait_for_acknowledged(heads: TwoHeads, submitter: Submitter, more: int) -> None:
    """Wait until so many more jobs were acknowledged."""
    wanted = len(submitter.acknowledged) + more
    heads.until(lambda: len(submitter.acknowledged) >= wanted, "jobs are acknowledged")


def known_jobs(heads: TwoHeads, head: str) -> set[int]:
    """Return all jobs that a head knows."""
    found: set[int] = set()
    before: int | None = None
    while True:
        page = heads.ask(head, "jobs", limit=1000, **({} if before is None else {"before": before}))["jobs"]
        if not page:
            return found
        found |= {job["id"] for job in page}
        before = min(found)


def test_a_head_without_power_is_followed_by_its_standby_and_nothing_is_lost(heads: TwoHeads) -> None:
    submitter = Submitter(heads, "one")
    submitter.start()
    wait_for_acknowledged(heads, submitter, 30)
    heads.machine("one").power_off()
    submitter.end()
    heads.until(lambda: heads.is_head("two"), "the standby is the head")
    heads.until(lambda: heads.node_states("two") == {"Ready"}, "all nodes found it")
    assert set(submitter.acknowledged) <= known_jobs(heads, "two")
    last = heads.ask("two", "submit_job", tasks=[{"command": f"echo $CCP_JOBID >> {heads.log}"}])["job"]
    heads.until(lambda: str(last) in heads.log.read_text().split(), "the new head runs jobs")
    heads.until(lambda: not heads.ask("two", "queue")["jobs"], "the queue is empty")
    ran = Counter(map(int, heads.log.read_text().split()))
    assert set(ran.values()) == {1}
    assert set(submitter.acknowledged) <= set(ran)
    heads.machine("one").power_on()
    heads.start_head("one")
    heads.until((heads.state("one") / REPLACED).exists, "the former head finds the new one")
    heads.join("one", of="two")
    assert not reported(heads, "one") & set(submitter.acknowledged)  # what was not, may be written there


def reported(heads: TwoHeads, name: str) -> set[int]:
    """Return the jobs that the former head had and the new one has not."""
    (found,) = heads.state(name).glob(f"former-head-*/{REPORT}")
    return {int(line.split()[1]) for line in found.read_text().splitlines() if line.startswith("job ")}


def test_a_head_without_network_stops_before_its_standby_is_the_head(heads: TwoHeads) -> None:
    submitter = Submitter(heads, "one")
    submitter.start()
    wait_for_acknowledged(heads, submitter, 20)
    heads.machine("one").cut()
    heads.until(lambda: submitter.refusals["isolated"] > 0, "the head refuses changes")
    stopped_with = len(submitter.acknowledged)
    heads.until(lambda: heads.is_head("two"), "the standby is the head")
    heads.until(lambda: heads.node_states("two") == {"Ready"}, "all nodes found it")
    assert len(submitter.acknowledged) == stopped_with
    heads.machine("one").heal()
    heads.until((heads.state("one") / REPLACED).exists, "the former head finds the new one")
    submitter.end()
    heads.join("one", of="two")
    assert set(submitter.acknowledged) <= known_jobs(heads, "two") | reported(heads, "one")
    heads.until(lambda: not heads.ask("two", "queue")["jobs"], "the queue is empty")
    ran = Counter(map(int, heads.log.read_text().split()))
    assert set(ran.values()) == {1}


def test_a_standby_that_missed_something_does_not_take_over_by_itself(heads: TwoHeads) -> None:
    heads.machine("two").cut()
    heads.until(lambda: heads.standby_state("one") == "Away", "the standby is away")
    submitter = Submitter(heads, "one")
    submitter.start()
    wait_for_acknowledged(heads, submitter, 20)
    heads.until(lambda: not heads._nodes_know_the_standby(), "nodes have forgotten the standby")
    submitter.end()
    heads.machine("one").power_off()
    heads.machine("two").heal()
    status = lambda: ask_standby(str(heads.state("two")), "status")  # noqa: E731
    heads.until(lambda: status()["heard"] > 45, "the standby has waited for longer than it was told to")
    assert not heads.is_head("two")
    heads.hn("two", "standby", "takeover", "--force")
    assert heads.is_head("two")
