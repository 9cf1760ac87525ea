"""Nodes that are cut off: what may run elsewhere stands still before it does, and goes on where it may."""

import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.clusters import Cluster, cluster_of_machines
from testbed.machines import Machine, obstacle

pytestmark = pytest.mark.skipif(bool(obstacle()), reason=obstacle() or "machines can be made")
NAMES = ("red", "green")
TIMEOUT = 6  # seconds after which a node is given up; half of it is its lease
BEAT = 0.05  # seconds between two lines that a task writes

TASK = """
import os, pathlib, sys, time
lines = open(sys.argv[1], "a", buffering=1)
while not pathlib.Path(sys.argv[2]).exists():
    lines.write(f"{os.environ['HEADNODE_TASK']} {os.environ['HEADNODE_NODE']} {time.monotonic()}\\n")
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_of_machines(tmp_path_factory.mktemp("machines"), NAMES, processors=3) as cluster:
        cluster.ask("set_parameters", values={"HeartbeatInterval": "2", "InactivityCount": "3"})
        for node in cluster.nodes.values():
            node.kill_agent()
            node.start_agent()
        yield cluster


@pytest.fixture
def cluster(machines: Cluster) -> Iterator[Cluster]:
    machines.wait_for_nodes("Ready")
    yield machines
    for name in NAMES:
        machine(machines, name).heal()
    machines.wait_for_nodes("Ready")


@pytest.fixture
def patient(cluster: Cluster) -> Iterator[Cluster]:
    """Let leases be as short, but nodes be given up late: a connection needs some time to get well."""
    cluster.ask("set_parameters", values={"InactivityCount": "8", "NodeLease": "20"})
    yield cluster
    cluster.ask("set_parameters", values={"InactivityCount": "3", "NodeLease": "50"})


def machine(cluster: Cluster, name: str) -> Machine:
    place = cluster.nodes[name].place
    assert isinstance(place, Machine)
    return place


class Diary:
    """Tasks that write down all the time that they run."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        directory.chmod(0o777)
        self._cluster, self._lines, self._end = cluster, directory / "lines", directory / "end"
        self._program = directory / "task.py"
        self._program.write_text(TASK)
        self._lines.touch()

    def start(self, count: int, *, rerunnable: bool) -> int:
        command = f"python3 {self._program} {self._lines} {self._end}"
        word = "true" if rerunnable else "false"
        job = self._cluster.submit(*[command] * count, rerunnable=word)
        self._cluster.until(lambda: len(self.attempts(job)) == count, "all of it runs")
        return job

    def finish(self) -> None:
        self._end.touch()

    def attempts(self, job: int) -> dict[str, tuple[str, list[float]]]:
        """Return each attempt of a job: its node, and when it wrote something."""
        found: dict[str, tuple[str, list[float]]] = {}
        for line in self._lines.read_text().splitlines():
            words = line.split()
            if len(words) == 3 and words[0].startswith(f"{job}."):
                found.setdefault(words[0], (words[1], []))[1].append(float(words[2]))
        return found

    def on(self, job: int, node: str) -> list[str]:
        """Return the attempts that a node has run."""
        return [name for name, (where, _) in self.attempts(job).items() if where == node]

    def is_quiet(self, *attempts: str) -> bool:
        """Whether these have written nothing for a while."""
        now = time.monotonic()
        return all(
            now - max(self.attempts(int(name.split(".")[0]))[name][1]) > 10 * BEAT for name in attempts
        )

    def goes_on(self, *attempts: str, at: float = 0.0) -> None:
        """Wait until each of these has written something later than that, or than now."""
        after = at or time.monotonic()
        self._cluster.until(
            lambda: all(self.attempts(int(name.split(".")[0]))[name][1][-1] > after for name in attempts),
            f"{', '.join(attempts)} go on",
        )

    def overlaps(self, job: int) -> list[tuple[str, str]]:
        """Return the attempts of one task that ran at the same time."""
        by_task: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
        for name, (_, times) in self.attempts(job).items():
            by_task[name.rpartition(".")[0]].append((min(times), max(times), name))
        return [
            (before[2], after[2])
            for spans in by_task.values()
            for before, after in zip(sorted(spans), sorted(spans)[1:], strict=False)
            if before[1] >= after[0]
        ]


def test_a_node_cut_off_for_long_stands_still_before_others_run_its_tasks_and_never_goes_on(
    cluster: Cluster, tmp_path: Path
) -> None:
    diary = Diary(cluster, tmp_path)
    job = diary.start(3, rerunnable=True)
    node = max(NAMES, key=lambda name: len(diary.on(job, name)))
    theirs = diary.on(job, node)
    machine(cluster, node).cut()
    cluster.until(lambda: len(diary.attempts(job)) > 3, "others run its tasks")
    machine(cluster, node).heal()
    cluster.wait_for_nodes("Ready", node)
    cluster.until(lambda: len(diary.attempts(job)) == 3 + len(theirs), "all of its tasks run elsewhere")
    cluster.until(lambda: not machine(cluster, node).processes("task.py"), "what it had is killed")
    before = {name: len(diary.attempts(job)[name][1]) for name in theirs}
    diary.finish()
    assert cluster.wait(job) == "Finished"
    assert diary.overlaps(job) == []
    assert {name: len(diary.attempts(job)[name][1]) for name in theirs} == before


