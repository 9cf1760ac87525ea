"""How fast jobs are handed over to a real Slurm, beside a loop of sbatch, and how often it is polled.

    python benchmarks/handed_over.py [--jobs 500] [--turns 3]

As root: the Slurm is started in a directory that goes away.  The loop submits the same script as the hand-off
writes; both jobs only sleep, so that nothing ends meanwhile.  The processor time of the commands, of the
hand-off process and of the head for each job depends less on other work than the times.
"""

import argparse
import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

from heads import head, machine
from testbed.slurm_peer import SlurmPeer, slurm_peer

TIMEOUT = 300.0  # seconds


class Cost(NamedTuple):
    """Seconds until a head has all tasks, and until Slurm has them; polls; processor time in ms a job."""

    told: float
    done: float
    polls: int
    commands: float
    process: float
    head: float


def loop(peer: SlurmPeer, count: int) -> tuple[float, float]:
    """Return the seconds that a shell needs to submit so many jobs, and its processor time in ms a job."""
    before = _of_children()
    script = (
        f"for n in $(seq {count}); do sbatch --parsable -o /dev/null --wrap 'sleep 600' > /dev/null; done"
    )
    began = time.monotonic()
    subprocess.run(["sh", "-c", script], env=peer.environment, timeout=TIMEOUT, check=True)
    return time.monotonic() - began, (_of_children() - before) * 1000 / count


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _processor_time(process: int) -> tuple[float, float]:
    """Return the seconds of processor time of a process, and of its children that have ended."""
    cells = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    own, below = (int(cells[at]) + int(cells[at + 1]) for at in (11, 13))
    return own / os.sysconf("SC_CLK_TCK"), below / os.sysconf("SC_CLK_TCK")


def _hand_off_of(head: int) -> int:
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == head and (
                b"headnode.apps.handoff" in (path.parent / "cmdline").read_bytes()
            ):
                return int(path.parent.name)
    raise SystemExit("the head has no hand-off process")


def handed(peer: SlurmPeer, directory: Path, count: int, *, sweep: bool) -> Cost:
    """Return what it costs until Slurm has so many jobs, one request each or as one sweep."""
    directory.mkdir()
    polls = directory / "polls"
    polls.touch()
    programs = directory / "programs"
    programs.mkdir()
    squeue = programs / "squeue"  # the others are found by PATH, as by the loop
    squeue.write_text(f'#!/bin/sh\necho >> {polls}\nexec {shutil.which("squeue")} "$@"\n')
    squeue.chmod(0o755)
    (directory / "attempts").mkdir()
    with head(1, 1) as one:
        paths = {"settings": str(peer.settings), "programs": str(programs)}
        paths["directory"] = str(directory / "attempts")
        one.client.ask("set_resource", name="peer", system="slurm", most_jobs=count, poll=5.0, **paths)
        task = {"command": "sleep 600", "workdir": "/"}
        before = sum(name.startswith("hn-") for name in peer.names())
        process = _hand_off_of(one.process.pid)
        used = (one.processor_time(), *_processor_time(process))
        began = time.monotonic()
        for _ in range(1 if sweep else count):
            more = {"parametric": f"1-{count}"} if sweep else {}
            one.client.ask("submit_job", terms={"resource": "peer"}, tasks=[{**task, **more}])
        told = time.monotonic() - began
        while sum(name.startswith("hn-") for name in peer.names()) < before + count:
            if time.monotonic() - began > TIMEOUT:
                raise TimeoutError("not all jobs were handed over")
            time.sleep(0.2)
        done = time.monotonic() - began
        time.sleep(1.0)  # the last answers
        of_head = one.processor_time() - used[0]
        own, below = (now - then for now, then in zip(_processor_time(process), used[1:], strict=True))
        spent = (each * 1000 / count for each in (below, own, of_head))
        return Cost(told, done, len(polls.read_text().splitlines()), *spent)


def main() -> None:
    """Print the times of the loop, of jobs and of a sweep, in turns, and the middle ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_args()
    count, ratios = asked.jobs, defaultdict[str, list[float]](list)
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        with slurm_peer(directory / "slurm") as peer:
            for turn in range(asked.turns):
                alone, commands = loop(peer, count)
                peer.run("scancel", "--user=root")
                print(
                    f"a loop of sbatch: {count} jobs in {alone:.1f} s, {count / alone:.0f}/s; "
                    f"processor time {commands:.2f} ms a job"
                )
                for what in ("jobs", "sweep"):
                    cost = handed(peer, directory / f"{what}{turn}", count, sweep=what == "sweep")
                    peer.run("scancel", "--user=root")
                    ratios[what].append(cost.done / alone)
                    print(
                        f"{what}: {count} handed over in {cost.done:.1f} s ({cost.told:.1f} s of that to the "
                        f"head), {count / cost.done:.0f}/s, {cost.polls} polls, "
                        f"ratio {cost.done / alone:.2f}; processor time a job: commands "
                        f"{cost.commands:.2f}, hand-off process {cost.process:.2f}, head {cost.head:.2f} ms"
                    )
    for what, found in ratios.items():
        print(f"{what}: {median(found):.2f} of the time of the loop")


if __name__ == "__main__":
    main()
