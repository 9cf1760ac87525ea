"""Events of a job as HTCondor writes them into the log that a submit file names: ``log = FILE``.

Source:  HTCondor 24, "Job Event Log Codes"; what HTCondor 24 writes, and what its reader takes.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from headnode.core.formats.condor.draft import USER_LOG
from headnode.core.model.job import JobSpec
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.task import TaskType, substitute

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_MAX_REASON: Final = 500  # characters of a reason
_OUR_ID: Final = "%CCP_JOBID%"
END: Final = "...\n"
"""The line that ends each event."""


class LoggedProcess(NamedTuple):
    """A process that has an event log: its job, its number in it, and the path of the log."""

    job: int
    number: int
    log: str


class LoggedJob:
    """The processes of a job that have event logs."""

    def __init__(self, job: int, spec: JobSpec) -> None:
        self.job, self._spec = job, spec
        self._first: list[int] = []  # process of each task
        total = 0
        for task in spec.tasks:
            self._first.append(total)
            total += task.instances

    @property
    def has_logs(self) -> bool:
        """Whether any process has a log, at a path that does not depend on a directory."""
        return self._spec.dialect == "htcondor" and any(
            task.properties.get(USER_LOG, "").startswith("/") for task in self._spec.tasks
        )

    @property
    def is_submitted_held(self) -> bool:
        """Whether the job has a hold from its submission on."""
        return bool(self._spec.holds)

    def process(self, task: int, instance: int) -> LoggedProcess | None:
        """Return the process that an instance of a task is; None if it has no log."""
        if not 0 < task <= len(self._spec.tasks):
            return None
        spec = self._spec.tasks[task - 1]
        text = spec.properties.get(USER_LOG, "")
        if not text.startswith("/") or not 0 < instance <= spec.instances:
            return None
        if spec.kind is TaskType.SWEEP:
            text = substitute(text, spec.value(instance))
        log = text.replace(_OUR_ID, str(self.job))
        return LoggedProcess(self.job, self._first[task - 1] + instance - 1, log)

    def within(self, spans: Iterable[tuple[int, Iterable[tuple[int, int]]]]) -> Iterator[LoggedProcess]:
        """Yield the processes that have a log; `spans`: the first and last instances, of each task."""
        for task, ends in spans:
            for first, last in ends:
                for instance in range(first, last + 1):
                    if (process := self.process(task, instance)) is not None:
                        yield process

    def all(self) -> Iterator[LoggedProcess]:
        """Yield all processes that have a log."""
        for number, task in enumerate(self._spec.tasks, 1):
            for instance in range(1, task.instances + 1):
                found = self.process(number, instance)
                if found is not None:
                    yield found


def _event(code: int, process: LoggedProcess, date: str, text: str) -> str:
    return f"{code:03} ({process.job:03}.{process.number:03}.000) {date} {text}{END}"


def _line(reason: str) -> str:
    """Return a reason on one line: it may come from others than the owner of the log."""
    return _CONTROL.sub(" ", reason)[:_MAX_REASON].strip()


def submitted(process: LoggedProcess, date: str, host: str) -> str:
    """Return event 000; `date` is ``YYYY-MM-DD HH:MM:SS``."""
    return _event(0, process, date, f"Job submitted from host: <{_line(host)}>\n")


def executing(process: LoggedProcess, date: str, node: str) -> str:
    """Return event 001."""
    slot = f"\tSlotName: slot1@{_line(node)}\n" if node else ""
    return _event(1, process, date, f"Job executing on host: <{_line(node) or 'unknown'}>\n{slot}")


def evicted(process: LoggedProcess, date: str, outcome: AttemptOutcome) -> str:
    """Return event 004: an attempt has ended, and the process will run again."""
    text = f"Job was evicted.\n\t(0) CPU times\n{_times(outcome, ('Run',))}{_bytes(outcome, ('Run',))}"
    reason = _line(outcome.message)
    return _event(4, process, date, text + (f"\tReason: {reason}\n" if reason else ""))


def terminated(process: LoggedProcess, date: str, outcome: AttemptOutcome) -> str:
    """Return event 005: the program has ended by itself, or by a signal."""
    if outcome.signal is not None:
        text = f"\t(0) Abnormal termination (signal {outcome.signal})\n\t(0) No core file\n"
    else:
        text = f"\t(1) Normal termination (return value {outcome.exit_code})\n"
    both = ("Run", "Total")
    return _event(5, process, date, f"Job terminated.\n{text}{_times(outcome, both)}{_bytes(outcome, both)}")


def aborted(process: LoggedProcess, date: str, reason: str) -> str:
    """Return event 009: the process was removed."""
    return _event(9, process, date, f"Job was aborted.\n\t{_line(reason) or 'removed'}\n")


def held(process: LoggedProcess, date: str, reason: str) -> str:
    """Return event 012."""
    text = f"Job was held.\n\t{_line(reason) or 'Reason unspecified'}\n\tCode 1 Subcode 0\n"
    return _event(12, process, date, text)


def released(process: LoggedProcess, date: str, reason: str) -> str:
    """Return event 013."""
    return _event(13, process, date, f"Job was released.\n\t{_line(reason) or 'Reason unspecified'}\n")


def _times(outcome: AttemptOutcome, kinds: tuple[str, ...]) -> str:
    used = outcome.usage
    user, system, none = _clock(used.user_time or 0.0), _clock(used.system_time or 0.0), _clock(0.0)
    lines = ""
    for kind in kinds:
        lines += f"\t\tUsr {user}, Sys {system}  -  {kind} Remote Usage\n"
        lines += f"\t\tUsr {none}, Sys {none}  -  {kind} Local Usage\n"
    return lines


def _bytes(outcome: AttemptOutcome, kinds: tuple[str, ...]) -> str:
    moved = outcome.transfers
    sent, received = (0, 0) if moved is None else (moved.out_bytes, moved.in_bytes)
    return "".join(
        f"\t{sent}  -  {kind} Bytes Sent By Job\n\t{received}  -  {kind} Bytes Received By Job\n"
        for kind in kinds
    )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days} {hours:02}:{minutes:02}:{rest:02}"
