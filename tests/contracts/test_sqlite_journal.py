"""What the SQLite journal promises when the disk, the power or a second head play tricks."""

import os
import random
import shutil
import sqlite3
import struct
from itertools import permutations
from pathlib import Path

import pytest
from journal_inputs import NOW
from stores import endless_writer
from test_lasting_stores import fill, over, submitted

from headnode.adapters.garbage import give_large_blocks_back
from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.core.model.bounds import MB
from headnode.core.model.errors import HeadnodeError, Unavailable
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.quantities import JobId
from headnode.core.state.events import Event, JobsPurged
from headnode.core.state.job_events import InstanceEnd, InstancesEnded, JobSubmitted
from headnode.engine.ports import EndedJob

BATCHES = 12
BATCH = 5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def batch(number: int) -> list[Event]:
    return [submitted(number * BATCH + place) for place in range(BATCH)]


def of_batches(count: int) -> list[Event]:
    return [event for number in range(count) for event in batch(number)]


def events_in(path: Path) -> list[Event]:
    journal = SqliteJournal(path)
    try:
        return [event for _, event in journal.replay()]
    finally:
        journal.close()


def killed_head(path: Path, folder: Path) -> Path:
    """Return a copy of the journal as it lies on the disk while its head is still running."""
    journal = SqliteJournal(path)
    for number in range(BATCHES):
        journal.append(batch(number))
    copy = folder / "copy.db"
    for ending in ("", "-wal"):
        shutil.copy(f"{path}{ending}", f"{copy}{ending}")
    journal.close()
    return copy


def commits(log: bytes) -> list[tuple[int, int]]:
    """Return where the frames of each batch begin and end in a write-ahead log."""
    (page_size,) = struct.unpack_from(">I", log, 8)
    (salts,) = struct.unpack_from(">Q", log, 16)
    found, begin = [], 32
    for at in range(32, len(log), 24 + page_size):
        pages, shown = struct.unpack_from(">IQ", log, at + 4)
        if shown == salts and pages:
            found.append((begin, at + 24 + page_size))
            begin = at + 24 + page_size
    return found


def refused(path: Path, code: str) -> str:
    with pytest.raises(Unavailable) as caught:
        events_in(path)
    assert caught.value.code == code
    assert caught.value.fix
    return caught.value.what


# A head that is killed ------------------------------------------------------------------------------------


def test_the_log_cut_anywhere_in_the_last_batch_loses_that_batch_only(path: Path, tmp_path: Path) -> None:
    copy = killed_head(path, tmp_path)
    log = Path(f"{copy}-wal")
    whole, database = log.read_bytes(), copy.read_bytes()
    begin, end = commits(whole)[-1]
    for cut in [begin, begin + 1, begin + 24, (begin + end) // 2, end - 1]:
        copy.write_bytes(database)
        log.write_bytes(whole[:cut])
        assert events_in(copy) == of_batches(BATCHES - 1), cut
    copy.write_bytes(database)
    log.write_bytes(whole)
    assert events_in(copy) == of_batches(BATCHES)


def test_the_log_garbled_in_the_last_batch_loses_that_batch_only(path: Path, tmp_path: Path) -> None:
    copy = killed_head(path, tmp_path)
    log = Path(f"{copy}-wal")
    whole, database = log.read_bytes(), copy.read_bytes()
    begin, end = commits(whole)[-1]
    for at in [begin + 3, begin + 30, (begin + end) // 2, end - 1]:
        copy.write_bytes(database)
        log.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
        assert events_in(copy) == of_batches(BATCHES - 1), at


def test_a_log_garbled_before_the_last_batch_is_refused_and_left_as_it_is(path: Path, tmp_path: Path) -> None:
    copy = killed_head(path, tmp_path)
    log = Path(f"{copy}-wal")
    whole = log.read_bytes()
    for begin, end in commits(whole)[:-1]:
        for at in [begin + 9, (begin + end) // 2, end - 1]:
            garbled = whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :]
            log.write_bytes(garbled)
            assert "in the middle" in refused(copy, "journal-damaged")
            assert log.read_bytes() == garbled
    log.write_bytes(b"\0" * 16 + whole[16:])
    assert "the header of" in refused(copy, "journal-damaged")


def test_a_log_without_its_database_is_refused(path: Path, tmp_path: Path) -> None:
    copy = killed_head(path, tmp_path)
    copy.unlink()
    assert "missing or empty" in refused(copy, "journal-damaged")
    assert Path(f"{copy}-wal").stat().st_size > 0


# A disk that forgets --------------------------------------------------------------------------------------


def test_a_byte_flipped_anywhere_never_changes_an_event_nor_an_answer_of_the_archive(path: Path) -> None:
    journal = SqliteJournal(path)
    for number in range(200):
        done = InstanceEnd(1, number, 1, "finished", AttemptOutcome("exited", 0))
        journal.append(
            [submitted(number), InstancesEnded(at=NOW, job=JobId(1), ended=(done,))], ended=[over(number)]
        )
    journal.keep_snapshot(400, b"the state")
    events, rows, jobs, snapshot = everything_in(journal)
    whole = path.read_bytes()
    chance = random.Random(4)
    refusals = []
    for at in (chance.randrange(len(whole)) for _ in range(400)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << chance.randrange(8))]) + whole[at + 1 :])
        try:
            found = everything_in(SqliteJournal(path))
        except HeadnodeError as error:
            refusals.append(error.code)
            continue
        # The key of an archive row may be what was hit: then it is not found, and the events tell it.
        assert found[0] == events
        assert [row for row in found[1] if row not in rows] == []
        assert [job for job in found[2] if job not in jobs] == []
        assert found[3] in (snapshot, None)
    assert set(refusals) <= {"journal-damaged", "journal-version", "journal-error"}
    assert len(refusals) > 50


