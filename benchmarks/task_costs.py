"""What a task costs each process of Headnode, by kind of work, beside `xargs -P2` in the same run.

    python benchmarks/task_costs.py [--rounds 3] [--tasks 2000] [KIND ...]

Kinds: sweep, different_tasks, layers, chain, jobs, and one (a job at a time, from submission to end).  A row
has the medians of the rounds, which are taken in turns with `xargs`.  Processor time is in microseconds for
each task: of the head, of the agent, and of the factory with its shepherds; without that of the tasks
themselves.  It takes a minute.
"""

import argparse
import os
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import curves
from heads import Head, head, machine

KINDS: dict[str, Callable[[Head, int], float]] = {
    "sweep": curves.sweep,
    "different_tasks": curves.different_tasks,
    "layers": curves.layers,
    "chain": curves.chain,
    "jobs": curves.jobs,
    "one": lambda here, number: 1 / statistics.median(curves.latency_of(here) for _ in range(number)),
}
SHARES = {"chain": 0.25, "jobs": 0.5, "one": 0.02}  # of --tasks; all others have all of them
WARMING = 50  # tasks before the first measurement


class Process(NamedTuple):
    """A process with its seconds of processor time."""

    parent: int
    command: str
    spent: float


def processes() -> dict[int, Process]:
    """Return all processes of this machine."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            spent = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            found[int(folder.name)] = Process(int(fields[1]), command, spent)
    return found


def processor_times(here: Head) -> dict[str, dict[int, float]]:
    """Return the seconds of processor time of the head, of its agent, and of all that starts tasks."""
    now = processes()
    agent = next(
        number
        for number, each in now.items()
        if str(here.state) in each.command and "apps.agent" in each.command
    )
    tree, fresh = set[int](), {agent}
    while fresh:
        fresh = {number for number, each in now.items() if each.parent in fresh} - tree
        tree |= fresh
    shown = {"head": {here.process.pid}, "agent": {agent}, "shepherds": tree}
    return {name: {number: now[number].spent for number in numbers} for name, numbers in shown.items()}


def spent(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    """Return what the processes that are still there have used meanwhile."""
    return sum(used - before.get(number, 0.0) for number, used in after.items())


def measured(here: Head, kind: str, tasks: int) -> dict[str, float]:
    """Return the rate of one round, and the microseconds of processor time for each task."""
    number = max(1, round(tasks * SHARES.get(kind, 1)))
    before = processor_times(here)
    rate = KINDS[kind](here, number)
    after = processor_times(here)
    return {"rate": rate, **{name: 1e6 * spent(before[name], after[name]) / number for name in before}}


def row(kind: str, rounds: list[Mapping[str, float]], xargs: float, swept: float) -> str:
    """Return a line of the table."""
    middle = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    rate = middle.pop("rate")
    beside = f"{rate / xargs:.2f} | {rate / swept:.2f}" if kind not in ("jobs", "one") else " | "
    costs = " | ".join(f"{middle[name]:,.0f}" for name in middle)
    return f"| {kind} | {rate:,.0f} | {beside} | {costs} | {sum(middle.values()):,.0f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What a task costs each process of Headnode.")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of which the medians are taken (3)")
    parser.add_argument("--tasks", type=int, default=2_000, help="tasks in a round (2000)")
    parser.add_argument("kinds", nargs="*", help=f"which of {', '.join(KINDS)} (all)")
    asked = parser.parse_args()
    kinds = asked.kinds or list(KINDS)
    seen: dict[str, list[Mapping[str, float]]] = {kind: [] for kind in kinds}
    peers = []
    print(machine())
    with head(processors=2) as here:
        curves.sweep(here, WARMING)
        for _ in range(asked.rounds):
            peers.append(curves.xargs(asked.tasks))
            for kind in kinds:
                seen[kind].append(measured(here, kind, asked.tasks))
    xargs = statistics.median(peers)
    swept = statistics.median(each["rate"] for each in seen[kinds[0]])
    print(f"xargs -P2: {xargs:,.0f} a second")
    print(f"| | a second | of xargs | of {kinds[0]} | head | agent | shepherds | together |")
    print("|---|---|---|---|---|---|---|---|")
    for kind in kinds:
        print(row(kind, seen[kind], xargs, swept))


if __name__ == "__main__":
    main()
