"""What the page for users says of GPUs, typed at a prompt: real agents with GPUs, real commands."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headnode.sdk import HeadnodeClient, HeadnodeExecutor
from testbed.clusters import Cluster, cluster_on_loopback
from testbed.processes import free_address


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node of eight processors and two GPUs."""
    directory = tmp_path_factory.mktemp("by-hand")
    with cluster_on_loopback(directory, ("red",), free_address(), 8, ("--gpus", "2")) as made:
        yield made


def hn(cluster: Cluster, *words: str, **more: Any) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "headnode.apps.cli", "--state", str(cluster.state), *words]
    environment = os.environ | {"COLUMNS": "200", "HEADNODE_RESIDENT_CLIENT": "0"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, **more)


def output(cluster: Cluster, where: Path, *words: str) -> list[str]:
    """Return the words that a job writes which is submitted by these."""
    done = hn(cluster, "job", "submit", "--wait", "/stdout:out", *words, cwd=where)
    assert done.returncode == 0, done.stderr
    return (where / "out").read_text().split()


def test_a_job_of_one_gpu_has_one_processor_and_one_of_two_has_as_many_as_it_says(
    cluster: Cluster, tmp_path: Path
) -> None:
    says = "echo $CUDA_VISIBLE_DEVICES $CCP_NUMCPUS"
    assert output(cluster, tmp_path, "-G", "1", says) == ["0", "1"]
    assert output(cluster, tmp_path, "-G", "2", "--corespergpu", "4", says) == ["0,1", "8"]
    assert output(cluster, tmp_path, "-G", "2", "--feature", "gpu", "--singlenode", says) == ["0,1", "2"]
    assert output(cluster, tmp_path, "-n", "2", "echo $CUDA_VISIBLE_DEVICES. $CCP_NUMCPUS") == [".", "2"]


def test_each_instance_of_a_sweep_has_one_gpu(cluster: Cluster, tmp_path: Path) -> None:
    command = "echo $HEADNODE_GPUS > gpu.*"
    done = hn(cluster, "job", "submit", "--wait", "-G", "1-2", "--parametric", "1-6", command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {(tmp_path / f"gpu.{number}").read_text().strip() for number in range(1, 7)} <= {"0", "1"}


def test_one_gpu_is_one_rank_of_mpi(cluster: Cluster, tmp_path: Path) -> None:
    says = "echo $HEADNODE_HOSTS; cat $CCP_MPI_HOSTFILE"
    assert output(cluster, tmp_path, "-G", "2", "--corespergpu", "3", says) == ["red", "red", "red:2"]


def test_what_does_not_go_together_is_refused_with_what_to_type(cluster: Cluster, tmp_path: Path) -> None:
    for words, what in (
        (("-G", "1", "-n", "2"), "are given together"),
        (("--corespergpu", "2"), "give its number of GPUs, for example --numgpus 1"),
        (("-G", "3"), "at most 2 GPUs on 1 node would fit"),
        (("--gpus", "1"), "GPUs are --numgpus N (-G N)"),
    ):
        done = hn(cluster, "job", "submit", *words, "true", cwd=tmp_path)
        assert done.returncode != 0
        assert what in " ".join(done.stderr.split())


def test_a_job_that_waits_is_listed_and_explained_in_gpus(cluster: Cluster, tmp_path: Path) -> None:
    holds = hn(cluster, "job", "submit", "--quiet", "-G", "2", "sleep 600", cwd=tmp_path).stdout.strip()
    waits = hn(cluster, "job", "submit", "--quiet", "-G", "1", "true", cwd=tmp_path).stdout.strip()
    try:
        listed = hn(cluster, "job", "list").stdout
        assert any(line.split()[0] == waits and " 1 GPU " in line for line in listed.splitlines())
        assert "Resource Request" in (found := hn(cluster, "job", "view", holds).stdout)
        assert "2 GPUs" in found
        explained = " ".join(hn(cluster, "job", "explain", waits).stdout.split())
        assert "has all 2 GPUs in use" in explained
    finally:
        assert hn(cluster, "job", "cancel", holds).returncode == 0
    assert hn(cluster, "job", "wait", waits).returncode == 0


def test_calls_of_functions_run_with_a_gpu_each(cluster: Cluster, tmp_path: Path) -> None:
    client = HeadnodeClient(cluster.state)
    wishes: dict[str, Any] = {"gpus": 1, "processors_per_gpu": 2}
    with client, HeadnodeExecutor(client, directory=tmp_path, **wishes) as executor:
        found = list(executor.map(_gpus, range(4)))
    assert {numbers for numbers, _ in found} <= {"0", "1"}
    assert {processors for _, processors in found} == {"2"}


def _gpus(_: int) -> tuple[str, str]:
    import os  # the call is pickled by value

    return os.environ["HEADNODE_GPUS"], os.environ["CCP_NUMCPUS"]
