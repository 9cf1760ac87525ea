"""How fast past jobs go through the whole head: `python benchmarks/engine_replay.py`.

Commands, life cycles, events, passes and a journal in memory, with a virtual clock: what `hn simulate
--engine` does.  The limit is 10,000 jobs a second for EASY on SDSC-SP2, whole process.  The trace is read
from ../shared/traces; without it a log of as many jobs is made up, to which no limit is held.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from headnode.adapters.files.job_logs import read_log
from headnode.apps.simulate.engine_replay import EngineReplay
from headnode.apps.simulate.machine import pool
from headnode.core.model.quantities import Instant
from headnode.core.model.workload import Workload
from headnode.core.scheduling.plan import Plan, Start
from headnode.core.scheduling.policies import POLICIES, Policy
from headnode.core.scheduling.view import View
from trace_replay import TRACES, made_up

LIMIT = 10_000  # jobs a second
SDSC = TRACES / "SDSC-SP2.swf.xz"
SLICE = 10_000  # jobs, to see what the parts take
IDLE = 20  # so many times shorter jobs leave the machine idle, so all start when they come


def main() -> int:
    """Print the figures; fail when the limit is missed."""
    with tempfile.TemporaryDirectory() as directory:
        log = SDSC if SDSC.exists() else made_up(Path(directory))
        rate = whole_process(log)
        parts(log)
    missed = log == SDSC and rate < LIMIT
    return int(missed)


def whole_process(log: Path) -> float:
    """Print and return how many jobs a second go through `hn simulate --engine`."""
    command = [sys.executable, "-m", "headnode.apps.cli", "simulate", str(log), "--processors", "128"]
    began = time.perf_counter()
    said = subprocess.run([*command, "--engine", "--json"], check=True, capture_output=True, text=True)
    span = time.perf_counter() - began
    jobs = json.loads(said.stdout)["jobs"]
    limit = f" (at least {LIMIT:,})" if log == SDSC else ""
    print(f"{log.name.partition('.')[0]} easy, through the whole head: {jobs} jobs in {span:.2f} s")
    print(f"    {jobs / span:,.0f} jobs/s{limit}")
    return float(jobs / span)


def parts(log: Path) -> None:
    """Print what passes and lives take of a replay, in processor time."""
    workload = Workload(*(column[:SLICE] for column in read_log(str(log), 128).workload))  # type: ignore[arg-type]
    short = workload._replace(run_times=[max(1, span // IDLE) for span in workload.run_times])
    for words, jobs, policy in (
        ("easy", workload, POLICIES["easy"]),
        ("a policy without a thought, on an idle machine", short, at_once),
    ):
        spent, passes, in_passes = timed(jobs, policy)
        lives = (spent - in_passes) / SLICE * 1e6
        print(
            f"{words}: {in_passes / SLICE * 1e6:.0f} us a job in {passes} passes, {lives:.0f} us for its life"
        )


def timed(workload: Workload, policy: Policy) -> tuple[float, int, float]:
    """Return the seconds of a replay, how many passes it had and the seconds of these."""
    replay = EngineReplay(workload, pool(128), "timed", {"timed": policy})
    plan, spans = replay.engine.plan, []

    def clocked(now: Instant) -> Plan:
        began = time.process_time()
        made = plan(now)
        spans.append(time.process_time() - began)
        return made

    replay.engine.plan = clocked  # type: ignore[method-assign]
    began = time.process_time()
    replay.run()
    return time.process_time() - began, len(spans), sum(spans)


def at_once(view: View) -> Plan:
    """Start everything that waits, as long as processors of the one node are free."""
    ((name, node),) = view.nodes.items()
    free, starts = node.free, []
    for kind in view.queue:
        for turn in kind.turns:
            if kind.request.minimum <= free:
                free -= kind.request.minimum
                starts.append(Start(turn.job, ((name, kind.request.minimum),)))
    return Plan(tuple(starts), (), {})


if __name__ == "__main__":
    raise SystemExit(main())
