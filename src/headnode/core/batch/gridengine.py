"""Grid Engine as text: qsub, qstat, qacct, qdel.

Source:  Grid Engine, qsub(1), qstat(1), qacct(1), accounting(5); recorded answers of Grid Engine 8.1.9.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
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
)
from headnode.core.model.outcome import ResourceUsage
from headnode.core.model.resource_system import ResourceSystem
from headnode.core.model.signals import SignalTarget

_ID = re.compile(r"\d+")
_LISTED = re.compile(r'<job_list state="\w+">(.*?)</job_list>', re.DOTALL)
_CELL = re.compile(r"<(\w+)>([^<]*)</\1>")
WHOLE_ANSWER: Final = "</job_info>"
RUNNING_LETTERS: Final = frozenset("rtsST")
ACCOUNTING_RECORDS: Final = re.compile(r"^={20,}\s*$", re.MULTILINE)
_DAYS: Final = "14"
_NO_DIRECTIVES: Final = "#no-directives-of-scripts "
_REFUSALS: Final = re.compile(
    r"Job was rejected|denied:|not a valid object name|invalid option|does not exist|no suitable queues"
    r"|Unknown option|unknown resource|access denied",
    re.IGNORECASE,
)
_LIMITS: Final = "denied: job limit|too many|job rejected: only"
_BY_SIGNAL: Final = 128
_STATUS = re.compile(r"[0-9]{1,9}(?![0-9])")


class GridEngine(Dialect):
    """Grid Engine 6 and its successors."""

    system = ResourceSystem.GRID_ENGINE

    def submit(self, submission: Submission) -> Sequence[str]:
        """Grid Engine reads directives in all of a script: with another prefix it finds none in ours."""
        argv = ["qsub", "-terse", "-C", _NO_DIRECTIVES, "-N", submission.marker, "-cwd", "-S", "/bin/sh"]
        argv += ["-j", "y", "-o", "scheduler.log", "-r", "n", "-b", "n"]
        for option, value in (("-q", submission.queue), ("-P", submission.project)):
            argv += [option, value] if value else []
        if submission.processors > 1:
            argv += ["-pe", submission.parallel, str(submission.processors)]
        return argv + _limits(submission)

    def submitted(self, result: CommandResult) -> SubmissionResult:
        """Warnings may stand before the id, also with -terse."""
        ids = [line for line in result.lines if _ID.fullmatch(line)]
        if result.status == 0 and ids:
            return SubmissionResult("queued", ids[-1])
        text = result.err or result.out
        limited = re.search(_LIMITS, text, re.IGNORECASE) is not None
        if result.status is not None and not limited and _REFUSALS.search(text):
            message = next((line for line in text.splitlines() if _REFUSALS.search(line)), result.complaint)
            return SubmissionResult("refused", message=message.strip())
        return SubmissionResult("doubtful", message=result.complaint)

    def poll(self, users: Sequence[str]) -> Sequence[str]:
        """Only XML has whole names."""
        return ["qstat", "-u", ",".join(users), "-xml"]

    def polled(self, result: CommandResult) -> Rows | None:
        """What has ended is not listed."""
        if result.status != 0 or not result.out.rstrip().endswith(WHOLE_ANSWER):
            return None
        return rows_of(_listed(result.out))

    def history(self, markers: Sequence[str], jobs: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        """Ask for all of ours at once: each call reads the whole file of the site."""
        return ["qacct", "-d", _DAYS, "-j", f"{markers[0][:12]}*"]

    def remembered(self, result: CommandResult) -> Rows | None:
        """An unknown name is an error, and the newest jobs are written seconds late."""
        if result.status == 0:
            return None if result.is_cut else rows_of(_accounted(result.out))
        return {} if "not found" in result.err + result.out else None

    def act(self, action: ForeignAction, jobs: Sequence[str], submission: Submission) -> Sequence[str]:
        """A job that is over cannot be deleted, the others are.  qalter replaces all limits together."""
        limits = _limits(
            submission._replace(limit=INFINITE if submission.limit is None else submission.limit)
        )
        return [*_ACTIONS[action], *(limits if action is ForeignAction.LIMIT else ()), *jobs]

    def signal(self, jobs: Sequence[str], number: int, target: SignalTarget) -> Sequence[str]:  # noqa: ARG002
        """It has no command that sends signals."""
        return ()


_ACTIONS: Final = {
    ForeignAction.CANCEL: ("qdel",),
    ForeignAction.HOLD: ("qhold", "-h", "u"),
    ForeignAction.RELEASE: ("qrls", "-h", "u"),
    ForeignAction.LIMIT: ("qalter",),
}
INFINITE: Final = 10**9  # seconds: qalter cannot take a limit away


def _limits(submission: Submission) -> list[str]:
    limits = [f"h_rt={max(1, submission.limit)}"] if submission.limit is not None else []
    if submission.signal is not None and submission.limit is not None:
        limits.append(f"s_rt={max(1, round(submission.limit - submission.signal.before))}")
    limits += [f"h_vmem={submission.memory_each}M"] if submission.memory_each else []
    return ["-l", ",".join(limits)] if limits else []


def _listed(text: str) -> Iterator[ForeignJob]:
    for match in _LISTED.finditer(text):
        cells = dict(_CELL.findall(match[1]))
        job, name, letters = cells.get("JB_job_number", ""), cells.get("JB_name", ""), cells.get("state", "")
        if MARKER.fullmatch(name) and _ID.fullmatch(job):
            state = ForeignState.RUNNING if RUNNING_LETTERS & set(letters) else ForeignState.WAITING
            yield ForeignJob(
                job,
                name,
                state,
                letters,
                reason_of(letters),
                is_held="h" in letters,
                owner=cells.get("JB_owner", ""),
            )


def reason_of(letters: str) -> str:
    """Say what the letters of a state mean.

    >>> reason_of("Eqw"), reason_of("qw")
    ('it is in state Eqw: an administrator there must clear the error', 'qw')
    """
    if "E" in letters:
        return f"it is in state {letters}: an administrator there must clear the error"
    return f"it is held there, in state {letters}" if "h" in letters else letters


def _accounted(text: str) -> Iterator[ForeignJob]:
    for record in ACCOUNTING_RECORDS.split(text):
        cells = dict(([*line.split(None, 1), ""])[:2] for line in record.splitlines() if line.strip())
        name, failed = cells.get("jobname", "").strip(), _STATUS.match(cells.get("failed", ""))
        status = _STATUS.match(cells.get("exit_status", ""))
        if not MARKER.fullmatch(name) or failed is None or status is None:
            continue
        word, code = f"failed {failed[0]}", int(status[0])
        signal = code - _BY_SIGNAL if code > _BY_SIGNAL else None
        yield ForeignJob(
            cells.get("jobnumber", "").strip(),
            name,
            ForeignState.ENDED,
            word,
            exit_code=None if signal else code,
            signal=signal,
            ending=_ENDINGS.get(word, ForeignEnding.STOPPED),
            usage=_usage(cells),
            owner=cells.get("owner", "").strip(),
        )


_ENDINGS: Final = {"failed 0": ForeignEnding.BY_ITSELF, "failed 37": ForeignEnding.LATE}


def _usage(cells: Mapping[str, str]) -> ResourceUsage:
    """Return what a record of the accounting has.

    The memory is that of its largest process in kB; version 8 writes it as if it were in bytes: ``4.504KB``.
    """
    user, system, memory = (cells.get(name, "").strip() for name in ("ru_utime", "ru_stime", "ru_maxrss"))
    match = _MEMORY.fullmatch(memory)
    peak = float(match[1]) * 1000 ** " KMG".index(match[2] or " ") if match else 0
    return ResourceUsage(cpu_seconds(user), cpu_seconds(system), round(peak))


_MEMORY = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([KMG]?)B?")
