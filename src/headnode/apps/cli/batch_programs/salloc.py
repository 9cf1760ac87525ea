"""``salloc``: processors for a command that runs here; ``srun`` in it runs steps on them.

Source:  Slurm 22.05, salloc(1).
"""

import contextlib
import os
import signal
import subprocess
import sys
import time

from headnode.apps.cli.batch_programs.allocation import HeldJob, shell_of_user
from headnode.apps.cli.batch_programs.sbatch import OPTIONS as OF_JOBS
from headnode.apps.cli.batch_programs.sbatch import UNREADABLE, in_words_of_slurm, job_options, submitted
from headnode.apps.cli.batch_programs.words import (
    NOT_REACHED,
    ProgramRefusal,
    ProgramWords,
    acted_on,
    errors_of_ours,
    read_words,
    refused,
)
from headnode.apps.client.client import Client
from headnode.apps.client.submitter import current_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType
    from typing import Any

    from headnode.core.model.errors import HeadnodeError

_NOT_OF_SALLOC = (
    *("array", "batch", "error", "export", "export-file", "ignore-pbs", "input", "no-requeue", "open-mode"),
    *("output", "parsable", "propagate", "requeue", "test-only", "wait", "wrap"),
)
OPTIONS = {
    **{name: option for name, option in OF_JOBS.items() if name not in _NOT_OF_SALLOC},
    **acted_on("bell! no-bell! no-shell! immediate/I= kill-command/K="),
    **refused("nodefile/F", "name the nodes: --nodelist"),
}
_OF_HERE = (
    *("bell", "no-bell", "no-shell", "immediate", "kill-command", "chdir", "quiet", "verbose"),
    *("version", "help", "usage"),
)
"""Options that do not describe the job."""
_VARIABLES = {
    "SALLOC_ACCOUNT": "account", "SALLOC_CLUSTERS": "clusters", "SALLOC_CONSTRAINT": "constraint",
    "SALLOC_CPUS_PER_GPU": "cpus-per-gpu", "SALLOC_EXCLUSIVE": "exclusive", "SALLOC_GPUS": "gpus",
    "SALLOC_GPUS_PER_NODE": "gpus-per-node", "SALLOC_GPUS_PER_TASK": "gpus-per-task",
    "SALLOC_MEM_PER_CPU": "mem-per-cpu", "SALLOC_MEM_PER_GPU": "mem-per-gpu", "SALLOC_MEM_PER_NODE": "mem",
    "SALLOC_PARTITION": "partition", "SALLOC_QOS": "qos", "SALLOC_RESERVATION": "reservation",
    "SALLOC_THREADS_PER_CORE": "threads-per-core", "SALLOC_TIMELIMIT": "time",
    "SALLOC_IMMEDIATE": "immediate", "SALLOC_KILL_CMD": "kill-command",
    "SALLOC_BELL": "bell", "SALLOC_NO_BELL": "no-bell",
}  # fmt: skip
"""Options by variables; those of the command line count more."""
_KEEPER = """#!/bin/sh
# This script was created by salloc: it keeps the processors.  Signals are for the steps.
trap '' HUP INT QUIT ALRM USR1 USR2
exec sleep infinity
"""
_FAILED = "Job submit/allocate failed"
_TOO_LATE = "Requested partition configuration not available now"
_TOLD_AFTER = 0.5  # seconds in the queue after which salloc says so
_RINGS_AFTER = 10.0  # seconds in the queue after which the bell rings
_END_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


class Interrupted(Exception):
    """A signal ends salloc."""


def run(argv: "Sequence[str]", client: Client) -> int:
    """Get processors, run a command, release them; return the exit status of the command."""
    args = read_words(argv, OPTIONS, stops=True, status=UNREADABLE)
    for name, option in _VARIABLES.items():
        if name in os.environ and not args.has(option):
            args.options[option] = [os.environ[name]]
            args.in_order.append((option, os.environ[name]))
    limit, kill = _seconds(args), _signal(args)
    _enter(args.text("chdir"))
    for each in _END_SIGNALS:
        signal.signal(each, _interrupt)
    terms = {"rununtilcanceled": "true"} | ({} if args.has("no-shell") else {"interactive": "true"})
    job = submitted(
        "salloc", client, _request(args), quiet=args.has("quiet"), terms=terms, in_words=_in_words
    )
    waits = _WaitingAllocation(client, job, args)
    try:
        waits.until_granted(limit)
    except Interrupted:
        waits.revoke()
        _print_line(args, f"Job allocation {job} has been revoked.")
        raise ProgramRefusal("salloc: Job aborted due to signal", prefix="bare") from None
    except BaseException:
        waits.revoke()
        raise
    _print_line(args, f"Granted job allocation {job}")
    return 0 if waits.allocation is None else _Command(args, waits.allocation, kill).run()


