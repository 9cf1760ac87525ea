"""Throughput, latency and memory over size, beside peers of this machine in the same run.

A sweep of equal tasks, jobs of different tasks, and jobs of one task each, from submission to the last end;
one job on a cluster with a long queue; the memory of the head with that queue.  The peers are `xargs -P2`,
task-spooler (`tsp`) and HyperQueue (`hq`), those that are here.  ``--page DIRECTORY`` writes the page
``speed.md`` with its picture there.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import peers
from heads import Head, head, machine

LATENCIES = 15  # jobs of which the median is taken
PROCESSORS = 2
WIDTH = 100  # tasks in a layer of a flow
MAX_TASKS = 20_000  # tasks in a job
MAX_QUEUED = 100_000  # a million, submitted one by one, would take three quarters of an hour


class Curve(NamedTuple):
    """Measured values by size; `peer`: of another program."""

    title: str
    unit: str
    values: Mapping[int, float]
    peer: bool = False


def wait_for(here: Head, job: int) -> None:
    """Wait until a job has finished."""
    for answer in here.client.follow("watch_jobs", job=job):
        if answer["done"] and answer["jobs"][0]["state"] != "Finished":
            sys.exit(f"job {job} ended badly: {answer['jobs'][0]}")


def rate_of_tasks(here: Head, number: int, *jobs_of_them: dict[str, Any]) -> float:
    """Return tasks a second of one or several jobs, from the first submission to the last end."""
    begun = time.perf_counter()
    submitted = [here.client.ask("submit_job", **described)["job"] for described in jobs_of_them]
    for job in submitted:
        wait_for(here, job)
    return number / (time.perf_counter() - begun)


def sweep(here: Head, number: int) -> float:
    """Return tasks a second of a sweep."""
    described = {"tasks": [{"command": "/bin/true", "parametric": f"1-{number}"}]}
    return rate_of_tasks(here, number, described)


def different_tasks(here: Head, number: int) -> float:
    """Return tasks a second of different tasks, in jobs of as many as a job may have."""
    tasks = [{"command": f"/bin/true {each}"} for each in range(number)]
    parts = [tasks[at : at + MAX_TASKS] for at in range(0, number, MAX_TASKS)]
    return rate_of_tasks(here, number, *({"jobfile": json.dumps({"tasks": part})} for part in parts))


def chain(here: Head, number: int) -> float:
    """Return tasks a second of a job in which each task depends on the one before."""
    tasks = [
        {"command": "/bin/true", "name": f"t{each}", "depends_on": [f"t{each - 1}"][: each > 0]}
        for each in range(number)
    ]
    return rate_of_tasks(here, number, {"jobfile": json.dumps({"tasks": tasks})})


def layers(here: Head, number: int) -> float:
    """Return tasks a second of a job in layers, each task of which depends on two of the layer before."""
    tasks = [
        {
            "command": f"/bin/true {each}",
            "name": f"t{each}",
            "depends_on": [f"t{each - WIDTH}", f"t{each - each % WIDTH - WIDTH + (each + 1) % WIDTH}"][
                : 2 * (each >= WIDTH)
            ],
        }
        for each in range(number)
    ]
    return rate_of_tasks(here, number, {"jobfile": json.dumps({"tasks": tasks})})


def jobs(here: Head, number: int, submitters: int = 1) -> float:
    """Return jobs a second, submitted on so many connections, on each one after the other."""
    connections = [here.client, *(type(here.client)(str(here.state)) for _ in range(submitters - 1))]

    def finished() -> int:
        return int(here.client.ask("cluster")["cluster"]["jobs"].get("Finished", 0))

    def submit(first: int) -> None:
        for each in range(first, number, submitters):
            connections[first].ask("submit_job", tasks=[{"command": f"/bin/true {each}"}])

    before, begun = finished(), time.perf_counter()
    with ThreadPoolExecutor(submitters) as threads:
        list(threads.map(submit, range(submitters)))
    while (left := number - (finished() - before)) > 0:
        time.sleep(min(0.1, 0.002 * left))  # each question costs the head: few while many are left
    for each in connections[1:]:
        each.close()
    return number / (time.perf_counter() - begun)


def jobs_of_eight(here: Head, number: int) -> float:
    """Return jobs a second of eight submitters."""
    return jobs(here, number, 8)


def xargs(number: int) -> float:
    """Return how many /bin/true a second xargs runs, two at a time."""
    begun = time.perf_counter()
    numbers = "\n".join(map(str, range(number)))
    subprocess.run(["xargs", "-P2", "-n1", "/bin/true"], input=numbers, text=True, check=True)
    return number / (time.perf_counter() - begun)


def beside_a_queue(sizes: Sequence[int]) -> tuple[dict[int, float], ...]:
    """Measure the latency of one job, submissions and the memory of the head while so many jobs wait."""
    latency: dict[int, float] = {}
    memory: dict[int, float] = {}
    submissions: dict[int, float] = {}
    with head(nodes=2, processors=PROCESSORS) as here:
        first = here.client.ask("nodes")["nodes"][0]["name"]
        there = {"requestednodes": first}
        busy = [{"command": "sleep 3600", "numprocessors": str(PROCESSORS)}]
        here.client.ask("submit_job", terms=there | {"numprocessors": str(PROCESSORS)}, tasks=busy)
        queued = 0
        for size in sizes:
            begun = time.perf_counter()
            for number in range(queued, size):
                here.client.ask("submit_job", terms=there, tasks=[{"command": f"/bin/echo {number}"}])
            if size > queued:
                submissions[size] = (size - queued) / (time.perf_counter() - begun)
            queued = size
            latency[size] = 1000 * statistics.median(latency_of(here) for _ in range(LATENCIES))
            memory[size] = here.memory()
    return latency, submissions, memory


def latency_of(here: Head) -> float:
    """Return the seconds from the submission of one job to its end."""
    begun = time.perf_counter()
    wait_for(here, here.client.ask("submit_job", tasks=[{"command": "/bin/true"}])["job"])
    return time.perf_counter() - begun


class Measurement(NamedTuple):
    """How the values of a curve are measured."""

    title: str
    measure: Callable[[], dict[int, float]]
    peer: bool = False


def throughput(sizes: Sequence[int]) -> Iterator[Measurement]:
    """Yield how tasks and jobs a second are measured, of Headnode and then of each peer that is here."""
    ours: tuple[tuple[str, Callable[[Head, int], float], int, int], ...] = (
        ("sweep of equal tasks", sweep, 1, sizes[-1]),
        ("sweep on four nodes", sweep, 4, 10_000),
        ("different tasks", different_tasks, 1, 100_000),
        ("layers of 100 tasks", layers, 1, 10_000),
        ("chain of tasks", chain, 1, 10_000),
        ("jobs of one task", jobs, 1, 100_000),
        ("jobs of eight submitters", jobs_of_eight, 1, 10_000),
        ("jobs on four nodes", jobs_of_eight, 4, 10_000),
    )
    for title, rate, nodes, most in ours:
        yield Measurement(title, partial(on_nodes, nodes, rate, [size for size in sizes if size <= most]))
    some = [size for size in sizes if size <= 100_000]
    yield Measurement("xargs -P2", lambda: {size: xargs(size) for size in some}, peer=True)
    if not shutil.which("tsp"):
        print("task-spooler: not here")
    else:
        yield Measurement("task-spooler, loop", spooled, peer=True)
    if not find_spec("hyperqueue"):
        print("HyperQueue: not here")
        return
    some = [size for size in sizes if 1_000 <= size <= 10_000]
    yield Measurement(
        "HyperQueue, tasks", partial(queued, lambda queue, size: queue.tasks(size), some), peer=True
    )
    yield Measurement(
        "HyperQueue, jobs", partial(queued, lambda queue, size: queue.jobs(size), some), peer=True
    )


def on_nodes(nodes: int, rate: Callable[[Head, int], float], sizes: Sequence[int]) -> dict[int, float]:
    """Return the rates of one head, size by size."""
    with head(nodes=nodes, processors=PROCESSORS) as here:
        return {size: rate(here, size) for size in sizes}


def spooled() -> dict[int, float]:
    """Return the rate of task-spooler."""
    with peers.task_spooler() as loop:
        return {peers.JOBS: loop()}


def queued(rate: Callable[[peers.HyperQueue, int], float], sizes: Sequence[int]) -> dict[int, float]:
    """Return the rates of HyperQueue, size by size."""
    with peers.hyper_queue() as queue:
        return {size: rate(queue, size) for size in sizes}


def rows(curves: Sequence[Curve]) -> list[str]:
    """Return the lines of a table in Markdown."""
    sizes = sorted({size for curve in curves for size in curve.values})
    lines = ["| | " + " | ".join(f"{size:,}" for size in sizes) + " |", "|---" * (len(sizes) + 1) + "|"]
    for curve in curves:
        values = (f"{curve.values[size]:,.0f}" if size in curve.values else "" for size in sizes)
        lines.append(f"| {curve.title} ({curve.unit}) | " + " | ".join(values) + " |")
    return lines


def draw(together: Sequence[Curve], queue: Sequence[Curve], file: Path) -> None:
    """Draw the curves: throughput in one picture, what a long queue costs in three."""
    from matplotlib import pyplot  # of the development tools, only for the picture

    pyplot.rcParams["svg.hashsalt"] = "headnode"  # the same measurement is the same file
    figure, axes = pyplot.subplots(2, 2, figsize=(10, 7), layout="constrained")
    axes[0][0].set_prop_cycle(color=pyplot.get_cmap("tab20")(range(20)))  # one for each curve
    places = [axes[0][0]] * len(together) + [axes[0][1], axes[1][0], axes[1][1]]
    for place, curve in zip(places, (*together, *queue), strict=True):
        style = "o--" if curve.peer else "o-"
        sizes = sorted(curve.values)
        label = curve.title
        place.plot(
            [max(size, 1) for size in sizes], [curve.values[size] for size in sizes], style, label=label
        )
    for place, title, unit, below in (
        (axes[0][0], "Throughput", "a second", "tasks or jobs"),
        (axes[0][1], queue[0].title, "ms", "queued jobs"),
        (axes[1][0], queue[1].title, "a second", "queued jobs"),
        (axes[1][1], queue[2].title, "MB", "queued jobs"),
    ):
        place.set(title=title, ylabel=unit, xlabel=below, xscale="log")
        place.set_ylim(0, 1.1 * place.get_ylim()[1])
        place.grid(alpha=0.3)
    axes[0][0].set_ylim(0, 1.9 * axes[0][0].get_ylim()[1])  # room for the names above the curves
    axes[0][0].legend(fontsize="small", loc="upper left", ncols=2)
    figure.savefig(file, metadata={"Date": None})


PAGE = """# Speed over size

