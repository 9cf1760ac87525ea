"""100,000 queued jobs, and one queued sweep of 1,000,000: memory, restart, the first page of a list.

The node of the cluster is busy, so passes look at the queue; memory is told of the head alone and of all
processes of the cluster.  With ``--singly`` each job has a request of its own.  It takes two minutes.
"""

import subprocess
import sys
import time
from pathlib import Path

from heads import head, machine
from submissions import BUSY, WINDOW, singly, submission, submit

JOBS, IN_REQUEST = 100_000, 1000
SINGLY = JOBS if sys.argv[1:] == ["--singly"] else 20_000
HN = str(Path(sys.executable).with_name("hn"))


def main() -> None:
    """Print the figures beside what was promised."""
    print(machine())
    with head(nodes=1, processors=2) as one:
        empty = one.memory()
        one.client.ask("submit_job", **BUSY)
        one.client.ask("submit_job", tasks=[{"command": "run *", "parametric": "1-1000000"}])
        print(
            f"head, empty: {empty:.0f} MB; "
            f"with one queued sweep of 1,000,000: {one.memory():.0f} MB (promised: 60)"
        )
    with head(nodes=1, processors=2) as many:
        many.client.ask("submit_job", **BUSY)
        begun = time.perf_counter()
        submit(many, singly(0, SINGLY), 1, WINDOW)
        spent = time.perf_counter() - begun
        print(f"{SINGLY:,} submissions on one connection: {SINGLY / spent:,.0f} a second")
        begun, used = time.perf_counter(), many.processor_time()
        for first in range(SINGLY, JOBS, IN_REQUEST):
            numbers = range(first, min(first + IN_REQUEST, JOBS))
            many.client.ask("submit_jobs", submissions=[submission(number) for number in numbers])
        spent, used = time.perf_counter() - begun, many.processor_time() - used
        others = JOBS - SINGLY or 1
        print(
            f"{others:,} submissions in requests of {IN_REQUEST:,}: {others / spent:,.0f} a second, "
            f"{1e6 * used / others:.0f} us of the head for each (promised: 100)"
        )
        print(
            f"head with {JOBS:,} queued jobs: {many.proportional_memory():.0f} MB (promised: 100); "
            f"all processes of the cluster: {many.memory_of_all():.0f} MB"
        )
        begun = time.perf_counter()
        subprocess.run(
            [HN, "--state", str(many.state), "job", "list", "/all"], check=True, stdout=subprocess.DEVNULL
        )
        print(f"`hn job list` of a page of them: {time.perf_counter() - begun:.3f} s (promised: 0.5)")
        many.kill()
        begun = time.perf_counter()
        many.start_again()
        many.wait_until_ready(1)
        spent = time.perf_counter() - begun
        print(f"restart after kill -9: {spent:.2f} s until its node is ready again (promised: 5)")
        print(f"head after the restart: {many.proportional_memory():.0f} MB (promised: 100)")


if __name__ == "__main__":
    main()
