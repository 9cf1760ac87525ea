"""Reports of nodes on their way into the journal: kept while it cannot be written, and given to it again."""

import asyncio
import logging
import time
from collections.abc import Callable, Hashable
from functools import partial
from itertools import count
from typing import NamedTuple

from headnode.adapters.wire import agent_messages as m
from headnode.core.model.errors import Unavailable
from headnode.core.state import command as c
from headnode.core.state.command import AttemptReport
from headnode.core.state.job_events import InstanceStage
from headnode.core.state.report import ReportEnded, ReportStaging

log = logging.getLogger("headnode.nodes")

AGAIN = 1.0  # seconds between two tries
MAX_HELD = 10_000  # reports; more are not held: nodes say again what was not acknowledged
TIMEOUT = 12.0  # seconds for a report that a client waits for; an agent waits for 15

Tell = Callable[[c.Command, Callable[[object], None]], None]
"""Give a command to the engine; when it is durable the function is called with its events, or with what
refuses it."""

Then = Callable[[Exception | None], None]
"""Hears that a command is durable, or what refuses it."""


class _QueuedReport(NamedTuple):
    number: int
    command: c.Command
    then: Then
    key: Hashable


class ReportQueue:
    """All that nodes have reported and that is not recorded yet."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._held: dict[int, _QueuedReport] = {}  # by number, also while they are tried again
        self._numbers = count(1)
        self._trying = 0
        self._keys: set[Hashable] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0  # when the journal was found unable to write; 0: it can

    def give(self, command: c.Command, then: Then, key: Hashable = None) -> bool:
        """Have a command recorded, behind those that wait.

        One with the `key` of another that waits is left out, and so is one too many: then this returns False,
        and `then` hears nothing.
        """
        if key in self._keys or len(self._held) >= MAX_HELD:
            return False
        if key is not None:
            self._keys.add(key)
        report = _QueuedReport(next(self._numbers), command, then, key)
        if self._since:
            self._hold(report)
        else:
            self._try(report)
        return True

    async def recorded(self, command: c.Command) -> None:
        """Have a command recorded, and wait for that.

        Raises:  Unavailable ``journal-waits`` when the journal cannot write for long; what refuses it.
        """
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def then(error: Exception | None) -> None:
            if durable.done():  # its waiter is gone
                return
            if error is None:
                durable.set_result(None)
            else:
                durable.set_exception(error)

        self.give(command, then)
        try:
            async with asyncio.timeout(TIMEOUT):
                await durable
        except TimeoutError:
            raise Unavailable(
                code="journal-waits",
                what=f"the journal could not write for {TIMEOUT:.0f} s",
                fix="see the log of the head",
            ) from None

    def _hold(self, report: _QueuedReport) -> None:
        self._held[report.number] = report
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(AGAIN, self._again)

    def _again(self) -> None:
        """Try all that is held, as one batch."""
        self._timer = None
        if self._trying:  # the last try takes long
            self._set_timer()
            return
        for number in sorted(self._held):
            self._try(self._held[number])

    def _try(self, report: _QueuedReport) -> None:
        self._trying += 1
        self._tell(report.command, partial(self._answered, report))

    def _answered(self, report: _QueuedReport, answer: object) -> None:
        self._trying -= 1
        error = answer if isinstance(answer, Exception) else None
        if isinstance(error, Unavailable):
            self._cannot_write(error)
            self._hold(report)
            return
        self._held.pop(report.number, None)
        self._keys.discard(report.key)
        self._can_write()
        report.then(error)

    def _cannot_write(self, error: Unavailable) -> None:
        if not self._since:
            self._since = time.monotonic()
            log.error(
                "reports of nodes cannot be recorded; they are kept and tried again every second: %s", error
            )

    def _can_write(self) -> None:
        if self._since:
            log.info("reports of nodes are recorded again, after %.0f s", time.monotonic() - self._since)
            self._since = 0.0


def staging_report(node: str, message: m.Staging) -> ReportStaging:
    """Return what a node says of the transfers of attempts, as the head keeps it."""
    stages = [InstanceStage(x.task, x.instance, x.attempt, x.direction, x.at) for x in message.transfers]
    return ReportStaging(node=node, job=message.job, staging=tuple(stages))


def attempt_report(node: str, message: m.Results) -> ReportEnded:
    """Return what the results of a node say, as a command."""
    reports = tuple(
        AttemptReport(each.task, each.instance, each.attempt, each.outcome) for each in message.results
    )
    return ReportEnded(node=node, job=message.job, reports=reports)
