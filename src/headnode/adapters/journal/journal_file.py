"""The file of the SQLite journal: its tables, lock and write-ahead log, whether it was replaced, and which
numbers of events it has no more.
"""

import errno
import fcntl
import os
import re
import sqlite3
import struct
import sys
import uuid
from array import array
from pathlib import Path
from typing import Final, NamedTuple

from headnode import __version__
from headnode.adapters.journal.errors import damaged, from_system, in_use, missing, replaced
from headnode.core.model.errors import Unavailable

VERSION: Final = 6
"""Of the tables below and of what is in them; 1 to 5 were of development.  No other version is read."""

_TABLES: Final = """
-- What happened, for ever.  kind: 0 of the cluster, 1 of a job, 2 of a job's instances.
-- sum: CRC-32 of the body, begun with the number, so that a row can neither change nor move unseen.
create table events (number integer primary key, job integer, kind integer not null, body blob not null,
    sum integer not null);
-- Only what a job's history tells; the query must repeat "kind = 1" for SQLite to use it.
create index job_events on events (job) where kind = 1;
-- Those of a job's instances, for the history of their states.
create index instance_events on events (job) where kind = 2;

-- The rest are projections of the events, kept in the same transaction.
create table ended_jobs (id integer primary key, owner text not null, state text not null,
    body blob not null, sum integer not null);
create index ended_jobs_of on ended_jobs (owner, state);
create index ended_jobs_in on ended_jobs (state);
create table ended_counts (owner text not null, state text not null, jobs integer not null,
    primary key (owner, state)) without rowid;
create table ended_instances (job integer not null, task integer not null, instance integer not null,
    finished integer not null, body blob not null, sum integer not null,
    primary key (job, task, instance)) without rowid;
create table snapshots (id integer primary key, number integer not null, state blob not null,
    sum integer not null);

-- started: repeats what the body says, for the index; null until the job has.
create table predictions (number integer primary key autoincrement, job integer not null unique,
    body blob not null, sum integer not null, started real);
create index predictions_judged on predictions (started, job) where started is not null;
-- Only jobs that belong to a group are in it.
create table ended_groups (id integer primary key, job_group text not null);
create index ended_groups_of on ended_groups (job_group, id);
-- What happened to the cluster is little beside what happened to jobs, and is looked for among that.
create index cluster_events on events (number) where kind = 0;
-- One row: which cluster this is, and the newest version of Headnode that wrote here.
-- The state directory has the same id in a file beside the journal.
create table cluster (id text not null, written_by text not null);
"""

_ADDED: Final = """
-- Ended jobs that were purged, of which rows are left.
create table if not exists purging (job integer primary key);
-- The numbers of the events that were purged, in spans that do not touch.
create table if not exists purged_events (first integer primary key, last integer not null);
"""
"""Tables that journals of version 0.2 do not have; that version does not look at them."""

_LOCK_TIMEOUT: Final = 0.5  # seconds


def connect(path: Path, *, may_create: bool = True) -> sqlite3.Connection:
    """Open the journal file for this process alone, and make it when there is none.

    Nobody but its owner may read it.  SQLite holds its lock on the file itself until the connection is
    closed, so that a second process is refused whatever becomes of other files.
    Raises:  sqlite3.Error when it cannot be read or written; OSError when it cannot be made;
             Unavailable ``already-running``, ``journal-version``; ``journal-missing`` when there is none and
             `may_create` is False.
    """
    if not may_create and not path.exists():
        raise missing(path)
    path.touch(mode=0o600)
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=_LOCK_TIMEOUT)
    try:
        _settle(database, path, may_create=may_create)
    except BaseException as error:
        database.close()
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise in_use(path) from error
        raise
    return database


def is_older(version: str, than: str) -> bool:
    """Return whether the first three numbers of a version come before those of another."""
    return _numbers(version) < _numbers(than)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


def _settle(database: sqlite3.Connection, path: Path, *, may_create: bool) -> None:
    database.execute("pragma locking_mode = exclusive")
    (version,) = database.execute("pragma user_version").fetchone()
    if version == 0 and not may_create:
        raise missing(path)
    if version not in (0, VERSION):
        raise _other_version(path, version, database)
    database.execute("pragma journal_mode = wal")
    database.execute("pragma synchronous = full")
    database.execute("pragma cache_size = -2000")  # KiB; events are appended, and read in order
    database.execute("pragma journal_size_limit = 16000000")  # bytes; a snapshot may have made the log longer
    if version == 0:
        new_id = uuid.uuid4().hex
        database.executescript(f"begin immediate; {_TABLES} pragma user_version = {VERSION};")
        database.execute("insert into cluster values (?, ?)", (new_id, __version__))
        database.execute("commit")
    database.executescript(_ADDED)
    _empty_the_log(database)


