"""Steps of srun end: without standard input, without a file that they name, with a signal at the start."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

TIMEOUT = 30.0  # seconds
TASKS = 30
LONG = "600"  # seconds that a task sleeps that is not ended


def srun(
    where: Path, *words: str, before: str = "", nodes: str = f"1 here {TASKS}"
) -> "subprocess.CompletedProcess[str]":
    """Run srun as in a job with processors on this machine; `before`: what the shell does first."""
    own = {
        "PATH": os.environ["PATH"],
        "HOME": str(where),
        "HEADNODE_JOB": "7",
        "HEADNODE_TASK": "7.1",
        "HEADNODE_NODE": "here",
        "CCP_NODES_CORES": nodes,
    }
    script = f'{before}\nexec "$@"'
    command = [sys.executable, "-m", "headnode.apps.cli", "compat", "run", "srun", *words]
    return subprocess.run(
        ["/bin/sh", "-c", script, "sh", *command],
        cwd=where,
        env=own,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )


def test_tasks_read_nothing_if_standard_input_is_closed(tmp_path: Path) -> None:
    done = srun(tmp_path, "-n", "2", "cat", before="exec <&-")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("choice", [("-w", "here"), ("-x", "away")])
@pytest.mark.parametrize("shared", [(), ("--overlap",), ("--overcommit",)])
def test_tasks_run_on_the_nodes_that_are_named(
    tmp_path: Path, choice: tuple[str, ...], shared: tuple[str, ...]
) -> None:
    names = "echo $SLURM_STEP_NODELIST"
    done = srun(tmp_path, "-n", "2", *shared, *choice, "sh", "-c", names, nodes="2 away 2 here 2")
    assert (done.returncode, done.stdout) == (0, "here\nhere\n")


@pytest.mark.parametrize(
    ("variables", "counts"),
    [
        ('SLURM_NTASKS=4 SLURM_TASKS_PER_NODE="2(x2)"', (2, 2)),
        ("SLURM_NTASKS=4 SLURM_TASKS_PER_NODE=1,3", (1, 3)),
        ('SLURM_NTASKS=2 SLURM_TASKS_PER_NODE="1(x2)" SRUN_CPUS_PER_TASK=4', (1, 1)),
        ("SLURM_NTASKS=4 SLURM_TASKS_PER_NODE=4", (3, 1)),  # not of these nodes
    ],
)
def test_a_step_without_options_has_the_tasks_of_the_job_on_each_node(
    tmp_path: Path, variables: str, counts: tuple[int, int]
) -> None:
    launch = tmp_path / "launch"
    launch.write_text('#!/bin/sh\nexec sh -c "$2"\n')  # what the agent of the other node does
    launch.chmod(0o700)
    before = f"export SLURM_NNODES=2 HEADNODE_LAUNCH={launch} {variables}"
    done = srun(tmp_path, "sh", "-c", "echo $SLURMD_NODENAME", before=before, nodes="2 here 4 away 4")
    assert done.returncode == 0, done.stderr
    assert tuple(done.stdout.split().count(node) for node in ("here", "away")) == counts


def test_a_signal_at_the_start_ends_also_the_tasks_that_start_later(tmp_path: Path) -> None:
    first = f"if [ $SLURM_PROCID = 0 ]; then kill -TERM $PPID; else exec sleep {LONG}; fi"
    done = srun(tmp_path, "-n", str(TASKS), "sh", "-c", first)
    assert done.returncode == 143


@pytest.mark.parametrize("option", ["--output", "--error", "--input"])
def test_no_task_is_left_if_a_file_of_another_cannot_be_opened(tmp_path: Path, option: str) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "file").touch()
    done = srun(tmp_path, "-n", "2", f"{option}=%t/file", "sh", "-c", f"echo $$ >pid; exec sleep {LONG}")
    assert done.returncode == 1
    assert "1/file: No such file or directory" in done.stderr
    started = tmp_path / "pid"
    if started.exists() and (number := started.read_text().strip()):
        deadline = time.monotonic() + TIMEOUT
        while Path("/proc", number).exists():
            assert time.monotonic() < deadline
