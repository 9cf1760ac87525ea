"""The thread that sends one standby head what it needs: a copy of the journal, then the events.

It has a connection and blocking input and output of its own: a write of the head may wait for it.
"""

import logging
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from headnode.adapters.files.copied_tables import RowChanges
from headnode.adapters.standby.audit_tail import AuditTail
from headnode.adapters.standby.dialing import (
    CONNECT_TIME,
    UNREACHED,
    StandbyProblem,
    dial,
    read_bytes,
    reason,
)
from headnode.adapters.standby.followed import Followers, FollowingStandby
from headnode.adapters.standby.row_copy import RowCopy, pieces, refuse_without_room
from headnode.adapters.wire.frame_codec import HEADER, frame, size_of
from headnode.adapters.wire.peers import written_address
from headnode.adapters.wire.standby_messages import (
    MAX_EVENTS,
    MAX_OF_STANDBY,
    PIECE,
    AuditPiece,
    FromLeader,
    FromStandby,
    HandOver,
    HeadHello,
    HeadRefused,
    IsHead,
    JournalEvents,
    Ping,
    RowsBetween,
    RowsChanged,
    StandbyAnswer,
    StandbyHello,
    StateDigest,
    decode_from_standby,
    encode_message,
)
from headnode.core.model.errors import Unavailable
from headnode.engine.ports import EventSource, may_be_same

log = logging.getLogger("headnode.standby")

ANSWER_TIME: Final = 15.0  # seconds for a standby to answer, however many pieces the answer comes in
CHECK_TIME: Final = 900.0  # seconds for it to check a copy of the journal: it replays it
BETWEEN_PINGS: Final = 1.0  # seconds
BETWEEN_DIALS: Final = 1.0  # seconds
AFTER_PROBLEM: Final = 15.0  # seconds until a standby that cannot go on is dialed again
FARTHEST: Final = 50_000  # events that are sent one by one; a standby further behind gets a copy


class SenderParts(NamedTuple):
    """What a sender needs of its head.  The functions are called in the thread of the sender.

    hello:      makes the greeting for the standby of this name
    authority:  the file with the certificate of the cluster's authority
    scratch:    the state directory; copies of the journal are made there
    rows:       says what changes in the tables beside the journal
    replaced:   is told when a machine is the head that took over from this one
    hand_over:  is told that an administrator asks the standby of this name to take over
    size:       returns how many bytes the journal takes on the disk of `scratch`
    """

    source: EventSource
    followers: Followers
    hello: Callable[[str], HeadHello]
    authority: Path
    scratch: Path
    rows: RowChanges
    audit: Path
    replaced: Callable[[IsHead], None]
    hand_over: Callable[[str], None]
    size: Callable[[], int] = lambda: 0


class _Ended(Exception):
    """The sender has done its work."""


