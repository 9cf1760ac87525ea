"""500 jobs of /bin/true, one submission each, from the first submission until all have ended; beside others.

The same shell loop runs against each workload manager that is here: Headnode, task-spooler (of Debian),
HyperQueue (`hq` with a server of its own) and Slurm (where `sinfo` answers).  Those that are not here are
named.  Two jobs run at a time.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from heads import head, machine

JOBS = 500
ROUNDS = 3
HN = str(Path(sys.executable).with_name("hn"))
PATIENCE = 120.0  # seconds until all jobs of a round must have ended

Peer = Callable[[], float]
"""Runs the jobs once; returns jobs a second."""


def loop(submit: str, environment: dict[str, str], all_ended: Callable[[], bool]) -> float:
    """Return jobs a second of a shell loop that submits them, until all have ended."""
    script = f"i=0; while [ $i -lt {JOBS} ]; do {submit} >/dev/null || exit 1; i=$((i+1)); done"
    begun = time.perf_counter()
    subprocess.run(["sh", "-c", script], env=os.environ | environment, check=True)
    while not all_ended():
        if time.perf_counter() - begun > PATIENCE:
            raise SystemExit(f"{submit}: the jobs did not end within {PATIENCE:.0f} s")
        time.sleep(0.002)
    return JOBS / (time.perf_counter() - begun)


@contextmanager
def headnode() -> Iterator[Peer]:
    """Start a head with one node of two processors."""
    with head(processors=2) as here:

        def finished() -> int:
            return int(here.client.ask("cluster")["cluster"]["jobs"].get("Finished", 0))

        def run() -> float:
            before = finished()
            environment = {"HEADNODE_STATE": str(here.state)}
            return loop(f"{HN} job submit /bin/true", environment, lambda: finished() - before == JOBS)

        yield run


@contextmanager
def task_spooler() -> Iterator[Peer]:
    """Use a spooler of our own, two at a time."""
    with tempfile.TemporaryDirectory() as folder:
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


@contextmanager
def hyper_queue() -> Iterator[Peer]:
    """Start a server and a worker of two processors."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        own = {"HQ_SERVER_DIR": folder}
        environment = os.environ | own
        for words in (("server", "start"), ("worker", "start", "--cpus", "2")):
            process = subprocess.Popen(
                ["hq", *words], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            time.sleep(1.0)

        def ended() -> bool:
            subprocess.run(["hq", "job", "wait", "all"], env=environment, check=True, capture_output=True)
            return True

        yield lambda: loop("hq submit --stdout=none --stderr=none /bin/true", own, ended)


@contextmanager
def slurm() -> Iterator[Peer]:
    """Use the cluster that answers here."""

    def ended() -> bool:
        time.sleep(0.1)  # as often as it may be asked without slowing it down
        return not subprocess.run(["squeue", "-h"], capture_output=True, check=True).stdout

    yield lambda: loop("sbatch -n1 -o /dev/null --wrap /bin/true", {}, ended)


def _slurm_answers() -> bool:
    return bool(shutil.which("sinfo")) and subprocess.run(["sinfo"], capture_output=True).returncode == 0


PEERS: dict[str, tuple[Callable[[], AbstractContextManager[Peer]], Callable[[], bool]]] = {
    "Headnode": (headnode, lambda: True),
    "task-spooler": (task_spooler, lambda: bool(shutil.which("tsp"))),
    "HyperQueue": (hyper_queue, lambda: bool(shutil.which("hq"))),
    "Slurm": (slurm, _slurm_answers),
}


def main() -> None:
    """Print jobs a second of each, the median of rounds that are taken in turns."""
    print(machine())
    with ExitStack() as stack:
        here = {name: stack.enter_context(start()) for name, (start, is_here) in PEERS.items() if is_here()}
        rates: dict[str, list[float]] = {name: [] for name in here}
        for _ in range(ROUNDS):
            for name, run in here.items():
                rates[name].append(run())
    for name in PEERS:
        told = f"{statistics.median(rates[name]):.0f} jobs/s" if name in rates else "not on this machine"
        print(f"{JOBS} jobs from a shell loop, all ended: {name}: {told}")


if __name__ == "__main__":
    main()
