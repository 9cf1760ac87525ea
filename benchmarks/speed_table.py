"""Small jobs, tasks and flows beside an earlier revision and beside peers, in turns on one machine.

    python benchmarks/speed_table.py [--beside REV] [--rounds 3] [--only TEXT]

Each row is measured in a process of its own with a fresh cluster of two processors.  The revision uses the
libraries of this checkout.  HyperQueue runs where `pip install hyperqueue cloudpickle` was done, task-spooler
where `tsp` is, Slurm where root may start one.  Figures are medians of the rounds.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

import peers
import submissions
from headnode.core.model.errors import BadRequest
from heads import Head, machine

ROOT = Path(__file__).parents[1]
SWEEP, JOBS, WIDTH = 2_000, 500, 100
PIPELINED, IN_FLIGHT = 1_000, 64
LATENCIES = 41
MANY = 2_000  # HyperQueue tells the end of its jobs once a second


def wait_for(here: Head, job: int) -> None:
    """Wait until a job has finished, as a client does: the head tells it when that is so."""
    try:
        last = list(here.client.follow("watch_jobs", job=[job]))[-1]
    except BadRequest:  # a revision that calls it by another name
        last = list(here.client.follow("watch_job", job=[job]))[-1]
    if last["jobs"][-1]["state"] != "Finished":
        sys.exit(f"job {job} is {last['jobs'][-1]['state']}")


def rate(here: Head, number: int, **described: Any) -> float:
    """Return tasks a second of one job, from its submission to its end."""
    begun = time.perf_counter()
    wait_for(here, here.client.ask("submit_job", **described)["job"])
    return number / (time.perf_counter() - begun)


def sweep(here: Head, **terms: str) -> float:
    """Return tasks a second of a sweep."""
    return rate(here, SWEEP, tasks=[{"command": "/bin/true", "parametric": f"1-{SWEEP}"}], terms=terms)


def graph(here: Head, number: int, parents: Callable[[int], list[int]]) -> float:
    """Return tasks a second of a job of different tasks with these parents."""
    tasks = [
        {
            "command": f"/bin/true {each}",
            "name": f"t{each}",
            "depends_on": [f"t{one}" for one in parents(each)],
        }
        for each in range(number)
    ]
    return rate(here, number, jobfile=json.dumps({"tasks": tasks}))


def layered(task: int) -> list[int]:
    """Return two parents of the layer before."""
    beside = task - task % WIDTH - WIDTH + (task + 1) % WIDTH
    return [task - WIDTH, beside] if task >= WIDTH else []


def finished(here: Head) -> int:
    """Return how many jobs have finished."""
    return int(here.client.ask("cluster")["cluster"]["jobs"].get("Finished", 0))


def jobs(here: Head, connections: int) -> float:
    """Return jobs a second of one task each, submitted on so many connections."""
    client, before, begun = type(here.client), finished(here), time.perf_counter()

    def submit(own: Any) -> None:
        for each in range(JOBS // connections):
            own.ask("submit_job", tasks=[{"command": f"/bin/true {each}"}])
        own.close()

    threads = [threading.Thread(target=submit, args=(client(str(here.state)),)) for _ in range(connections)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    while finished(here) - before < JOBS // connections * connections:
        time.sleep(0.005)
    return JOBS // connections * connections / (time.perf_counter() - begun)


def pipelined(here: Head) -> float:
    """Return jobs a second of one task each on one connection that does not wait for each answer."""
    before, begun = finished(here), time.perf_counter()
    submissions.submit(here, submissions.singly(before, PIPELINED), 1, IN_FLIGHT)
    while finished(here) - before < PIPELINED:
        time.sleep(0.02)
    return PIPELINED / (time.perf_counter() - begun)


def latency(here: Head) -> float:
    """Return the median milliseconds of one job, from its submission to its end."""

    def one() -> float:
        begun = time.perf_counter()
        job = here.client.ask("submit_job", tasks=[{"command": "/bin/true"}])["job"]
        wait_for(here, job)
        return time.perf_counter() - begun

    return 1000 * statistics.median(one() for _ in range(LATENCIES))


def shell_loop(here: Head) -> float:
    """Return submissions a second of a shell loop, of jobs that are held."""
    script = f"for i in $(seq {JOBS}); do hn job submit --hold /bin/true > /dev/null 2>&1 || exit 1; done"
    begun = time.perf_counter()
    environment = os.environ | {"HEADNODE_STATE": str(here.state)}
    subprocess.run(["sh", "-c", script], env=environment, check=True)
    return JOBS / (time.perf_counter() - begun)


class Row(NamedTuple):
    """A row of the table: what is measured on a head with two processors."""

    title: str
    unit: str
    measure: Callable[[Head], float]


ROWS = {
    "sweep": Row(f"sweep of {SWEEP:,}", "tasks/s", sweep),
    "limits": Row(
        f"sweep of {SWEEP:,} with a memory limit",
        "tasks/s",
        lambda here: sweep(here, estimatedprocessmemory="100"),
    ),
    "different500": Row("500 different tasks", "tasks/s", lambda here: graph(here, 500, lambda task: [])),
    "different4000": Row(
        "4,000 different tasks", "tasks/s", lambda here: graph(here, 4_000, lambda task: [])
    ),
    "chain": Row(
        "chain of 500", "tasks/s", lambda here: graph(here, 500, lambda task: [task - 1][: task > 0])
    ),
    "layers": Row("2,000 tasks in layers of 100", "tasks/s", lambda here: graph(here, 2_000, layered)),
    "one": Row(f"{JOBS} jobs on one connection, one at a time", "jobs/s", lambda here: jobs(here, 1)),
    "pipelined": Row(
        f"{PIPELINED:,} jobs on one connection, {IN_FLIGHT} submissions in flight", "jobs/s", pipelined
    ),
    "eight": Row(f"{JOBS} jobs on eight connections", "jobs/s", lambda here: jobs(here, 8)),
    "latency": Row("one job, submission to end, by API", "ms", latency),
    "loop": Row(f"{JOBS} held jobs from a shell loop of hn", "submissions/s", shell_loop),
}


@contextmanager
def head_of_any_revision() -> Iterator[Head]:
    """Start a head of two processors, and end it by the command that every revision has."""
    with tempfile.TemporaryDirectory(prefix="headnode-bench-") as directory:
        started = Head(Path(directory), 1, 2)
        try:
            started.wait_until_ready(1)
            yield started
        finally:
            path = f"{os.environ['PATH']}:{Path(sys.executable).parent}"
            environment = os.environ | {"HEADNODE_STATE": directory, "PATH": path}
            subprocess.run(["hn", "down", "--cancel-jobs"], env=environment, check=True, capture_output=True)
            started.process.wait()


def measured(row: str, environment: dict[str, str]) -> float:
    """Measure a row in a process of its own, with the Headnode of this environment."""
    words = [sys.executable, str(Path(__file__).resolve()), "--measure", row]
    done = subprocess.run(words, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{row} failed with {environment['PATH']}:\n{done.stdout}{done.stderr}", file=sys.stderr)
        return nan  # as where a revision has not all the words of this one
    return float(done.stdout.split()[-1])


def xargs() -> float:
    """Return how many /bin/true a second xargs runs, two at a time."""
    begun = time.perf_counter()
    numbers = "\n".join(map(str, range(SWEEP)))
    subprocess.run(["xargs", "-P2", "-n1", "/bin/true"], input=numbers, text=True, check=True)
    return SWEEP / (time.perf_counter() - begun)


def compile_sources(tree: Path) -> None:
    """Write the bytecode, as pip does; else each first use of a module compiles it while it is measured."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(tree / "src")], check=True)


