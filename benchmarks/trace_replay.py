"""How fast past jobs are replayed over a pool, whole process: `python benchmarks/trace_replay.py`.

The limits are 100,000 jobs a second for EASY and 10,000 for conservative on SDSC-SP2.  The real traces are
read from ../shared/traces; without them a log of as many jobs is made up, to which no limit is held.
Others on SDSC-SP2 under EASY, on two cores like ours: pyss 10,300 jobs a second (37,200 with PyPy); on
KTH-SP2 pyss 14,200, Alea 4 3,240, AccaSim 2,240, Batsim 1,690, CQSim 1,590.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"
LIMITS = {("SDSC-SP2", "easy"): 100_000, ("SDSC-SP2", "conservative"): 10_000}
POLICIES = ("fcfs", "easy", "conservative", "conservative-replan")
ROUNDS = 3  # where there is a limit; elsewhere one is enough


def replayed(log: Path, policy: str) -> tuple[int, float, float]:
    """Return the jobs, the seconds of the whole process and those of reading and replaying alone."""
    command = [sys.executable, "-m", "headnode.apps.cli", "simulate", str(log), "--policy", policy, "--json"]
    began = time.perf_counter()
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    span = time.perf_counter() - began
    found = json.loads(said.stdout)
    return found["jobs"], span, found["seconds"]


def made_up(directory: Path) -> Path:
    """Return a log of 50,000 jobs on 128 processors, busy most of the time."""
    dice, submit = random.Random(128), 0.0
    lines = ["; MaxProcs: 128"]
    for number in range(1, 50_001):
        submit += dice.expovariate(1 / 1200)
        estimate = dice.choice((600, 3600, 14_400, 64_800))
        run_time = max(1, int(estimate * dice.random()))
        size = dice.choice((1, 1, 2, 4, 8, 16, 32))
        lines.append(f"{number} {int(submit)} -1 {run_time} {size} -1 -1 {size} {estimate}" + " -1" * 9)
    log = directory / "made-up.swf"
    log.write_text("\n".join(lines) + "\n")
    return log


def main() -> int:
    """Print the figures; fail when a limit is missed."""
    missed = 0
    with tempfile.TemporaryDirectory() as directory:
        found = sorted(TRACES.glob("*-SP2.swf.xz"))
        for log in found or [made_up(Path(directory))]:
            for policy in POLICIES:
                missed += told(log, policy)
    return int(missed > 0)


def told(log: Path, policy: str) -> bool:
    """Print the figure of one policy on one log; return whether its limit was missed."""
    name = log.name.partition(".")[0]
    limit = LIMITS.get((name, policy))
    rounds = range(ROUNDS if limit else 1)
    taken = sorted((replayed(log, policy) for _ in rounds), key=lambda one: one[1])
    jobs, span, inside = taken[len(taken) // 2]  # the median
    print(f"{name} {policy}: {jobs} jobs in {span:.2f} s (reading and replay {inside:.2f} s)")
    print(f"    {jobs / span:,.0f} jobs/s" + (f" (at least {limit:,})" if limit else ""))
    return limit is not None and jobs / span < limit


if __name__ == "__main__":
    raise SystemExit(main())
