"""A ring of 4 MPI ranks on 4 nodes, from submission to its end, beside the same ring under a bare mpiexec.

The nodes are machines in network namespaces, so this needs root; MPICH comes from PyPI, as for the tests.
The bare mpiexec starts its ranks on this machine alone, which no launcher can be quicker than.
"""

import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from heads import machine
from testbed.clusters import Cluster, cluster_of_machines
from testbed.machines import obstacle
from testbed.mpi_kits import NoKit, kit

ROOT = Path(__file__).parents[1]
RUNS = int(os.environ.get("RUNS", "11"))
NODES = ("red", "green", "blue", "grey")
PROMISED = 0.5  # seconds beyond the bare mpiexec
RING = ROOT / "examples" / "mpi" / "ring.py"


def bare(mpi: Path) -> float:
    """Return the seconds that the ring takes under mpiexec alone."""
    begun = time.perf_counter()
    words = [str(mpi / "bin" / "mpiexec"), "-n", "4", str(mpi / "bin" / "python"), str(RING)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def as_job(cluster: Cluster, directory: Path, mpi: Path) -> float:
    """Return the seconds that the ring takes as a job; `mpiexec` finds all it needs around it."""
    begun = time.perf_counter()
    job = cluster.submit(
        f"{mpi}/bin/mpiexec {mpi}/bin/python {RING}",
        terms={"numprocessors": "4"},
        numprocessors="4",
        workdir=str(directory),
        stdout="out",
    )
    state = cluster.wait(job)
    spent = time.perf_counter() - begun
    told = (directory / "out").read_text().strip()
    if state != "Finished" or not told.startswith("4 ranks on 4 nodes"):
        raise SystemExit(f"the ring was {state}: {told}")
    return spent


def main() -> int:
    """Print the figures beside what was promised; return 1 when they are worse."""
    print(machine())
    if obstacle():
        print(f"not measured: {obstacle()}")
        return 0
    try:
        mpi = kit("mpich")
    except NoKit as why:
        print(f"not measured: {why}")
        return 0
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with cluster_of_machines(directory, NODES, processors=1) as cluster:
            alone = statistics.median(bare(mpi) for _ in range(RUNS))
            whole = statistics.median(as_job(cluster, directory, mpi) for _ in range(RUNS))
    print(f"ring of 4 ranks on 4 nodes, submit to finished: {whole:.2f} s (median of {RUNS})")
    print(
        f"beyond a bare mpiexec on one machine, {alone:.2f} s: {whole - alone:.2f} s (promised: {PROMISED})"
    )
    return 1 if whole - alone > PROMISED else 0


if __name__ == "__main__":
    raise SystemExit(main())
