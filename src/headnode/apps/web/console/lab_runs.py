"""Runs of the policy lab: the past of the cluster replayed under policies, in processes of their own.

Source: docs/policy-lab.md; the processes are ``hn cluster history`` and ``hn simulate``.
"""

import asyncio
import contextlib
import csv
import os
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from headnode.adapters.own_python import module_command
from headnode.core.model.errors import Unavailable, WrongState

LONGEST: Final = 300.0  # seconds of one process
MOST_OUTPUT: Final = 1_000_000  # bytes of what a process writes
RUNS_KEPT: Final = 20
_JOB, _USER = 0, 11  # fields of a line of the Standard Workload Format


class LabRun(msgspec.Struct):
    """A run: what was asked for, how far it is, and its results by policy.

    `results` are the documents of ``hn simulate --json``, `waits` the mean wait of each user in seconds.
    Users are numbers there; `first_jobs` has a job of each.
    """

    number: int
    by: str
    policies: list[str]
    since: str  # as hn reads it; "" for all of the past
    began: float  # seconds since 1970
    step: str = "reading the past of the cluster"
    results: dict[str, dict[str, Any]] = {}
    waits: dict[str, dict[str, float]] = {}  # policy -> number of a user in the log -> mean wait
    first_jobs: dict[str, int] = {}
    problem: str = ""
    done: bool = False


class LabRuns:
    """The runs of a gateway: one at a time, the newest are kept until it ends."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self.known: dict[int, LabRun] = {}
        self._task: asyncio.Task[None] | None = None

    def begin(self, by: str, policies: Sequence[str], since: str) -> LabRun:
        """Begin a run.

        Raises:  WrongState ``lab-busy`` while another one goes on.
        """
        if self._task is not None and not self._task.done():
            raise WrongState(
                code="lab-busy", what="another run of the policy lab goes on", fix="wait until it has ended"
            )
        number = max(self.known, default=0) + 1
        run = self.known[number] = LabRun(number, by, list(policies), since, time.time())
        while len(self.known) > RUNS_KEPT:
            del self.known[min(self.known)]
        self._task = asyncio.create_task(self._carry_out(run))
        return run

    async def _carry_out(self, run: LabRun) -> None:
        try:
            with TemporaryDirectory(prefix="headnode-lab-") as directory:
                await self._replay(run, Path(directory))
        except (Unavailable, OSError, ValueError) as error:
            run.problem = error.what if isinstance(error, Unavailable) else str(error)
        finally:
            run.done = True

    async def _replay(self, run: LabRun, directory: Path) -> None:
        log = directory / "past.swf"
        period = ["--since", run.since] if run.since else []
        state = ["--state-directory", str(self._state)]
        await _output_of(["cluster", "history", "--swf", str(log), *period, *state], directory)
        users, run.first_jobs = await asyncio.to_thread(read_users, log)
        for policy in run.policies:
            run.step = f"replaying the past under {policy}"
            starts = directory / "starts.csv"
            asked = ["simulate", str(log), "--policy", policy, "--starts", str(starts), "--json"]
            document = msgspec.json.decode(await _output_of(asked, directory))
            run.results[policy] = document[0] if isinstance(document, list) else document
            run.waits[policy] = await asyncio.to_thread(mean_waits, starts, users)
        run.step = "done"


async def _output_of(arguments: Sequence[str], directory: Path) -> bytes:
    """Return what a command of `hn` writes.

    Raises:  Unavailable ``lab`` when it fails, with its words, or takes too long.
    """
    environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": str(directory)}
    command = module_command("headnode.apps.cli", *arguments, environment=environment)
    child = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        cwd=directory,
        limit=MOST_OUTPUT,
    )
    try:
        async with asyncio.timeout(LONGEST):
            output, words = await child.communicate()
    except TimeoutError:
        raise Unavailable(
            code="lab",
            what=f"the replay took longer than {LONGEST:.0f} seconds",
            fix="choose a shorter period",
        ) from None
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    if child.returncode:
        said = words.decode(errors="replace").strip().removeprefix("hn: ")
        raise Unavailable(code="lab", what=said[-1000:] or "the replay failed", fix="choose another period")
    return output


def read_users(log: Path) -> tuple[dict[str, str], dict[str, int]]:
    """Return the user of each job of a log, and a job of each user; users are numbers there."""
    users: dict[str, str] = {}
    first: dict[str, int] = {}
    with log.open() as lines:
        for line in lines:
            if line.startswith(";"):
                continue
            fields = line.split()
            users[fields[_JOB]] = fields[_USER]
            first.setdefault(fields[_USER], int(fields[_JOB]))
    return users, first


def mean_waits(starts: Path, users: Mapping[str, str]) -> dict[str, float]:
    """Return the mean wait of the jobs of each user, in seconds."""
    waits: dict[str, list[float]] = defaultdict(list)
    with starts.open(newline="") as rows:
        for row in csv.DictReader(rows):
            user = users.get(row["job"])
            if user is not None and row["start"]:
                waits[user].append(float(row["start"]) - float(row["submit"]))
    return {user: fmean(of_user) for user, of_user in waits.items()}
