"""Files of attempts elsewhere: nothing is submitted without its input, nothing ends before they are away."""

import pytest

from headnode.core.batch.dialect import AttemptPlace, SubmissionResult, marker_of
from headnode.core.batch.hand_off import HandOffTable
from headnode.core.batch.staged_files import TransferResult
from headnode.core.batch.tracked import Files, ForeignPhase, HandOffReport, HandOffTimeouts
from headnode.core.model.outcome import AttemptOutcome, TransferUsage
from headnode.core.model.quantities import Instant, Seconds

TIMEOUT = HandOffTimeouts(Seconds(10.0), Seconds(30.0), Seconds(120.0), Seconds(20.0))
KEY = AttemptPlace(1, 1, 1, 1)
MARK = marker_of("00000000", KEY)
NOTHING = Files(has_started=False)
THERE = TransferResult("done", usage=TransferUsage(2.0, 100))
AWAY = TransferResult("done", usage=TransferUsage(2.0, 100, 3.0, 50))
NOW = Instant(1)


def table_with(*, job: str = "", may_be_there: bool = False, has_results: bool = True) -> HandOffTable:
    table = HandOffTable("Slurm", TIMEOUT)
    table.add(KEY, MARK, "ada", job=job, may_be_there=may_be_there, now=Instant(0), has_results=has_results)
    return table


def bring(table: HandOffTable) -> None:
    """Begin to bring the input of the attempt."""
    (one,) = table.staged.to_bring()
    assert one.staged is not None
    one.staged.under_way = True


def exited(table: HandOffTable, code: int = 0) -> list[HandOffReport]:
    found = f"code={code} signal=0 start=5 end=9 id=7 host=n1"
    table.polled({}, NOW, NOW)
    return [*table.looked({MARK: Files(True, found)}, NOW, NOW), *table.remembered(None, NOW)]


def outcome(news: list[HandOffReport]) -> AttemptOutcome:
    (ended,) = [each for each in news if each.kind == "ended"]
    assert ended.outcome is not None
    return ended.outcome


def test_it_is_submitted_when_its_input_is_there() -> None:
    table = table_with()
    assert table.to_submit(NOW) == []
    bring(table)
    assert table.staged.to_bring() == []
    assert table.to_submit(NOW) == []
    table.staged.brought(KEY, THERE)
    assert [one.marker for one in table.to_submit(NOW)] == [MARK]


def test_input_that_cannot_come_ends_it_before_it_is_submitted() -> None:
    table = table_with()
    bring(table)
    table.staged.brought(KEY, TransferResult("failed", "'data' was not transferred"))
    assert table.never_there(NOW) == []  # its files are removed first
    assert table.to_submit(NOW) == []
    assert [takes for _, takes in table.staged.to_clear()] == [False]
    found = outcome(table.cleared(KEY, TransferResult("done"), NOW))
    assert (found.kind, found.message) == ("not-staged", "'data' was not transferred")


def test_of_one_that_may_be_there_a_failure_to_bring_is_no_end() -> None:
    """The input may have been there before, and the job may run with it."""
    table = table_with(may_be_there=True)
    bring(table)
    table.staged.brought(KEY, TransferResult("failed", "its log is damaged"))
    assert table.never_there(NOW) == []
    for now in (31, 32, 33):
        table.polled({}, Instant(now), Instant(now))
        table.looked({MARK: NOTHING}, Instant(now), Instant(now))
    assert table.attempts[KEY].phase is ForeignPhase.INTENDED
    assert table.to_submit(Instant(33)) == []
    table.never_there(Instant(33))
    assert table.attempts[KEY].phase is ForeignPhase.CLEARING


def test_nothing_is_brought_to_one_that_is_there() -> None:
    assert table_with(job="7").staged.to_bring() == []


@pytest.mark.parametrize("code", [0, 3])
def test_it_ends_when_its_results_are_away(code: int) -> None:
    table = table_with(job="7")
    assert [each.kind for each in exited(table, code)] == ["started"]
    ((one, takes),) = table.staged.to_clear()
    assert takes
    assert table.owners() == []
    assert table.polled({}, Instant(500), Instant(500)) == []
    result = outcome(table.cleared(one.key, AWAY, NOW))
    assert (result.kind, result.exit_code, result.transfers) == ("exited", code, AWAY.usage)


def test_results_that_cannot_go_fail_it_with_its_exit_code_and_their_place() -> None:
    table = table_with(job="7")
    exited(table)
    result = outcome(table.cleared(KEY, TransferResult("failed", "no room", place="/a/files"), NOW))
    assert (result.kind, result.exit_code) == ("not-staged", 0)
    assert result.message == "no room; its results are in /a/files"


def test_one_that_is_canceled_while_its_results_go_ends_when_its_files_are_removed() -> None:
    table = table_with(job="7")
    exited(table)
    ((one, _),) = table.staged.to_clear()
    assert one.staged is not None
    one.staged.under_way = True
    table.stop(KEY)
    assert table.cleared(KEY, TransferResult("stopped"), NOW) == []
    assert [takes for _, takes in table.staged.to_clear()] == [False]
    assert outcome(table.cleared(KEY, TransferResult("done"), NOW)).kind == "stopped"


def test_files_that_cannot_be_removed_change_no_outcome() -> None:
    table = table_with(job="7", has_results=False)
    exited(table, 4)
    result = outcome(table.cleared(KEY, TransferResult("failed", "permission denied"), NOW))
    assert (result.kind, result.exit_code, result.message) == ("exited", 4, "")


def test_what_is_refused_there_leaves_no_files() -> None:
    table = table_with()
    bring(table)
    table.staged.brought(KEY, THERE)
    table.sent(KEY, NOW)
    assert table.submitted(KEY, SubmissionResult("refused", message="no"), NOW) == []
    assert [takes for _, takes in table.staged.to_clear()] == [False]
    assert outcome(table.cleared(KEY, TransferResult("done"), NOW)).kind == "not-started"


def test_files_of_what_is_lost_stay_since_it_may_run() -> None:
    table = table_with(job="7")
    found: list[HandOffReport] = []
    for now in range(1, 400, 10):
        found += table.polled({}, Instant(now), Instant(now))
        found += table.looked({MARK: Files(has_started=True)}, Instant(now), Instant(now))
    assert outcome(found).kind == "lost"
    assert table.staged.to_clear() == []
