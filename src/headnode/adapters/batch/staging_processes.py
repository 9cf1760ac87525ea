"""The processes that transfer files of attempts, each as the user of its job, and how many run at once.

All resources share the bounds of this machine.  No user has more than half of its transfers, so that slow
storage of one leaves room for others; the next is one of the user who has the fewest.  The table of attempts
at a resource says which transfers are due.
"""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from headnode.adapters.batch.commands import PATH, CommandUser, account_of, input_file, start_as
from headnode.adapters.batch.orders import FilesToStage, HandOffOrder
from headnode.adapters.own_python import module_command
from headnode.core.batch.dialect import AttemptPlace, printable
from headnode.core.batch.hand_off import HandOffTable
from headnode.core.batch.staged_files import TransferProgress, TransferResult
from headnode.core.batch.tracked import ForeignPhase, HandOffReport, TrackedAttempt, hand_off_report
from headnode.core.model.outcome import TransferUsage
from headnode.core.model.quantities import Instant
from headnode.core.model.staging import host_of

MODULE = "headnode.adapters.staging.attempt_transfer"
MAX_DEATHS = 20  # of the processes of one attempt in one direction, until it fails
REST_AWAY = 15.0  # seconds until a directory that is away is tried again
MAX_LINE = 1 << 16  # bytes
MAX_LINES, LINES_IN_A_SECOND = 100, 10  # of a process; ours says how far it is once in a second
MAX_WORDS = 4000  # characters of a failure
MAX_HOST = 256  # characters of the name of a host
_MAX_NUMBER = 1 << 53

Direction = Literal["in", "out", ""]
"""The way files go; empty: they are only removed."""


class TransferCallbacks(NamedTuple):
    """Callbacks for one run; each is called in any thread."""

    progress: Callable[[TransferProgress], None]
    waits: Callable[[str], None]
    over: Callable[[TransferResult], None]


class ForeignTransfer:
    """The transfers of one attempt in one direction, by one process after the other."""

    def __init__(
        self, key: AttemptPlace, account: CommandUser, direction: Direction, staged: FilesToStage,
        callbacks: TransferCallbacks,
    ) -> None:  # fmt: skip
        self.key, self.account, self.direction, self.staged = key, account, direction, staged
        self.callbacks = callbacks
        files = self._files()
        self.count, self.hosts = len(files), {host_of(file["url"]) for file in files} - {""}
        self.began = Instant(time.time())
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self.stopped = False
        self.retry_at = 0.0  # on the monotonic clock
        self.deaths = 0
        self.result: TransferResult | None = None
        self._told = ""  # what it waits for

    @property
    def job(self) -> int:
        """The job, of which not too many attempts transfer at once."""
        return self.key.job

    @property
    def place(self) -> str:
        """Where the files are."""
        order = self.staged.order
        return f"{order['base']}/{order['marker']}/{order['scratch']}"

    def _files(self) -> list[dict[str, Any]]:
        names: list[dict[str, Any]] = json.loads(
            {"in": self.staged.incoming, "out": self.staged.outgoing, "": b"[]"}[self.direction]
        )
        return names

    def wait_for(self, what: str) -> None:
        """Say that it waits for others."""
        if self.direction and self.count and self._told != what:
            self._told = what
            progress = TransferProgress(self.direction, self.began, 0, self.count, waits_for=what)
            self.callbacks.progress(progress)

    def failed(self, why: str) -> None:
        """Its files cannot be transferred."""
        self.result = TransferResult("failed", why, place=self.place)

    def run(self) -> None:
        """Start a process, and hear it to its end."""
        order = {**self.staged.order, "direction": self.direction, "files": self._files()}
        with contextlib.ExitStack() as opened:
            file = input_file(json.dumps(order).encode(), opened)
            process = _start(self.account, self.staged.state, file)
        self._process = process
        if self.stopped:
            self.kill()
        with process:
            self._receive_all(process)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            self.kill()  # a program that it started may be there still
            with self._lock:
                self._process = None  # its number may be that of another one from now on

    def kill(self) -> None:
        """Kill the process, with what it has started."""
        with self._lock, contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process is not None:
                os.killpg(self._process.pid, signal.SIGKILL)

    def _receive_all(self, process: "subprocess.Popen[bytes]") -> None:
        """Hear a process to its end; one that says more than ours would is killed."""
        began, lines = time.monotonic(), 0
        while process.stdout is not None and (line := process.stdout.readline(MAX_LINE)):
            lines += 1
            if lines > MAX_LINES + LINES_IN_A_SECOND * (time.monotonic() - began):
                self.kill()
                return
            with contextlib.suppress(ValueError, RecursionError):
                self._receive(json.loads(line))

    def _receive(self, message: Any) -> None:
        """Take in a line of a process that its user may have replaced.

        What is passed on reads as it is declared: else the head would take this whole process for broken.
        """
        match message:
            case ["moved", int(files), int(of_files), int(size), int(of_size), str(waits_for)]:
                numbers = _count(files), _count(of_files), _count(size), _count(of_size)
                self._moved((*numbers, printable(waits_for, MAX_HOST)))
            case ["done", float(took_in), int(size_in), float(took_out), int(size_out)]:
                usage = TransferUsage(
                    _seconds(took_in), _count(size_in), _seconds(took_out), _count(size_out)
                )
                self.result = TransferResult("done", usage=usage)
            case ["failed", str(why)]:
                self.failed(printable(why, MAX_WORDS))
            case ["later", str(why)]:
                self.retry_at = time.monotonic() + REST_AWAY
                self.callbacks.waits(printable(why, MAX_WORDS))

    def _moved(self, how_far: tuple[int, int, int, int, str]) -> None:
        if self.direction and self.count:
            self.callbacks.progress(TransferProgress(self.direction, self.began, *how_far))