def _in_words(refused: "HeadnodeError") -> ProgramRefusal:
    return in_words_of_slurm(refused, _FAILED)


def _request(args: ProgramWords) -> "dict[str, Any]":
    directory = current_directory()
    options = [*job_options(args, _OF_HERE), "--output=", "--no-requeue"]
    return {
        "jobfile": _KEEPER,
        "dialect": "slurm",
        "script": ["interactive"],
        "options": options,
        "directory": directory if directory and os.path.isabs(directory) else "",  # noqa: PTH117
        "environment": {},
    }


def _seconds(args: ProgramWords) -> float | None:
    """Return for how long salloc may wait; None: as long as it takes.

    Raises:  ProgramRefusal.
    """
    value = args.text("immediate")
    if value is None:
        return None
    if not value:
        return 1.0
    if not (value.isascii() and value.isdigit() and len(value) < 9):
        raise ProgramRefusal(f'Invalid numeric value "{value[:40]}" for --immediate.')
    return float(value) or 1.0


def _signal(args: ProgramWords) -> int | None:
    """Return the signal for the command when the job ends before it; 0: that of its kind; None: none.

    Raises:  ProgramRefusal.
    """
    value = args.text("kill-command")
    if not value:
        return None if value is None else 0
    name = value.upper().removeprefix("SIG")
    known = {each.name.removeprefix("SIG"): each for each in signal.Signals}
    if name in known:
        return int(known[name])
    if name.isascii() and name.isdigit() and len(name) < 4 and int(name) in set(signal.Signals):
        return int(name)
    raise ProgramRefusal(f"Invalid signal for --kill-command: {value[:40]}", status=UNREADABLE)


def _enter(directory: "str | None") -> None:
    if directory is None:
        return
    try:
        os.chdir(directory)
    except OSError as trouble:
        raise ProgramRefusal(f"chdir({directory}): {trouble.strerror}") from None
    os.environ["PWD"] = os.getcwd()  # noqa: PTH109


def _interrupt(_number: int, _frame: "FrameType | None") -> None:
    raise Interrupted


def _print_line(args: ProgramWords, text: str) -> None:
    if not args.has("quiet"):
        _write(f"salloc: {text}\n")


