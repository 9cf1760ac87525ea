"""A journal whose events standby heads follow: a write returns when they have it, or are late."""

import hashlib
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from headnode.core.model.errors import Unavailable
from headnode.core.model.quantities import DurationHistogram, JobId
from headnode.core.state.events import Event, StandbyRemoved
from headnode.engine.ports import EndedJob, Journal

log = logging.getLogger("headnode.standby")

KNOWN_BATCHES: Final = 10_000
CLOSE_BEHIND: Final = 1000  # events: a standby that is no further behind is waited for from now on
DELAY_BOUNDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # seconds
MINUTE: Final = 60.0  # seconds
NEWEST_DELAYS: Final = 10_000  # of the last minute, by which quantiles are reckoned
TRUSTED_AFTER: Final = 5  # times as long as a write waited for it in vain: so long, none waits for a standby


class SnapshotMark(NamedTuple):
    """The digest (SHA-256) of the state after event `number`."""

    number: int
    digest: str


class Delays:
    """How long writes have waited for one standby."""

    def __init__(self) -> None:
        self.all = DurationHistogram(DELAY_BOUNDS)
        self._newest: deque[tuple[float, float]] = deque(maxlen=NEWEST_DELAYS)  # when each began, and seconds

    def add(self, seconds: float, began: float) -> None:
        """Note that a write has waited; `began` is on the monotonic clock."""
        self.all.add(seconds)
        self._newest.append((began, seconds))

    def quantiles(self, now: float) -> tuple[float, float] | None:
        """Return for how many seconds half of the writes of the last minute waited, and 99 % of them.

        None: no write waited.
        """
        newest = sorted(seconds for began, seconds in self._newest if now - began <= MINUTE)
        if not newest:
            return None
        return newest[(len(newest) - 1) // 2], newest[(len(newest) * 99 - 1) // 100]


class FollowingStandby:
    """How far one standby head is.  Only used under the lock of its `Followers`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.confirmed = 0  # the last event that it has on its disk
        self.connected = False
        self.waited_for = False  # acknowledgements wait for it
        self.not_before = 0.0  # when they may again, on the monotonic clock
        self.unwaited = 0  # the last event that may have been acknowledged without it
        self.delays = Delays()
        self.has_rows = True  # all tables beside the journal came on this connection, or cannot

    def lacks(self, number: int) -> bool:
        """Whether a write has to wait for it until it has event `number`."""
        return self.waited_for and self.confirmed < number

    @property
    def in_step(self) -> bool:
        """Whether it has everything that was acknowledged."""
        return self.waited_for and self.has_rows and self.confirmed >= self.unwaited


class Followers:
    """All standby heads of a head, and the last event on its disk.  Any thread may use it."""

    def __init__(self, last: int) -> None:
        self.changed = threading.Condition()
        self.waits = True  # acknowledgements wait for standby heads at all
        self.last = last  # the last event on the disk
        self.batches = deque([last], KNOWN_BATCHES)  # the numbers with which the newest batches ended
        self.sealed: int | None = None  # the last event that there will be: the head hands over
        self.fenced = False  # a standby may have become the head: nothing may be written
        self.successor = ""  # the standby to which it does
        self.snapshot: SnapshotMark | None = None  # the newest
        self.followers: dict[str, FollowingStandby] = {}

    def written(self, number: int) -> None:
        """Note that the events up to `number` are on the disk."""
        with self.changed:
            self.last = number
            self.batches.append(number)
            self.changed.notify_all()

    def ends_between(self, after: int, last: int) -> tuple[int, ...]:
        """Return the numbers above `after`, up to `last`, with which known batches ended."""
        with self.changed:
            newer = itertools.takewhile(lambda end: end > after, reversed(self.batches))
            return tuple(reversed([end for end in newer if end <= last]))

    def marked(self, mark: SnapshotMark) -> None:
        """Note the digest of a snapshot: standby heads compare it with their own."""
        with self.changed:
            self.snapshot = mark
            self.changed.notify_all()

    def confirm(self, follower: FollowingStandby, number: int, *, has_rows: bool = True) -> None:
        """Note that a standby has the events up to `number` on its disk."""
        with self.changed:
            follower.confirmed, follower.has_rows = number, has_rows
            late = time.monotonic() < follower.not_before or self.last - number > CLOSE_BEHIND
            if self.waits and not follower.waited_for and not late:
                log.info("standby %s is waited for: it has event %d", follower.name, number)
                follower.waited_for, follower.unwaited = True, self.last
            self.changed.notify_all()

    def lost(self, follower: FollowingStandby) -> None:
        """Note that the connection to a standby has ended: nothing waits for it."""
        with self.changed:
            follower.connected = follower.waited_for = False
            self.changed.notify_all()

    def wait(self, number: int, seconds: float) -> None:
        """Wait until all standby heads that are waited for have event `number`, for at most so long.

        One that is late then is not waited for any more until it has caught up, and for some time: one that
        is always late would else delay every other write.  With 0 seconds no standby is in step.
        """
        began = time.monotonic()
        with self.changed:
            self.waits = seconds > 0
            if not self.waits:
                for follower in self.followers.values():
                    follower.waited_for = False
            late = [follower for follower in self.followers.values() if follower.waited_for]
            while late:
                waited = time.monotonic() - began
                for follower in late:
                    if not follower.lacks(number) or waited >= seconds:
                        follower.delays.add(waited, began)
                late = [follower for follower in late if follower.lacks(number)]
                if late and waited >= seconds:
                    self._give_up(late, seconds)
                    return
                if late:
                    self.changed.wait(seconds - waited)

    def _give_up(self, late: Iterable[FollowingStandby], seconds: float) -> None:
        for follower in late:
            follower.waited_for = False
            follower.not_before = time.monotonic() + TRUSTED_AFTER * seconds
            log.warning(
                "standby %s has not confirmed event %d within %g s: it is not waited for until it has "
                "caught up",
                follower.name, self.last, seconds,
            )  # fmt: skip

    def refuse_changes(self, *, removes_standby: bool = False) -> None:
        """Refuse what a standby that is or may be the head would not have.

        removes_standby:  a lost one is removed: that is the way out of isolation
        Raises:  Unavailable ``handed-over``, ``isolated``.
        """
        if self.sealed is not None:
            raise Unavailable(
                code="handed-over",
                what="this head is handing over to its standby",
                fix="try again in a few seconds; the standby is the head then",
            )
        if self.fenced and not removes_standby:
            raise Unavailable(
                code="isolated",
                what="this head has lost its standby and most nodes; the standby may be the head by now",
                fix="ask at the standby; the log of this head says what an administrator can do",
            )

    def seal(self, number: int, successor: str) -> None:
        """Let event `number` be the last; the standby `successor` takes over."""
        with self.changed:
            self.sealed, self.successor = number, successor
            self.changed.notify_all()

    def unseal(self) -> None:
        """Let events be written again; only before the successor was told.  The caller has the lock."""
        self.sealed, self.successor = None, ""


class FollowedJournal:
    """A `Journal` that standby heads follow.

    Promise: when `append` returns, the events are on the disk of this machine, and on those of all standby
             heads that are in step.
    """

    def __init__(self, journal: Journal, followers: Followers, wait: Callable[[], float]) -> None:
        """`wait`: for how many seconds a write waits for the standby heads."""
        self._journal, self._followers, self._wait = journal, followers, wait

    def append(
        self, events: Sequence[Event], ended: Iterable[EndedJob] = (), revived: Sequence[JobId] = ()
    ) -> int:
        """Record the events here, then wait for the standby heads.

        Raises:  Unavailable ``handed-over``, or what the journal raises; then nothing was recorded.
        """
        self._followers.refuse_changes(removes_standby=all(type(event) is StandbyRemoved for event in events))
        number = self._journal.append(events, ended, revived)
        self._followers.written(number)
        self._followers.wait(number, self._wait())
        return number

    def replay(self, after: int = 0) -> Iterator[tuple[int, Event]]:
        """Yield (number, event) for every event with a number greater than `after`."""
        return self._journal.replay(after)

    def keep_snapshot(self, number: int, state: bytes) -> None:
        """Keep the state as it was after event `number`, and let standby heads compare it with theirs."""
        self._journal.keep_snapshot(number, state)
        self._followers.marked(SnapshotMark(number, hashlib.sha256(state).hexdigest()))

    def written_by(self) -> str:
        """Return the newest version of Headnode that wrote here."""
        return self._journal.written_by()

    def newest_snapshot(self) -> tuple[int, bytes] | None:
        """Return (number, state) of the newest snapshot, or None."""
        return self._journal.newest_snapshot()

    def close(self) -> None:
        """Let go of everything."""
        self._journal.close()