def test_a_cable_pulled_for_less_than_that_costs_a_pause_and_no_work(
    patient: Cluster, tmp_path: Path
) -> None:
    cluster, diary = patient, Diary(patient, tmp_path)
    job = diary.start(3, rerunnable=True)
    node = max(NAMES, key=lambda name: len(diary.on(job, name)))
    theirs = diary.on(job, node)
    machine(cluster, node).cut()
    cluster.until(lambda: diary.is_quiet(*theirs), "its tasks stand still")
    machine(cluster, node).heal()
    diary.goes_on(*theirs)
    diary.finish()
    assert cluster.wait(job) == "Finished"
    assert len(diary.attempts(job)) == 3
    assert all(task["state"] == "Finished" for task in cluster.ask("tasks", job=job)["tasks"])


def test_what_may_not_run_twice_goes_on_alone_and_is_killed_when_it_was_given_up(
    cluster: Cluster, tmp_path: Path
) -> None:
    diary = Diary(cluster, tmp_path)
    job = diary.start(3, rerunnable=False)
    node = max(NAMES, key=lambda name: len(diary.on(job, name)))
    theirs = diary.on(job, node)
    machine(cluster, node).cut()
    cluster.until(lambda: cluster.ask("tasks", job=job, states=["Failed"])["tasks"], "it is given up")
    diary.goes_on(*theirs)
    machine(cluster, node).heal()
    cluster.until(lambda: diary.is_quiet(*theirs), "it is killed")
    diary.finish()
    assert cluster.wait(job) == "Failed"
    assert len(diary.attempts(job)) == 3


def test_a_node_whose_agent_was_killed_stands_still_too(cluster: Cluster, tmp_path: Path) -> None:
    diary = Diary(cluster, tmp_path)
    job = diary.start(3, rerunnable=True)
    node = max(NAMES, key=lambda name: len(diary.on(job, name)))
    cluster.nodes[node].kill_agent()
    cluster.until(lambda: len(diary.attempts(job)) > 3, "others run its tasks")
    cluster.nodes[node].start_agent()
    cluster.wait_for_nodes("Ready", node)
    diary.finish()
    assert cluster.wait(job) == "Finished"
    assert diary.overlaps(job) == []


def test_while_the_head_is_off_tasks_go_on_for_longer_than_any_lease(
    cluster: Cluster, tmp_path: Path
) -> None:
    diary = Diary(cluster, tmp_path)
    job = diary.start(6, rerunnable=True)
    cluster.kill_head()
    diary.goes_on(*diary.attempts(job), at=time.monotonic() + TIMEOUT)
    cluster.start_head()
    cluster.wait_for_nodes("Ready")
    diary.finish()
    assert cluster.wait(job) == "Finished"
    assert len(diary.attempts(job)) == 6


def test_when_head_and_cable_are_gone_tasks_stand_still_and_go_on_when_both_are_back(
    patient: Cluster, tmp_path: Path
) -> None:
    cluster, diary = patient, Diary(patient, tmp_path)
    job = diary.start(6, rerunnable=True)
    theirs = diary.on(job, "red")
    machine(cluster, "red").cut()
    cluster.kill_head()
    cluster.until(lambda: diary.is_quiet(*theirs), "its tasks stand still")
    cluster.start_head()
    machine(cluster, "red").heal()
    diary.goes_on(*theirs)
    diary.finish()
    assert cluster.wait(job) == "Finished"
    assert len(diary.attempts(job)) == 6


def test_without_leases_nothing_stands_still(cluster: Cluster, tmp_path: Path) -> None:
    cluster.ask("set_parameters", values={"NodeLease": "0"})
    for name in NAMES:  # a new agent has no lease from before
        cluster.nodes[name].kill_agent()
        cluster.nodes[name].start_agent()
    cluster.wait_for_nodes("Ready")
    try:
        diary = Diary(cluster, tmp_path)
        job = diary.start(3, rerunnable=True)
        node = max(NAMES, key=lambda name: len(diary.on(job, name)))
        theirs = diary.on(job, node)
        machine(cluster, node).cut()
        cluster.until(lambda: len(diary.attempts(job)) > 3, "others run its tasks")
        diary.goes_on(*theirs)
        machine(cluster, node).heal()
        cluster.until(lambda: diary.is_quiet(*theirs), "they are killed")
        diary.finish()
        assert cluster.wait(job) == "Finished"
        assert diary.overlaps(job)
    finally:
        cluster.ask("set_parameters", values={"NodeLease": "50"})
