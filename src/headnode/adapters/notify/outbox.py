"""Notices that wait for delivery, and which events each webhook has, on the disk; how they are delivered."""

import logging
import sqlite3
from collections import deque
from collections.abc import Container, Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import Literal

import msgspec

from headnode.adapters.files.copied_tables import CURSORS, SEEN, WAITING, RowChanges
from headnode.core.model.errors import BadRequest, Unavailable
from headnode.core.state.notices import Notice
from headnode.engine.settings import Settings


class DeliverySettings(msgspec.Struct, frozen=True):
    """Mail goes by `server` (host or host:port; empty: by none); hooks may begin as one of `hooks` does."""

    server: str = ""
    encryption: str = "none"
    sender: str = ""
    credentials: str = ""  # path of a file with user:password
    domain: str = ""  # of owners whose jobs name no address
    hooks: tuple[str, ...] = ()
    everything: tuple[str, ...] = ()  # addresses that are told of every notice


def delivery_settings(settings: Settings) -> DeliverySettings:
    """Return the ways that the cluster's parameters allow."""
    return _DEFAULT if _PARAMETERS.isdisjoint(settings.values) else _read(settings)


def _read(settings: Settings) -> DeliverySettings:
    return DeliverySettings(
        server=settings.text("EmailSmtpServer"),
        encryption=settings.text("EmailEncryption"),
        sender=settings.text("EmailFrom"),
        credentials=settings.text("EmailCredentialsFile"),
        domain=settings.text("EmailDomain"),
        hooks=_words(settings.text("NotificationWebhooks")),
        everything=_words(settings.text("NotificationCopies")),
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (word.strip() for word in text.split(","))))


_PARAMETERS = frozenset({
    "EmailSmtpServer", "EmailEncryption", "EmailFrom", "EmailCredentialsFile", "EmailDomain",
    "NotificationWebhooks", "NotificationCopies",
})  # fmt: skip
_DEFAULT = _read(Settings({}))  # most clusters: it is asked for with each submission


def host_and_port(server: str) -> tuple[str, int]:
    """Return host and port of a mail server; 0 where the usual one is meant.

    Raises:  BadRequest ``mail-server``.
    """
    host, colon, port = server.rpartition(":")
    if not colon or port.endswith("]"):  # an address of IPv6 has colons of its own
        return server.strip("[]"), 0
    if not port.isdecimal():
        raise BadRequest(
            code="mail-server",
            what=f"{server!r} is not a mail server",
            fix="set EmailSmtpServer to a host, or to host:port",
        )
    return host.strip("[]"), int(port)


log = logging.getLogger("headnode.notices")

TABLES = f"""
{WAITING.schema}
{SEEN.schema}
create table if not exists unreadable (
    number integer, address text, notice blob, primary key (number, address)
) without rowid;
"""


NoticeKey = tuple[int, str]
"""The number of the event that a notice tells of, and where it goes."""


class PendingNotice(msgspec.Struct, frozen=True):
    """A notice that was not brought yet, and where it goes."""

    notice: Notice
    address: str

    @property
    def key(self) -> NoticeKey:
        """By what it is known."""
        return self.notice.number, self.address


def server_of(address: str) -> str:
    """Return the web server of an address; empty for the mail server."""
    return address.split("/")[2] if "://" in address else ""


def _unusable(path: Path, error: Exception) -> Unavailable:
    return Unavailable(
        code="notices",
        what=f"the waiting notices in {str(path)!r} cannot be used: {error}",
        fix=f"free some space in {str(path.parent)!r}, or let its owner write there; then: hn up",
    )


