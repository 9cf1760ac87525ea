"""Runs of the policy lab: the past of the cluster replayed under policies, in processes of their own.

Source: docs/policy-lab.md; the processes are ``hn cluster history`` and ``hn simulate``.
"""

import asyncio
import contextlib
import csv
import math
import os
import time
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from headnode.adapters.own_python import module_command
from headnode.core.model.errors import Unavailable, WrongState

MAX_RUN_TIME: Final = 300.0  # seconds of one process
MAX_OUTPUT: Final = 1_000_000  # bytes of what a process writes
RUNS_KEPT: Final = 20
POINTS: Final = 160  # of a curve
SHARES: Final = range(0, 101, 2)  # percent of the jobs
_JOB, _USER = 0, 11  # fields of a line of the Standard Workload Format


class LabVariant(msgspec.Struct, frozen=True):
    """What is replayed: a policy, and the parameters that are not as they are by default."""

    policy: str
    parameters: dict[str, str] = {}

    @property
    def name(self) -> str:
        """What it is called, as ``hn simulate --compare`` has it."""
        return "+".join((self.policy, *(f"{name}={value}" for name, value in self.parameters.items())))


class LabCurves(msgspec.Struct):
    """What a replay looks like: waiting jobs and processors in use over time, and how long jobs waited."""

    waiting: list[float]
    used: list[float]
    waits: list[float]  # seconds: the longest wait of 0, 2, ... 100 % of the jobs


class LabRun(msgspec.Struct):
    """A run: what was asked for, how far it is, and its results by the names of the variants.

    `results` are the documents of ``hn simulate --json``, `waits` the mean wait of each user in seconds.
    Users are numbers there; `first_jobs` has a job of each.  The first variant is the cluster as it was.
    """

    number: int
    by: str
    variants: list[LabVariant]
    since: str  # as hn reads it; "" for all of the past
    began: float  # seconds since 1970
    doing: str = "reading the past of the cluster"
    results: dict[str, dict[str, Any]] = {}
    waits: dict[str, dict[str, float]] = {}  # policy -> number of a user in the log -> mean wait
    first_jobs: dict[str, int] = {}
    curves: dict[str, LabCurves] = {}
    begin: float = 0.0  # of the curves, in seconds as the log counts them
    step: float = 1.0  # between two points of a curve, in seconds
    problem: str = ""
    done: bool = False


class LabRuns:
    """The runs of a gateway: one at a time, the newest are kept until it ends."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self.runs: dict[int, LabRun] = {}
        self._task: asyncio.Task[None] | None = None

    def begin(self, by: str, variants: Sequence[LabVariant], since: str) -> LabRun:
        """Begin a run.

        Raises:  WrongState ``lab-busy`` while another one goes on.
        """
        if self._task is not None and not self._task.done():
            raise WrongState(
                code="lab-busy", what="another run of the policy lab is active", fix="wait until it has ended"
            )
        number = max(self.runs, default=0) + 1
        run = self.runs[number] = LabRun(number, by, list(variants), since, time.time())
        while len(self.runs) > RUNS_KEPT:
            del self.runs[min(self.runs)]
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
        whole_head = any(variant.parameters for variant in run.variants)
        for variant in run.variants:
            run.doing = f"replaying the past under {variant.name}"
            starts = directory / "starts.csv"
            asked = ["simulate", str(log), "--policy", variant.policy, "--starts", str(starts), "--json"]
            asked += ["--engine", "--priority", "queue"] if whole_head else []
            asked += [part for pair in variant.parameters.items() for part in ("--set", "=".join(pair))]
            document = msgspec.json.decode(await _output_of(asked, directory))
            run.results[variant.name] = document[0] if isinstance(document, list) else document
            if not run.curves:
                run.begin, run.step = await asyncio.to_thread(time_axis, starts)
            run.waits[variant.name] = await asyncio.to_thread(mean_waits, starts, users)
            run.curves[variant.name] = await asyncio.to_thread(curves_of, starts, run.begin, run.step)
        run.doing = "done"


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
        limit=MAX_OUTPUT,
    )
    try:
        async with asyncio.timeout(MAX_RUN_TIME):
            output, errors = await child.communicate()
    except TimeoutError:
        raise Unavailable(
            code="lab",
            what=f"the replay took longer than {MAX_RUN_TIME:.0f} seconds",
            fix="choose a shorter period",
        ) from None
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    if child.returncode:
        reason = errors.decode(errors="replace").strip().removeprefix("hn: ")
        raise Unavailable(code="lab", what=reason[-1000:] or "the replay failed", fix="choose another period")
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
    waits: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])  # the sum, and how many
    for job, submit, start, _, _ in _starts(starts):
        if (user := users.get(job)) is not None:
            waits[user][0] += start - submit
            waits[user][1] += 1
    return {user: total / count for user, (total, count) in waits.items()}


def _starts(path: Path) -> Iterator[tuple[str, float, float, float, float]]:
    """Yield job, submit time, start, end and processors of each job that was started."""
    with path.open(newline="") as rows:
        for row in csv.DictReader(rows):
            if row["start"] and row["end"]:
                yield (
                    row["job"], float(row["submit"]), float(row["start"]), float(row["end"]),
                    float(row["processors"] or 0),
                )  # fmt: skip


def time_axis(starts: Path) -> tuple[float, float]:
    """Return where the curves of a run begin, and the time between two of their points, in seconds."""
    first, last = math.inf, -math.inf
    for _, submit, _, end, _ in _starts(starts):
        first, last = min(first, submit), max(last, end)
    return (first, max(1.0, (last - first) / POINTS)) if first < last else (0.0, 1.0)


def curves_of(starts: Path, begin: float, step: float) -> LabCurves:
    """Return what a replay looks like, at `POINTS` instants.

    Cost:  O(jobs + points); 8 bytes a job.
    """
    waiting, used, waits = [0.0] * (POINTS + 2), [0.0] * (POINTS + 2), array("d")

    def point(at: float) -> int:
        return min(POINTS + 1, max(0, math.ceil((at - begin) / step)))

    for _, submit, start, end, processors in _starts(starts):
        waiting[point(submit)] += 1
        waiting[point(start)] -= 1
        used[point(start)] += processors
        used[point(end)] -= processors
        waits.append(start - submit)
    ranked = sorted(waits)
    shares = [ranked[min(len(ranked) - 1, len(ranked) * share // 100)] for share in SHARES] if ranked else []
    return LabCurves(list(accumulate(waiting))[:POINTS], list(accumulate(used))[:POINTS], shares)