@contextmanager
def other_revision(revision: str) -> Iterator[dict[str, str]]:
    """Check out a revision; give the environment in which it is the Headnode that runs."""
    with tempfile.TemporaryDirectory(prefix="speed-table-") as made:
        other = Path(made) / "revision"
        git = ["git", "-C", str(ROOT)]
        subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(other), revision], check=True)
        try:
            hn = Path(made) / "hn"
            hn.write_text(f'#!/bin/sh\nexec {sys.executable} {other / "scripts" / "hn"} "$@"\n')
            hn.chmod(0o755)
            compile_sources(other)
            yield {"PATH": f"{made}:{os.environ['PATH']}", "PYTHONPATH": f"{other / 'src'}:{ROOT / 'tests'}"}
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(other)], check=False)


PEERS: dict[str, Callable[[], bool]] = {
    "xargs": lambda: True,
    "task-spooler": lambda: bool(shutil.which("tsp")),
    "HyperQueue": lambda: bool(find_spec("hyperqueue")),
    "Slurm": lambda: os.geteuid() == 0 and bool(shutil.which("slurmctld")),
}
"""Other programs that run in the same turns, and whether they are on this machine."""


def peers_here(stack: ExitStack) -> dict[str, Callable[[], float]]:
    """Start the peers that this machine has; return what measures each."""
    rates: dict[str, Callable[[], float]] = {f"xargs -P2, {SWEEP:,} (tasks/s)": xargs}
    if PEERS["task-spooler"]():
        spooler = stack.enter_context(peers.task_spooler())
        rates[f"task-spooler, {JOBS} from a shell loop (jobs/s)"] = spooler
    if PEERS["HyperQueue"]():
        queue = stack.enter_context(peers.hyper_queue())
        rates[f"HyperQueue, {MANY:,} tasks of one job (tasks/s)"] = lambda: queue.tasks(MANY)
        rates[f"HyperQueue, {MANY:,} jobs on one connection (jobs/s)"] = lambda: queue.jobs(MANY)
    if PEERS["Slurm"]():
        slurm = stack.enter_context(peers.slurm())
        rates[f"Slurm, {peers.FEW}, eight at a time, loop of sbatch (jobs/s)"] = slurm
    return rates


