"""How often jobs of a made-up site start by the time that is expected: our P90 beside `squeue --start`.

    python benchmarks/site_starts.py [--jobs 200] [--apart 3.2] [--other]

As root: a real Slurm of two nodes with four processors each is started in a directory that goes away, and a
head over it.  Three users submit jobs that sleep, with time limits several times as long.  Of each job that
had to wait, the first time that each side gives is compared with its start.  It takes about 12 minutes.
`--other` is another site, on which nothing was tuned; with `--apart 5.5` it takes about 20 minutes.
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from heads import head, machine
from testbed.made_up_site import HABITS, OTHER_HABITS, submit_jobs
from testbed.slurm_peer import SlurmPeer, slurm_peer

PAUSE = 1.0  # seconds between two looks
TIMEOUT = 1800.0  # seconds
SIDES = (("our P90", "p90"), ("our P50", "p50"), ("squeue --start", "site_start"))


class FirstTold(NamedTuple):
    """What was first said of a job that waits: when it was said, and the start."""

    made: float
    start: float


def watch(client: Any, count: int) -> tuple[dict[str, dict[str, FirstTold]], dict[str, float]]:
    """Return what was first said of each waiting job by each side, and when the jobs started."""
    said: dict[str, dict[str, FirstTold]] = {"p50": {}, "p90": {}, "site_start": {}}
    starts: dict[str, float] = {}
    until = time.monotonic() + TIMEOUT
    while len(starts) < count and time.monotonic() < until:
        for job in (
            *client.ask("site_jobs")["jobs"],
            *client.ask("site_jobs", ended=True, limit=1000)["jobs"],
        ):
            if job["started"] is not None:
                starts[job["id"]] = job["started"]
            for side, told in said.items():
                if job["state"] == "waiting" and job[side] is not None and job["id"] not in told:
                    told[job["id"]] = FirstTold(time.time(), job[side])
        time.sleep(PAUSE)
    return said, starts


def row(title: str, told: Mapping[str, FirstTold], starts: Mapping[str, float], jobs: Sequence[str]) -> str:
    """Return how often a side held, and how far it was from the start."""
    judged = [(told[job], starts[job]) for job in jobs if job in told]
    if not judged:
        return f"{title:28} {0:5}"
    held = sum(start <= each.start + 1.0 for each, start in judged) / len(judged)
    far = median(abs(start - each.start) for each, start in judged)
    early = median(each.start - start for each, start in judged)
    return f"{title:28} {len(judged):5} {held:7.0%} {far:9.1f} s {early:+9.1f} s"


def measured(peer: SlurmPeer, count: int, apart: float, *, other: bool) -> str:
    """Return the table."""
    with head(0, 1) as one:
        paths = {"settings": str(peer.settings)}
        one.client.ask("set_resource", name="site", system="slurm", overlay=True, poll=1.0, **paths)
        habits, together = (OTHER_HABITS, 6) if other else (HABITS, 1)
        made = submit_jobs(peer, count, apart, 2 if other else 1, habits=habits, together=together)
        submitting = threading.Thread(target=lambda: list(made))
        submitting.start()
        time.sleep(3.0)
        said, starts = watch(one.client, count)
        submitting.join()
        judged = one.client.ask("site_nodes")["site"]["judged"]
    waits = (job for job in starts if any(job in told for told in said.values()))
    waited = sorted(waits, key=starts.__getitem__)
    lines = [f"{len(starts)} jobs started, {len(waited)} waited; {judged} starts corrected our predictions"]
    for title, jobs in (("all that waited", waited), ("the later half of them", waited[len(waited) // 2 :])):
        lines.append(f"\n{title:28} {'jobs':>5} {'held':>7} {'error':>11} {'early':>11}")
        lines += [row(side, said[name], starts, jobs) for side, name in SIDES]
    both = [job for job in waited if job in said["p90"] and job in said["site_start"]]
    lines.append(f"\nof the {len(both)} jobs of which both say something:")
    lines += [row(side, said[name], starts, both) for side, name in SIDES]
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--apart", type=float, default=3.2, help="mean seconds from one job to the next")
    parser.add_argument("--other", action="store_true", help="another site: jobs that come in groups")
    asked = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        with slurm_peer(directory / "slurm") as peer:
            print(measured(peer, asked.jobs, asked.apart, other=asked.other))


if __name__ == "__main__":
    main()
