"""The programs of `hn compat install` for live tests: made in a directory, run beside a real head."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from heads import RealHead, real_head
from testbed.clusters import Cluster

HN = Path(sys.executable).with_name("hn")
TIMEOUT = 240.0  # seconds


class Programs:
    """A directory with the programs, and how they are run."""

    def __init__(self, head: RealHead | Cluster, folder: Path, *options: str) -> None:
        self.head, self.folder = head, folder
        subprocess.run(
            [HN, "compat", "install", *options, str(folder)],
            check=True,
            capture_output=True,
            timeout=TIMEOUT,
        )

    def environment(self, where: Path) -> dict[str, str]:
        """Return the variables of a shell that finds the programs first, and the head."""
        return {
            "PATH": f"{self.folder}:{HN.parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(where),
            "USER": os.environ.get("USER", "root"),
            "HEADNODE_STATE": str(self.head.state),
            "HEADNODE_RESIDENT_CLIENT": "0",
        }

    def run(self, command: str, where: Path) -> "subprocess.CompletedProcess[str]":
        """Run a command line of the shell."""
        return subprocess.run(
            ["/bin/bash", "-c", command],
            cwd=where,
            env=self.environment(where),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )

    def output(self, command: str, where: Path) -> str:
        """Return what a command line prints that succeeds."""
        done = self.run(command, where)
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout.rstrip("\n")


def programs_fixture(*options: str) -> Callable[..., Programs]:
    """Return a fixture: the programs of a head, made by `hn compat install` for all tests of a file."""

    @pytest.fixture(scope="module")
    def programs(head: RealHead, tmp_path_factory: pytest.TempPathFactory) -> Programs:
        return Programs(head, tmp_path_factory.mktemp("programs"), *options)

    return programs


def emptied_fixture(programs: str, end: str, listed: str) -> Callable[..., Iterator[None]]:
    """Return a fixture: after each test `end` ends all jobs, until `listed` prints none.

    programs:  the fixture whose commands these are
    """

    @pytest.fixture(autouse=True)
    def nothing_is_left(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
        commands: Programs = request.getfixturevalue(programs)
        yield
        commands.run(end, tmp_path)
        commands.head.until(lambda: not commands.output(listed, tmp_path))

    return nothing_is_left


def slurm_fixtures() -> tuple[Any, Any, Any]:
    """Return the fixtures of a module that runs programs of Slurm: `head`, `slurm`, and `nothing_is_left`.

    The head has two nodes of two processors each.  After each test its jobs are ended.
    """

    @pytest.fixture(scope="module")
    def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHead]:
        with real_head(tmp_path_factory.mktemp("programs"), nodes=2, processors=2) as started:
            yield started

    emptied = emptied_fixture("slurm", "scancel -u $(id -u)", "squeue -h")
    return head, programs_fixture("--only", "slurm"), emptied