def _other_version(path: Path, version: int, database: sqlite3.Connection) -> Unavailable:
    """Return the error for a journal of another format, with the version that wrote it and a way out."""
    try:
        (writer,) = database.execute("select written_by from cluster").fetchone()
    except (sqlite3.Error, TypeError):
        writer = ""
    what = f"the journal {str(path)!r} has version {version}, written by Headnode {writer}".rstrip()
    reads = f"Headnode {__version__} reads version {VERSION}"
    if version < VERSION:
        return Unavailable(
            code="journal-version",
            what=f"{what} during development; {reads}, the first that was released",
            fix="let its jobs end with the Headnode that wrote it, then begin with another --state "
            "DIRECTORY; nothing was changed",
        )
    return Unavailable(
        code="journal-version",
        what=f"{what}; {reads}",
        fix="start the Headnode that wrote it; nothing was changed",
    )


def _empty_the_log(database: sqlite3.Connection) -> None:
    """Begin with an empty log: appends that failed may have left torn frames in the old one."""
    try:
        database.execute("pragma wal_checkpoint(truncate)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
            raise  # without room the log stays as it is; nothing can be appended anyway


class PurgedNumbers:
    """The numbers of purged events, in spans that do not touch; any other that is missing is damage."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def add(self, number: int) -> None:
        """Add a number; spans that touch become one."""
        before, after = self._begun_by(number - 1), self._begun_by(number + 1)
        first = before[0] if before is not None and before[1] == number - 1 else number
        last = after[1] if after is not None and after[0] == number + 1 else number
        self._database.execute("delete from purged_events where first = ?", (number + 1,))
        self._database.execute("insert or replace into purged_events values (?, ?)", (first, last))

    def has(self, first: int, last: int) -> bool:
        """Return whether all numbers from `first` to `last` are there."""
        span = self._begun_by(first)
        return span is not None and span[1] >= last

    def last(self) -> int:
        """Return the highest number; 0 when there is none."""
        query = "select last from purged_events order by first desc limit 1"
        row = self._database.execute(query).fetchone()
        return 0 if row is None else int(row[0])

    def _begun_by(self, number: int) -> tuple[int, int] | None:
        """Return the last span that begins at a number or before it."""
        query = "select first, last from purged_events where first <= ? order by first desc limit 1"
        row: tuple[int, int] | None = self._database.execute(query, (number,)).fetchone()
        return row


class SingleProcess:
    """Holds `path` locked from its making until `release`.

    Raises:  Unavailable ``already-running`` when another process, or another journal of this one, holds it;
             ``journal-error`` when the file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = os.fdopen(
                os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b", buffering=0
            )
        except OSError as error:
            raise from_system(path, error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise self._refusal(path, error) from error
        self._file.truncate(0)
        self._file.write(b"%d\n" % os.getpid())

    def release(self) -> None:
        """Let another process have it."""
        self._file.close()

    def _refusal(self, path: Path, error: OSError) -> Unavailable:
        holder = self._file.read(32).decode("ascii", "replace").strip()
        self._file.close()
        if error.errno != errno.EWOULDBLOCK:
            return from_system(path, error)
        holder_name = f"process {holder}" if holder else "another process"
        return Unavailable(
            code="already-running",
            what=f"{holder_name} already uses the state directory {str(path.parent)!r}",
            fix="use that head, stop it with `hn down`, or give this one another state directory",
        )


_HEADER: Final = struct.Struct(">8I")  # magic, version, page size, sequence, salt 1 and 2, sums 1 and 2
_FRAME: Final = struct.Struct(">6I")  # page, pages after a commit or 0, salt 1 and 2, sums 1 and 2
_MAGIC: Final = 0x377F0682  # the lowest bit is set when the sums take words big end first
_WORD: Final = 0xFFFFFFFF

Sums = tuple[int, int]


class _Log(NamedTuple):
    """The header of a log, and all behind it."""

    page_size: int
    big_endian: bool
    salts: tuple[int, int]
    sums: Sums
    frames: memoryview

    @property
    def step(self) -> int:
        """Bytes from one frame to the next."""
        return _FRAME.size + self.page_size


def check_log(path: Path) -> None:
    """See that the log of the database `path` is whole up to the last batch, at most.

    Raises:  Unavailable ``journal-damaged`` when acknowledged batches cannot be read;
             ``journal-error`` when the file cannot be.
    """
    log_path = path.with_name(path.name + "-wal")
    try:
        data = log_path.read_bytes() if log_path.exists() else b""
        has_database = path.exists() and path.stat().st_size > 0
    except OSError as error:
        raise from_system(log_path, error) from error
    if not data:
        return
    if not has_database:
        raise damaged(path, f"it is missing or empty, yet {log_path.name!r} beside it holds batches")
    log = _read_header(data)
    if log is None:
        if len(data) <= _HEADER.size:
            return  # nothing was ever written behind it
        raise damaged(path, f"the header of {log_path.name!r} cannot be read")
    if _commits_behind(log, _first_bad_frame(log)) > 1:
        raise damaged(path, f"batches in the middle of {log_path.name!r} cannot be read")


def _read_header(data: bytes) -> _Log | None:
    if len(data) < _HEADER.size:
        return None
    magic, _, page_size, _, salt1, salt2, *sums = _HEADER.unpack_from(data)
    if magic & ~1 != _MAGIC or not 512 <= page_size <= 65536:
        return None
    big_endian = bool(magic & 1)
    if _add((0, 0), data[:24], big_endian) != tuple(sums):
        return None
    return _Log(page_size, big_endian, (salt1, salt2), (sums[0], sums[1]), memoryview(data)[_HEADER.size :])


def _first_bad_frame(log: _Log) -> int:
    """Return where the first frame begins that SQLite will not believe."""
    sums = log.sums
    for at in range(0, len(log.frames) - log.step + 1, log.step):
        _, _, salt1, salt2, *checksums = _FRAME.unpack_from(log.frames, at)
        if (salt1, salt2) != log.salts:
            return at
        sums = _add(sums, log.frames[at : at + 8], log.big_endian)
        sums = _add(sums, log.frames[at + _FRAME.size : at + log.step], log.big_endian)
        if sums != tuple(checksums):
            return at
    return len(log.frames)


def _commits_behind(log: _Log, start: int) -> int:
    """Return how many frames from `start` on end a batch of this log."""
    commits = 0
    for at in range(start, len(log.frames) - _FRAME.size + 1, log.step):
        _, pages, salt1, salt2, _, _ = _FRAME.unpack_from(log.frames, at)
        commits += (salt1, salt2) == log.salts and pages > 0
    return commits


def _add(sums: Sums, data: bytes | memoryview, big_endian: bool) -> Sums:
    """Return the running sums of a log after an even number of 32-bit words."""
    numbers = array("I", bytes(data))
    if big_endian != (sys.byteorder == "big"):
        numbers.byteswap()
    first, second = sums
    pairs = iter(numbers)
    for even, odd in zip(pairs, pairs, strict=True):
        first = (first + even + second) & _WORD
        second = (second + odd + first) & _WORD
    return first, second


_Identity = tuple[int, int]  # device and number of the file


class OpenFiles:
    """The database and its write-ahead log, as SQLite has them open.

    Whoever removes or replaces one of them lets SQLite write where no later head will read.
    Cost:  two system calls (3 us) for each check; an append has two: one before the commit, which is then
    rolled back, and one after it, for what happened meanwhile.
    """

    def __init__(self, path: Path) -> None:
        """Remember the files that SQLite has opened; a log that it opens later is remembered then."""
        files = str(path), f"{path}-wal"
        self._files = {file: _identity(file) for file in files}

    def check(self) -> None:
        """See that both files are in their places.

        Raises:  Unavailable ``journal-replaced``.
        """
        for file, identity in self._files.items():
            now = _identity(file)
            if identity is None:
                self._files[file] = now
            elif now != identity:
                raise replaced(Path(file))


def _identity(file: str) -> _Identity | None:
    try:
        status = os.stat(file)  # noqa: PTH116 - half the time of a Path, and it is asked for all the time
    except OSError:  # it is not there, or the directory is not
        return None
    return status.st_dev, status.st_ino
