"""What a shepherd writes down in its journal, and tells the agent.

Standard library only: this is loaded by the shepherd factory."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headnode.adapters.processes.agent_link import FOR_EVER, AgentLink
from headnode.adapters.processes.attempts import Lanes, ShepherdAttempt
from headnode.adapters.processes.job_journal import (
    EndedRecord,
    Key,
    Writer,
    line_of,
    never_ran_record,
    with_unwritten,
)

COALESCE = 0.005  # seconds: results that come faster are told together
SUPPLIED = 0.010  # seconds: the same while every lane that they came from has more to run
WELL_SUPPLIED = 0.025  # seconds: the same while each of these has so many more that the head has time:
_ENOUGH = 8
STARTED_AFTER = 0.02  # seconds: what ends sooner is not told to have started; its result says so
_RETRY_JOURNAL = 0.5  # seconds between two tries to write to a full disk


class ShepherdReports:
    """Nothing is told, and nothing starts, before it is written down."""

    def __init__(self, journal: Writer, link: AgentLink) -> None:
        self._journal, self._link = journal, link
        self._lines: list[str] = []  # to be written down
        self._starts: list[str] = []  # behind them: what starts when they are written down
        self._untold: list[tuple[EndedRecord, str]] = []  # written down, not yet told
        self._unacknowledged: dict[int, EndedRecord] = {}
        self._just_started: dict[Key, float] = {}
        self._number = 0
        self._changed: list[EndedRecord] = []  # ends that others may wait for
        self._told_at, self._pause = 0.0, COALESCE
        self._no_journal, self._journal_retry = "", 0.0  # why it cannot be written, and when to try again

    def unacknowledged(self) -> dict[Key, EndedRecord]:
        """Return the attempts whose ends the head may not have heard."""
        return {record.key: record for record in self._unacknowledged.values()}

    def next_moment(self) -> float:
        """Return when the next write or report is due, on the monotonic clock."""
        moment = self._journal_retry if self._no_journal else FOR_EVER
        if self._link.up and self._untold:
            moment = min(moment, self._told_at + self._pause)
        if self._link.up and self._just_started:
            moment = min(moment, next(iter(self._just_started.values())) + STARTED_AFTER)
        return moment

    # What is written down.

    def note(self, record: Sequence[Any]) -> None:
        """Write something down with the next write."""
        self._lines.append(line_of(record))

    def acknowledged(self, first: int, last: int) -> None:
        """The head will never forget the results with these numbers."""
        for number in range(first, last + 1):
            self._unacknowledged.pop(number, None)
        self.note(["acknowledged", first, last])

    def next_number(self) -> int:
        """Return the number of the next result."""
        self._number += 1
        return self._number

    def ended(self, record: EndedRecord, waiting: int = 0) -> None:
        """An attempt is over.  Its lane has so many more to run that the head need not know at once."""
        if waiting < _ENOUGH:
            self._pause = min(self._pause, SUPPLIED if waiting else COALESCE)
        self._just_started.pop(record.key, None)
        line = line_of(record)
        self._lines.append(f'["ended",{line[1:]}')
        self._untold.append((record, line))
        self._unacknowledged[record.number] = record
        self._changed.append(record)

    def give_back(self, attempts: Iterable[ShepherdAttempt]) -> None:
        """Report that attempts never ran: they wait for one that takes long, or for one that failed."""
        for attempt in attempts:
            self.ended(never_ran_record(self.next_number(), attempt.key))

    def settle(self, lanes: Lanes) -> None:
        """Let go on what waited for attempts that are over; give back what should follow a failed one."""
        while self._changed:
            news, self._changed = self._changed, []
            self.give_back(lanes.settle(news))

    def starts(self, attempt: ShepherdAttempt) -> None:
        """An attempt starts when that is written down."""
        task, instance, number = attempt.key
        self._starts.append(f'["started",{task},{instance},{number},{attempt.started!r}]')

    def started(self, attempt: ShepherdAttempt, now: float) -> None:
        """An attempt has a process since now, on the monotonic clock."""
        self._just_started[attempt.key] = now

    def write_down(self) -> str:
        """Write down what waits to be; return why that is not possible, or nothing."""
        if not self._lines and not self._starts:
            return ""
        if time.monotonic() >= self._journal_retry:
            self._no_journal = self._append()
            self._journal_retry = time.monotonic() + _RETRY_JOURNAL if self._no_journal else 0.0
        if not self._no_journal:
            self._lines = []
        self._starts = []  # what is not written down does not start
        return self._no_journal

    def _append(self) -> str:
        try:
            self._journal.append_lines([*self._lines, *self._starts])
        except OSError as error:
            return (
                f"this node cannot record what it runs: {os.strerror(error.errno or 0).lower()}; "
                "free some space in the state directory of its agent"
            )
        return ""

    # What is told.

    def introduce(
        self,
        job: int,
        marker: str,
        lanes: Lanes,
        suspension: int,
        coming: Iterable[ShepherdAttempt] = (),
        leaving: Iterable[ShepherdAttempt] = (),
        *,
        known: bool = False,
    ) -> None:
        """Tell a new agent all that is here; `suspension`: the number of that in force, 0 for none.

        `known`: the agent has given this shepherd the job, so the message waits for the next one.
        `coming` and `leaving` are attempts whose files are transferred, before and after they run.
        """
        self._untold = []
        self._just_started = {}
        running = [[*attempt.key, attempt.started] for attempt in (*lanes.running.values(), *leaving)]
        ended = list(self._unacknowledged.values())
        queued = [*lanes.queued, *(attempt.key for attempt in coming)]
        send = self._link.send_with_next if known else self._link.send
        send(["hello", job, marker, queued, running, ended, suspension])

    def report(self, running: Mapping[Key, ShepherdAttempt]) -> None:
        """Tell what has ended and what runs."""
        now = time.monotonic()
        if not self._link.up:
            self._untold, self._just_started = [], {}  # the next introduction says it all
            return
        if self._untold and now >= self._told_at + self._pause:
            self.report_ended()
        self._report_started(now, running)

    def report_ended(self) -> None:
        """Tell what has ended and was not told."""
        if not self._untold:
            return
        lines = [line for _, line in self._untold]
        if self._no_journal:  # not on the disk: the head must know before we die
            lines = [line_of(with_unwritten(record, self._no_journal)) for record, _ in self._untold]
        self._link.send_encoded(f'["ended",[{",".join(lines)}]]')
        self._untold, self._told_at, self._pause = [], time.monotonic(), WELL_SUPPLIED

    def _report_started(self, now: float, running: Mapping[Key, ShepherdAttempt]) -> None:
        if not self._just_started or now < next(iter(self._just_started.values())) + STARTED_AFTER:
            return
        begun = []
        for key, at in list(self._just_started.items()):
            if now < at + STARTED_AFTER:
                break
            del self._just_started[key]
            if key in running:  # else its results are on their way already, and the end tells its start
                begun.append([*key, running[key].started])
        if begun:
            self.report_ended()  # a parent's end is told before the start of its child
            self._link.send(["started", begun])
