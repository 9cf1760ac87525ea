"""What every journal promises about predicted starts and about the past, held against each of them."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from journal_inputs import NOW, encoded_record
from stores import STORES, AnyStore

from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.core.model.errors import Unavailable
from headnode.core.model.quantities import Instant, JobId
from headnode.core.state.events import Event, NodePaused
from headnode.core.state.job_events import (
    AllocationGrown,
    AllocationLost,
    AllocationShrunk,
    JobStarted,
    JobSubmitted,
)
from headnode.engine.ports import EndedJob, Prediction

NOTHING = NodePaused(at=NOW, node="n1")


@pytest.fixture(params=list(STORES))
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyStore]:
    journal = STORES[request.param](tmp_path / "journal")
    yield journal
    journal.close()


def after(seconds: float) -> Instant:
    return Instant(NOW + seconds)


def predicted(job: int, promise: float = 100.0) -> Prediction:
    return Prediction(JobId(job), NOW, "easy", after(promise), after(20), after(60), after(25), after(55))


def started(job: int, at: float, processors: int = 1) -> JobStarted:
    return JobStarted(at=after(at), job=JobId(job), allocation=(("n1", tuple(range(processors))),))


def waits(journal: AnyStore, since: float = 0.0) -> list[tuple[int, float | None]]:
    return [
        (each.job, each.started and each.started - NOW)
        for each in journal.judged_predictions(Instant(since), 10)
    ]


def test_a_prediction_is_known_at_once_and_after_the_next_batch(journal: AnyStore) -> None:
    journal.keep_predictions([predicted(1)])
    assert journal.prediction(JobId(1)) == predicted(1)
    journal.append([NOTHING])
    assert journal.prediction(JobId(1)) == predicted(1)
    assert journal.prediction(JobId(2)) is None


def test_the_first_prediction_of_a_job_is_the_one_that_counts(journal: AnyStore) -> None:
    journal.keep_predictions([predicted(1, promise=100)])
    journal.keep_predictions([predicted(1, promise=200)])
    journal.append([NOTHING])
    journal.keep_predictions([predicted(1, promise=300)])
    journal.append([NOTHING])
    assert journal.prediction(JobId(1)) == predicted(1, promise=100)


def test_a_prediction_is_judged_by_the_first_start_after_it(journal: AnyStore) -> None:
    journal.append([started(1, 5)])
    journal.keep_predictions([predicted(1), predicted(2), predicted(3)])
    journal.append([started(2, 30), started(1, 40)])
    journal.append([started(1, 70)])
    assert waits(journal) == [(1, 40), (2, 30)]
    assert journal.prediction(JobId(3)) == predicted(3)
    assert waits(journal, since=after(40)) == [(1, 40)]


def test_the_newest_starts_are_told_page_by_page_also_those_of_one_instant(journal: AnyStore) -> None:
    journal.keep_predictions([predicted(job) for job in (1, 2, 3, 4, 5)])
    journal.append([started(job, at) for job, at in ((4, 10), (2, 30), (1, 30), (3, 30), (5, 20))])
    found, before = [], None
    while page := journal.judged_predictions(after(15), 2, before):
        assert len(page) <= 2
        found += [each.job for each in page]
        before = (page[-1].started or after(0), page[-1].job)
    assert found == [3, 2, 1, 5]


def test_the_oldest_predictions_make_room(journal: AnyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    users = [each for each in list(sys.modules.values()) if "MAX_PREDICTIONS" in vars(each)]
    for module in users:  # of every store
        monkeypatch.setattr(module, "MAX_PREDICTIONS", 3)
    for job in (5, 1, 4, 2, 3):
        journal.keep_predictions([predicted(job)])
        journal.append([NOTHING])
    assert [job for job in range(1, 6) if journal.prediction(JobId(job))] == [2, 3, 4]


def test_the_past_is_told_page_by_page_in_the_order_of_ids(journal: AnyStore) -> None:
    journal.append([], ended=[over(job) for job in (3, 1, 7, 5)])
    assert [job.id for job in journal.ended_after(0, limit=2)] == [1, 3]
    assert [job.id for job in journal.ended_after(3, limit=9)] == [5, 7]
    assert journal.ended_after(7, limit=9) == []


def over(job: int) -> EndedJob:
    return EndedJob(JobId(job), "ada", "n", "p", "finished", NOW, NOW, encoded_record())


def test_what_jobs_held_is_told_job_by_job_in_order(journal: AnyStore) -> None:
    two = (("n1", (0, 1)),)
    grown = AllocationGrown(at=after(2), job=JobId(1), added=two)
    shrunk = AllocationShrunk(at=after(3), job=JobId(1), removed=two)
    lost = AllocationLost(at=after(4), job=JobId(2), removed=two)
    events: list[Event] = [started(2, 0, 4), started(1, 1), grown, started(3, 1), shrunk, lost, NOTHING]
    events.insert(1, JobSubmitted(at=NOW, job=JobId(1), order=1))
    journal.append(events)
    assert journal.allocation_events(JobId(1), JobId(2)) == [
        started(1, 1), grown, shrunk, started(2, 0, 4), lost
    ]  # fmt: skip


# SQLite alone


def test_predictions_and_how_they_held_survive_a_restart(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    journal.keep_predictions([predicted(1), predicted(2)])
    journal.append([started(1, 30)])
    journal.close()
    again = SqliteJournal(tmp_path / "journal.db")
    assert waits(again) == [(1, 30)]
    assert again.prediction(JobId(2)) == predicted(2)
    again.close()


def test_a_prediction_is_not_written_alone_and_not_lost_when_a_batch_fails(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    journal.keep_predictions([predicted(1)])
    inside = journal._database  # no other process may open the file
    assert inside.execute("select count(*) from predictions").fetchone() == (0,)
    inside.execute("create trigger full before insert on events begin select raise(abort, 'no'); end")
    with pytest.raises(Unavailable):
        journal.append([NOTHING])
    inside.execute("drop trigger full")
    journal.append([NOTHING])
    assert inside.execute("select count(*) from predictions").fetchone() == (1,)
    journal.close()


def test_a_prediction_that_was_changed_on_the_disk_is_refused(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    journal.keep_predictions([predicted(1)])
    journal.append([NOTHING])
    journal._database.execute("update predictions set body = ?", (os.urandom(20),))
    with pytest.raises(Unavailable) as refused:
        journal.prediction(JobId(1))
    assert refused.value.code == "journal-damaged"
    journal.close()


def test_a_job_starts_though_its_prediction_was_changed_on_the_disk(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    journal.keep_predictions([predicted(1), predicted(2)])
    journal.append([NOTHING])
    journal._database.execute("update predictions set body = ? where job = 1", (os.urandom(20),))
    assert journal.append([started(1, 30), started(2, 40)]) == 3
    assert waits(journal) == [(2, 40)]
    assert ["job 1 " in what for what in journal.damage()] == [True]
    journal.close()
