"""Clusters of several machines: what happens to jobs when machines, cables, agents and heads fail."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.clusters import Cluster, cluster_of_machines, cluster_on_loopback
from testbed.machines import Machine, obstacle

NAMES = ("red", "green", "blue", "grey")
needs_machines = pytest.mark.skipif(bool(obstacle()), reason=obstacle() or "they can be made")
SPELL = "while [ ! -e {end} ]; do sleep 0.02; done; echo $HEADNODE_NODE.$CCP_TASKID >> {runs}"


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Four machines that are all well; each test leaves them so."""
    with cluster_of_machines(tmp_path_factory.mktemp("machines"), NAMES) as cluster:
        yield cluster


@pytest.fixture
def cluster(machines: Cluster) -> Iterator[Cluster]:
    hasty(machines, interval=1, count=2)
    yield machines
    machines.wait_for_nodes("Ready")


def hasty(cluster: Cluster, interval: int, count: int) -> None:
    """Let nodes be given up after so many seconds; agents learn it when they connect again."""
    values = {"HeartbeatInterval": str(interval), "InactivityCount": str(count)}
    known = {each["name"]: each["value"] for each in cluster.ask("parameters")["parameters"]}
    if any(known[name] != value for name, value in values.items()):
        cluster.ask("set_parameters", values=values)
        for node in cluster.nodes.values():
            node.kill_agent()
            node.start_agent()
        cluster.wait_for_nodes("Ready")


class Work:
    """Tasks that run until they are let go, and then say where they ran."""

    def __init__(self, cluster: Cluster, directory: Path, *, tasks: int, rerunnable: bool) -> None:
        self.cluster, self.tasks = cluster, tasks
        self._end, self._runs = directory / "end", directory / "runs"
        directory.chmod(0o777)
        command = SPELL.format(end=self._end, runs=self._runs)
        self.job = cluster.submit(*[command] * tasks, rerunnable="true" if rerunnable else "false")
        cluster.until(lambda: self.running() == tasks, f"{tasks} tasks run")

    def running(self) -> int:
        """Return how many tasks run."""
        return len(self.cluster.ask("tasks", job=self.job, states=["Running"])["tasks"])

    def nodes(self) -> dict[int, str]:
        """Return the node of each task that runs."""
        shown = self.cluster.ask("tasks", job=self.job, states=["Running"])["tasks"]
        return {
            task["task"]: self.cluster.ask("task", job=self.job, task=task["task"])["task"]["node"]
            for task in shown
        }

    def let_go(self) -> str:
        """Let the tasks end; return how the job ended."""
        self._end.touch()
        return self.cluster.wait(self.job)

    def runs(self) -> list[tuple[str, int]]:
        """Return who said that he ran which task."""
        lines = self._runs.read_text().split() if self._runs.exists() else []
        return [(line.split(".")[0], int(line.split(".")[1])) for line in lines]


def machine(cluster: Cluster, name: str) -> Machine:
    place = cluster.nodes[name].place
    assert isinstance(place, Machine)
    return place


@needs_machines
def test_a_job_runs_on_all_machines_at_once(cluster: Cluster, tmp_path: Path) -> None:
    work = Work(cluster, tmp_path, tasks=8, rerunnable=False)
    assert work.let_go() == "Finished"
    assert sorted(number for _, number in work.runs()) == list(range(1, 9))
    assert {name for name, _ in work.runs()} == set(NAMES)


@needs_machines
def test_a_machine_without_power_loses_its_tasks_and_others_run_them(
    cluster: Cluster, tmp_path: Path
) -> None:
    work = Work(cluster, tmp_path, tasks=7, rerunnable=True)
    cluster.nodes["blue"].power_off()
    cluster.wait_for_nodes("Unreachable", "blue")
    cluster.nodes["blue"].boot()
    assert work.let_go() == "Finished"
    assert sorted(number for _, number in work.runs()) == list(range(1, 8))


@needs_machines
def test_what_may_not_run_twice_fails_with_the_machine_and_says_so(cluster: Cluster, tmp_path: Path) -> None:
    work = Work(cluster, tmp_path, tasks=8, rerunnable=False)
    lost = [number for number, node in work.nodes().items() if node == "green"]
    cluster.nodes["green"].power_off()
    cluster.wait_for_nodes("Unreachable", "green")
    cluster.until(lambda: work.running() == 8 - len(lost), "its tasks are given up")
    assert work.let_go() == "Failed"
    assert sorted(number for _, number in work.runs()) == sorted(set(range(1, 9)) - set(lost))
    message = cluster.ask("task", job=work.job, task=lost[0])["task"]["message"]
    assert "green" in message
    cluster.nodes["green"].boot()


