"""100,000 queued jobs, and one queued sweep of 1,000,000: memory, restart, the first page of a list.

The node of the cluster is busy, so passes look at the queue; memory is told of the head alone and of all
processes of the cluster.
"""

import subprocess
import sys
import time
from pathlib import Path

from heads import head, machine

JOBS = 100_000
BUSY = {"terms": {"numprocessors": "2"}, "tasks": [{"command": "sleep 3600", "numprocessors": "2"}]}
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
        for number in range(JOBS):
            many.client.ask(
                "submit_job", terms={"jobname": f"job {number}"}, tasks=[{"command": f"/bin/echo {number}"}]
            )
        spent = time.perf_counter() - begun
        print(f"{JOBS:,} submissions on one connection: {JOBS / spent:,.0f} a second")
        print(
            f"head with {JOBS:,} queued jobs: {many.memory():.0f} MB (promised: 150); "
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
        print(f"head after the restart: {many.memory():.0f} MB")


if __name__ == "__main__":
    main()