def _write(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal is gone; the job must end all the same
        os.write(2, text.encode(errors="surrogateescape"))


def _print_notices(args: ProgramWords, allocation: HeldJob) -> None:
    """Print the messages of the head. That the job is being ended is printed as Slurm prints it."""
    for notice in allocation.notices:
        if "is being ended" not in notice:
            _print_line(args, notice)
    allocation.notices.clear()


class _WaitingAllocation:
    """A job that was submitted, and is to run.  `allocation` is None with ``--no-shell``."""

    def __init__(self, client: Client, job: int, args: ProgramWords) -> None:
        self._client, self._job, self._asked = client, job, args
        self.allocation = None if args.has("no-shell") else HeldJob(client, job)

    def until_granted(self, limit: float | None) -> None:
        """Wait until the job has its processors; `limit` in seconds, for the time in the queue.

        Raises:  ProgramRefusal.
        """
        began, printed = time.monotonic(), False
        while True:
            state = self._look(0.2 if printed or limit is not None else _TOLD_AFTER)
            waited = time.monotonic() - began
            if state == "over":
                raise ProgramRefusal(f"salloc: Job allocation {self._job} has been revoked.", prefix="bare")
            if state == "granted":
                break
            if limit is not None and waited >= limit and state == "queued":
                raise ProgramRefusal(f"{_FAILED}: {_TOO_LATE}")
            if not printed and waited >= _TOLD_AFTER and state == "queued":
                printed = True
                _print_line(self._asked, f"Pending job allocation {self._job}")
                _print_line(self._asked, f"job {self._job} queued and waiting for resources")
        if printed:
            _print_line(self._asked, f"job {self._job} has been allocated resources")
        rings = self._asked.has("bell") or (waited >= _RINGS_AFTER and not self._asked.has("no-bell"))
        if rings and os.isatty(1):
            sys.stdout.buffer.write(b"\a")
            sys.stdout.buffer.flush()

    def _look(self, timeout: float) -> str:
        """Return ``queued``, ``starts``, ``granted`` or ``over``, after a change or so many seconds."""
        if self.allocation is not None:
            self.allocation.look(timeout)
            _print_notices(self._asked, self.allocation)
            if self.allocation.over:
                return "over"
            if self.allocation.node:
                return "granted"
            return "queued" if self.allocation.queued else "starts"
        state = self._client.ask("job", job=self._job)["job"]["state"]
        if state in ("Running", "Finished", "Failed", "Canceled"):
            return "granted" if state == "Running" else "over"
        time.sleep(timeout)
        return "queued"

    def revoke(self) -> None:
        """Cancel the job, which nobody will use."""
        for each in _END_SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        try:
            self._client.ask("cancel_job", job=self._job, message="salloc no longer waits", force=True)
        except errors_of_ours():  # the head is away, and ends the job when it is back; or it has ended
            return


class _Command:
    """The command that has the allocation."""

    def __init__(self, args: ProgramWords, allocation: HeldJob, kill: int | None) -> None:
        self._asked, self._allocation, self._kill = args, allocation, kill
        self._words = args.words or [shell_of_user()]
        self._process: subprocess.Popen[bytes] | None = None
        self._revoked, self._terminal = False, os.isatty(0)
        self._end: tuple[str, dict[str, Any]] | None = None  # how the job ends, if not as the command does

    def run(self) -> int:
        """Run it to its end, and release the processors; return its exit status."""
        status = 1
        try:
            status = self._run()
        except Interrupted:  # it was hung up: Slurm counts that as an end as any other
            self._end = "finish_job", {"message": "salloc was hung up", "force": True}
            self._send(signal.SIGHUP)
        except errors_of_ours() as trouble:
            if not self._allocation.over:
                _complain(trouble.what)
        finally:
            for each in _END_SIGNALS:
                signal.signal(each, signal.SIG_IGN)
            self._release(status)
        return status

    def _run(self) -> int:
        environment = {**os.environ, **self._allocation.variables()}
        environment |= {"SLURM_SUBMIT_DIR": os.getcwd(), "SLURM_SUBMIT_HOST": os.uname().nodename}  # noqa: PTH109
        for each in (signal.SIGINT, signal.SIGQUIT):
            signal.signal(each, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._terminate)
        try:
            self._process = subprocess.Popen(
                self._words,
                env=environment,
                process_group=None if self._terminal else 0,
                preexec_fn=_answer_signals,
            )
        except OSError:
            _complain(f'_fork_command: Unable to find command "{self._words[0]}"')
            return 1
        return self._wait(self._process)

    def _wait(self, process: "subprocess.Popen[bytes]") -> int:
        ended = os.pidfd_open(process.pid)
        try:
            while ended not in self._allocation.look(None, (ended,)):
                _print_notices(self._asked, self._allocation)
                if self._allocation.over and not self._revoked:
                    self._revoked = True
                    _print_line(self._asked, f"Job allocation {self._allocation.job} has been revoked.")
                    if self._kill is not None:
                        self._send(self._kill or (signal.SIGHUP if self._terminal else signal.SIGTERM))
                if self._allocation.over:
                    return _status(process.wait())
        finally:
            os.close(ended)
        return _status(process.wait())

    def _terminate(self, number: int, _frame: "FrameType | None") -> None:
        self._end = "cancel_job", {"force": True}
        self._send(number)

    def _send(self, number: int) -> None:
        """Send a signal to the command: to all its processes, or those in front at the terminal."""
        if self._process is None or self._process.poll() is not None:
            return
        with contextlib.suppress(OSError):  # the terminal is gone, or those processes are
            group = os.tcgetpgrp(0) if self._terminal else self._process.pid
            if group != os.getpgrp():
                os.killpg(group, number)
        if self._terminal:
            self._process.send_signal(number)

    def _release(self, status: int) -> None:
        if not self._revoked:
            _print_line(self._asked, f"Relinquishing job allocation {self._allocation.job}")
            try:
                verb, fields = self._end or ("end_allocation", {"exit_code": status})
                self._allocation.end(verb, **fields)
            except errors_of_ours() as trouble:
                from headnode.apps.client.failures import is_away

                if is_away(trouble):
                    _complain(f"{NOT_REACHED}; it ends the job when it is back")
        self._allocation.close()


def _answer_signals() -> None:
    for each in _END_SIGNALS:
        signal.signal(each, signal.SIG_DFL)


def _complain(text: str) -> None:
    _write(f"salloc: error: {text}\n")


def _status(code: int) -> int:
    """Return what a shell says of how a process ended."""
    return 128 - code if code < 0 else code
