"""The tables of events and of predicted starts, and what events do to the table of ended instances.

The caller begins and ends the transactions."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any, Final, TypeGuard
from zlib import crc32

import msgspec

from headnode.adapters.journal.errors import Damage, changed_row, damaged, undecodable_row
from headnode.adapters.journal.journal_file import PurgedNumbers
from headnode.core.model.bounds import EVENT_BYTES, PAGE_BYTES
from headnode.core.model.quantities import Instant, JobId
from headnode.core.state.events import EVENTS, Event, ParameterSet, decode, encode, node_of
from headnode.core.state.job_events import (
    AllocationGrown,
    AllocationLost,
    AllocationReleased,
    AllocationShrunk,
    InstanceEnd,
    InstancesDispatched,
    InstancesEnded,
    InstancesRequeued,
    InstancesStaging,
    InstancesStarted,
    InstancesStopping,
    JobConfiguring,
    JobEvent,
    JobRequeued,
    JobStarted,
)
from headnode.core.state.suspension_events import JobResumed, JobSuspended
from headnode.engine.ports import MAX_PREDICTIONS, Prediction

OF_CLUSTER: Final = 0
"""Kind of an event of a node or of the whole cluster."""
OF_JOB: Final = 1
"""Kind of an event that a job's history tells."""
OF_INSTANCES: Final = 2
"""Kind of an event of a job's instances: far too many to tell in its history."""

ALLOCATION_EVENTS: Final = (
    JobStarted,
    AllocationGrown,
    AllocationShrunk,
    AllocationReleased,
    AllocationLost,
    JobSuspended,
    JobResumed,
)
"""By which a job gets and gives back processors."""

_INSTANCE_EVENTS = (
    *(InstancesDispatched, InstancesStaging, InstancesStarted),
    *(InstancesEnded, InstancesStopping),
)
_CHANGING = frozenset({InstancesEnded, InstancesRequeued, JobRequeued, JobConfiguring})


def _kind(event: type) -> int:
    if event in _INSTANCE_EVENTS:
        return OF_INSTANCES
    return OF_JOB if issubclass(event, JobEvent) else OF_CLUSTER


_KINDS: Mapping[type, int] = {event: _kind(event) for event in EVENTS}


class Put(msgspec.Struct, frozen=True, gc=False):
    """An instance ended; what is known of an earlier attempt is replaced."""

    job: JobId
    ended: InstanceEnd


class Drop(msgspec.Struct, frozen=True, gc=False):
    """The instances `first` to `last` of a task will run again."""

    job: JobId
    task: int
    first: int
    last: int


class DropUnfinished(msgspec.Struct, frozen=True, gc=False):
    """Every instance of a job that did not finish will run again."""

    job: JobId


class DropAll(msgspec.Struct, frozen=True, gc=False):
    """Every instance of a job will run again."""

    job: JobId


Change = Put | Drop | DropUnfinished | DropAll


def kind_of(event: Event) -> int:
    """Return the kind of an event: of the cluster, of a job, or of a job's instances."""
    return _KINDS[type(event)]


def changes(events: Sequence[Event]) -> Iterator[Change]:
    """Yield what the events do to the ended instances, in order.  The last word on an instance holds."""
    for event in events:
        if type(event) not in _CHANGING:  # most are: a match asks for one class after the other
            continue
        match event:
            case InstancesEnded(job=job, ended=ended):
                for one in ended:
                    if one.state == "queued":
                        yield Drop(job, one.task, one.instance, one.instance)
                    else:
                        yield Put(job, one)
            case InstancesRequeued(job=job, task=task, spans=spans):
                for first, last in spans:
                    yield Drop(job, task, first, last)
            case JobRequeued(job=job):
                yield DropUnfinished(job)
            case JobConfiguring(job=job):
                yield DropAll(job)


_Row = tuple[int, bytes, int]  # number, body, sum
_MAX_ALLOCATION: Final = 4 * 1024 * 1024  # bytes; only descriptions can be larger


def first_bytes(rows: Iterable[tuple[Any, bytes, int]], most: int) -> list[tuple[Any, bytes, int]]:
    """Return the first rows, up to and with the one that makes them `most` bytes."""
    beginnings, read = [], 0
    for row in rows:
        beginnings.append(row)
        read += length_of(row[1])
        if read >= most:
            break
    return beginnings


def length_of(body: object) -> int:
    """Return the bytes of a body; damage can change even the type of a value."""
    return len(body) if isinstance(body, bytes) else 0


def checksum(body: bytes, key: int) -> int:
    """Return the CRC-32 of what a row holds, begun with its key so that no two rows can change places."""
    return crc32(body, key & 0xFFFFFFFF)


def is_intact(body: object, key: int, stored: object) -> TypeGuard[bytes]:
    """Return whether a row holds what was written; damage can change even the type of a value."""
    return isinstance(body, bytes) and checksum(body, key) == stored


_OF_JOB: Final = "select number, body, sum from events where kind = {kind} and job = ? and number > ?"
"""SQLite uses the index of a kind only where the query repeats its number."""
_NUMBERS: Final = "select number from events where kind = {kind} and job = ? order by number {order} limit ?"


