"""Results on their way to the head: those that come quickly one after the other are told together."""

import asyncio
import logging
import math
import time

from headnode.adapters.nodes.plausible import believable
from headnode.apps.agent.head_link import HeadLink
from headnode.apps.agent.ledger import Entry, Ledger
from headnode.core.model.quantities import JobId

log = logging.getLogger("headnode.agent")

COALESCE = 0.005  # seconds: results that come faster are told together


class Results:
    """What is over, told to the head when it listens."""

    def __init__(self, head: HeadLink) -> None:
        self._head = head
        self.ledger = Ledger()
        self.welcome = False  # has the head answered our hello?
        self._flush: asyncio.TimerHandle | None = None
        self._flushed_at = -math.inf
        self._before = 0  # the last batch that was sent before the last heartbeat

    def take(self, job: JobId, entry: Entry) -> None:
        """Take a result in, once; it is told soon.

        Shepherds run as users: of what cannot be, nothing is passed on but that the attempt is lost.
        """
        (result,), problem = believable((entry.result,), time.time())
        if problem:
            log.warning("the shepherd of job %d sent an impossible report: %s", job, problem)
        entry = entry._replace(result=result)
        if self.ledger.add(job, entry) and self.welcome and self._flush is None:
            loop = asyncio.get_running_loop()
            due = max(loop.time(), self._flushed_at + COALESCE)
            self._flush = loop.call_at(due, self._tell)

    def head_is_here(self) -> None:
        """Tell again what was not acknowledged, and then what is new."""
        self.welcome = True
        for results in self.ledger.again():
            self._head.say(results)
        self._tell()

    def repeat(self) -> None:
        """Tell again what was told before the last heartbeat and is not acknowledged yet: it may be lost."""
        for results in self.ledger.again(self._before):
            self._head.say(results)
        self._before = self.ledger.last_batch

    def _tell(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        if not self.welcome:
            return
        self._flushed_at = asyncio.get_running_loop().time()
        for results in self.ledger.batches():
            self._head.say(results)
