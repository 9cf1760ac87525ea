"""A machine that loses power and is back before anybody has given it up."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.clusters import Cluster, cluster_of_machines
from testbed.machines import obstacle

pytestmark = pytest.mark.skipif(bool(obstacle()), reason=obstacle() or "they can be made")
SPELL = "echo $CCP_TASKID >> {runs}; while [ ! -e {end} ]; do sleep 0.02; done"


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two machines; nobody gives them up for 90 seconds."""
    with cluster_of_machines(tmp_path_factory.mktemp("machines"), ("red", "blue")) as cluster:
        yield cluster


def reboot(cluster: Cluster, name: str) -> None:
    cluster.nodes[name].power_off()
    cluster.nodes[name].boot()
    cluster.wait_for_nodes("Ready")


def started(cluster: Cluster, job: int, tasks: int) -> None:
    cluster.until(
        lambda: len(cluster.ask("tasks", job=job, states=["Running"])["tasks"]) == tasks, f"{tasks} tasks run"
    )


@pytest.mark.parametrize("kept", [True, False], ids=["with its disk", "without"])
def test_rerunnable_tasks_run_again_and_others_fail_and_say_that_the_machine_rebooted(
    machines: Cluster, tmp_path: Path, kept: bool
) -> None:
    end, found = tmp_path / "end", tmp_path / "runs"
    tmp_path.chmod(0o777)
    command = SPELL.format(end=end, runs=found)
    terms = {"requestednodes": "blue"}
    tasks = [{"command": command, "rerunnable": word} for word in ("true", "false")]
    job = int(machines.ask("submit_job", tasks=tasks, terms=terms)["job"])
    machines.until(lambda: found.exists() and len(found.read_text().split()) == 2, "both tasks run")
    started(machines, job, 2)
    if not kept:
        for journal in (machines.nodes["blue"].state / "jobs").rglob("*.journal"):
            journal.unlink()
    reboot(machines, "blue")
    machines.until(lambda: sorted(found.read_text().split()) == ["1", "1", "2"], "the first runs again")
    end.touch()
    assert machines.wait(job) == "Failed"
    task = machines.ask("task", job=job, task=2)["task"]
    assert task["message"] == "node blue rebooted, and it is not rerunnable"
    assert sorted(found.read_text().split()) == ["1", "1", "2"]


def test_what_had_ended_before_is_not_lost(machines: Cluster, tmp_path: Path) -> None:
    job = machines.submit("true", terms={"requestednodes": "blue"})
    assert machines.wait(job) == "Finished"
    reboot(machines, "blue")
    assert machines.job(job)["state"] == "Finished"
