"""The transfers of files that a shepherd runs around its attempts, each in a process of its own.

Standard library only: this is loaded by the shepherd factory."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

from headnode.adapters.own_python import module_command
from headnode.adapters.processes.attempts import (
    ShepherdAttempt,
)
from headnode.adapters.processes.job_journal import Key
from headnode.adapters.processes.start_failures import cannot_transfer
from headnode.adapters.processes.transfer_run import (
    TransferRun,
    TransferSlots,
    count,
    order_file,
    pipes,
    ready_report,
)

MODULE = "headnode.adapters.staging"
TELL_EVERY = 2.0  # seconds between two reports of how far transfers are
MAX_DEATHS = 20  # of transfer processes of one attempt and direction, until it fails
MAX_REFUSALS = 3  # to start one before the task: another node can do that; results are only here
_CHUNK = 65536
_ANSWERED_AS_USUAL = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ)
_KEPT_VARIABLES = (
    *("HOME", "USER", "LOGNAME", "PATH", "LANG", "TMPDIR", "HEADNODE_TASK", "HEADNODE_SHEPHERD"),
    *("HEADNODE_AGENT", "HEADNODE_STATE"),  # where the head is asked for delegations
    "X509_CERT_DIR",  # the authorities that the user believes, for GridFTP
)


class ShepherdTransfers:
    """All transfers of one shepherd."""

    def __init__(
        self, poller: "select.poll", send: Callable[[list[Any]], None], slots: int | None = None
    ) -> None:
        """`slots`: the file of `open_slots`; None: other jobs do not count."""
        self._poller, self._send = poller, send
        self._slots = TransferSlots(slots)
        self._running: dict[Key, TransferRun] = {}
        self._by_process: dict[int, TransferRun] = {}
        self._pipes: dict[int, tuple[TransferRun, int]] = {}  # by its output; and its input, which stays open
        self._told: dict[Key, list[Any]] = {}
        self._report_at = 0.0  # on the monotonic clock: what is only further on is told then
        self._untold = False  # whether something is to be told then
        self._report_ready_at = float("inf")  # when the files that are there are told again

    def __contains__(self, key: Key) -> bool:
        return key in self._running

    def keys(self) -> set[Key]:
        """Return the attempts for which files are transferred."""
        return set(self._running)

    @property
    def empty(self) -> bool:
        """Whether nothing is transferred."""
        return not self._running

    @property
    def processes(self) -> set[int]:
        """The processes that transfer, which are not orphans."""
        return set(self._by_process)

    def going(self, direction: str) -> list[ShepherdAttempt]:
        """Return the attempts whose files go this way."""
        return [each.attempt for each in self._running.values() if each.direction == direction]

    @property
    def next_look(self) -> float:
        """When a process is to be started again, on the monotonic clock."""
        if not self._running:
            return self._report_ready_at
        waiting = [each for each in self._running.values() if each.retry_at is not None]
        moments = [self._report_ready_at, *([self._report_at] if self._untold else ())]
        moments += (each.retry_at or 0.0 for each in waiting if self._room(each))
        return min([*moments, self._slots.next_look if waiting else float("inf")], default=float("inf"))

    def _room(self, transfer: TransferRun) -> bool:
        """Whether another process may transfer."""
        most: int = (transfer.attempt.staging or {}).get("most", 1)
        return len(self._by_process) < most and self._slots.blocked(transfer.bounds) is None

    def begin(self, attempt: ShepherdAttempt, direction: str) -> None:
        """Transfer what an attempt needs, or has made."""
        transfer = self._running[attempt.key] = TransferRun(attempt, direction)
        if self._room(transfer):
            self._start(transfer)
        else:
            transfer.retry_at = 0.0  # as soon as there is room

    def _start(self, transfer: TransferRun) -> None:
        """Start a process if the node has slots for it; else as soon as it has."""
        slots = self._slots.take(transfer.bounds)
        if slots is None:
            transfer.wait_for(self._slots.blocked(transfer.bounds) or "")
            return
        transfer.slots, transfer.retry_at = slots, None
        self._spawn(transfer)
        if transfer.process not in self._by_process:
            self._give_back(transfer)

    def _give_back(self, transfer: TransferRun) -> None:
        self._slots.give_back(transfer.slots)
        transfer.slots = []

    def _spawn(self, transfer: TransferRun) -> None:
        opened: list[int] = []
        try:
            (order, says), (hears, output) = pipes(opened)
            told = order_file(transfer.order(), opened)
        except OSError as error:
            for file in opened:
                os.close(file)
            self._not_started(transfer, error)
            return
        variables = transfer.attempt.program.environment
        environment = {name: variables[name] for name in _KEPT_VARIABLES if name in variables}
        home = (transfer.attempt.staging or {}).get("home", "/")
        command = module_command(MODULE, environment=environment)
        files = [(os.POSIX_SPAWN_DUP2, file, number) for number, file in ((0, order), (1, output), (3, told))]
        null = [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
        try:
            os.chdir("/")
            transfer.process = os.posix_spawn(
                command[0],
                command,
                {**environment, "HOME": home},
                file_actions=[*files, *null],
                setsid=True,
                setsigmask=(),
                setsigdef=_ANSWERED_AS_USUAL,
            )
        except OSError as error:
            for file in (says, hears):
                os.close(file)
            self._not_started(transfer, error)
            return
        finally:
            for file in (order, output, told):
                os.close(file)
        os.set_blocking(hears, False)
        self._by_process[transfer.process] = transfer
        self._pipes[hears] = (transfer, says)
        self._poller.register(hears, select.POLLIN)

    def _not_started(self, transfer: TransferRun, error: OSError) -> None:
        """Try again later, before a task a few times only; a Python that the user may not run stays so."""
        transfer.deaths += 1
        transfer.retry_at = time.monotonic() + min(2.0**transfer.deaths, 60.0)
        most = MAX_REFUSALS if transfer.direction == "in" else MAX_DEATHS
        if isinstance(error, (FileNotFoundError, PermissionError)) or transfer.deaths >= most:
            why = cannot_transfer(error)
            transfer.failure, transfer.trouble, transfer.over = str(why), why.trouble, True

    def receive(self, descriptor: int) -> bool:
        """Take in what a process says; False when the descriptor is none of ours."""
        if descriptor not in self._pipes:
            return False
        transfer, says = self._pipes[descriptor]
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return True
        if data:
            transfer.receive(data)
        else:
            self._close(descriptor, says)
        return True

    def _close(self, descriptor: int, pipe: int) -> None:
        self._poller.unregister(descriptor)
        del self._pipes[descriptor]
        os.close(descriptor)
        os.close(pipe)

    def reaped(self, process: int) -> None:
        """A child of this process has ended: one that has not reported a result is started again."""
        transfer = self._by_process.pop(process, None)
        if transfer is None:
            return
        _kill_group(process)  # a program that it started may be there still
        self._give_back(transfer)
        for descriptor, (its, says) in list(self._pipes.items()):
            if its is transfer:
                while data := _what_is_left(descriptor):
                    transfer.receive(data)
                self._close(descriptor, says)
        if transfer.over or transfer.stopped:
            return
        transfer.deaths += 1
        if transfer.deaths > MAX_DEATHS:
            transfer.over = True
            transfer.failure = f"the process that transfers its files died {transfer.deaths} times"
        else:
            transfer.retry_at = time.monotonic() + min(0.1 * 2.0**transfer.deaths, 30.0)

    def stop(self, key: Key) -> None:
        """End a transfer; `take_over` returns it when it has ended."""
        transfer = self._running[key]
        transfer.stopped = True
        transfer.retry_at = None
        if transfer.process in self._by_process:
            _kill_group(transfer.process)

    def take_over(self) -> list[TransferRun]:
        """Return the transfers that are over, once; start again what is to be."""
        if not self._running:
            return []
        now = time.monotonic()
        for transfer in self._running.values():
            due = transfer.retry_at is not None and transfer.retry_at <= now and not transfer.over
            if due and self._room(transfer):
                self._start(transfer)
        ended = [
            each
            for each in self._running.values()
            if (each.over or each.stopped) and each.process not in self._by_process
        ]
        for each in ended:
            del self._running[each.attempt.key]
            self._told.pop(each.attempt.key, None)
            count(each)
        return ended

    def report(self, *, up: bool) -> None:
        """Tell the agent what has changed, if it is there; a new one is told everything."""
        if not up:
            self._told, self._untold = {}, False
            return
        if not self._running:
            self._untold = False
            return
        fresh = [each.report for key, each in self._running.items() if self._told.get(key) != each.report]
        now = time.monotonic()
        self._untold = bool(fresh) and now < self._report_at and self._told.keys() >= self._running.keys()
        if fresh and not self._untold:
            self._report_at = now + TELL_EVERY
            self._told.update({each.attempt.key: each.report for each in self._running.values()})
            self._send(["staging", fresh])

    def report_ready(self, attempts: Sequence[ShepherdAttempt]) -> None:
        """Tell again and again for which attempts of a suspended job the files are there.

        The head may have missed it, and nothing else would let the job go on.
        """
        now = time.monotonic()
        if not attempts:
            self._report_ready_at = float("inf")
        elif self._report_ready_at == float("inf") or now >= self._report_ready_at:
            self._report_ready_at = now + TELL_EVERY
            self._send(["staging", [ready_report(attempt) for attempt in attempts]])

    def end_all(self) -> None:
        """End all of them at once."""
        for key in list(self._running):
            self.stop(key)


def _kill_group(process: int) -> None:
    """Kill what is left of the process group of a transfer."""
    with contextlib.suppress(
        ProcessLookupError, PermissionError
    ):  # of others: a program that became another user
        os.killpg(process, signal.SIGKILL)


def _what_is_left(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _CHUNK)
    except OSError:
        return b""
