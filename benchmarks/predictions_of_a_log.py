"""How long predictions over a long log take: `python benchmarks/predictions_of_a_log.py`.

The log has 232,000 jobs: those of CTC-SP2 from ../shared/traces one time after the other, or without it a log
that is made up.  The limit is 120 s for EASY, whole process, on all processors.
A number asks for that many jobs.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from headnode.adapters.files.job_logs import read_log
from trace_replay import TRACES, made_up

LIMIT = 120.0  # seconds
JOBS = 232_000
CTC = TRACES / "CTC-SP2.swf.xz"
APART = 3_600  # seconds between two rounds of the log


def main() -> int:
    """Print the figures; fail when the limit is missed."""
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else JOBS
    with tempfile.TemporaryDirectory() as directory:
        log = repeated(CTC if CTC.exists() else made_up(Path(directory)), jobs, Path(directory))
        words = [sys.executable, "-m", "headnode.apps.cli", "simulate", str(log), "--predictions", "--json"]
        began = time.perf_counter()
        said = subprocess.run([*words, "--policy", "easy"], check=True, capture_output=True, text=True)
        span = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(said.stdout)
    held = (found[0] if isinstance(found, list) else found)["waited"]["p90_held"]
    print(f"easy, {jobs:,} jobs: {span:.1f} s (at most {LIMIT:.0f} s for {JOBS:,}), {held:.1%} held by P90")
    print(f"    processor time {used.ru_utime + used.ru_stime:.1f} s")
    return int(jobs == JOBS and CTC.exists() and span > LIMIT)


def repeated(source: Path, jobs: int, directory: Path) -> Path:
    """Write a log with the jobs of another one, one time after the other, until there are so many."""
    log = read_log(str(source), whose=True)
    work, lines = log.workload, [f"; MaxProcs: {log.processors}"]
    users = {name: number for number, name in enumerate(dict.fromkeys(work.users), 1)}
    begin, since = 0, work.submits[0]
    while len(lines) <= jobs:
        for row, submit in enumerate(work.submits[: jobs + 1 - len(lines)]):
            size, owner = work.processors[row], users[work.users[row]] if work.users else 1
            at, run, limit = int(begin + submit - since), int(work.run_times[row]), int(work.estimates[row])
            lines.append(
                f"{len(lines)} {at} -1 {run} {size} -1 -1 {size} {limit} -1 1 {owner} 1 -1 1 -1 -1 -1"
            )
        begin += int(work.submits[-1] - since) + APART
    found = directory / "repeated.swf"
    found.write_text("\n".join(lines) + "\n")
    return found


if __name__ == "__main__":
    raise SystemExit(main())
