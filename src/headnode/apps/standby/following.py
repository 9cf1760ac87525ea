"""The conversation of a standby with its head: each message of the head gets an answer."""

import asyncio
import hmac
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from headnode import __version__
from headnode.adapters.files.local_daemons import GATEWAY_USER, NO_LONGER, remembered_word
from headnode.adapters.journal.sqlite import JOURNAL, cluster_id
from headnode.adapters.standby.audit_tail import ending_of
from headnode.adapters.wire.agent_messages import MAX_GREETING
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import keep_alive, read_frame
from headnode.adapters.wire.standby_messages import (
    MAX_OF_HEAD,
    STANDBY_PROTOCOL,
    AuditPiece,
    FromLeader,
    FromStandby,
    HandOver,
    HeadHello,
    HeadRefused,
    IsHead,
    JournalEvents,
    JournalPiece,
    Ping,
    RowsBetween,
    RowsChanged,
    StandbyAnswer,
    StandbyHello,
    StateDigest,
    decode_from_head,
    encode_message,
)
from headnode.apps.standby.former_head import report_lost_jobs
from headnode.apps.standby.journal_copy import JournalCopy, settled_replica, store_rows
from headnode.core.model.bounds import GREETING_TIME
from headnode.core.model.errors import BadRequest, HeadnodeError
from headnode.engine.replica import Replica

log = logging.getLogger("headnode.standby")

AUDIT_LOG = "audit.log"
MAX_PROBLEM = 1000  # characters
USELESS = ("standby-batch", "standby-differs")
DAMAGE = "its journal is damaged, see head.log there; it waits for a copy of that of the head"
SILENT = 5.0  # seconds without a word, after which a head that is connected counts as away