def everything_in(
    journal: SqliteJournal,
) -> tuple[list[tuple[int, Event]], list[InstanceEnd], list[EndedJob], tuple[int, bytes] | None]:
    try:
        return (
            list(journal.replay()),
            journal.instances(JobId(1), 1, after=-1, limit=1000),
            journal.ended_jobs(owner=None, states=(), before=None, limit=1000),
            journal.newest_snapshot(),
        )
    finally:
        journal.close()


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        ("update events set body = zeroblob(length(body)) where number = 3", "event 3 has changed"),
        ("delete from events where number = 1", "event 1 is missing"),
        ("delete from events where number = 30", "event 30 is missing"),
        ("delete from events where number > 55", "ends with event 55"),
        ("update events set number = 1000 where number = 60", "event 60 is missing"),
    ],
)
def test_events_that_are_missing_or_changed_are_named(path: Path, damage: str, text: str) -> None:
    journal = SqliteJournal(path)
    journal.append(of_batches(BATCHES))
    journal.keep_snapshot(60, b"state")
    journal.close()
    with sqlite3.connect(path) as database:
        database.execute(damage)
    database.close()
    assert text in refused(path, "journal-damaged")


def test_a_snapshot_that_does_not_read_gives_way_to_the_one_before(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.append(of_batches(2))
    for number in (4, 8):
        journal.keep_snapshot(number, b"state")
    journal.close()
    with sqlite3.connect(path) as database:
        database.execute("update snapshots set state = x'00' where number = 8")
    database.close()
    journal = SqliteJournal(path)
    assert journal.newest_snapshot() == (4, b"state")
    journal.close()


def test_only_the_newest_two_snapshots_take_room(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.append([submitted(1)])
    for _ in range(20):
        journal.keep_snapshot(1, b"x" * 1_000_000)
    journal.close()
    assert path.stat().st_size < 5_000_000


# A disk that is full --------------------------------------------------------------------------------------


def test_when_the_file_may_not_grow_nothing_is_half_recorded(path: Path) -> None:
    journal = SqliteJournal(path)
    journal._database.execute("pragma max_page_count = 500")
    recorded = fill(journal)
    assert len(list(journal.replay())) == recorded
    assert journal.count_ended(owner=None) == {"failed": recorded // 3}
    journal._database.execute("pragma max_page_count = 1000000")
    assert journal.append([submitted(1)]) == recorded + 1
    assert [number for number, _ in journal.replay()] == list(range(1, recorded + 2))
    journal.close()
    assert len(events_in(path)) == recorded + 1


# Whose file it is -----------------------------------------------------------------------------------------


def test_a_second_head_is_refused_though_somebody_removed_the_lock_file(path: Path) -> None:
    with endless_writer("sqlite", path) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        path.with_name("journal.db.lock").unlink()
        refused(path, "already-running")
        writer.kill()
    assert len(events_in(path)) >= 3


@pytest.mark.parametrize(
    ("content", "code"), [(b"this is no database " * 500, "journal-damaged"), (None, "journal-error")]
)
def test_what_is_no_journal_is_refused(tmp_path: Path, content: bytes | None, code: str) -> None:
    path = tmp_path / "journal.db"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    refused(path, code)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    assert "nowhere" in refused(tmp_path / "nowhere" / "journal.db", "journal-error")


def test_a_journal_of_another_version_is_refused(path: Path) -> None:
    SqliteJournal(path).close()
    with sqlite3.connect(path) as database:
        database.execute("pragma user_version = 99")
    database.close()
    before = path.read_bytes()
    assert "version 99" in refused(path, "journal-version")
    assert path.read_bytes() == before


# Cost -----------------------------------------------------------------------------------------------------


def test_no_question_walks_over_the_ended_jobs_or_sorts_them(path: Path) -> None:
    journal = SqliteJournal(path)
    plans: list[str] = []
    seen: set[str] = set()

    def explain(statement: str) -> None:
        if statement.startswith("select") and statement not in seen:
            seen.add(statement)

    journal.append([submitted(1)], ended=[over(1), over(2)])
    journal._database.set_trace_callback(explain)
    for owner in (None, "ada"):
        for states in ((), ("failed",), ("failed", "finished")):
            journal.ended_jobs(owner=owner, states=states, before=9, limit=5)
    journal.ended_of_group("render", owner="ada", states=("failed",), before=9, limit=5)
    journal.instances(JobId(1), 1, after=0, limit=5)
    journal.instance(JobId(1), 1, 1)
    journal.history(JobId(1), 5)
    journal._database.set_trace_callback(None)
    for statement in seen - {one for one in seen if "ended_counts" in one}:
        rows = journal._database.execute(f"explain query plan {statement}").fetchall()
        plans += [row[3] for row in rows]
    journal.close()
    assert len(seen) >= 7
    assert [plan for plan in plans if not plan.startswith("SEARCH")] == []


def test_an_append_waits_for_the_disk(path: Path) -> None:
    journal = SqliteJournal(path)
    settings = [
        journal._database.execute(f"pragma {name}").fetchone()[0] for name in ("journal_mode", "synchronous")
    ]
    journal.close()
    assert settings == ["wal", 2]  # 2 is FULL: the log is synced at every commit


def test_a_snapshot_that_was_kept_takes_no_memory(tmp_path: Path) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    give_large_blocks_back()
    journal = SqliteJournal(tmp_path / "journal.db")
    state = os.urandom(48 * MB)
    before = resident()
    journal.keep_snapshot(1, state)
    assert resident() - before < 16 * MB
    assert journal.newest_snapshot() == (1, state)
    journal.close()


def of_job(job: int) -> Event:
    return JobSubmitted(at=NOW, job=JobId(job), order=job)


def purged(journal: SqliteJournal, job: int) -> None:
    """Purge a job, and remove its events."""
    journal.append([JobsPurged(at=NOW, jobs=(JobId(job),))])
    for _ in range(2):
        journal.keep_snapshot(journal.last_number, b"state")
    while journal.purge(1).more:
        pass


@pytest.mark.parametrize("order", [*permutations(range(1, 5))])
def test_numbers_of_purged_events_are_spans_in_whatever_order_jobs_are_purged(
    path: Path, order: tuple[int, ...]
) -> None:
    journal = SqliteJournal(path)
    journal.append([of_job(job) for job in (1, 2, 3, 4, 2, 1)])
    for job in order:
        purged(journal, job)
        assert not journal.purged_after(6)
    spans = journal._database.execute("select first, last from purged_events").fetchall()
    assert spans == [(1, 6)]
    assert [number for number, _ in journal.replay()] == [7, 8, 9, 10]
    journal.close()


def test_an_event_that_is_missing_beside_purged_ones_is_noticed(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.append([of_job(job) for job in (1, 2, 1, 2, 1)])
    purged(journal, 1)
    assert [number for number, _ in journal.replay()] == [2, 4, 6]
    journal._database.execute("delete from events where number = 4")
    with pytest.raises(Unavailable, match="event 3 is missing"):
        list(journal.replay())
    with pytest.raises(Unavailable, match="event 1 is missing"):
        journal.rows(0, 10)
    journal.close()


def test_a_journal_of_a_version_without_purging_gets_its_tables(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.append([of_job(1)])
    journal._database.executescript("drop table purging; drop table purged_events")
    journal.close()
    again = SqliteJournal(path)
    purged(again, 1)
    assert [number for number, _ in again.replay()] == [2]
    again.close()
