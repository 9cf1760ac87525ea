"""Tables beside the journal at a standby: whatever is cut off, it never misses what it says that it has."""

import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from depth import seeds
from headnode.adapters.files import copied_tables
from headnode.adapters.files.copied_tables import (
    CURSORS,
    EVENT_LOGS,
    TABLES,
    WAITING,
    RowChanges,
    end_at,
    opened,
    page,
)
from headnode.adapters.notify.outbox import HookCursors, Outbox, PendingNotice
from headnode.adapters.standby import row_copy
from headnode.adapters.standby.row_copy import RowCopy
from headnode.adapters.wire.standby_messages import RowChange, RowsBetween, RowsChanged
from headnode.apps.standby.journal_copy import store_rows
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Instant, JobId
from headnode.core.state.notices import Notice


def notice(number: int) -> PendingNotice:
    return PendingNotice(
        Notice(number, "ended", "c", JobId(number), "ann", "", "", "finished", Instant(0.0)), "a@b"
    )


class Pair:
    """The outbox of a head, and the directory of its standby."""

    def __init__(self, directory: Path) -> None:
        self.head, self.standby = directory / "head", directory / "standby"
        for each in (self.head, self.standby):
            each.mkdir()
        self.changes = RowChanges()
        self.outbox = Outbox(self.head / WAITING.file, self.changes)
        self.copy = RowCopy(self.head, threading.Condition())
        self.changes.listeners.append(self.copy.changed)
        self.waiting: set[int] = set()
        self.last = 0

    def connect(self) -> None:
        self.copy.begin()

    def add(self, waiting: int) -> None:
        """Note so many notices, each of an event of its own; then an event without one."""
        numbers = range(self.last + 1, self.last + 1 + waiting)
        self.last += waiting + 1
        self.waiting |= set(numbers)
        self.outbox.add(self.last, [notice(number) for number in numbers])

    def discard(self, number: int) -> None:
        self.waiting.remove(number)
        self.outbox.discard(number, "a@b")

    def send(self) -> bool:
        """Send a piece; return whether there was one."""
        piece = self.copy.next()
        if piece is None:
            return False
        store_rows(self.standby, piece)
        self.copy.sent("")
        return True

    def numbers(self, state: Path) -> set[int]:
        rows, more = page(state, WAITING)
        while more:
            next_rows, more = page(state, WAITING, WAITING.key_of(rows[-1]))
            rows += next_rows
        return {int(str(row[0])) for row in rows}

    def see_that_nothing_is_missing(self) -> None:
        """What the standby says that it has seen is there, unless it was sent: the rest is derived again."""
        outbox = self.standby / WAITING.file
        if not outbox.exists():
            return
        with closing(sqlite3.connect(outbox)) as database:
            try:
                found = database.execute("select number from seen").fetchone()
            except sqlite3.OperationalError:
                return  # there is no mark yet
        seen = 0 if found is None else found[0]
        due = {number for number in self.waiting if number <= seen}
        assert due <= self.numbers(self.standby)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.outbox.close()


@pytest.mark.parametrize("seed", seeds(40))
def test_a_standby_never_misses_a_notification_of_an_event_that_it_has_seen(
    pair: Pair, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copied_tables, "PAGE_ROWS", 3)
    monkeypatch.setattr(row_copy, "PAGE_BYTES", 300)
    monkeypatch.setattr(row_copy, "MAX_PENDING", 3000)
    chance = random.Random(seed)
    for _ in range(120):
        match chance.randrange(6):
            case 0 | 1:
                pair.add(chance.randrange(4))
            case 2 if pair.waiting:
                pair.discard(chance.choice(sorted(pair.waiting)))
            case 3 if chance.random() < 0.1:
                pair.connect()
            case _ if pair.send():  # nothing else changes what the standby has
                pair.see_that_nothing_is_missing()
    pair.connect()
    while pair.send():
        pair.see_that_nothing_is_missing()
    assert pair.copy.is_whole
    assert pair.copy.copied == pair.copy.noted
    assert pair.numbers(pair.head) == pair.waiting
    for table in TABLES.values():
        assert page(pair.standby, table) == page(pair.head, table)