def _count(number: int) -> int:
    return min(max(0, int(number)), _MAX_NUMBER)  # `true` is an int here, and no number on the wire


def _seconds(number: float) -> float:
    return number if 0.0 <= number < _MAX_NUMBER else 0.0  # also not a number


def _start(account: CommandUser, state: str, order: int) -> "subprocess.Popen[bytes]":
    """Start a transfer process as a user; nothing of its order is in its arguments.

    Raises:  OSError, SubprocessError.
    """
    environment = {"PATH": PATH, "HEADNODE_STATE": state}
    argv = module_command(MODULE, str(order), environment=environment)
    streams = subprocess.PIPE, subprocess.PIPE, subprocess.DEVNULL
    return start_as(account, argv, environment, streams, keeps=(order,))


class TransferQueue:
    """All transfers of this machine for attempts at resources."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[ForeignTransfer] = []
        self._running: list[ForeignTransfer] = []

    def begin(self, transfer: ForeignTransfer) -> None:
        """Transfer files of an attempt, as soon as there is room."""
        with self._lock:
            self._waiting.append(transfer)
        self.fill()

    def stop(self, transfer: ForeignTransfer) -> None:
        """End a transfer; its result says so if it was in time."""
        with self._lock:
            transfer.stopped = True
            waits = transfer in self._waiting
            if waits:
                self._waiting.remove(transfer)
        if waits:
            transfer.callbacks.over(TransferResult("stopped"))
        else:
            transfer.kill()

    def fill(self) -> None:
        """Start what has room; what waits says so."""
        with self._lock:
            while (transfer := self._next()) is not None:
                self._waiting.remove(transfer)
                self._running.append(transfer)
                threading.Thread(target=self._carry_out, args=(transfer,), daemon=True).start()
            waiting = [(each, self._blocked(each)) for each in self._waiting if not each.deaths]
        for each, what in waiting:
            if what:
                each.wait_for(what)

    def _next(self) -> ForeignTransfer | None:
        """Return the transfer to start now: of the user with the fewest, the first."""
        now = time.monotonic()
        counts = Counter(each.account.name for each in self._running)
        due = [each for each in self._waiting if each.retry_at <= now and not self._blocked(each)]
        return min(due, key=lambda each: counts[each.account.name], default=None)

    def _blocked(self, transfer: ForeignTransfer) -> str:
        """Return what a transfer waits for: a host, or a slot; empty if it has room."""
        staged, running = transfer.staged, self._running
        of_user = sum(each.account.name == transfer.account.name for each in running)
        of_job = sum(each.job == transfer.job for each in running)
        most_of_user = max(1, staged.per_node // 2)
        if len(running) >= staged.per_node or of_user >= most_of_user or of_job >= staged.per_job:
            return "a free slot"
        used = Counter(host for each in running for host in each.hosts)
        return next((host for host in sorted(transfer.hosts) if used[host] >= staged.per_storage), "")

    def _carry_out(self, transfer: ForeignTransfer) -> None:
        before = time.monotonic()
        try:
            transfer.run()
        except (OSError, subprocess.SubprocessError) as error:
            transfer.failed(_why_not_started(error))
        result = _end_of(transfer, before)
        with self._lock:
            self._running.remove(transfer)
            if result is None and not transfer.stopped:
                self._waiting.append(transfer)
        if transfer.stopped and result is None:
            result = TransferResult("stopped")
        if result is not None:
            transfer.callbacks.over(result)
        self.fill()


def _why_not_started(error: Exception) -> str:
    if isinstance(error, (FileNotFoundError, PermissionError)):
        return (
            "no file can be transferred: the user of the job cannot run Headnode's Python on the machine of "
            f"the head: {error}; make it readable and executable for all"
        )
    return f"the process that transfers its files cannot be started: {error}"


def _end_of(transfer: ForeignTransfer, began: float) -> TransferResult | None:
    """Return how it went; None if it was stopped, or is to be tried again."""
    if transfer.result is not None or transfer.stopped:
        return transfer.result
    if transfer.retry_at > began:
        return None
    transfer.deaths += 1
    if transfer.deaths > MAX_DEATHS:
        transfer.failed(f"the process that transfers its files died {transfer.deaths} times")
        return transfer.result
    transfer.retry_at = time.monotonic() + min(0.1 * 2.0**transfer.deaths, 30.0)
    return None


Post = Callable[[Callable[[Instant], None]], None]


class AttemptStaging:
    """All transfers of one resource.  `post` lets the thread of the resource do something."""

    def __init__(
        self,
        table: HandOffTable,
        orders: Mapping[AttemptPlace, HandOffOrder],
        transfers: TransferQueue,
        post: Post,
        report: Callable[[Sequence[HandOffReport]], None],
    ) -> None:
        self._table, self._orders, self._transfers = table, orders, transfers
        self._post, self._report = post, report
        self._running: dict[AttemptPlace, ForeignTransfer] = {}

    def turn(self) -> None:
        """Begin the transfers that are due, and end those that are no longer needed."""
        for one in self._table.staged.to_bring():
            self._begin(one, "in")
        for one, takes in self._table.staged.to_clear():
            self._begin(one, "out" if takes else "")
        for key, transfer in list(self._running.items()):
            if transfer.direction and not transfer.stopped and self._is_unwanted(key, transfer.direction):
                self._transfers.stop(transfer)
        if self._running:
            self._transfers.fill()

    def _is_unwanted(self, key: AttemptPlace, direction: Direction) -> bool:
        one = self._table.attempts.get(key)
        if one is None or one.stop:
            return True
        return direction == "in" and one.phase not in (ForeignPhase.INTENDED, ForeignPhase.DOUBTFUL)

    def _begin(self, one: TrackedAttempt, direction: Direction) -> None:
        order, key = self._orders[one.key], one.key
        if one.staged is None or order.staged is None:
            return
        one.staged.under_way = True

        def progress(progress: TransferProgress) -> None:
            self._report([hand_off_report(one, "staging", progress=progress)])

        def waits(why: str) -> None:
            self._post(lambda _now: self._report(self._table.waits_for_files(key, why)))

        def over(result: TransferResult) -> None:
            self._post(partial(self._over, key, direction, result))

        try:
            if order.problem:
                raise LookupError(order.problem)
            account = account_of(order.owner, order.uid, order.gid)
        except (LookupError, PermissionError) as error:
            over(TransferResult("failed", str(error)))
            return
        callbacks = TransferCallbacks(progress, waits, over)
        self._running[key] = ForeignTransfer(key, account, direction, order.staged, callbacks)
        self._transfers.begin(self._running[key])

    def _over(self, key: AttemptPlace, direction: Direction, result: TransferResult, now: Instant) -> None:
        self._running.pop(key, None)
        if direction == "in":
            self._table.staged.brought(key, result)
        else:
            self._report(self._table.cleared(key, result, now))