def table(rows: list[str], beside: str, rounds: int) -> None:
    """Measure the rows and the peers in turns; print a table in Markdown."""
    seen: defaultdict[str, list[float]] = defaultdict(list)
    compile_sources(ROOT)
    with ExitStack() as stack:
        before = stack.enter_context(other_revision(beside)) if beside else None
        others = peers_here(stack)
        here = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        for _ in range(rounds):
            for row in rows:
                if before:
                    seen[f"{row} before"].append(measured(row, before))
                seen[row].append(measured(row, here))
            for name, peer in others.items():
                seen[name].append(peer())
    values = {name: statistics.median(each) for name, each in seen.items()}
    print(f"| | {beside[:9] or '-'} | here |\n|---|---|---|")
    for row in rows:
        told = f"{values[f'{row} before']:,.1f}" if before else ""
        print(f"| {ROWS[row].title} ({ROWS[row].unit}) | {told} | {values[row]:,.1f} |")
    for name in others:
        print(f"| {name} | | {values[name]:,.1f} |")
    absent = [name for name, is_here in PEERS.items() if not is_here()]
    print(*([f"not on this machine: {', '.join(absent)}"] if absent else []))


def main() -> None:
    """Print the table, or measure one row for it."""
    asked = argparse.ArgumentParser(description="Small jobs, tasks and flows beside others.")
    asked.add_argument("--beside", default="", help="a revision of this repository to compare with")
    asked.add_argument("--rounds", type=int, default=3, help="turns of each; the median counts")
    asked.add_argument("--only", default="", help="rows with this text in their titles")
    asked.add_argument("--measure", choices=ROWS, help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.measure:
        with head_of_any_revision() as here:
            print(ROWS[given.measure].measure(here))
        return
    print(machine())
    table([name for name, row in ROWS.items() if given.only in row.title], given.beside, given.rounds)


if __name__ == "__main__":
    main()