Throughput, latency and memory of Headnode as jobs and queues grow, measured on {machine}, by
`python benchmarks/curves.py --most {most} --page docs{kept}`. The task is `/bin/true`. A node has
two processors; four nodes are four agents on this machine, so they share its processors. The peers run in
the same run, where they are installed: `xargs`, a shell loop of 500 submissions to task-spooler, and
HyperQueue by its API for Python.

![Throughput, latency and memory over size](pictures/curves.svg)

## Throughput

From the submission to the last end, by the number of tasks or jobs:

{together}

A sweep is one task with many instances. In layers, each task depends on two of the layer before; in a
chain, on the task before. The jobs of one task are submitted on one connection, one after the other, or by
eight submitters, each on its own connection. What a
task costs each process is in [decision 0052](decisions/0052-cheaper-tasks-on-nodes.md); how tasks are
dispatched ahead in [0043](decisions/0043-different-tasks-ahead.md) and
[0044](decisions/0044-flows-ahead.md).

## With a long queue

By the number of jobs that wait for a busy node. The measured job runs on another node:

{queue}

Many submissions in one request or on one pipelining connection are in [decision
0051](decisions/0051-submissions-that-arrive-together.md). [Decision
0050](decisions/0050-refused-together.md) has figures of replays and passes, and what limits the engine.
A pass of a running head after one job ended, with 10,000 waiting jobs, takes 1.5 to 18 ms with EASY and 16 to
120 ms with conservative, by what the jobs ask: [0079](decisions/0079-rows-and-times-in-passes.md).

