"""The journal of a real cluster: one SQLite file, one writer, one transaction for each batch."""

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final

from headnode import __version__
from headnode.adapters.journal.checking import look_over
from headnode.adapters.journal.ended_tables import EndedTables, PurgedJobs, purged_by
from headnode.adapters.journal.errors import Damage, damaged, from_sqlite, from_system, other_cluster
from headnode.adapters.journal.event_table import EventTable, PredictionTable, checksum, is_intact
from headnode.adapters.journal.journal_file import OpenFiles, SingleProcess, check_log, connect, is_older
from headnode.core.model.quantities import Instant, JobId
from headnode.core.state.events import Event, ParameterSet
from headnode.core.state.job_events import InstanceEnd
from headnode.engine.ports import EndedJob, Prediction, PurgeStep

_PAGE: Final = 1000  # events read at a time when replaying
_PIECE: Final = 1024 * 1024  # bytes of a snapshot written at a time
_COPIED: Final = 500  # pages of 4 KiB copied at a time
_BETWEEN_COPIES: Final = 0.005  # seconds

log = logging.getLogger("headnode.adapters.journal")


class SqliteJournal:
    """A `Journal`, an `Archive` and `Predictions` in the file `path`.

    It is made when there is none; with `may_create` False that is refused.
    Raises:  Unavailable ``already-running`` when another process has it open, ``journal-damaged``,
             ``journal-version``, ``journal-missing``, ``journal-full`` or ``journal-error``.
    """

    def __init__(self, path: Path, *, may_create: bool = True) -> None:
        self._path, self._may_create = path, may_create
        self._damage = Damage()
        self._single = SingleProcess(path.with_name(path.name + ".lock"))
        try:
            self._open()
        except BaseException:
            self._single.release()
            raise

    def _open(self) -> None:
        check_log(self._path)
        self._access = _Access(self._path)
        with self._access:
            self._database = connect(self._path, may_create=self._may_create)
            try:
                self._files = OpenFiles(self._path)
                self._events = EventTable(self._database, self._path, self._damage, self.written_by)
                self._ended = EndedTables(self._database, self._path, self._damage, self.written_by)
                self._predictions = PredictionTable(self._database, self._path, self._damage, self.written_by)
                self._purged = PurgedJobs(self._database, self._events)
                self._last = self._events.last_number()
                row = self._database.execute("select id, written_by from cluster").fetchone()
                self.cluster_id, self._written_by = map(str, row)
                self._see_that_no_event_is_missing()
            except BaseException:
                self._database.close()
                raise

    def append(
        self, events: Sequence[Event], ended: Iterable[EndedJob] = (), revived: Sequence[JobId] = ()
    ) -> int:
        """Record the events, take purged and `revived` jobs out of the archive, put `ended` ones in."""
        with self._transaction():
            self._events.insert(events, self._last)
            self._ended.project(events)
            if purged := purged_by(events):
                self._ended.take_out(purged)
                self._purged.note(purged)
            if revived:
                self._ended.take_out(revived)
                self._purged.keep(revived)
            self._ended.put_in(ended)
            self._predictions.write(events)
        self._predictions.written()
        self._last += len(events)
        return self._last

    def replay(self, after: int = 0) -> Iterator[tuple[int, Event]]:
        """Yield (number, event) for every event with a number greater than `after` that was not purged."""
        number = max(after, 0)
        while True:
            with self._access:
                page = self._events.page(number, _PAGE)
            if not page:
                return
            yield from page
            number = page[-1][0]

    def purge(self, most: int) -> PurgeStep:
        """Remove up to `most` rows of purged jobs."""
        with self._transaction():
            return self._purged.step(most)

    def purged_after(self, number: int) -> bool:
        """Return whether an event after a number was purged."""
        with self._access:
            return self._events.purged_after(number)

    @property
    def last_number(self) -> int:
        """The number of the last event that is on the disk."""
        return self._last

    def rows(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return the first encoded events after a number, up to `limit` or a page of bytes."""
        with self._access:
            return self._events.rows(after, limit)

    def checksum_of(self, number: int) -> int | None:
        """Return the checksum of an event; None: there is none of this number."""
        with self._access:
            return self._events.checksum_of(number)

    def keep_snapshot(self, number: int, state: bytes) -> None:
        """Keep the state as it was after event `number`, and the one kept before."""
        with self._transaction():
            kept = self._database.execute(
                "insert into snapshots (number, state, sum) values (?, zeroblob(?), ?)",
                (number, len(state), checksum(state, number)),
            ).lastrowid
            # not as a value of the statement: SQLite keeps a copy of that until the next snapshot
            with self._database.blobopen("snapshots", "state", kept or 0) as blob:
                for at in range(0, len(state), _PIECE):
                    blob.write(state[at : at + _PIECE])
            self._database.execute("delete from snapshots where id < ? - 1", (kept,))

    def newest_snapshot(self) -> tuple[int, bytes] | None:
        """Return (number, state) of the snapshot kept last, or None.

        One that does not read is passed over: an older one, or none, leads to the same state by a longer way.
        """
        with self._access:
            rows = self._database.execute("select number, state, sum from snapshots order by id desc")
            for number, state, checksum in rows:
                if is_intact(state, number, checksum):
                    return number, state
                log.warning(
                    "the snapshot after event %d in %s cannot be read; an older one is used",
                    number,
                    self._path,
                )
        return None

    def close(self) -> None:
        """Let go of the file."""
        with self._access:
            self._database.close()
        self._single.release()

    def ended_job(self, job: JobId) -> EndedJob | None:
        """Return one ended job."""
        with self._access:
            return self._ended.job(job)

    def ended_jobs(
        self, *, owner: str | None, states: Sequence[str], before: int | None, limit: int
    ) -> list[EndedJob]:
        """Return up to `limit` ended jobs with ids below `before`, newest id first; no states means all."""
        with self._access:
            return self._ended.jobs(owner, states, before, limit)

    def ended_of_group(
        self, group: str, *, owner: str | None, states: Sequence[str], before: int | None, limit: int
    ) -> list[EndedJob]:
        """Return up to `limit` ended jobs of a group with ids below `before`, newest id first."""
        with self._access:
            return self._ended.jobs_of_group(group, owner, states, before, limit)

    def ended_after(self, after: int, limit: int) -> list[EndedJob]:
        """Return up to `limit` ended jobs with ids above `after`, in the order of their ids."""
        with self._access:
            return self._ended.jobs_after(after, limit)

    def allocation_events(self, first: JobId, last: JobId) -> list[Event]:
        """Return by what the jobs `first` to `last` got and gave back processors, each job's in order."""
        with self._access:
            return self._events.allocations(first, last)

    def count_ended(self, *, owner: str | None) -> dict[str, int]:
        """Return how many jobs ended in each state."""
        with self._access:
            return self._ended.counts(owner)

    def instance(self, job: JobId, task: int, instance: int) -> InstanceEnd | None:
        """Return how the newest attempt of one instance ended."""
        with self._access:
            return self._ended.instance(job, task, instance)

    def instances(self, job: JobId, task: int, after: int, limit: int) -> list[InstanceEnd]:
        """Return the ended instances of a task with numbers above `after`, in order."""
        with self._access:
            return self._ended.instances(job, task, after, limit)

    def history(self, job: JobId, limit: int) -> list[Event]:
        """Return the newest events of a job but those of its instances, oldest first."""
        with self._access:
            return self._events.history(job, limit)

    def job_events(self, job: JobId, after: int, limit: int) -> list[tuple[int, Event]]:
        """Return the first events of a job and of its instances after a number, with their numbers."""
        with self._access:
            return self._events.of_job(job, after, limit)

    def event_span(self, job: JobId) -> tuple[int, int] | None:
        """Return the numbers of the first and the newest event in the history of a job; None: it has none."""
        with self._access:
            return self._events.span(job)

    def node_history(self, node: str, limit: int) -> list[Event]:
        """Return the newest events of a node, oldest first."""
        with self._access:
            return self._events.of_node(node, limit)

    def parameter_changes(self) -> Iterator[ParameterSet]:
        """Yield every change of a cluster parameter, in order."""
        number = 0
        while True:
            with self._access:
                page, more = self._events.parameters(number, _PAGE)
            if more is None:
                return
            yield from page
            number = more

    def written_by(self) -> str:
        """Return the newest version of Headnode that wrote here."""
        return self._written_by

    def size(self) -> int:
        """Return how many bytes the file and its write-ahead log take."""
        files = (self._path, self._path.with_name(self._path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def copy_to(self, path: Path) -> None:
        """Copy the journal into a new file while appends go on; they wait for some milliseconds at most.

        The copy has everything that was acknowledged when this was called.  Only the owner may read it.
        Raises:  Unavailable ``journal-full`` or ``journal-error``, naming the copy.
        """
        with _Access(path):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            copy = sqlite3.connect(path, isolation_level=None)
            try:  # a step that meets a transaction of ours is repeated
                self._database.backup(
                    copy,
                    pages=_COPIED,
                    progress=lambda *_: time.sleep(_BETWEEN_COPIES),
                    sleep=_BETWEEN_COPIES,
                )
            finally:
                copy.close()

    def damage(self) -> tuple[str, ...]:
        """Return which rows were found damaged since the journal was opened, in sentences."""
        return self._damage.noted

    def look_over(self, seconds: float) -> None:
        """Look for damage for at most so long, newest rows first; what is found is in `damage`.

        Raises:  Unavailable ``journal-damaged`` when the tables themselves are damaged: nothing may be
                 written to them.
        """
        with self._access:
            look_over(self._database, self._path, self._damage, seconds)

    def keep_predictions(self, predictions: Sequence[Prediction]) -> None:
        """Keep the predictions with the next batch of events; no write of their own."""
        with self._access:
            self._predictions.keep(predictions)

    def prediction(self, job: JobId) -> Prediction | None:
        """Return what was predicted of one job, if it is known still."""
        with self._access:
            return self._predictions.one(job)

    def judged_predictions(
        self, since: Instant, limit: int, before: tuple[Instant, JobId] | None = None
    ) -> list[Prediction]:
        """Return the predictions of up to `limit` jobs that started since then, newest start first."""
        with self._access:
            return self._predictions.judged(since, limit, before)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._access:
            self._database.execute("begin immediate")
            try:
                yield
                self._sign()
                self._files.check()
                self._database.execute("commit")
            except BaseException:
                if self._database.in_transaction:  # SQLite has rolled back by itself after some errors
                    self._database.execute("rollback")
                raise
            self._files.check()

    def _sign(self) -> None:
        """Note that this version writes here, unless a newer one has: it alone can read all of the rows."""
        if self._written_by != __version__ and is_older(self._written_by, __version__):
            self._database.execute("update cluster set written_by = ?", (__version__,))
            self._written_by = __version__

    def _see_that_no_event_is_missing(self) -> None:
        row = self._database.execute("select max(number) from snapshots").fetchone()
        if (row[0] or 0) > self._last:
            raise damaged(
                self._path, f"it ends with event {self._last}, but a snapshot was made after {row[0]}"
            )


class _Access:
    """One thread at a time, and the errors of SQLite in our own words."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
        if isinstance(error, sqlite3.Error) and not isinstance(error, sqlite3.ProgrammingError):
            raise from_sqlite(self._path, error) from error
        if isinstance(error, UnicodeDecodeError):  # SQLite's message quotes what it cannot read
            raise damaged(self._path, "its tables cannot be read") from error
        if isinstance(error, OSError):
            raise from_system(self._path, error) from error


JOURNAL: Final = "journal.db"
CLUSTER_ID: Final = "cluster-id"


def open_journal(state: Path) -> SqliteJournal:
    """Open the journal of a state directory; make both when the directory belongs to no cluster yet.

    Raises:  Unavailable ``journal-missing``, ``other-cluster``, or what `SqliteJournal` raises.
    """
    path, beside = state / JOURNAL, cluster_id(state)
    journal = SqliteJournal(path, may_create=not beside)
    try:
        if beside and beside != journal.cluster_id:
            raise other_cluster(path, beside, journal.cluster_id)
        if not beside:
            write_cluster_id(state, journal.cluster_id)
    except BaseException:
        journal.close()
        raise
    return journal


def cluster_id(state: Path) -> str:
    """Return the id of the cluster that a state directory belongs to; empty: to none.

    Raises:  Unavailable ``journal-error``.
    """
    file = state / CLUSTER_ID
    try:
        return file.read_text(encoding="ascii").strip() if file.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise from_system(file, OSError(getattr(error, "errno", 0) or 0, f"{file} does not read")) from error


def write_cluster_id(state: Path, cluster: str) -> None:
    """Write the id, so that it survives a power cut.

    Raises:  Unavailable ``journal-error``.
    """
    scratch = state / f"{CLUSTER_ID}.new"
    try:
        with scratch.open("w", encoding="ascii") as file:
            file.write(cluster + "\n")
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(state / CLUSTER_ID)
    except OSError as error:
        raise from_system(scratch, error) from error
