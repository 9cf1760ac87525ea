"""Jobs of real nodes that start earlier with a lower run time limit, and are ended at it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from batch_programs import Programs

from testbed.clusters import Cluster, cluster_on_loopback
from testbed.processes import free_address

SPAN = 20.0  # seconds


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node with two processors."""
    with cluster_on_loopback(tmp_path_factory.mktemp("limits"), ("n1",), free_address(), 2) as cluster:
        yield cluster


def state(nodes: Cluster, job: int) -> str:
    return str(nodes.job(job)["state"])


def test_a_job_starts_earlier_and_is_ended_at_its_lowered_limit(nodes: Cluster, tmp_path: Path) -> None:
    first = nodes.submit("sleep 600", terms={"runtime": f"{SPAN:g}s"})
    nodes.until(lambda: state(nodes, first) == "Running", "the first job runs")
    head = nodes.submit("true", terms={"runtime": "1m"}, numprocessors="2")
    waits = nodes.submit("sleep 600", terms={"runtime": "10m"})
    lowered = nodes.submit("sleep 600", terms={"runtime": "10m", "minimumruntime": "2s"})
    nodes.until(lambda: state(nodes, lowered) == "Running", "the job with a lowest limit runs")
    assert (state(nodes, head), state(nodes, waits)) == ("Queued", "Queued")
    job = nodes.job(lowered)
    assert 2.0 <= job["run_time"] <= SPAN
    assert job["started"] + job["run_time"] <= nodes.job(first)["started"] + SPAN

    slurm = Programs(nodes, tmp_path, "--only", "slurm")
    limit = slurm.output(f"squeue -h -j {lowered} -o %l", tmp_path).strip()
    assert 2 <= int(limit.rpartition(":")[2]) <= SPAN, limit
    assert "TimeMin=00:00:02" in slurm.output(f"scontrol show job {lowered}", tmp_path)

    assert nodes.wait(lowered) == "Canceled"
    ended = nodes.job(lowered)
    assert ended["ended"] - ended["started"] == pytest.approx(job["run_time"], abs=8.0)
    assert nodes.wait(head) == "Finished", "the job that it passed starts as was promised"
    history = nodes.ask("job_history", job=lowered)["history"]
    assert any("run time limit lowered to" in event["text"] for event in history), history
    nodes.ask("cancel_job", job=waits, force=True)