class EventTable:
    """The events in the database `path`; errors name that file."""

    def __init__(
        self, database: sqlite3.Connection, path: Path, damage: Damage, written_by: Callable[[], str]
    ) -> None:
        """`damage` hears of events that lists leave out because they do not read."""
        self._database, self._path, self._damage = database, path, damage
        self._written_by, self._purged = written_by, PurgedNumbers(database)

    def last_number(self) -> int:
        """Return the number of the newest event; 0 when there is none."""
        (number,) = self._database.execute("select max(number) from events").fetchone()
        return number or 0

    def insert(self, events: Sequence[Event], after: int) -> None:
        """Record the events under the numbers that follow `after`."""
        rows = []
        for number, event in enumerate(events, after + 1):
            body = encode(event)
            job = event.job if isinstance(event, JobEvent) else None
            rows.append((number, job, kind_of(event), body, checksum(body, number)))
        self._database.executemany("insert into events values (?, ?, ?, ?, ?)", rows)

    def rows(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return the first encoded events after a number, up to `limit` or a page of bytes.

        Raises:  Unavailable ``journal-damaged`` when one of them is missing, was purged or has changed.
        """
        found = self._database.execute(
            "select number, body, sum from events where number > ? order by number limit ?", (after, limit)
        )
        rows = first_bytes(found, PAGE_BYTES.most)
        for expected, (number, body, checksum) in enumerate(rows, after + 1):
            if number != expected or not is_intact(body, number, checksum):
                raise damaged(self._path, f"event {expected} is missing or has changed")
        return [(number, body) for number, body, _ in rows]

    def checksum_of(self, number: int) -> int | None:
        """Return the checksum of an event; None: there is none of this number."""
        row = self._database.execute("select sum from events where number = ?", (number,)).fetchone()
        return None if row is None else int(row[0])

    def page(self, after: int, limit: int) -> list[tuple[int, Event]]:
        """Return the first events after a number, up to `limit` or a page of bytes, without purged ones.

        Raises:  Unavailable ``journal-damaged`` when one of them is missing or does not read.
        """
        rows = first_bytes(
            self._database.execute(
                "select number, body, sum from events where number > ? order by number limit ?",
                (after, limit),
            ),
            PAGE_BYTES.most,
        )
        last = after
        for number, _, _ in rows:
            if number != last + 1 and not self._purged.has(last + 1, number - 1):
                raise damaged(self._path, f"event {last + 1} is missing")
            last = number
        return [(row[0], self._read(*row)) for row in rows]

    def purge(self, job: JobId, up_to: int, most: int) -> int:
        """Remove up to `most` events of a job, with numbers up to `up_to`; return how many.

        The numbers of purged events are kept, in spans, so that any other that is missing is noticed.
        """
        numbers = [number for number in self._numbers(job, "asc", most) if number <= up_to][:most]
        self._database.executemany("delete from events where number = ?", [(number,) for number in numbers])
        for number in numbers:
            self._purged.add(number)
        return len(numbers)

    def newest_of(self, job: JobId) -> int:
        """Return the number of the newest event that is left of a job; 0: none is."""
        return max(self._numbers(job, "desc", 1), default=0)

    def _numbers(self, job: JobId, order: str, most: int) -> list[int]:
        """Return the numbers of the first or last events of a job, `most` of each kind, in order."""
        queries = [_NUMBERS.format(kind=kind, order=order) for kind in (OF_JOB, OF_INSTANCES)]
        return sorted(row[0] for query in queries for row in self._database.execute(query, (job, most)))

    def purged_after(self, number: int) -> bool:
        """Return whether an event after a number was purged."""
        return self._purged.last() > number

    def history(self, job: JobId, limit: int) -> list[Event]:
        """Return the newest events of a job but those of its instances, oldest first, up to the bounds."""
        rows = first_bytes(
            self._database.execute(
                "select number, body, sum from events where kind = 1 and job = ? "
                "order by number desc limit ?",
                (job, max(limit, 0)),
            ),
            EVENT_BYTES.most,
        )
        return list(self._damage.readable(self._read, reversed(rows)))

    def of_job(self, job: JobId, after: int, limit: int) -> list[tuple[int, Event]]:
        """Return the first events of a job and its instances after a number, up to a page of bytes."""
        rows = first_bytes(
            self._database.execute(
                f"{_OF_JOB.format(kind=1)} union all {_OF_JOB.format(kind=2)} order by number limit ?",
                (job, after, job, after, max(limit, 0)),
            ),
            PAGE_BYTES.most,
        )
        return list(self._damage.readable(lambda *row: (row[0], self._read(*row)), rows))

    def span(self, job: JobId) -> tuple[int, int] | None:
        """Return the numbers of the first and the newest event of a job but those of its instances."""
        first, newest = self._database.execute(
            "select min(number), max(number) from events where kind = 1 and job = ?", (job,)
        ).fetchone()
        return None if first is None else (first, newest)

    def parameters(self, after: int, limit: int) -> tuple[list[ParameterSet], int | None]:
        """Return some changes of parameters after a number, and after which number to go on, if at all."""
        rows: list[_Row] = self._database.execute(
            "select number, body, sum from events where kind = 0 and number > ? "
            "and instr(body, ?) order by number limit ?",
            (after, ParameterSet.__name__.encode(), limit),
        ).fetchall()
        events = self._damage.readable(self._read, rows)
        more = rows[-1][0] if rows else None
        return [event for event in events if isinstance(event, ParameterSet)], more

    def of_node(self, node: str, limit: int) -> list[Event]:
        """Return the newest events of a node, oldest first."""
        rows = self._database.execute(
            "select number, body, sum from events where kind = 0 and instr(body, ?) order by number desc",
            (node.encode(),),
        )
        named = (event for event in self._damage.readable(self._read, rows) if node_of(event) == node)
        return list(islice(named, max(limit, 0)))[::-1]

    def allocations(self, first: JobId, last: JobId) -> list[Event]:
        """Return by what the jobs `first` to `last` got and gave back processors, each job's in order."""
        rows = self._database.execute(
            "select number, body, sum from events where kind = 1 and job between ? and ? "
            "and length(body) < ? order by job, number",
            (first, last, _MAX_ALLOCATION),
        )
        events = self._damage.readable(self._read, rows)
        return [event for event in events if isinstance(event, ALLOCATION_EVENTS)]

    def _read(self, number: int, body: bytes, checksum: int) -> Event:
        if not is_intact(body, number, checksum):
            raise changed_row(self._path, f"event {number}")
        try:
            return decode(body)
        except msgspec.DecodeError as error:
            raise undecodable_row(self._path, f"event {number}", error, self._written_by()) from None


_SELECT: Final = "select job, body, sum from predictions "
_LAST: Final = (inf, 0)  # behind every start
_encoder = msgspec.msgpack.Encoder()
decode_prediction = msgspec.msgpack.Decoder(Prediction).decode


class PredictionTable:
    """The predictions in the database `path`; errors name that file."""

    def __init__(
        self, database: sqlite3.Connection, path: Path, damage: Damage, written_by: Callable[[], str]
    ) -> None:
        """`damage` hears of predictions that lists leave out because they do not read."""
        self._database, self._path, self._damage = database, path, damage
        self._written_by = written_by
        self._waiting: dict[JobId, Prediction] = {}
        self._writing: list[JobId] = []  # of these, what the transaction writes

    def keep(self, predictions: Iterable[Prediction]) -> None:
        """Remember the predictions until `write`; those of jobs that have one are nothing new."""
        for each in predictions:
            self._waiting.setdefault(each.job, each)

    def write(self, events: Sequence[Event]) -> None:
        """Write what waits, and when the jobs started that the events say have; `written` must follow."""
        self._writing = list(self._waiting)
        if self._waiting:
            rows = [(*self._row(each), None) for each in self._waiting.values()]
            self._database.executemany(
                "insert or ignore into predictions (job, body, sum, started) values (?, ?, ?, ?)", rows
            )
            (newest,) = self._database.execute("select max(number) from predictions").fetchone()
            self._database.execute(
                "delete from predictions where number <= ?", ((newest or 0) - MAX_PREDICTIONS,)
            )
        for event in events:
            if isinstance(event, JobStarted):
                self._start(event.job, event.at)

    def written(self) -> None:
        """The transaction is on the disk: nothing waits any more."""
        for job in self._writing:
            self._waiting.pop(job, None)

    def one(self, job: JobId) -> Prediction | None:
        """Return what was predicted of a job."""
        row = self._database.execute(f"{_SELECT} where job = ?", (job,)).fetchone()
        return self._waiting.get(job) if row is None else self._read(*row)

    def judged(self, since: Instant, limit: int, before: tuple[Instant, JobId] | None) -> list[Prediction]:
        """Return the predictions of up to `limit` jobs that started since then, newest start first."""
        rows = self._database.execute(
            f"{_SELECT} where started >= ? and (started, job) < (?, ?) "
            "order by started desc, job desc limit ?",
            (since, *(before or _LAST), max(limit, 0)),
        ).fetchall()
        return list(self._damage.readable(self._read, rows))

    def _start(self, job: JobId, at: Instant) -> None:
        """Note when a job started; a prediction that cannot be read keeps no job from starting."""
        rows = self._database.execute(f"{_SELECT} where job = ? and started is null", (job,)).fetchall()
        for prediction in self._damage.readable(self._read, rows):
            _, body, checksum = self._row(msgspec.structs.replace(prediction, started=at))
            self._database.execute(
                "update predictions set body = ?, sum = ?, started = ? where job = ?",
                (body, checksum, at, job),
            )

    def _row(self, prediction: Prediction) -> tuple[JobId, bytes, int]:
        body = _encoder.encode(prediction)
        return prediction.job, body, checksum(body, prediction.job)

    def _read(self, job: JobId, body: bytes, checksum: int) -> Prediction:
        if not is_intact(body, job, checksum):
            raise changed_row(self._path, f"the prediction of job {job}")
        try:
            return decode_prediction(body)
        except msgspec.DecodeError as error:
            name = f"the prediction of job {job}"
            raise undecodable_row(self._path, name, error, self._written_by()) from None