def test_changes_that_nobody_takes_are_bounded(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_copy, "MAX_PENDING", 10_000)
    for _ in range(500):
        pair.add(1)
    assert pair.copy._bytes <= 10_000
    assert len(pair.copy._pending) < 100
    pair.connect()
    while pair.send():
        pass
    assert pair.numbers(pair.standby) == pair.numbers(pair.head)


def test_tables_that_cannot_be_read_are_a_problem_and_come_once_they_can(pair: Pair) -> None:
    pair.add(3)
    pair.connect()
    (pair.head / "delegations.db").mkdir()
    assert pair.copy.next() is None
    assert "cannot be read" in pair.copy.problem
    assert pair.copy.is_whole  # it does not keep the standby from being in step
    now = time.monotonic()
    assert not pair.copy.lacks(pair.copy.noted, now)  # nor the head from handing over
    assert pair.copy.due_in(now) is not None
    (pair.head / "delegations.db").rmdir()
    later = now + row_copy.AFTER_FAILURE
    assert pair.copy.due_in(later) == 0.0
    while pair.send():
        pass
    assert pair.copy.problem == ""
    assert pair.numbers(pair.standby) == {1, 2, 3}


def test_what_is_of_events_that_the_standby_does_not_have_is_forgotten(pair: Pair) -> None:
    pair.add(5)
    cursors = HookCursors(pair.head / CURSORS.file, pair.changes)
    cursors.move("near", 2)
    cursors.move("far", 5)
    end_at(pair.head, 3)
    assert pair.numbers(pair.head) == {1, 2, 3}
    assert pair.outbox.seen == 3
    assert (cursors.number("near"), cursors.number("far")) == (2, 3)
    cursors.close()
    for number, left in ((2, 2), (9, 3)):
        store_rows(pair.head, RowsBetween("event_logs", (), (), ((1, number),)))
        end_at(pair.head, 3)
        assert page(pair.head, EVENT_LOGS) == ([(1, left)], False)


@pytest.mark.parametrize(
    "message",
    [
        RowsBetween("passwd", (), (), ()),
        RowsBetween("waiting", (1,), (), ()),
        RowsBetween("waiting", (), (), ((1, "a"),)),
        RowsBetween("waiting", (), (), ((1, "a", [b"x"]),)),
        RowsBetween("waiting", (), (), ((2**64 - 1, "a", b"x"),)),
        RowsChanged((RowChange("waiting", (1, "a", 2), None),)),
        RowsChanged((RowChange("waiting", (1, "a"), (1,)),)),
        RowsChanged((RowChange("seen; drop table waiting", (1,), None),)),
    ],
)
def test_rows_that_no_table_has_are_refused(pair: Pair, message: RowsBetween | RowsChanged) -> None:
    pair.add(2)
    pair.connect()
    while pair.send():
        pass
    with pytest.raises(BadRequest, match="standby-rows"):
        store_rows(pair.standby, message)
    assert pair.numbers(pair.standby) == {1, 2}


def test_files_are_private_and_links_are_not_followed(pair: Pair, tmp_path: Path) -> None:
    store_rows(pair.standby, RowsBetween("delegations", (), (), (("ann", "a", None, 9.0, b"secret"),)))
    file = pair.standby / "delegations.db"
    assert file.stat().st_mode & 0o777 == 0o600
    store_rows(pair.standby, RowsChanged((RowChange("delegations", ("ann", "a"), None),)))
    assert b"secret" not in file.read_bytes()
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"), opened(pair.standby, TABLES["delegations"]):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_that_is_read_beside_its_owner_stays_locked_for_it(pair: Pair) -> None:
    """To close any descriptor of a file lets go of all locks that this process has on it."""
    pair.add(3)
    pair.connect()
    while pair.send():
        pass
    look = "import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute('select * from seen'); d.close()"
    for _ in range(3):
        subprocess.run([sys.executable, "-c", look, str(pair.head / WAITING.file)], check=True)
        assert (pair.head / f"{WAITING.file}-wal").exists()  # who closes a file last removes it
        pair.add(1)
        assert page(pair.head, WAITING)[0]