class HeadReplica:
    """What a standby has of its head, and the connection by which it gets more."""

    def __init__(self, state: Path, name: str, secret: str, taken_over: Callable[[], None]) -> None:
        """Open the journal, if a copy has arrived before.

        name:        of this standby
        secret:      what only holders of the cluster's authority know
        taken_over:  is told when the head has handed over
        Raises:  Unavailable, as the journal does; OSError.
        """
        self._state, self._name, self._secret, self._taken_over = state, name, secret, taken_over
        self.replica: Replica | None = settled_replica(state)
        self._copy = JournalCopy(state)
        self._writer: asyncio.StreamWriter | None = None
        self.head = ""  # its address, as it says itself
        self.received: float | None = None  # when it said something last, on the monotonic clock
        unusable = self.replica is None and (state / JOURNAL).exists()
        self.problem = DAMAGE if unusable else ""  # why the last message could not be carried out
        self._row_problem = ""  # why the last rows beside the journal could not be stored
        self.missing = ""  # what the head names and this machine does not have
        self.wants_hand_over = False
        self.leaves = False  # this standby is being stopped
        self.lost: list[str] = []  # what a former head in this directory had and the present one has not
        self.farewell = asyncio.Event()  # the head was told so
        self.in_step = False  # at the last word of the head, all that it had acknowledged was here
        self._wants_copy = False
        self._is_useless = False  # the journal here cannot take the events of its head: it needs a copy
        self._version = ""  # of the head
        self._term = 0  # of the newest head: one before it is not obeyed, even while this one's journal comes

    @property
    def connected(self) -> bool:
        """Whether the head is connected and says something: it does so each second."""
        received = self.received is not None and time.monotonic() - self.received < SILENT
        return self._writer is not None and received

    @property
    def trouble(self) -> str:
        """Why this standby gets nothing, or keeps nothing; empty: it does."""
        replica = self.replica
        if not self.problem and replica is not None and self._name not in replica.cluster.standbys:
            return "the head has removed this standby: it gets no events; to follow again: hn standby join"
        return self.problem

    def hang_up(self) -> None:
        """Close the connection of the head."""
        if self._writer is not None:
            self._writer.close()

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, known: Callable[[], None]
    ) -> None:
        """Serve a head until it hangs up; an earlier connection gives way to it.

        `known` is called once it has shown that it holds the keys of the cluster.
        """
        keep_alive(writer)
        async with asyncio.timeout(GREETING_TIME.most):
            data = await read_frame(reader, MAX_GREETING)
        hello = None if data is None else decode_from_head.decode(data)
        if not isinstance(hello, HeadHello):
            return
        answer = self._greeted(hello)
        _send(writer, answer)
        if not isinstance(answer, StandbyHello):
            await writer.drain()
            return
        known()
        self.hang_up()
        self._copy.forget()
        self._writer, self.head, self.received = writer, hello.address, time.monotonic()
        log.info("the head of cluster %s at %s is connected", hello.cluster, hello.address)
        try:
            while (data := await read_frame(reader, MAX_OF_HEAD)) is not None and self._writer is writer:
                answered = self._answer(decode_from_head.decode(data))
                self.received = time.monotonic()  # not before: it may have taken long
                _send(writer, answered)
                await writer.drain()
                if answered.problem:
                    return  # what follows does not count
        finally:
            if self._writer is writer:
                self._writer = None
                log.warning("the connection to the head at %s has ended", hello.address)

    def _keep_gateway_user(self, name: str) -> None:
        """Store the account of the gateway as the head has it: this may be the head when that is gone."""
        try:
            if name != remembered_word(self._state / GATEWAY_USER, ""):
                remembered_word(self._state / GATEWAY_USER, name or NO_LONGER)
        except (OSError, UnicodeError) as error:
            log.error("the account of the gateway, %r, cannot be stored here: %s", name, error)

    def _greeted(self, hello: HeadHello) -> FromStandby:
        """Return what a head gets for its greeting."""
        if not hmac.compare_digest(hello.secret.encode(), self._secret.encode()):
            return HeadRefused("it does not have the keys of this cluster")
        if hello.protocol != STANDBY_PROTOCOL:
            return HeadRefused(f"this standby runs Headnode {__version__}, the head {hello.version}")
        if hello.name != self._name:
            return HeadRefused(
                f"this is the standby {self._name}; if it replaces {hello.name}: hn standby remove"
            )
        own = cluster_id(self._state)
        if own and own != hello.cluster_id:
            return HeadRefused("this standby belongs to another cluster")
        try:
            replica = self._settled()
            size, ending = _end_of(self._state / AUDIT_LOG)
        except (HeadnodeError, OSError) as error:
            log.error("what is here cannot be read: %s", error)
            return HeadRefused(str(error)[:MAX_PROBLEM])
        known = replica.cluster.term if replica is not None else 0
        self._term = max(self._term, known)
        if hello.term < self._term:
            return IsHead(self._term, self.head)
        self._term, self._version = hello.term, hello.version
        self._keep_gateway_user(hello.gateway_user)
        if replica is None or self._is_useless:
            return StandbyHello(__version__, "", 0, 0, size, ending)
        checksum = replica.store.checksum_of(replica.number) or 0
        return StandbyHello(__version__, replica.store.cluster_id, replica.number, checksum, size, ending)

    def _settled(self) -> Replica | None:
        """Return what is on the disk: what was not stored, or was not applied whole, does not count.

        Raises:  Unavailable, as the journal does.
        """
        if self.replica is None:
            self.replica = settled_replica(self._state)
        if self.replica is not None and not self.replica.is_settled:
            self.replica.read_again()
        self.problem = ""
        return self.replica

    def _answer(self, message: FromLeader) -> StandbyAnswer:
        """Carry out what the head says; an error is told to it, and it dials again after a pause."""
        audit = 0
        try:
            audit = self._carry_out(message)
        except (HeadnodeError, OSError) as error:
            self.problem = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
            log.error("%s could not be stored: %s", type(message).__name__, self.problem)
        number = self.replica.number if self.replica is not None else 0
        if self.leaves:
            self.farewell.set()
        return StandbyAnswer(
            number,
            audit,
            self._wants_copy,
            self.wants_hand_over,
            self.leaves,
            self.problem[:MAX_PROBLEM],
            self._row_problem[:MAX_PROBLEM],
            self.missing[:MAX_PROBLEM],
        )

    def _carry_out(self, message: FromLeader) -> int:
        """Do what a message says; return the size of the audit log.

        Raises:  HeadnodeError; OSError.
        """
        match message:
            case JournalEvents(after=after, events=events, ends=ends) if self.replica is not None:
                self.in_step = message.in_step
                self._follow(self.replica, after, events, ends)
            case StateDigest(number=number, digest=digest) if self.replica is not None:
                if self._version == __version__:
                    self._wants_copy = not self.replica.is_same(number, digest)
                else:  # of another version the same state may have other bytes
                    self.replica.keep_snapshot(number)
            case JournalPiece():
                self._wants_copy = self._is_useless = False
                if self._copy.take(message):
                    self._install_copy()
            case AuditPiece(offset=offset, data=data):
                return _append(self._state / AUDIT_LOG, offset, data)
            case RowsBetween() | RowsChanged():
                self._store_rows(message)
            case HandOver(number=number):
                self._take_over(number)
            case Ping(in_step=in_step):
                self.in_step = in_step
            case _:
                raise BadRequest(code="standby-message", what=f"{type(message).__name__} is not expected now")
        return _end_of(self._state / AUDIT_LOG)[0]

    def _store_rows(self, message: RowsBetween | RowsChanged) -> None:
        """Store rows beside the journal; events go on if that is not possible."""
        try:
            store_rows(self._state, message)
        except (HeadnodeError, OSError, sqlite3.Error) as error:
            self._row_problem = f"the standby cannot store them: {error}"
            log.error("credentials and notifications of the head are not stored: %s", error)
        else:
            self._row_problem = ""

    def _follow(self, replica: Replica, after: int, events: Sequence[bytes], ends: Sequence[int]) -> None:
        try:
            replica.follow(after, events, ends)
        except HeadnodeError as error:
            self._is_useless = error.code in USELESS
            raise

    def _install_copy(self) -> None:
        before = self.replica
        try:
            self.replica = self._copy.install(before)
        except (HeadnodeError, OSError):
            if before is not None:  # it may be closed by now
                before.store.close()
                self.replica = None
            self.replica = settled_replica(self._state)
            raise
        self.lost += report_lost_jobs(self._state, self.replica.store)

    def _take_over(self, number: int) -> None:
        if self.replica is None or self.replica.number != number:
            raise BadRequest(code="standby-events", what=f"not all events up to {number} are here")
        self._taken_over()


def _send(writer: asyncio.StreamWriter, message: FromStandby) -> None:
    writer.write(frame(encode_message(message)))


def _end_of(file: Path) -> tuple[int, int]:
    """Return the size of a log, and the checksum of its end; 0, 0 if there is none.

    Raises:  OSError.
    """
    try:
        with file.open("rb") as log_file:
            size = log_file.seek(0, os.SEEK_END)
            return size, ending_of(log_file, size)
    except FileNotFoundError:
        return 0, 0


def _append(file: Path, offset: int, data: bytes) -> int:
    """Write the bytes of a log from `offset` on, and return its size.  It is not synchronized each time.

    At 0 another log begins: the one that is there is kept beside it.
    """
    size = file.stat().st_size if file.exists() else 0
    if size and not offset:
        file.rename(file.with_name(f"{file.name}-{time.strftime('%Y%m%dT%H%M%S')}-{size}"))
        size = 0
    if offset != size:
        raise BadRequest(code="standby-audit", what=f"the audit log here has {size} bytes, not {offset}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(file, flags, 0o600), "ab") as log_file:
        log_file.write(data)
    return size + len(data)
