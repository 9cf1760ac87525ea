"""What a standby head costs and how soon it is the head: submissions with and without one, and takeovers.

Both heads run on this machine: each write is synchronized twice on one disk, and there is no network between
them.  A takeover is timed from its command to the first job that the new head has acknowledged.
It takes about two minutes on a quiet machine.
"""

import argparse
import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from headnode.adapters.nodes.membership import read_invitation
from headnode.apps.cli.standby_daemon import ask_standby, start_standby, stop_standby
from headnode.apps.client.client import Client
from headnode.apps.standby.join import join
from headnode.core.model.errors import HeadnodeError
from heads import Head, head, machine
from submissions import BUSY, singly, submit, together

WINDOW = 256  # requests of a pipelining connection that are not answered
TIMEOUT = 60.0  # seconds


@contextlib.contextmanager
def with_standby(one: Head) -> Iterator[Path]:
    """Give a head a standby that is in step; yield its state directory."""
    with tempfile.TemporaryDirectory(prefix="headnode-standby-") as directory:
        state = Path(directory) / "state"
        invitation = read_invitation(one.client.ask("invite_standby")["invitation"])
        join(state, invitation, "standby", "127.0.0.1:5927", 0.0)
        start_standby(str(state))
        wait_in_step(one)
        try:
            yield state
        finally:
            with contextlib.suppress(HeadnodeError):
                stop_standby(str(state))
            with contextlib.suppress(HeadnodeError):
                Client(str(state)).ask("stop_head")


def wait_in_step(one: Head) -> None:
    """Wait until the standby has all events."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        if any(each["state"] == "InStep" for each in one.client.ask("standbys")["standbys"]):
            return
        time.sleep(0.02)
    raise SystemExit("the standby is not in step")


def submissions(scale: float) -> None:
    """Print a line for each kind of submission: without a standby, waiting for it, and not waiting."""
    print("| submissions | no standby | StandbyWait=2 | StandbyWait=0 |\n|---|---|---|---|")
    for name, jobs, window in (
        ("one at a time", 2_000, 1),
        (f"pipelined, {WINDOW} in flight", 8_000, WINDOW),
    ):
        jobs = int(jobs * scale)
        cells = [rate(jobs, window, wait) for wait in (None, 2, 0)]
        print(f"| {name}, a second | {' | '.join(cells)} |", flush=True)


def rate(jobs: int, window: int, wait: int | None) -> str:
    """Return submissions a second by the clock, and the processor time of the head for each."""
    with contextlib.ExitStack() as stack:
        one = stack.enter_context(head(nodes=1, processors=2, listen="127.0.0.1:5926"))
        one.client.ask("submit_job", **BUSY)
        if wait is not None:
            stack.enter_context(with_standby(one))
            one.client.ask("set_parameters", values={"StandbyWait": str(wait)})
        submit(one, singly(1, jobs // 10), 1, window)
        sent = singly(jobs, jobs)
        used, begun = one.processor_time(), time.perf_counter()
        submit(one, sent, 1, window)
        spent, used = time.perf_counter() - begun, one.processor_time() - used
    return f"{jobs / spent:,.0f} ({1e6 * used / jobs:.0f} us)"


def takeovers(queued: int) -> None:
    """Print how long a takeover of a head with so many queued jobs takes: handed over, and after kill -9."""
    for forced in (False, True):
        with head(nodes=0, processors=2, listen="127.0.0.1:5926") as one, with_standby(one) as state:
            submit(one, together(1, queued), 1, 2)
            wait_in_step(one)
            if forced:
                os.kill(one.process.pid, signal.SIGKILL)
                one.process.wait()
            begun = time.perf_counter()
            ask_standby(str(state), "take over", force=forced)
            acknowledged = first_job(state) - begun
            how = "kill -9, then takeover --force" if forced else "handed over"
            print(f"| {how}, {queued:,} queued jobs | {acknowledged:.2f} s |", flush=True)


def first_job(state: Path) -> float:
    """Return when the new head has acknowledged a job."""
    client, deadline = Client(str(state)), time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        try:
            client.ask("submit_job", **BUSY)
        except HeadnodeError:
            time.sleep(0.01)
        else:
            client.close()
            return time.perf_counter()
    raise SystemExit("the standby has not become the head")


def main() -> None:
    """Print the tables."""
    read = argparse.ArgumentParser(description=__doc__)
    read.add_argument("--scale", type=float, default=1.0, help="multiply the numbers of jobs by this")
    options = read.parse_args()
    print(machine())
    submissions(options.scale)
    print("\n| takeover | until the first acknowledged job |\n|---|---|")
    for queued in (1_000, int(100_000 * options.scale)):
        takeovers(queued)


if __name__ == "__main__":
    main()
