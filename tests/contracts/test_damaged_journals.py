"""A damaged, missing or replaced journal: what is intact is shown, and nothing is acknowledged in vain."""

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from journal_inputs import encoded_record
from msgspec import structs

from headnode.adapters.journal.sqlite import CLUSTER_ID, JOURNAL, SqliteJournal, open_journal
from headnode.core.model.errors import Unavailable
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.task import TaskSpec
from headnode.core.state.events import Event
from headnode.core.state.job_events import JobModified, JobSubmitted
from headnode.engine.past_jobs import past_jobs
from headnode.engine.ports import EndedJob

NOW = Instant(1_700_000_000.5)
LONG = 60.0  # seconds
JOBS = 30


def submitted(job: int) -> Event:
    return JobSubmitted(at=NOW, job=JobId(job), order=job)


def over(job: int) -> EndedJob:
    state = "failed" if job % 3 == 0 else "finished"
    return EndedJob(
        id=JobId(job), owner="ada", name="", project="", state=state, submitted=NOW, ended=NOW,
        record=encoded_record(), job_group="render",
    )  # fmt: skip


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return the state directory of a cluster with some jobs behind it."""
    journal = open_journal(tmp_path)
    for job in range(1, JOBS + 1):
        journal.append([submitted(job)], ended=[over(job)])
    journal.close()
    return tmp_path


def damage(state: Path, statement: str) -> None:
    with sqlite3.connect(state / JOURNAL) as database:
        database.execute(statement)
    database.close()


@pytest.fixture
def with_bad_rows(state: Path) -> Iterator[SqliteJournal]:
    """Return a journal of which the rows of two ended jobs and one event were damaged."""
    damage(state, "update ended_jobs set body = zeroblob(length(body)) where id in (7, 29)")
    damage(state, "update events set body = zeroblob(length(body)) where number = 4")
    journal = open_journal(state)
    yield journal
    journal.close()


BAD = (7, 29)


@pytest.mark.parametrize("states", [(), ("finished", "failed"), ("finished",)])
@pytest.mark.parametrize("owner", [None, "ada"])
@pytest.mark.parametrize("limit", [1, 3, 100])
def test_lists_leave_out_damaged_rows_and_show_all_others(
    with_bad_rows: SqliteJournal, states: tuple[str, ...], owner: str | None, limit: int
) -> None:
    expected = [
        job
        for job in range(JOBS, 0, -1)
        if job not in BAD and over(job).state in (states or (over(job).state,))
    ]
    shown: list[int] = []
    before = None
    while page := with_bad_rows.ended_jobs(owner=owner, states=states, before=before, limit=limit):
        shown += [job.id for job in page]
        before = page[-1].id
    assert shown == expected
    assert any("ended job 29" in what for what in with_bad_rows.damage())


def test_groups_and_logs_leave_out_damaged_rows_too(with_bad_rows: SqliteJournal) -> None:
    group = with_bad_rows.ended_of_group("render", owner=None, states=(), before=None, limit=JOBS)
    assert [job.id for job in group] == [job for job in range(JOBS, 0, -1) if job not in BAD]
    assert [job.id for job in with_bad_rows.ended_after(5, 4)] == [6, 8, 9, 10]
    assert with_bad_rows.history(JobId(4), 10) == []
    assert with_bad_rows.history(JobId(5), 10) == [submitted(5)]


def test_a_damaged_row_that_is_asked_for_by_itself_is_refused(with_bad_rows: SqliteJournal) -> None:
    with pytest.raises(Unavailable, match="ended job 7 has changed"):
        with_bad_rows.ended_job(JobId(7))


LARGE = TaskSpec(command="x" * 100_000)


def test_a_list_reads_no_more_than_a_page_of_bytes_at_once(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    bulky = [structs.replace(over(job), record=encoded_record("", *[LARGE] * 10)) for job in range(1, 9)]
    journal.append([submitted(1)], ended=bulky)
    for states in ((), ("finished", "failed")):
        page = journal.ended_jobs(owner=None, states=states, before=None, limit=100)
        assert [job.id for job in page] == [8, 7, 6]  # 1 MB each; a page is 2 MB, to the end of a row
    group = journal.ended_of_group("render", owner=None, states=(), before=None, limit=100)
    assert [job.id for job in group] == [8, 7, 6]
    assert [job.id for job in journal.ended_after(0, 100)] == [1, 2, 3]
    found, after = [], 0
    while after is not None:
        seen = past_jobs(journal, after, 100)
        found += [job.id for job in seen.jobs]
        after = seen.more
    assert found == list(range(1, 9))
    journal.close()


def test_a_replay_reads_no_more_than_a_page_of_bytes_at_once_and_yields_every_event(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    large = JobModified(at=NOW, job=JobId(1), spec=b"x" * 1_000_000)
    events = [submitted(1), *[large] * 40, submitted(1)]
    journal.append(events)
    assert len(journal._events.page(0, 1000)) == 4  # 1 MB each; a page is 2 MB, to the end of a row
    assert [event for _, event in journal.replay()] == events
    history = journal.history(JobId(1), 1000)
    assert history == events[-len(history) :]
    assert 30 < len(history) < 40
    journal.close()


def test_damage_is_found_at_the_start_and_named_row_by_row(with_bad_rows: SqliteJournal) -> None:
    with_bad_rows.look_over(LONG)
    found = " ".join(with_bad_rows.damage())
    assert [what in found for what in ("event 4 ", "ended job 7 ", "ended job 29 ")] == [True] * 3
    assert len(with_bad_rows.damage()) == 3


def test_looking_over_a_journal_takes_no_longer_than_it_may(state: Path) -> None:
    damage(state, "update events set body = zeroblob(length(body)) where number = 4")
    journal = open_journal(state)
    journal.look_over(0.0)
    journal.close()


def test_damaged_tables_are_refused_before_anything_is_written(state: Path) -> None:
    path = state / JOURNAL
    whole = path.read_bytes()
    dice = random.Random(7)
    pages = [whole[at : at + 4096] for at in range(0, len(whole), 4096)]
    for _ in range(20):
        bad = dice.randrange(1, len(pages))  # half of a page is random
        path.write_bytes(
            b"".join([*pages[:bad], dice.randbytes(2048) + pages[bad][2048:], *pages[bad + 1 :]])
        )
        with pytest.raises(Unavailable) as refused:
            open_and_look_over(state)
        assert refused.value.code == "journal-damaged"
        assert "hn restore" in refused.value.fix


def open_and_look_over(state: Path) -> None:
    journal = open_journal(state)
    try:
        journal.look_over(LONG)
    finally:
        journal.close()


# Which cluster it is --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["unlinked", "empty", "cut off its tables"])
def test_no_new_cluster_begins_where_the_journal_of_another_is_missing(state: Path, how: str) -> None:
    path = state / JOURNAL
    path.unlink()
    if how == "empty":
        path.touch()
    if how == "cut off its tables":
        sqlite3.connect(path).execute("create table other (a)").connection.close()
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(Unavailable) as refused:
        open_journal(state)
    assert refused.value.code == "journal-missing"
    assert "hn restore" in refused.value.fix
    assert (path.read_bytes() if path.exists() else None) == before


def test_the_journal_of_another_cluster_is_refused(
    state: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    open_journal(other).close()
    (other / JOURNAL).replace(state / JOURNAL)
    with pytest.raises(Unavailable) as refused:
        open_journal(state)
    assert refused.value.code == "other-cluster"


def test_a_head_that_was_killed_before_it_wrote_the_id_goes_on(state: Path) -> None:
    before = (state / CLUSTER_ID).read_text()
    (state / CLUSTER_ID).unlink()
    journal = open_journal(state)
    assert len(list(journal.replay())) == JOBS
    journal.close()
    assert (state / CLUSTER_ID).read_text() == before


# Files that go away under a head that runs ----------------------------------------------------------------


def replace_with_a_copy(file: Path) -> None:
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content)


@pytest.mark.parametrize("ending", ["", "-wal"])
@pytest.mark.parametrize("harm", [Path.unlink, replace_with_a_copy])
def test_nothing_is_acknowledged_once_a_file_of_the_journal_was_removed_or_replaced(
    state: Path, ending: str, harm: object
) -> None:
    journal = open_journal(state)
    journal.append([submitted(100)])
    assert callable(harm)
    harm(Path(f"{state / JOURNAL}{ending}"))
    for _ in range(2):
        with pytest.raises(Unavailable) as refused:
            journal.append([submitted(101)])
        assert refused.value.code == "journal-replaced"
        assert "hn backup" in refused.value.fix
    with pytest.raises(Unavailable):
        journal.keep_snapshot(31, b"state")
    assert [event for _, event in journal.replay()][-1] == submitted(100)  # what it holds can still be read
    journal.close()


def test_a_journal_that_was_only_read_before_takes_the_first_append(state: Path) -> None:
    journal = open_journal(state)
    assert len(list(journal.replay())) == JOBS
    assert journal.append([submitted(JOBS + 1)]) == JOBS + 1
    assert journal.append([submitted(JOBS + 2)]) == JOBS + 2
    journal.close()
