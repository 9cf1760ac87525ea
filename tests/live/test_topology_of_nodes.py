"""Jobs of real nodes that ask for sockets, cores and threads: where they run, and why nowhere else."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from batch_programs import Programs

from testbed.clusters import Cluster, LoopbackPlace, cluster_on_loopback
from testbed.processes import free_address

BIG = ("--sockets", "2", "--cores-per-socket", "2", "--threads-per-core", "2")
MANY = "4000"  # processors that no machine of tests has, so that its own topology is not that of the node


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A node whose topology is not known, which is the first to be used, one with 2:2:2, and a small one."""
    directory = tmp_path_factory.mktemp("topology")
    with cluster_on_loopback(directory, ("a",), free_address(), int(MANY)) as cluster:
        cluster.add(LoopbackPlace("b", directory / "b"), 8, BIG)
        cluster.add(LoopbackPlace("c", directory / "c"), 2)
        cluster.wait_for_nodes("Ready")
        yield cluster


@pytest.fixture(scope="module")
def slurm(nodes: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(nodes, tmp_path_factory.mktemp("slurm"), "--only", "slurm")


def submit(slurm: Programs, options: str, where: Path) -> int:
    return int(slurm.output(f"sbatch --parsable {options} --wrap true", where))


def ran_on(nodes: Cluster, slurm: Programs, job: int, where: Path) -> str:
    assert nodes.wait(job) == "Finished"
    return slurm.output(f"sacct -n -X -P -j {job} -o NodeList", where)


@pytest.mark.parametrize(
    "options",
    ["-B 2:2:2", "--sockets-per-node=2", "--cores-per-socket=2", "--threads-per-core=2", "-B *:*:2"],
)
def test_a_job_gets_a_node_with_the_sockets_cores_and_threads_that_it_asks_for(
    nodes: Cluster, slurm: Programs, tmp_path: Path, options: str
) -> None:
    assert ran_on(nodes, slurm, submit(slurm, "", tmp_path), tmp_path) == "a"
    plain = submit(slurm, "-B 1:1:1", tmp_path)
    assert ran_on(nodes, slurm, plain, tmp_path) == "a", "every node has one of each"
    assert ran_on(nodes, slurm, submit(slurm, options, tmp_path), tmp_path) == "b"


def test_a_job_waits_for_the_only_node_that_has_its_cores_and_says_why_no_other_is_used(
    nodes: Cluster, slurm: Programs, tmp_path: Path
) -> None:
    holds = int(slurm.output("sbatch --parsable -w b -n 8 --wrap 'sleep 600'", tmp_path))
    nodes.until(lambda: nodes.job(holds)["state"] == "Running", "the node is in use")
    job = submit(slurm, "-B 2:2", tmp_path)
    shown = slurm.output(f"squeue -h -j {job} -o '%T %H %I %J %z'", tmp_path)
    assert shown.split() == ["PENDING", "2", "2", "*", "2:2:*"]
    lines = slurm.output(f"scontrol show job {job}", tmp_path).split()
    assert {"ReqB:S:C:T=0:2:2:*", "Socks/Node=2"} <= {*lines}
    assert "has 1 socket; at least 2 are requested" in str(nodes.ask("explain_job", job=job))
    nodes.ask("cancel_job", job=holds, force=True)
    assert ran_on(nodes, slurm, job, tmp_path) == "b"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("-B 2:4:2", "node 'b' has 2 cores per socket; at least 4 are requested"),
        ("-B *:2", "node 'a' does not report its cores per socket; at least 2 are requested"),
        ("--threads-per-core=4", "node 'a' does not report its threads per core; at least 4 are requested"),
    ],
)
def test_a_job_that_asks_for_more_than_any_node_has_is_refused_with_what_each_lacks(
    nodes: Cluster, slurm: Programs, tmp_path: Path, options: str, why: str
) -> None:
    more = "-w a " if options == "-B *:2" else ""
    refused = slurm.run(f"sbatch {more}{options} --wrap true", tmp_path)
    assert (refused.returncode, why in refused.stderr) == (1, True), refused.stderr


def test_every_program_shows_the_topology_of_nodes_or_that_it_is_not_known(
    nodes: Cluster, slurm: Programs, tmp_path: Path
) -> None:
    lines = slurm.output("sinfo -h -N -n a,b -o '%N %X %Y %Z %z'", tmp_path).splitlines()
    assert [line.split() for line in lines] == [
        ["a", "1", "N/A", "N/A", "1:N/A:N/A"],
        ["b", "2", "2", "2", "2:2:2"],
    ]
    shown = slurm.output("scontrol show node b", tmp_path)
    assert {"CoresPerSocket=2", "Sockets=2", "ThreadsPerCore=2"} <= {*shown.split()}
    assert "ThreadsPerCore=N/A" in slurm.output("scontrol show node a", tmp_path)
    node = nodes.ask("node", node="b")["node"]
    assert (node["sockets"], node["cores_per_socket"], node["threads_per_core"]) == (2, 2, 2)


def test_programs_of_grid_engine_and_pbs_show_them_too(nodes: Cluster, tmp_path: Path) -> None:
    grid = Programs(nodes, tmp_path / "grid", "--only", "qsub", "--qsub", "gridengine")
    hosts = {line.split()[0]: line.split()[2:6] for line in grid.output("qhost", tmp_path).splitlines()[2:]}
    assert (hosts["a"], hosts["b"]) == ([MANY, "1", "-", "-"], ["8", "2", "4", "8"])
    pbs = Programs(nodes, tmp_path / "pbs", "--only", "qsub", "--qsub", "pbs")
    shown = pbs.output("pbsnodes b", tmp_path)
    assert all(line in shown for line in ("total_sockets = 2", "total_cores = 4", "total_threads = 8"))
    assert "total_cores" not in pbs.output("pbsnodes a", tmp_path)


def test_contiguous_nodes_have_no_other_node_between_them(
    nodes: Cluster, slurm: Programs, tmp_path: Path
) -> None:
    holds = int(slurm.output("sbatch --parsable -w b -n 8 --wrap 'sleep 600'", tmp_path))
    nodes.until(lambda: nodes.job(holds)["state"] == "Running", "the node between is in use")
    job = submit(slurm, "-N 2 -n 2 --contiguous", tmp_path)
    apart = submit(slurm, "-N 2 -n 2", tmp_path)
    assert nodes.wait(apart) == "Finished", "without it, the nodes on both sides will do"
    reasons = nodes.ask("explain_job", job=job)["reasons"]
    assert "contiguous" in {reason["kind"] for reason in reasons}, reasons
    assert "Contiguous=1" in slurm.output(f"scontrol show job {job}", tmp_path)
    nodes.ask("cancel_job", job=holds, force=True)
    assert ran_on(nodes, slurm, job, tmp_path) in ("a,b", "b,c", "[a-b]", "[b-c]")
