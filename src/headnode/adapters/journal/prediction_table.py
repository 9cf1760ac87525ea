"""The table of predicted starts.  The caller begins and ends the transactions.

What was predicted waits in memory until something else is written: a prediction is worth no write of its
own.  A start and the prediction of it are in the same transaction, or the prediction came before.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from math import inf
from pathlib import Path
from typing import Final

import msgspec

from headnode.adapters.journal.damage import Damage
from headnode.adapters.journal.event_table import checksum, is_intact
from headnode.adapters.journal.troubles import damaged
from headnode.core.lifecycle.events import Event, JobStarted
from headnode.core.model.quantities import Instant, JobId
from headnode.engine.ports import MOST_PREDICTIONS, Prediction

_SELECT: Final = "select job, body, sum from predictions "
_LAST: Final = (inf, 0)  # behind every start
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Prediction)


class PredictionTable:
    """The predictions in the database `path`; errors name that file."""

    def __init__(self, database: sqlite3.Connection, path: Path, damage: Damage) -> None:
        """`damage` hears of predictions that lists leave out because they do not read."""
        self._database, self._path, self._damage = database, path, damage
        self._waiting: dict[JobId, Prediction] = {}

    def keep(self, predictions: Iterable[Prediction]) -> None:
        """Remember the predictions until `write`; those of jobs that have one are nothing new."""
        for each in predictions:
            self._waiting.setdefault(each.job, each)

    def write(self, events: Sequence[Event]) -> None:
        """Write what waits, and when the jobs started that the events say have; `written` must follow."""
        if self._waiting:
            rows = [(*self._row(each), None) for each in self._waiting.values()]
            self._database.executemany(
                "insert or ignore into predictions (job, body, sum, started) values (?, ?, ?, ?)", rows
            )
            (newest,) = self._database.execute("select max(number) from predictions").fetchone()
            self._database.execute(
                "delete from predictions where number <= ?", ((newest or 0) - MOST_PREDICTIONS,)
            )
        for event in events:
            if isinstance(event, JobStarted):
                self._start(event.job, event.at)

    def written(self) -> None:
        """The transaction is on the disk: nothing waits any more."""
        self._waiting.clear()

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
        row = self._database.execute(f"{_SELECT} where job = ? and started is null", (job,)).fetchone()
        if row is not None:
            judged = msgspec.structs.replace(self._read(*row), started=at)
            _, body, said = self._row(judged)
            self._database.execute(
                "update predictions set body = ?, sum = ?, started = ? where job = ?", (body, said, at, job)
            )

    def _row(self, prediction: Prediction) -> tuple[JobId, bytes, int]:
        body = _encoder.encode(prediction)
        return prediction.job, body, checksum(body, prediction.job)

    def _read(self, job: JobId, body: bytes, said: int) -> Prediction:
        if not is_intact(body, job, said):
            raise damaged(self._path, f"the prediction of job {job} has changed since it was written")
        return _decoder.decode(body)
