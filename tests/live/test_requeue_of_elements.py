"""One running element of an array is requeued, and the head or the agent is killed before it has stopped."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.clusters import Cluster, cluster_on_loopback
from testbed.processes import free_address


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with cluster_on_loopback(tmp_path / "cluster", ["left"], free_address()) as made:
        yield made


PROGRAM = """#!/bin/sh
#SBATCH --array=1-2 --output=/dev/null --requeue
echo started >> {folder}/$SLURM_ARRAY_TASK_ID
end() {{ touch {folder}/stopping; while [ ! -e {folder}/stop ]; do sleep 0.02; done
  touch {folder}/stopped; exit 1; }}
trap end TERM
while [ ! -e {folder}/go ]; do sleep 0.02; done
"""


@pytest.mark.parametrize("stops", ["while it is dead", "when it is back"])
@pytest.mark.parametrize("killed", ["head", "agent"])
def test_an_element_that_is_being_requeued_runs_once_more_whoever_is_killed(
    cluster: Cluster, tmp_path: Path, killed: str, stops: str
) -> None:
    """Nothing is lost and nothing runs twice: each start is one line of a file."""
    job = int(cluster.ask("submit_job", jobfile=PROGRAM.format(folder=tmp_path))["job"])
    (node,) = cluster.nodes.values()

    def starts(number: int) -> int:
        file = tmp_path / str(number)
        return len(file.read_text().splitlines()) if file.exists() else 0

    def state(number: int) -> str:
        return str(cluster.ask("task", job=job, task=1, instance=number)["task"]["state"])

    cluster.until(lambda: starts(1) == starts(2) == 1, "both elements run")
    cluster.ask("requeue_task", job=job, task=1, instance=1)
    cluster.until((tmp_path / "stopping").exists, "the element is being stopped")
    kill, start = (
        (cluster.kill_head, cluster.start_head) if killed == "head" else (node.kill_agent, node.start_agent)
    )
    kill()
    if stops == "while it is dead":
        (tmp_path / "stop").touch()
        cluster.until((tmp_path / "stopped").exists, "it has stopped")
    start()
    cluster.wait_for_nodes("Ready")
    (tmp_path / "stop").touch()
    cluster.until(lambda: starts(1) == 2, "the element runs again")
    cluster.until(lambda: state(1) == state(2) == "Running", "the head knows it")
    (tmp_path / "go").touch()
    assert cluster.wait(job) == "Finished"
    assert (starts(1), starts(2)) == (2, 1)
    assert cluster.job(job)["requeues"] == 0
