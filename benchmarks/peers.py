"""Other workload managers on this machine, for the benchmarks that run beside them.

Two jobs of /bin/true run at a time, with Slurm eight.  Run alone, this prints nothing: others use it.
"""

import io
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from testbed.slurm_peer import slurm_peer

JOBS = 500
FEW = 200  # for Slurm
TIMEOUT = 120.0  # seconds until all jobs of a round must have ended

Peer = Callable[[], float]
"""Runs the jobs once; returns jobs a second."""


def loop(submit: str, environment: dict[str, str], all_ended: Callable[[], bool], jobs: int = JOBS) -> float:
    """Return jobs a second of a shell loop that submits them, until all have ended."""
    script = f"i=0; while [ $i -lt {jobs} ]; do {submit} >/dev/null || exit 1; i=$((i+1)); done"
    begun = time.perf_counter()
    subprocess.run(["sh", "-c", script], env=os.environ | environment, check=True)
    while not all_ended():
        if time.perf_counter() - begun > TIMEOUT:
            raise SystemExit(f"{submit}: the jobs did not end within {TIMEOUT:.0f} s")
        time.sleep(0.002)
    return jobs / (time.perf_counter() - begun)


@contextmanager
def task_spooler() -> Iterator[Peer]:
    """Use a spooler of our own, two at a time."""
    with TemporaryDirectory() as folder:
        own = {"TS_SOCKET": f"{folder}/socket", "TMPDIR": folder, "TS_MAXFINISHED": "10"}

        def tsp(*words: str) -> str:
            done = subprocess.run(
                ["tsp", *words], env=os.environ | own, capture_output=True, text=True, check=True
            )
            return done.stdout

        tsp("-S", "2")
        try:
            yield lambda: loop(
                "tsp -n /bin/true", own, lambda: " running " not in (said := tsp()) and " queued " not in said
            )
        finally:
            tsp("-K")


class HyperQueue:
    """A server and a worker of two processors, by HyperQueue's own API for Python."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def _submit(self, number: int) -> Any:
        from hyperqueue import Job

        job = Job()
        for _ in range(number):
            job.program(["/bin/true"], stdout=None, stderr=None)
        return self._client.submit(job)

    def _rate(self, jobs: int, tasks: int) -> float:
        begun = time.perf_counter()
        with redirect_stderr(io.StringIO()):  # its progress bar
            self._client.wait_for_jobs([self._submit(tasks) for _ in range(jobs)])
        return jobs * tasks / (time.perf_counter() - begun)

    def tasks(self, number: int) -> float:
        """Return tasks a second of one job."""
        return self._rate(1, number)

    def jobs(self, number: int) -> float:
        """Return jobs a second of one task each."""
        return self._rate(number, 1)


@contextmanager
def hyper_queue() -> Iterator[HyperQueue]:
    """Start HyperQueue (`pip install hyperqueue cloudpickle`)."""
    from hyperqueue import LocalCluster
    from hyperqueue.cluster import WorkerConfig

    with redirect_stdout(io.StringIO()), LocalCluster() as cluster:
        cluster.start_worker(WorkerConfig(cores=2))
        yield HyperQueue(cluster.client())


@contextmanager
def slurm() -> Iterator[Peer]:
    """Start a Slurm of two nodes with four processors each, as root.

    It starts jobs on processors that became free about once a second.  With one processor each it is four
    times slower.
    """
    with TemporaryDirectory(prefix="hn-slurm-") as folder, slurm_peer(Path(folder) / "slurm", 4) as peer:

        def ended() -> bool:
            time.sleep(0.1)  # as often as it may be asked without slowing it down
            return not peer.in_queue()

        submit = "sbatch -n1 -o /dev/null --wrap /bin/true"
        yield lambda: loop(submit, peer.environment, ended, FEW)
