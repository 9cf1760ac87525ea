"""Jobs of real nodes under switches: where they run, how long they wait, and what they say meanwhile."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from batch_programs import Programs

from testbed.clusters import Cluster, LoopbackPlace, cluster_on_loopback
from testbed.processes import free_address

TREE = "SwitchName=a Nodes=a[1-2];SwitchName=b Nodes=b[1-2];SwitchName=top Switches=a,b"
HELD = "sleep 600"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Four nodes with a processor each but the last, which has two."""
    directory = tmp_path_factory.mktemp("switches")
    with cluster_on_loopback(directory, ("a1", "a2", "b1"), free_address(), 1) as cluster:
        cluster.add(LoopbackPlace("b2", directory / "b2"), 2)
        cluster.wait_for_nodes("Ready")
        yield cluster


@pytest.fixture
def slurm(nodes: Cluster, tmp_path: Path) -> Iterator[Programs]:
    nodes.ask("set_parameters", values={"Topology": TREE})
    yield Programs(nodes, tmp_path / "slurm", "--only", "slurm")
    for job in nodes.ask("jobs", states=["Queued", "Running"])["jobs"]:
        nodes.ask("cancel_job", job=job["id"], force=True)
        nodes.wait(job["id"])


def submit(slurm: Programs, options: str, where: Path, command: str = HELD) -> int:
    return int(slurm.output(f"sbatch --parsable {options} --wrap '{command}'", where))


def runs_on(nodes: Cluster, slurm: Programs, job: int, where: Path) -> list[str]:
    """Return the nodes of a job that runs, or will soon."""
    nodes.until(lambda: nodes.job(job)["state"] == "Running", f"job {job} runs")
    return slurm.output(f"squeue -h -j {job} -o %N | xargs scontrol show hostnames", where).split()


def test_a_job_on_two_nodes_runs_under_one_switch_where_that_can_be(
    nodes: Cluster, slurm: Programs, tmp_path: Path
) -> None:
    assert runs_on(nodes, slurm, submit(slurm, "-w a1", tmp_path), tmp_path) == ["a1"]
    assert runs_on(nodes, slurm, submit(slurm, "-N 2 -n 2", tmp_path), tmp_path) == ["b1", "b2"]


def test_without_switches_it_runs_on_the_first_nodes(nodes: Cluster, slurm: Programs, tmp_path: Path) -> None:
    nodes.ask("set_parameters", values={"Topology": ""})
    submit(slurm, "-w a1", tmp_path)
    submit(slurm, "-w b2 -n 2", tmp_path)
    assert runs_on(nodes, slurm, submit(slurm, "-N 2 -n 2", tmp_path), tmp_path) == ["a2", "b1"]


def test_a_job_waits_for_one_switch_and_says_so_until_it_is_free(
    nodes: Cluster, slurm: Programs, tmp_path: Path
) -> None:
    submit(slurm, "-w a1", tmp_path)
    holds_b1 = submit(slurm, "-w b1", tmp_path)
    job = submit(slurm, "--switches=1@1:00:00 -N 2 -n 2", tmp_path)
    other = submit(slurm, "-N 1 -n 1 -t 1", tmp_path, command="true")
    assert nodes.wait(other) == "Finished", "a job that asks for no switches does not wait for one that does"
    reasons = nodes.ask("explain_job", job=job)["reasons"]
    assert "switches" in {reason["kind"] for reason in reasons}, reasons
    assert nodes.job(job)["state"] == "Queued"
    nodes.ask("cancel_job", job=holds_b1, force=True)
    assert runs_on(nodes, slurm, job, tmp_path) == ["b1", "b2"]


def test_after_its_wait_a_job_runs_under_more_switches(
    nodes: Cluster, slurm: Programs, tmp_path: Path
) -> None:
    for node in ("a1", "b1"):
        submit(slurm, f"-w {node}", tmp_path)
    job = submit(slurm, "--switches=1@0:02 -N 2 -n 2", tmp_path)
    assert nodes.job(job)["state"] == "Queued"
    assert runs_on(nodes, slurm, job, tmp_path) == ["a2", "b2"]
    waited = nodes.job(job)["started"] - nodes.job(job)["submitted"]
    assert 2.0 <= waited < 30.0


def test_mincpus_selects_nodes_with_so_many_processors(
    nodes: Cluster, slurm: Programs, tmp_path: Path
) -> None:
    assert runs_on(nodes, slurm, submit(slurm, "--mincpus=2 -n 1", tmp_path), tmp_path) == ["b2"]