[README](../README.md#measured) has the other benchmarks.
"""


class Kept:
    """The curves that were measured, in a file: a run that was broken off goes on behind them."""

    def __init__(self, file: Path | None) -> None:
        self._file, self._values = file, dict[str, dict[int, float]]()
        if file is not None and file.exists():
            read = json.loads(file.read_text())
            self._values = {title: {int(at): one for at, one in read[title].items()} for title in read}

    def has(self, curves: Collection[str]) -> bool:
        """Whether all of these are known."""
        return all(title in self._values for title in curves)

    def note(self, title: str, values: Mapping[int, float]) -> None:
        """Keep a curve."""
        print(title, dict(values), file=sys.stderr, flush=True)
        self._values[title] = dict(values)
        if self._file is not None:
            self._file.write_text(json.dumps(self._values))

    def __getitem__(self, title: str) -> dict[int, float]:
        return self._values[title]


QUEUE = {
    "one job, submission to end": "ms",
    "submissions on one connection": "a second",
    "memory of the head": "MB",
}


def main() -> None:
    """Print the tables; write the page if asked to."""
    arguments = argparse.ArgumentParser(description="Throughput, latency and memory over size.")
    arguments.add_argument("--page", type=Path, help="the directory for speed.md and pictures/curves.svg")
    arguments.add_argument("--most", type=int, default=100_000, help="tasks and queued jobs (100000)")
    arguments.add_argument(
        "--kept", type=Path, help="file of measured curves, to go on if this is broken off"
    )
    given = arguments.parse_args()
    sizes = [size for size in (100, 1_000, 10_000, 100_000, 1_000_000) if size <= given.most]
    kept = Kept(given.kept)
    print(machine())
    together: list[Curve] = []
    for each in throughput(sizes):
        if not kept.has([each.title]):
            kept.note(each.title, each.measure())
        together.append(Curve(each.title, "a second", kept[each.title], each.peer))
    if not kept.has(QUEUE):
        found = beside_a_queue([0, *(size for size in sizes if size <= MAX_QUEUED)])
        for title, values in zip(QUEUE, found, strict=True):
            kept.note(title, values)
    queue = [Curve(title, unit, kept[title]) for title, unit in QUEUE.items()]
    print(*rows(together), "", *rows(queue), sep="\n")
    if given.page:
        draw(together, queue, given.page / "pictures" / "curves.svg")
        tables = {"together": "\n".join(rows(together)), "queue": "\n".join(rows(queue))}
        (given.page / "speed.md").write_text(
            PAGE.format(machine=machine(), most=given.most, kept=" --kept FILE" * bool(given.kept), **tables)
        )


if __name__ == "__main__":
    main()
