"""Benchmarks measure what they say: medians, a past with all its events, other schedulers beside it."""

import ast
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.core.state.job_events import JobEvent

ROOT = Path(__file__).parents[2]
BENCHMARKS = sorted((ROOT / "benchmarks").glob("*.py"))


def run(code: str, *words: str) -> str:
    """Run code that imports a benchmark, as `make bench` does; return what it prints."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "benchmarks", ROOT / "tests"))),
    }
    done = subprocess.run(
        [sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "code",
    [
        "import sys, pathlib, sweep_of_true; sweep_of_true.fill(pathlib.Path(sys.argv[1]).parent, 30)",
        "import sys, pathlib, journal; past = journal.SqliteJournal(pathlib.Path(sys.argv[1]));"
        "journal.make_past(past, 30); past.close()",
    ],
    ids=["sweep_of_true", "journal"],
)
def test_a_past_has_every_event_of_each_of_its_jobs(tmp_path: Path, code: str) -> None:
    run(code, str(tmp_path / "journal.db"))
    past = SqliteJournal(tmp_path / "journal.db")
    try:
        kinds: dict[int, Counter[str]] = {}
        for _, event in past.replay():
            if isinstance(event, JobEvent):
                kinds.setdefault(event.job, Counter())[type(event).__name__] += 1
        over = past.ended_jobs(owner=None, states=(), before=None, limit=100)
    finally:
        past.close()
    assert len(over) == 30
    for job in over:
        assert kinds[job.id] >= Counter(
            [
                "JobCreated",
                "JobStarted",
                "InstancesDispatched",
                "InstancesStarted",
                "InstancesEnded",
                "JobEnded",
            ]
        )


@pytest.mark.parametrize("file", BENCHMARKS, ids=lambda file: file.name)
def test_no_figure_is_the_best_of_several_rounds(file: Path) -> None:
    calls = [each for each in ast.walk(ast.parse(file.read_text())) if isinstance(each, ast.Call)]
    best = [each for each in calls if isinstance(each.func, ast.Name) and each.func.id == "min"]
    assert all(len(each.args) > 1 for each in best), "tell the median"


def test_the_schedulers_that_are_here_are_measured_beside_headnode() -> None:
    peers = run("import speed_table; print(*speed_table.PEERS)").split()
    assert {"xargs", "Slurm", "HyperQueue", "task-spooler"} <= set(peers)