_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class Outbox:
    """The notices in one file.  A file that is damaged is moved aside, and jobs go on."""

    def __init__(self, path: Path, changes: RowChanges | None = None) -> None:
        """`changes` is told which rows change.

        Raises:  Unavailable ``notices``, if the file is whole and cannot be used: the disk is full.
        """
        self._path, self._changes = path, changes or RowChanges()
        try:
            self._database = self._opened()
        except (sqlite3.DatabaseError, OSError) as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGE:
                raise _unusable(path, error) from None
            aside = path.with_suffix(".damaged")
            log.error("the waiting notices in %s cannot be read; the file is now %s: %s", path, aside, error)
            path.replace(aside)
            for suffix in ("-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            self._database = self._opened()

    def _opened(self) -> sqlite3.Connection:
        self._path.touch(mode=0o600)
        database = sqlite3.connect(self._path, isolation_level=None)
        database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = normal")
        database.executescript(TABLES)
        return database

    @property
    def seen(self) -> int | None:
        """The last event whose notices are here or were brought; None when nobody has looked yet."""
        row = self._database.execute("select number from seen").fetchone()
        return None if row is None else row[0]

    def add(self, seen: int, waiting: Sequence[PendingNotice] = ()) -> None:
        """Store the notices of the events up to `seen`."""
        rows = [(one.notice.number, one.address, msgspec.msgpack.encode(one.notice)) for one in waiting]
        with self._database:
            self._database.execute("begin")
            self._database.executemany("insert or ignore into waiting values (?, ?, ?)", rows)
            self._database.execute("insert or replace into seen values (1, ?)", (seen,))
        for row in rows:
            self._changes.stored(WAITING, row)
        self._changes.stored(SEEN, (1, seen))  # after them: it says that they are there

    def waiting(self, after: NoticeKey, limit: int) -> tuple[list[PendingNotice], NoticeKey | None]:
        """Return the oldest that wait behind a key, up to so many; and behind which to go on, if at all."""
        rows = self._database.execute(
            "select number, notice, address from waiting where (number, address) > (?, ?) "
            "order by number, address limit ?",
            (*after, limit),
        ).fetchall()
        notices = (self._read(*row) for row in rows)
        last = (rows[-1][0], rows[-1][2]) if rows else None
        return [one for one in notices if one is not None], last

    def _read(self, number: int, notice: bytes, address: str) -> PendingNotice | None:
        """Return a notice.  One that cannot be read is set aside: it would hold up all the others."""
        try:
            return PendingNotice(msgspec.msgpack.decode(notice, type=Notice), address)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            log.error(
                "notice %d for %s cannot be read (%s); it is kept in table unreadable of %s",
                number,
                address,
                error,
                self._path,
            )
        with self._database:
            self._database.execute("begin")
            self._database.execute(
                "insert or replace into unreadable select number, address, notice from waiting "
                "where number = ? and address = ?",
                (number, address),
            )
            self.discard(number, address)
        return None

    def count(self) -> int:
        """Return how many wait."""
        (number,) = self._database.execute("select count(*) from waiting").fetchone()
        return int(number)

    def discard(self, number: int, address: str) -> None:
        """Forget one that was brought, or never can be."""
        self._database.execute("delete from waiting where number = ? and address = ?", (number, address))
        self._changes.removed(WAITING, (number, address))

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()


class DeliveryQueue:
    """Which of the waiting notices is next.  It has the oldest in memory, up to `most`, and reads none twice.

    The next one is found without a look at the others: there may be many, of a server that does not answer.
    """

    def __init__(self, outbox: Outbox, most: int) -> None:
        self._outbox, self._most = outbox, most
        self._due: dict[str, deque[PendingNotice]] = {}  # by server, the oldest first
        self._resting: list[tuple[float, NoticeKey, PendingNotice]] = []  # a heap, by when they are due
        self._out: dict[NoticeKey, PendingNotice] = {}  # given away
        self._held = 0  # how many all these are
        self._last: NoticeKey = (0, "")  # of the newest that was read
        self._has_more = True

    def look(self) -> None:
        """Let what was added to the outbox be read."""
        self._has_more = True

    def next(self, now: float, full: Container[str]) -> PendingNotice | None:
        """Give away the oldest notice that is due, for a server that is not full."""
        self._read()
        while self._resting and self._resting[0][0] <= now:
            self._insert(heappop(self._resting)[2])
        free = [queue[0].key for server, queue in self._due.items() if server not in full]
        if not free:
            return None
        server = server_of(min(free)[1])
        one = self._due[server].popleft()
        if not self._due[server]:
            del self._due[server]
        self._out[one.key] = one
        return one

    def rest(self, key: NoticeKey, until: float) -> None:
        """Take back one that was given away, and keep it until then."""
        if (one := self._out.pop(key, None)) is not None:
            heappush(self._resting, (until, key, one))

    def take_back(self, busy: Container[NoticeKey]) -> None:
        """Take back all that were given out, except `busy`: the process that had them was lost."""
        for key in sorted((key for key in self._out if key not in busy), reverse=True):
            self._insert(self._out.pop(key))

    def settled(self, key: NoticeKey) -> None:
        """Forget one that was given away: it was brought, or never will be."""
        if self._out.pop(key, None) is not None:
            self._held -= 1

    def _insert(self, one: PendingNotice) -> None:
        """Make a notice that was away the next of its server."""
        self._due.setdefault(server_of(one.address), deque()).appendleft(one)

    def _read(self) -> None:
        """Read more when there may be some, and half of the room is free."""
        if not self._has_more or self._held > self._most // 2:
            return
        notices, last = self._outbox.waiting(self._last, self._most - self._held)
        self._has_more = last is not None
        self._last = last or self._last
        self._held += len(notices)
        for one in notices:
            self._due.setdefault(server_of(one.address), deque()).append(one)


Became = Literal["brought", "later", "never"]


class Delivery(msgspec.Struct, frozen=True, tag=True):
    """A notice, where it goes and how."""

    notice: Notice
    address: str
    ways: DeliverySettings


class DeliveryResult(msgspec.Struct, frozen=True):
    """What became of a delivery; `problem` says why it was not brought."""

    number: int
    address: str
    became: Became
    problem: str = ""


log = logging.getLogger("headnode.notices")


class EventPost(msgspec.Struct, frozen=True, tag=True):
    """Events up to a number, for one hook.  `body` is JSON; `secret_file` names the file of the key."""

    identity: str  # the same when it is sent again
    number: int
    hook: str
    body: bytes
    content_type: str
    secret_file: str = ""  # empty: they are not signed


class HookCursors:
    """The number of the last event that each hook has, in one file."""

    def __init__(self, path: Path, changes: RowChanges | None = None) -> None:
        """`changes` is told which rows change.

        Raises:  sqlite3.Error.
        """
        self._changes = changes or RowChanges()
        path.touch(mode=0o600)
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("pragma journal_mode = wal")
        self._database.execute("pragma synchronous = normal")
        self._database.execute(CURSORS.schema)

    def number(self, hook: str) -> int | None:
        """Return the last event that a hook has; None for a new hook."""
        row = self._database.execute("select number from cursors where hook = ?", (hook,)).fetchone()
        return None if row is None else int(row[0])

    def move(self, hook: str, number: int) -> None:
        """Note that a hook has the events up to a number; without it they come again after a restart."""
        try:
            self._database.execute("insert or replace into cursors values (?, ?)", (hook, number))
        except sqlite3.Error as error:
            log.error("the progress of webhook %s cannot be stored: %s", hook, error)
            return
        self._changes.stored(CURSORS, (hook, number))

    def keep_only(self, hooks: set[str]) -> None:
        """Forget the hooks that are not set any more."""
        for (hook,) in self._database.execute("select hook from cursors").fetchall():
            if hook not in hooks:
                self._database.execute("delete from cursors where hook = ?", (hook,))
                self._changes.removed(CURSORS, (hook,))

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()
