"""The tables of the SQLite journal, and how its file is opened."""

import sqlite3
import uuid
from pathlib import Path
from typing import Final

from headnode import __version__
from headnode.adapters.journal.troubles import in_use, missing
from headnode.core.model.errors import Unavailable

VERSION: Final = 5
"""Of the tables below.  No other version is read."""

_TABLES: Final = """
-- What happened, for ever.  kind: 0 of the cluster, 1 of a job, 2 of a job's instances.
-- sum: CRC-32 of the body, begun with the number, so that a row can neither change nor move unseen.
create table events (number integer primary key, job integer, kind integer not null, body blob not null,
    sum integer not null);
-- Only what a job's history tells; the query must repeat "kind = 1" for SQLite to use it.
create index job_events on events (job) where kind = 1;

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
-- One row: which cluster this is, and which version of Headnode wrote here last.
-- The state directory has the same id in a file beside the journal.
create table cluster (id text not null, written_by text not null);
"""


_LOCK_PATIENCE: Final = 0.5  # seconds


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
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=_LOCK_PATIENCE)
    try:
        _settle(database, path, may_create=may_create)
    except BaseException as error:
        database.close()
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise in_use(path) from error
        raise
    return database


def _settle(database: sqlite3.Connection, path: Path, *, may_create: bool) -> None:
    database.execute("pragma locking_mode = exclusive")
    (found,) = database.execute("pragma user_version").fetchone()
    if found == 0 and not may_create:
        raise missing(path)
    if found not in (0, VERSION):
        raise Unavailable(
            code="journal-version",
            what=f"the journal {str(path)!r} has version {found}, this Headnode reads version {VERSION}",
            fix="start the version of Headnode that wrote it; nothing was changed",
        )
    database.execute("pragma journal_mode = wal")
    database.execute("pragma synchronous = full")
    database.execute("pragma cache_size = -8000")  # KiB
    database.execute("pragma journal_size_limit = 16000000")  # bytes; a snapshot may have made the log longer
    if found == 0:
        new_id = uuid.uuid4().hex
        database.executescript(f"begin immediate; {_TABLES} pragma user_version = {VERSION};")
        database.execute("insert into cluster values (?, ?)", (new_id, __version__))
        database.execute("commit")
    _empty_the_log(database)


def _empty_the_log(database: sqlite3.Connection) -> None:
    """Begin with an empty log: appends that failed may have left torn frames in the old one."""
    try:
        database.execute("pragma wal_checkpoint(truncate)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
            raise  # without room the log stays as it is; nothing can be appended anyway
