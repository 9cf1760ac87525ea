"""Slurm as text: sbatch, squeue, sacct, scancel.

Source:  Slurm, sbatch(1), squeue(1), sacct(1), scancel(1); recorded answers of Slurm 22.05.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from headnode.core.batch.dialect import (
    MARKER,
    CommandResult,
    Dialect,
    ForeignAction,
    ForeignEnding,
    ForeignJob,
    ForeignState,
    Rows,
    Submission,
    SubmissionResult,
    cpu_seconds,
    rows_of,
    seconds_since_1970,
    size_in_kb,
)
from headnode.core.batch.job_script import TO_GROUP, TO_PROGRAM
from headnode.core.model.outcome import NOT_MEASURED, ResourceUsage
from headnode.core.model.resource_system import ResourceSystem
from headnode.core.model.signals import UNHEARD_BESIDE_A_SHELL, LimitSignal, SignalTarget

_ID = re.compile(r"(\d+)(?:;\S+)?")
_WAITING = "PENDING CONFIGURING REQUEUED REQUEUE_FED REQUEUE_HOLD SPECIAL_EXIT RESV_DEL_HOLD"
_RUNNING = "RUNNING COMPLETING SIGNALING RESIZING STAGE_OUT STOPPED SUSPENDED"
_ENDED = "COMPLETED FAILED TIMEOUT DEADLINE NODE_FAIL BOOT_FAIL OUT_OF_MEMORY CANCELLED PREEMPTED REVOKED"
STATES: Final = {
    word: state
    for state, words in (
        (ForeignState.WAITING, _WAITING),
        (ForeignState.RUNNING, _RUNNING),
        (ForeignState.ENDED, _ENDED),
    )
    for word in words.split()
}
ENDINGS: Final = {
    **dict.fromkeys(("COMPLETED", "FAILED"), ForeignEnding.BY_ITSELF),
    **dict.fromkeys(("TIMEOUT", "DEADLINE"), ForeignEnding.LATE),
    **dict.fromkeys(("NODE_FAIL", "BOOT_FAIL", "PREEMPTED"), ForeignEnding.LOST),
}
_COLUMNS: Final = (
    ("JobArrayID", 40), ("State", 20), ("exit_code", 12), ("StartTime", 24), ("TimeLimit", 16),
    ("UserName", 33), ("Reason", 48), ("Name", 64),
)  # fmt: skip
_HEADING: Final = re.compile(r"\w+ +STATE ", re.ASCII)
FIELDS: Final = "\x1f"
_EPOCH: Final = ("env", "SLURM_TIME_FORMAT=%s")
_REFUSALS: Final = (
    "Unable to contact", "Socket timed out", "timed out", "try again", "temporarily", "Zero Bytes",
    "endpoint is not connected", "onnection", "submit limit", "authentication", "Slurm backup controller",
    "Communication", "communication", "Slurmctld has", "Unexpected message",
)  # fmt: skip
"""Words of complaints after which a job may have been queued, or may be later: all others refuse it."""
SINCE: Final = "now-14days"
_ACCOUNTED: Final = "JobIDRaw,State,ExitCode,Start,UserCPU,SystemCPU,MaxRSS,AveRSS,User,JobName"


class Slurm(Dialect):
    """Slurm 20 and later, with or without accounting."""

    system = ResourceSystem.SLURM

    def submit(self, submission: Submission) -> Sequence[str]:
        """Options of the command line win over those of the script and over SBATCH variables."""
        argv = [
            "sbatch",
            "--parsable",
            f"--job-name={submission.marker}",
            f"--comment={submission.marker}",
            "--output=scheduler.log",
            "--error=scheduler.log",
            "--no-requeue",
            "--ntasks=" + str(submission.processes or submission.processors),
        ]
        argv += [f"{name}={value}" for name, value in _sizes(submission) if value]
        if submission.exclusive:
            argv.append("--exclusive")
        return [*argv, _warning(submission.signal)] if submission.signal is not None else argv

    def submitted(self, result: CommandResult) -> SubmissionResult:
        """Sites print lines of their own around the id: the last line that is one counts."""
        ids = [match[1] for line in result.lines if (match := _ID.fullmatch(line))]
        if result.status == 0 and ids:
            return SubmissionResult("queued", ids[-1])
        refuses = (result.status in (1, 255) and "error:" in result.err) or result.status == 255
        if refuses and not any(word in result.err for word in _REFUSALS):
            return SubmissionResult("refused", message=result.complaint)
        return SubmissionResult("doubtful", message=result.complaint)

    def poll(self, users: Sequence[str]) -> Sequence[str]:
        """Ask for all states and hidden partitions: else what has ended looks as if it were gone."""
        columns = ",".join(f"{name}:{width}" for name, width in _COLUMNS)
        return [*_EPOCH, "squeue", "-a", "-r", "-t", "all", "-u", ",".join(users), "-O", columns]

    def polled(self, result: CommandResult) -> Rows | None:
        """An unknown user is complained of with status 0: an answer with a complaint is none.

        The heading shows that it is an answer, also if there is no job.
        """
        if result.status != 0 or "error" in result.err or result.is_cut or not _HEADING.match(result.out):
            return None
        return rows_of(_listed(result.out))

    def history(self, markers: Sequence[str], jobs: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        """Without a start time sacct knows nothing from before midnight; rows of steps have the memory."""
        return [
            *_EPOCH, "sacct", "-P", "-n", f"--delimiter={FIELDS}", "-S", SINCE, "--units=K",
            "--name=" + ",".join(markers), "-o", _ACCOUNTED,
        ]  # fmt: skip

    def remembered(self, result: CommandResult) -> Rows | None:
        """Without accounting, or when its database is away, it fails."""
        if result.status != 0 or "error" in result.err or result.is_cut:
            return None
        return rows_of(_accounted(result.out))

    def act(self, action: ForeignAction, jobs: Sequence[str], submission: Submission) -> Sequence[str]:
        """The status of scancel is 0 also for a job that is unknown or over."""
        argv = _ACTIONS[action].format(jobs=",".join(jobs), limit=_limit(submission.limit)).split()
        return [*argv, *jobs] if action is ForeignAction.CANCEL else argv

    def signal(self, jobs: Sequence[str], number: int, target: SignalTarget) -> Sequence[str]:
        """Of a batch script Slurm can signal the shell alone: ours passes it on to its program."""
        if target != "steps" and number in UNHEARD_BESIDE_A_SHELL:
            return ()
        to = {"all": ("--full",), "program": ("--batch",), "steps": ()}[target]
        sent = TO_PROGRAM + number if target == "program" else number
        return ["scancel", *to, f"--signal={sent}", *jobs]


def _warning(asked: LimitSignal) -> str:
    """Return the option for a signal before the limit; ``B:`` is the shell that runs our script."""
    sent = {"all": TO_GROUP, "program": TO_PROGRAM + asked.number, "steps": asked.number}[asked.target]
    return f"--signal={'' if asked.target == 'steps' else 'B:'}{sent}@{asked.before:.0f}"


_SHAPE: Final = ("--sockets-per-node", "--cores-per-socket", "--threads-per-core")


def _sizes(submission: Submission) -> Iterator[tuple[str, str]]:
    yield "--partition", submission.queue
    yield "--account", submission.project
    yield from _gpus(submission) if submission.gpus else _processors(submission)
    yield "--mem", f"{submission.memory}M" if submission.memory else ""
    yield "--mem-per-cpu", f"{submission.memory_each}M" if submission.memory_each else ""
    yield "--constraint", "&".join("|".join(choice) for choice in submission.features)
    for option, least in zip(_SHAPE, submission.shape, strict=True):
        yield option, str(least or "")
    if submission.limit is not None:
        yield "--time", _limit(submission.limit)


def _processors(submission: Submission) -> Iterator[tuple[str, str]]:
    yield "--nodes", str(submission.nodes or ("1" if submission.one_node else ""))
    yield "--ntasks-per-node", str(submission.per_node or "")


def _gpus(submission: Submission) -> Iterator[tuple[str, str]]:
    each = submission.per_node // submission.processors_per_gpu
    nodes = submission.gpus // each if each else submission.nodes
    yield "--gpus", str(submission.gpus)
    yield "--cpus-per-gpu", str(submission.processors_per_gpu)
    yield "--nodes", str(nodes or ("1" if submission.one_node else ""))
    yield "--gpus-per-node", str(each or "")


def _limit(seconds: int | None) -> str:
    minutes, rest = divmod(max(1, seconds or 0), 60)
    return "UNLIMITED" if seconds is None else f"{minutes}:{rest:02}"


_ACTIONS: Final = {
    ForeignAction.CANCEL: "scancel",
    ForeignAction.HOLD: "scontrol uhold {jobs}",
    ForeignAction.RELEASE: "scontrol release {jobs}",
    ForeignAction.LIMIT: "scontrol update JobId={jobs} TimeLimit={limit}",
}


def _listed(text: str) -> Iterator[ForeignJob]:
    for line in text.splitlines():
        cells, at = [], 0
        for _, width in _COLUMNS:
            cells.append(line[at : at + width].strip())
            at += width
        job, word, status, start, limit, owner, reason, name = cells
        if job and MARKER.fullmatch(name):
            row = _row(job, name, word, reason, _wait_status(status), start)
            limited = round(cpu_seconds(limit)) or None
            yield row._replace(is_held=reason == "JobHeldUser", limit=limited, owner=owner)


def _accounted(text: str) -> Iterator[ForeignJob]:
    rows = [cells for line in text.splitlines() if len(cells := line.split(FIELDS)) == 10]
    used: dict[str, ResourceUsage] = {}
    for job, _, _, _, user, system, peak, average, *_ in rows:
        number, _, step = job.partition(".")
        times = (0.0, 0.0) if step else (cpu_seconds(user), cpu_seconds(system))  # the job has those of steps
        one = ResourceUsage(*times, size_in_kb(peak), size_in_kb(average))
        used[number] = used.get(number, NOT_MEASURED).after(one)
    for job, word, status, start, *_, owner, name in rows:
        if MARKER.fullmatch(name):
            match = _CODES.fullmatch(status)
            numbers = (int(match[1]), int(match[2] or 0)) if match is not None else None
            row = _row(job, name, word.split(" ")[0].rstrip("+"), "", numbers, start)
            yield row._replace(usage=used[job], owner=owner)


_CODES: Final = re.compile(r"([0-9]{1,9})(?::([0-9]{1,9}))?")


def _row(
    job: str, name: str, word: str, reason: str, status: tuple[int, int] | None, start: str
) -> ForeignJob:
    state = STATES.get(word, ForeignState.UNKNOWN)
    over = state is ForeignState.ENDED and status is not None
    code, signal = status if over and status is not None else (None, None)
    if word not in ("COMPLETED", "FAILED") and not code and not signal:
        code = None  # 0 says nothing where the job did not end by itself
    began = seconds_since_1970(start) if state in (ForeignState.RUNNING, ForeignState.ENDED) else None
    return ForeignJob(
        job,
        name,
        state,
        word,
        "" if reason == "None" else reason,
        None if signal else code,
        signal or None,
        ENDINGS.get(word, ForeignEnding.STOPPED),
        began,
    )


def _wait_status(text: str) -> tuple[int, int] | None:
    """Return exit code and signal of a status as wait(2) has it.

    >>> _wait_status("768"), _wait_status("9"), _wait_status("0"), _wait_status("?")
    ((3, 0), (0, 9), (0, 0), None)
    """
    if not _NUMBER.fullmatch(text):
        return None
    return int(text) >> 8 & 0xFF, int(text) & 0x7F


_NUMBER: Final = re.compile(r"[0-9]{1,9}")
