"""What filters cost: submissions with a plug-in, a program beside its bare run, and jobs that have none.

Three claims: submissions a second with one plug-in that does nothing are at least half of those without;
a program costs no more than 3 ms over its own bare run; jobs without filters start as quickly while 1,000
with a filter wait (within 10%).
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from headnode.adapters.filters.programs import Programs
from headnode.adapters.own_python import SOURCE_ROOT
from headnode.apps.client.client import Client
from headnode.apps.server.filtering.filter_documents import changed_spec, write_document
from headnode.core.filtering import Filter, FilterRequest
from headnode.core.formats.job_views import ExportedJob
from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec
from headnode.core.state.transitions import JobState
from heads import Head, head, machine

CLIENTS, EACH = 8, 250
CALLS = 200
WAITING, WARM, MEASURED = 1_000, 10, 100
NOTHING = "def filter_submission(job):\n    return 0\n"


def package(folder: Path) -> None:
    """Install a plug-in that does nothing where the heads of this benchmark find it."""
    (folder / "nothing.py").write_text(NOTHING)
    info = folder / "nothing-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nothing\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[headnode.filters]\nnothing = nothing\n")
    os.environ["PYTHONPATH"] = f"{folder}:{SOURCE_ROOT}"


def submissions(here: Head) -> float:
    """Return how many held jobs a second several clients submit, each with its own connection."""

    def client() -> None:
        own = Client(str(here.state))
        for _ in range(EACH):
            own.ask("submit_job", tasks=[{"command": "true"}], terms={"holds": "User"})
        own.close()

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return CLIENTS * EACH / (time.perf_counter() - begun)


def plug_in() -> None:
    """Print submissions a second without and with a plug-in."""
    with head(processors=2) as here:
        submissions(here)
        without = submissions(here)
        here.client.ask("set_parameters", values={"SubmissionFilterProgram": "plugin:nothing"})
        here.client.ask("submit_job", tasks=[{"command": "true"}], terms={"holds": "User"})  # loads it
        with_one = submissions(here)
    print(
        f"submissions by {CLIENTS} clients: {without:.0f}/s without filters, {with_one:.0f}/s with one "
        f"plug-in that does nothing: {100 * with_one / without:.0f}% (promised: 50%)"
    )


async def program(folder: Path) -> None:
    """Print what a program costs over its bare run, with its job file written and read again."""
    script = folder / "filter.sh"
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o700)
    each = Filter(program=(str(script),))
    spec = JobSpec(name="a", project="p", tasks=(TaskSpec(command="true"),))
    live = ExportedJob(id=1, state=JobState.VALIDATING, phase="Validating", owner="ada")
    running = Programs(folder / "papers", folder / "data", dict(os.environ))
    running.prepare()
    bare, whole = [], []
    for number in range(CALLS + 20):
        begun = time.perf_counter()
        subprocess.run([str(script)], check=False, stdout=subprocess.DEVNULL)
        between = time.perf_counter()
        paper = await write_document(spec, live, each.dialect, 100)
        found = await running.call(FilterRequest(each, "submission", 1, paper, 15.0))
        await changed_spec(spec, paper, found.paper, each.dialect)
        if number >= 20:
            bare.append(between - begun)
            whole.append(time.perf_counter() - between)
    await running.close()
    over = statistics.median(whole) - statistics.median(bare)
    print(
        f"a shell script as a filter: {1000 * statistics.median(whole):.1f} ms, its bare run "
        f"{1000 * statistics.median(bare):.1f} ms: {1000 * over:.1f} ms over it (promised: 3)"
    )


def start(here: Head) -> float:
    """Return the time from submission to the end of `true` without filters, in seconds."""
    begun = time.perf_counter()
    job = here.client.ask("submit_job", tasks=[{"command": "true"}])["job"]
    for answer in here.client.follow("watch_jobs", job=job):
        if answer["done"]:
            break
    return time.perf_counter() - begun


def unfiltered(folder: Path) -> None:
    """Print how long jobs without filters take to start, alone and beside 1,000 with a slow one.

    Two heads take turns, so that what else the machine does is the same for both.
    """
    script = folder / "slow.sh"
    script.write_text("#!/bin/sh\nsleep 14\nexit 3\n")
    script.chmod(0o700)
    with head(processors=64) as empty, head(processors=64) as full:
        full.client.ask("set_parameters", values={"ActivationFilterProgram": f"template=slow {script}"})
        for _ in range(WAITING):
            full.client.ask("submit_job", tasks=[{"command": "true"}], terms={"jobtemplate": "slow"})
        pairs = [(start(empty), start(full)) for _ in range(WARM + MEASURED)][WARM:]
        asked = full.client.ask("jobs", limit=1)["total"]
    alone, beside = (statistics.median(found) for found in zip(*pairs, strict=True))
    print(
        f"from submission to end without filters: {1000 * alone:.2f} ms alone, {1000 * beside:.2f} ms "
        f"beside {WAITING} behind a filter of 14 s: {100 * (beside / alone - 1):+.0f}% (promised: 10%); "
        f"{asked} jobs in all"
    )


def main() -> None:
    """Print the three figures beside what was promised."""
    print(machine(), sys.version.split()[0])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        package(folder)
        plug_in()
        asyncio.run(program(folder))
        unfiltered(folder)


if __name__ == "__main__":
    main()