class StandbySender(threading.Thread):
    """Sends everything to the standby `name` at host and port, again and again, until `stop`."""

    def __init__(self, name: str, place: tuple[str, int], parts: SenderParts) -> None:
        super().__init__(name=f"standby {name}", daemon=True)
        self.standby, self.place = name, place
        self.problem = ""  # why it gets nothing; empty: it does
        self.differed = ""  # what it had that this head does not have
        self.since = time.time()  # when that began
        self.received: float | None = None  # when it answered last, on the monotonic clock
        self.leaves = False  # it said that it is being stopped
        self.handed_over = threading.Event()  # it has confirmed that it is the head from now on
        self.handover_sent = (
            False  # that it is the head from now on; it may be that, though nothing confirms it
        )
        self._parts, self._followers = parts, parts.followers
        self.follower = FollowingStandby(name)
        self._stopping = False
        self._socket: socket.socket | None = None
        self._sent = self._target = self._compared = 0
        self.rows = RowCopy(parts.scratch, self._followers.changed)
        self.missing = ""  # what the head names and its machine does not have
        self._audit = AuditTail(parts.audit)
        self._audit_due = 0.0  # on the monotonic clock
        self._owed = 0  # so many changes beside the journal the standby must have before the hand-over

    def start(self) -> None:
        """Begin; what changes beside the journal from now on is sent."""
        self._parts.rows.listeners.append(self.rows.changed)
        super().start()

    @property
    def troubles(self) -> tuple[str, ...]:
        """What people must know, though events are sent."""
        rows = f"stored credentials and notifications are not copied: {self.rows.problem}"
        return self.differed, rows if self.rows.problem else "", self.missing

    def stop(self) -> None:
        """Let the thread end soon."""
        if self.rows.changed in self._parts.rows.listeners:
            self._parts.rows.listeners.remove(self.rows.changed)
        with self._followers.changed:
            self._stopping = True
            self._followers.changed.notify_all()
        if (connection := self._socket) is not None:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # it is closed already

    def run(self) -> None:
        """Dial and send until `stop`."""
        while not self._stopping:
            pause = BETWEEN_DIALS
            try:
                self._serve()
            except _Ended:
                return
            except StandbyProblem as problem:
                pause = AFTER_PROBLEM
                self._failed(str(problem))
            except UNREACHED as error:
                pause = AFTER_PROBLEM if isinstance(error, Unavailable) else BETWEEN_DIALS
                self._failed(reason(error))
            finally:
                self._followers.lost(self.follower)
                self._audit.close()
                if self._socket is not None:
                    self._socket.close()
                    self._socket = None
            with self._followers.changed:
                self._followers.changed.wait_for(lambda: self._stopping, pause)

    def ask_once(self) -> IsHead | None:
        """Greet the standby; return its answer if it says that it is a head.

        Raises:  one of `UNREACHED` when it is not reached or not understood.
        """
        self._socket = dial(self.place, self._parts.authority)
        with self._socket:
            answer = self._exchange(self._parts.hello(self.standby), CONNECT_TIME)
        return answer if isinstance(answer, IsHead) else None

    def _failed(self, why: str) -> None:
        if self._stopping:
            return
        if why != self.problem:
            log.warning("standby %s at %s:%d gets no events: %s", self.standby, *self.place, why)
            self.problem, self.since = why, time.time()

    def _serve(self) -> None:
        self._socket = dial(self.place, self._parts.authority)
        standby = self._greet()
        with self._followers.changed:
            if self._stopping:  # another sender has this name now
                raise _Ended
            self._followers.followers[self.standby] = self.follower
            self.follower.connected = True
        self._audit.begin(standby.audit, standby.ending)
        self.rows.begin()
        self._sent = self._target = standby.number
        if self._can_follow(standby):
            self._followers.confirm(self.follower, standby.number, has_rows=False)
        else:
            self._note_difference(standby)
            self._send_copy()
        log.info("standby %s at %s:%d follows from event %d", self.standby, *self.place, self._sent)
        self.problem, self.since = "", time.time()
        while True:
            message = self._next()
            self._take(message, self._ask(message))

    def _greet(self) -> StandbyHello:
        answer = self._exchange(self._parts.hello(self.standby), ANSWER_TIME)
        match answer:
            case StandbyHello():
                self.handover_sent = False  # it is a standby still, and obeys no earlier connection any more
                return answer
            case IsHead(term=term, address=address):
                message = IsHead(term, address or written_address(self.place))
                self._parts.replaced(message)
                raise StandbyProblem(
                    f"{message.address} is a head itself, since takeover {term}; end one of the two: hn down"
                )
            case HeadRefused():
                raise StandbyProblem(answer.reason)
        raise StandbyProblem("its answer was not understood")

    def _can_follow(self, standby: StandbyHello) -> bool:
        """Return whether what a standby has is the beginning of this journal, and not too far behind."""
        source = self._parts.source
        close = 0 < standby.number <= self._followers.last <= standby.number + FARTHEST
        same = standby.cluster_id == source.cluster_id
        return close and same and self._is_beginning(standby) and not source.purged_after(standby.number)

    def _is_beginning(self, standby: StandbyHello) -> bool:
        """Return whether the last event of a standby is one of this head; True if it cannot be compared."""
        known = self._parts.source.checksum_of(standby.number)
        return standby.number <= self._followers.last and may_be_same(known, standby.checksum)

    def _note_difference(self, standby: StandbyHello) -> None:
        """Say that a standby has events which this head has not: it keeps them beside its new copy."""
        same = standby.cluster_id == self._parts.source.cluster_id
        if standby.number and not (same and self._is_beginning(standby)):
            self.differed = (
                f"its journal up to event {standby.number} is not the beginning of this head's; it is kept "
                "there as journal.db.to-event-*: if this head began from an old backup, they are nowhere else"
            )
            log.error("standby %s: %s", self.standby, self.differed)

    def _next(self) -> FromLeader:
        """Return what to say next; wait for it if nothing is new."""
        with self._followers.changed:
            if self._is_idle():
                due = self.rows.due_in(time.monotonic())
                self._followers.changed.wait(BETWEEN_PINGS if due is None else min(due, BETWEEN_PINGS))
            if self._stopping:
                raise _Ended
            last, mark, hands_over = self._followers.last, self._followers.snapshot, self._hands_over()
        if mark is not None and self._compared < mark.number <= self._sent:
            self._compared = mark.number
            if mark.number == self._sent:  # a state that is past cannot be compared
                return StateDigest(mark.number, mark.digest)
        now = time.monotonic()
        lacks_events = self._sent < last
        if (not lacks_events or self.rows.is_overdue(now)) and (piece := self._piece(now, hands_over)):
            return piece
        if lacks_events:
            return self._events(last if mark is None or mark.number <= self._sent else mark.number)
        return self._hand_over(last) if hands_over else Ping(self.follower.in_step)

    def _piece(self, now: float, hands_over: bool) -> AuditPiece | RowsBetween | RowsChanged | None:
        """Return a piece of what is beside the journal, if it is time for one."""
        self._owed = (self._owed or self.rows.noted) if hands_over else 0
        if (hands_over or now >= self._audit_due) and (piece := self._audit_piece()):
            return piece
        is_due = self.rows.lacks(self._owed, now) if hands_over else self.rows.due_in(now) == 0.0
        return self.rows.next() if is_due else None

    def _hand_over(self, last: int) -> HandOver | Ping:
        with self._followers.changed:
            if not self._hands_over():  # the head has taken it back
                return Ping(self.follower.in_step)
            self.handover_sent = True
        return HandOver(last)

    def take_back(self) -> bool:
        """Let the head go on, if the standby was not told to be the head; return whether it goes on."""
        with self._followers.changed:
            if not self.handover_sent:
                self._followers.unseal()
            return not self.handover_sent

    def _hands_over(self) -> bool:
        return self._followers.sealed is not None and self._followers.successor == self.standby

    def _is_idle(self) -> bool:
        followers = self._followers
        marked = followers.snapshot is not None and followers.snapshot.number > self._compared
        beside = time.monotonic() >= self._audit_due or self.rows.due_in(time.monotonic()) == 0.0
        return not (self._stopping or self._sent < followers.last or self._hands_over() or marked or beside)

    def _events(self, last: int) -> JournalEvents:
        """Return the next events, up to `last`, with which a batch of the head ended."""
        if self._sent >= self._target:
            self._target = last
        rows = self._rows(min(MAX_EVENTS, self._target - self._sent))
        ends = self._followers.ends_between(self._sent, rows[-1][0])
        if rows[-1][0] == self._target and self._target not in ends:
            ends = (*ends, self._target)
        bodies = tuple(body for _, body in rows)
        return JournalEvents(self._sent, bodies, ends, self.follower.in_step)

    def _rows(self, most: int) -> list[tuple[int, bytes]]:
        """Return the next events as the journal has them.

        Raises:  StandbyProblem if they were purged meanwhile; Unavailable ``journal-damaged``.
        """
        try:
            return self._parts.source.rows(self._sent, most)
        except Unavailable:
            if not self._parts.source.purged_after(self._sent):
                raise
            raise StandbyProblem("events that it lacks were purged: it needs a copy of the journal") from None

    def _audit_piece(self) -> AuditPiece | None:
        offset, data = self._audit.next()
        if len(data) < PIECE:  # else there is more
            self._audit_due = time.monotonic() + BETWEEN_PINGS
        return AuditPiece(offset, data) if data else None

    def _ask(self, message: FromLeader, timeout: float = ANSWER_TIME) -> StandbyAnswer:
        if self._stopping:
            raise _Ended
        answer = self._exchange(message, timeout)
        if not isinstance(answer, StandbyAnswer):
            raise StandbyProblem(getattr(answer, "reason", "its answer was not understood"))
        if answer.problem:
            raise StandbyProblem(answer.problem)
        return answer

    def _take(self, message: FromLeader, answer: StandbyAnswer) -> None:
        if isinstance(message, HandOver):
            self.handed_over.set()
            raise _Ended
        if isinstance(message, JournalEvents):
            self._sent += len(message.events)
        if isinstance(message, AuditPiece):
            self._audit.sent(message.offset + len(message.data))
        if isinstance(message, RowsBetween | RowsChanged):
            self.rows.sent(answer.row_problem)
        self.received, self.leaves, self.missing = time.monotonic(), answer.leaves, answer.missing
        if answer.wants_copy:
            log.error("the state of standby %s differs from this head's: it gets a copy", self.standby)
            self._send_copy()
            return
        if answer.number > self._sent:
            raise StandbyProblem(f"it says that it has event {answer.number}, which it was not sent")
        self._followers.confirm(self.follower, answer.number, has_rows=self.rows.is_whole)
        if answer.hand_over:
            self._parts.hand_over(self.standby)

    def _send_copy(self) -> None:
        """Send the whole journal; the standby says with which event it ends."""
        with self._followers.changed:
            self.follower.waited_for = False
        copy = self._parts.scratch / f"standby-{self.standby}.db"
        copy.unlink(missing_ok=True)
        refuse_without_room(self._parts.scratch, self._parts.size())
        log.info("standby %s at %s:%d gets a copy of the journal", self.standby, *self.place)
        try:
            self._parts.source.copy_to(copy)
            for piece in pieces(copy):
                answer = self._ask(piece, CHECK_TIME if piece.digest else ANSWER_TIME)
        finally:
            copy.unlink(missing_ok=True)
        if not 0 < answer.number <= self._followers.last:
            raise StandbyProblem(f"the copy that it got ends with event {answer.number}")
        self._sent = self._target = self._compared = answer.number
        self._followers.confirm(self.follower, answer.number, has_rows=False)

    def _exchange(self, message: FromLeader, timeout: float) -> FromStandby:
        connection = self._socket
        if connection is None:
            raise ConnectionResetError("it is closed")
        connection.settimeout(timeout)
        connection.sendall(frame(encode_message(message)))
        deadline = time.monotonic() + timeout
        size = size_of(read_bytes(connection, HEADER, deadline), MAX_OF_STANDBY)
        return decode_from_standby.decode(read_bytes(connection, size, deadline))


def ask_whether_head(name: str, place: tuple[str, int], parts: SenderParts) -> IsHead | None:
    """Return what a standby says if it is a head, or follows another one; None: it is not, or is away."""
    sender = StandbySender(name, place, parts)
    try:
        return sender.ask_once()
    except UNREACHED as error:
        log.info("standby %s at %s:%d was not reached: %s", name, *place, reason(error))
        return None
