"""Runs `hn` commands as a user would type them, and shows what was typed and answered."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

from headnode.core.model.errors import Unavailable

_JOB: Final = re.compile(r"ID: (\d+)")


class Typed:
    """A shell, so to speak, in which HEADNODE_STATE names the demo's cluster."""

    def __init__(self, state: Path, mark: tuple[str, str]) -> None:
        self._log = state / "head.log"
        self._environment = os.environ | {"HEADNODE_STATE": str(state), mark[0]: mark[1]}
        say(f"$ export HEADNODE_STATE={shlex.quote(str(state))}")

    def hn(self, *words: str) -> str:
        """Run one command and return what it said.

        Raises:  Unavailable ``demo`` when it fails.
        """
        done = self._run(words)
        if done.returncode != 0:
            command = shlex.join(("hn", *words))
            raise Unavailable(
                code="demo",
                what=f"{command} failed with status {done.returncode}: {done.stderr.strip()}",
                fix=f"the log of the head is {self._log}",
            )
        return done.stdout

    def stop(self, *, cancel: bool) -> None:
        """Stop the cluster, which may not run at all; `cancel` its jobs when they were not waited for."""
        self._run(("down", "--cancel-jobs") if cancel else ("down",))

    def submit(self, job_file: Path) -> int:
        """Submit a job file and return the id of the job.

        Raises:  Unavailable ``demo``.
        """
        said = self.hn("job", "submit", f"/jobfile:{job_file}")
        found = _JOB.search(said)
        if found is None:
            raise Unavailable(code="demo", what=f"hn job submit said {said!r}", fix="please report this")
        return int(found[1])

    def _run(self, words: tuple[str, ...]) -> "subprocess.CompletedProcess[str]":
        say(f"$ {shlex.join(('hn', *words))}")
        done = subprocess.run(
            [sys.executable, "-m", "headnode.apps.cli", *words],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        for line in done.stdout.splitlines():
            say(f"  {line}".rstrip())
        return done


def say(line: str = "") -> None:
    """Print a line at once, so that a pipe sees it when it happens."""
    print(line, flush=True)
