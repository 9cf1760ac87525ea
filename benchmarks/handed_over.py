"""How fast jobs are handed over to a real Slurm, beside a loop of sbatch, and how often it is polled.

    python benchmarks/handed_over.py [--jobs 500]

As root: the Slurm is started in a directory that goes away.  The loop submits the same script as the hand-off
writes; both jobs only sleep, so that nothing ends meanwhile.
"""

import argparse
import shutil
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

from heads import head, machine
from testbed.slurm_peer import SlurmPeer, slurm_peer

PATIENCE = 300.0  # seconds


def loop(peer: SlurmPeer, count: int) -> float:
    """Return the seconds that a shell needs to submit so many jobs one after the other."""
    script = (
        f"for n in $(seq {count}); do sbatch --parsable -o /dev/null --wrap 'sleep 600' > /dev/null; done"
    )
    began = time.monotonic()
    subprocess.run(["sh", "-c", script], env=peer.environment, timeout=PATIENCE, check=True)
    return time.monotonic() - began


def handed(peer: SlurmPeer, directory: Path, count: int, *, sweep: bool) -> tuple[float, float, int]:
    """Return the seconds until the head has all tasks, and until Slurm has them, and the polls meanwhile."""
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
        began = time.monotonic()
        for _ in range(1 if sweep else count):
            more = {"parametric": f"1-{count}"} if sweep else {}
            one.client.ask("submit_job", terms={"resource": "peer"}, tasks=[{**task, **more}])
        told = time.monotonic() - began
        while sum(name.startswith("hn-") for name in peer.names()) < before + count:
            if time.monotonic() - began > PATIENCE:
                raise TimeoutError("not all jobs were handed over")
            time.sleep(0.2)
        return told, time.monotonic() - began, len(polls.read_text().splitlines())


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
                alone = loop(peer, count)
                peer.run("scancel", "--user=root")
                print(f"a loop of sbatch: {count} jobs in {alone:.1f} s, {count / alone:.0f}/s")
                for what in ("jobs", "sweep"):
                    where = directory / f"{what}{turn}"
                    told, done, polls = handed(peer, where, count, sweep=what == "sweep")
                    peer.run("scancel", "--user=root")
                    ratios[what].append(done / alone)
                    print(
                        f"{what}: {count} handed over in {done:.1f} s ({told:.1f} s of that to the head), "
                        f"{count / done:.0f}/s, {polls} polls, ratio {done / alone:.2f}"
                    )
    for what, found in ratios.items():
        print(f"{what}: {median(found):.2f} of the time of the loop")


if __name__ == "__main__":
    main()
