"""500 jobs from a shell loop of `hn job submit`; one job on an idle cluster; what the client itself costs.

Once each with the resident client, where `hn` is its launcher, and once without.
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from heads import Head, head, machine

JOBS = 500
HN = str(Path(sys.executable).with_name("hn"))


SWITCH = "HEADNODE_RESIDENT_CLIENT"


def loop(here: Head, resident: str) -> tuple[float, float, float]:
    """Return submissions and ended jobs a second, and seconds of the client's own processor time for each."""
    submit = f"{HN} job submit /bin/true >/dev/null 2>&1"
    script = f"i=0; while [ $i -lt {JOBS} ]; do {submit} || exit 1; i=$((i+1)); done"
    before = os.times()
    begun = time.perf_counter()
    subprocess.run(
        ["sh", "-c", script],
        env=os.environ | {"HEADNODE_STATE": str(here.state), SWITCH: resident},
        check=True,
    )
    submitted = time.perf_counter() - begun
    after = os.times()
    while here.client.ask("cluster")["cluster"]["jobs"].get("Finished", 0) < JOBS:
        time.sleep(0.002)
    spent = time.perf_counter() - begun
    own = after.children_user + after.children_system - before.children_user - before.children_system
    return JOBS / submitted, JOBS / spent, own / JOBS


def one(here: Head) -> float:
    """Return the seconds from typing `hn job submit --wait /bin/true` to its end, on an idle cluster."""
    begun = time.perf_counter()
    subprocess.run(
        [HN, "--state", str(here.state), "job", "submit", "--wait", "/bin/true"],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - begun


def bare() -> float:
    """Return what starting Python with socket and json costs, the floor of any client written in it."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-S", "-c", "import socket, json"], check=True)
    return time.perf_counter() - begun


def main() -> None:
    """Print the figures beside what was promised."""
    print(machine())
    with head(processors=2) as here:
        alone = [one(here) for _ in range(21)]
        floor = [bare() for _ in range(21)]
        print(
            f"one /bin/true on an idle cluster, submit to finished: {1000 * statistics.median(alone):.0f} ms "
            f"(promised: 60; python -I -S with socket and json alone: {1000 * statistics.median(floor):.0f})"
        )
    for resident, label in (("0", "plain Python"), ("10", "resident client")):
        with head(processors=2) as here:
            submitted, rate, own = loop(here, resident)
        print(
            f"{JOBS} jobs from a shell loop, {label}: {submitted:.0f} submissions/s, "
            f"all finished: {rate:.0f} jobs/s (promised: 30)"
        )
        print(f"processor time of hn, {label}: {1000 * own:.1f} ms a job (promised: 30)")


if __name__ == "__main__":
    main()
