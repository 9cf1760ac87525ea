"""Results on their way to the head: in batches with numbers, told together, repeated until acknowledged."""

import asyncio
import logging
import math
import time
from collections.abc import Iterator
from typing import NamedTuple

from headnode.adapters.wire import agent_messages as m
from headnode.adapters.wire.message_checks import checked_results
from headnode.adapters.wire.messages import FromAgent
from headnode.apps.agent.head_link import HeadLink
from headnode.core.model.quantities import JobId
from headnode.core.model.ranges import Ranges

Key = tuple[int, int, int]
_MAX_BATCH = 5000  # results in one message


class LedgerEntry(NamedTuple):
    """A result, and where it came from: the shepherd's marker and its number there; 0 when we made it up."""

    marker: str
    number: int
    result: m.AttemptResult

    @property
    def key(self) -> Key:
        """Which attempt it is about."""
        return (self.result.task, self.result.instance, self.result.attempt)


class Ledger:
    """All results that the head has not acknowledged."""

    def __init__(self) -> None:
        self._unsent: dict[JobId, list[LedgerEntry]] = {}
        self._sent: dict[int, tuple[JobId, list[LedgerEntry]]] = {}
        self._number = 0
        self._over: dict[JobId, dict[Key, None]] = {}
        self._seen: dict[str, Ranges] = {}  # the numbers taken in, by marker

    def add(self, job: JobId, entry: LedgerEntry) -> bool:
        """Take a result in; False when it is here already."""
        if entry.number:
            numbers = self._seen.get(entry.marker)
            if numbers is None:
                numbers = self._seen[entry.marker] = Ranges()
            if entry.number in numbers:
                return False
            numbers.add(entry.number)
        self._unsent.setdefault(job, []).append(entry)
        self._over.setdefault(job, {})[entry.key] = None
        return True

    def over(self, job: JobId) -> dict[Key, None]:
        """Return the attempts of a job that are over and not acknowledged."""
        return self._over.get(job, {})

    def jobs(self) -> Iterator[JobId]:
        """Yield the jobs with unacknowledged results."""
        yield from self._over

    def batches(self) -> Iterator[m.Results]:
        """Yield the results not yet sent; from then on they are sent."""
        unsent, self._unsent = self._unsent, {}
        for job, entries in unsent.items():
            for at in range(0, len(entries), _MAX_BATCH):
                yield self._batch(job, entries[at : at + _MAX_BATCH])

    def _batch(self, job: JobId, entries: list[LedgerEntry]) -> m.Results:
        self._number += 1
        self._sent[self._number] = (job, entries)
        return _message(self._number, job, entries)

    def again(self, last: int | None = None) -> Iterator[m.Results]:
        """Yield what was sent and not acknowledged, up to the batch with this number."""
        for number, (job, entries) in self._sent.items():
            if last is None or number <= last:
                yield _message(number, job, entries)

    @property
    def last_batch(self) -> int:
        """The number of the last batch that was sent."""
        return self._number

    def acknowledge(self, number: int) -> tuple[JobId, list[LedgerEntry]] | None:
        """Forget a batch; return it, or None when it was forgotten before."""
        result = self._sent.pop(number, None)
        if result is None:
            return None
        job, entries = result
        over = self._over[job]
        for entry in entries:
            over.pop(entry.key, None)
        if not over:
            del self._over[job]
        return result

    def forget_shepherd(self, marker: str) -> None:
        """Forget the numbers of a shepherd that is gone and settled."""
        self._seen.pop(marker, None)


def _message(number: int, job: JobId, entries: list[LedgerEntry]) -> m.Results:
    return m.Results(number=number, job=job, results=tuple(entry.result for entry in entries))


log = logging.getLogger("headnode.agent")

COALESCE = 0.005  # seconds: results that come faster are told together
CLOSED_AFTER = 0.05  # seconds that the word that a job is closed waits for results to go with


class ResultSender:
    """Results of ended tasks, sent to the head while it is connected."""

    def __init__(self, head: HeadLink) -> None:
        self._head = head
        self.ledger = Ledger()
        self.welcome = False  # has the head answered our hello?
        self._closed: list[JobId] = []  # of which nothing is left, to be told
        self._flush: asyncio.TimerHandle | None = None  # of all that waits to be told
        self._flushed_at = -math.inf
        self._before = 0  # the last batch that was sent before the last heartbeat

    def take(self, job: JobId, *entries: LedgerEntry, idle: bool = True) -> None:
        """Take results in, each once; they are told soon, and at once if nothing of the job runs here now.

        Shepherds run as users: of what cannot be, nothing is passed on but that the attempt is lost.
        """
        results, problem = checked_results(tuple([entry.result for entry in entries]), time.time())
        if problem:
            log.warning("the shepherd of job %d sent an invalid report: %s", job, problem)
        fresh = False
        for entry, result in zip(entries, results, strict=True):
            believed = entry if result is entry.result else entry._replace(result=result)
            fresh = self.ledger.add(job, believed) or fresh
        if fresh and self.welcome:  # what a job has held here is free for the next when the head knows
            self._report_at(0.0 if idle else self._flushed_at + COALESCE)

    def report_at_once(self) -> None:
        """Send urgent results now, not in the next turn of the loop: no others are sent with them."""
        if self._flush is not None and not self._flush.when():
            self._report()

    def _report_at(self, due: float) -> None:
        if self._flush is None or due < self._flush.when():
            if self._flush is not None:
                self._flush.cancel()
            self._flush = asyncio.get_running_loop().call_at(due, self._report)

    def closed(self, job: JobId, *, soon: bool) -> None:
        """Tell the head with the next results that nothing of a job is left here.

        `soon`: it waits for that, as its processors are reserved until then.
        """
        if self.welcome:
            self._closed.append(job)
            self._report_at(asyncio.get_running_loop().time() + (COALESCE if soon else CLOSED_AFTER))
        else:
            self._head.send(m.JobClosed(job=job))

    def send(self, message: FromAgent) -> None:
        """Say something else to the head, if it listens, behind the results that came before it."""
        if self.welcome:
            if self._flush is not None:
                self._report()
            self._head.send(message)

    def head_is_here(self) -> None:
        """Tell again what was not acknowledged, and then what is new."""
        self.welcome = True
        for results in self.ledger.again():
            self._head.send(results)
        self._report()

    def repeat(self) -> None:
        """Tell again what was told before the last heartbeat and is not acknowledged yet: it may be lost."""
        for results in self.ledger.again(self._before):
            self._head.send(results)
        self._before = self.ledger.last_batch

    def _report(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        closed, self._closed = self._closed, []
        if not self.welcome:
            return
        for results in self.ledger.batches():
            self._head.send(results)
            self._flushed_at = asyncio.get_running_loop().time()
        for job in closed:
            self._head.send(m.JobClosed(job=job))