@needs_machines
def test_a_cable_pulled_for_a_moment_costs_nothing(cluster: Cluster, tmp_path: Path) -> None:
    hasty(cluster, interval=1, count=60)
    work = Work(cluster, tmp_path, tasks=8, rerunnable=False)
    cut = machine(cluster, "red")
    cut.cut()
    (tmp_path / "end").touch()  # its tasks end while nobody hears of it
    found = tmp_path / "runs"
    cluster.until(lambda: found.exists() and len(found.read_text().split()) == 8, "all tasks have ended")
    cut.heal()
    assert cluster.wait(work.job) == "Finished"
    assert len(work.runs()) == 8


@needs_machines
def test_a_machine_that_was_cut_off_too_long_is_told_to_stop_what_others_run(
    cluster: Cluster, tmp_path: Path
) -> None:
    work = Work(cluster, tmp_path, tasks=6, rerunnable=True)
    name = next(iter(work.nodes().values()))
    cut = machine(cluster, name)
    cut.cut()
    cluster.wait_for_nodes("Unreachable", name)
    cluster.until(lambda: name not in work.nodes().values() and work.running() == 6, "others run its tasks")
    cut.heal()
    cluster.wait_for_nodes("Ready", name)
    cluster.until(lambda: not cut.processes(str(tmp_path)), "what it ran is stopped")
    assert work.let_go() == "Finished"
    assert sorted(number for _, number in work.runs()) == list(range(1, 7))


@needs_machines
def test_a_head_that_dies_finds_everything_as_it_was(cluster: Cluster, tmp_path: Path) -> None:
    work = Work(cluster, tmp_path, tasks=8, rerunnable=False)
    cluster.kill_head()
    (tmp_path / "end").touch()
    cluster.start_head()
    assert cluster.wait(work.job) == "Finished"
    assert sorted(number for _, number in work.runs()) == list(range(1, 9))


@needs_machines
def test_agents_that_die_and_come_back_lose_nothing(cluster: Cluster, tmp_path: Path) -> None:
    hasty(cluster, interval=1, count=60)
    work = Work(cluster, tmp_path, tasks=8, rerunnable=False)
    for node in cluster.nodes.values():
        node.kill_agent()
    (tmp_path / "end").touch()
    for node in cluster.nodes.values():
        node.start_agent()
    assert cluster.wait(work.job) == "Finished"
    assert sorted(number for _, number in work.runs()) == list(range(1, 9))


@needs_machines
def test_a_shepherd_that_dies_costs_the_tasks_of_one_job_on_one_machine(
    cluster: Cluster, tmp_path: Path
) -> None:
    hurt, well = tmp_path / "hurt", tmp_path / "well"
    for directory in (hurt, well):
        directory.mkdir()
    first = Work(cluster, hurt, tasks=4, rerunnable=True)
    second = Work(cluster, well, tasks=4, rerunnable=False)
    name = next(iter(first.nodes().values()))
    shepherds = cluster.nodes[name].shepherds(first.job)
    assert len(shepherds) == 1
    os.kill(shepherds[0], signal.SIGKILL)
    assert first.let_go() == "Finished"
    assert second.let_go() == "Finished"
    assert {number for _, number in first.runs()} == {1, 2, 3, 4}
    assert sorted(number for _, number in second.runs()) == [1, 2, 3, 4]


@needs_machines
def test_a_machine_that_was_switched_on_again_is_known_by_its_new_boot(cluster: Cluster) -> None:
    place = machine(cluster, "grey")
    before = place.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout
    cluster.nodes["grey"].power_off()
    cluster.nodes["grey"].boot()
    cluster.wait_for_nodes("Ready", "grey")
    assert place.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout != before
    assert place.run(["hostname"]).stdout == "grey\n"


def test_nodes_that_share_a_machine_make_a_cluster_too(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with cluster_on_loopback(tmp_path, NAMES[:2], address) as cluster:
        hasty(cluster, interval=1, count=1)
        directory = tmp_path / "work"
        directory.mkdir()
        work = Work(cluster, directory, tasks=3, rerunnable=True)
        cluster.nodes["red"].power_off()
        cluster.wait_for_nodes("Unreachable", "red")
        assert work.let_go() == "Finished"
        assert sorted(number for _, number in work.runs()) == [1, 2, 3]
        cluster.nodes["red"].boot()
        cluster.wait_for_nodes("Ready")
