"""Job logs in the Standard Workload Format: whatever is in them is read, counted or refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from headnode.core.formats.swf import FIELDS, Remark, read_swf
from headnode.core.model.errors import BadRequest

LEFT_OUT = [remark for remark in Remark if remark.value.startswith("left out")]
NUMBERS = some.one_of(some.integers(-1, 9), some.just(-1))
ROWS = some.lists(some.lists(NUMBERS, min_size=9, max_size=FIELDS + 1), min_size=1, max_size=12)

GOOD = "1 0 -1 5 -1 -1 -1 1 9" + " -1" * 9


def lines(rows: list[list[int]]) -> list[str]:
    return [" ".join(map(str, row)) for row in rows]


@given(ROWS)
def test_every_job_is_replayed_or_counted_as_left_out(rows: list[list[int]]) -> None:
    log = read_swf([*lines(rows), GOOD], 6)
    left_out = sum(log.remarks[remark].lines for remark in LEFT_OUT if remark in log.remarks)
    assert len(log.workload.submits) + left_out == len(rows) + 1


@given(ROWS)
def test_what_is_replayed_keeps_the_promises_of_a_workload(rows: list[list[int]]) -> None:
    jobs = read_swf([*lines(rows), GOOD], 6).workload
    arrivals = list(zip(jobs.submits, jobs.numbers, strict=True))
    assert arrivals == sorted(arrivals)
    assert min(jobs.submits) >= 0
    assert all(1 <= processors <= 6 for processors in jobs.processors)
    assert all(0 < run <= limit for run, limit in zip(jobs.run_times, jobs.estimates, strict=True))


@given(some.lists(some.text(), max_size=6))
def test_any_text_is_read_or_refused_with_the_way_out(text: list[str]) -> None:
    with pytest.raises(BadRequest) as refused:
        read_swf(text)
    assert refused.value.code.startswith("workload-")
    assert refused.value.fix


def test_the_header_is_kept_and_shows_the_size_of_the_machine() -> None:
    header = ["; Computer: IBM SP2", ";MaxProcs:  100 ", ";", "; a remark", "; MaxProcs: 7"]
    log = read_swf([*header, "1 0 -1 5 -1 -1 -1 8 9" + " -1" * 9])
    assert (log.header["Computer"], log.processors) == ("IBM SP2", 100)
    assert read_swf(["; MaxNodes: 8", "1 0 -1 5 -1 -1 -1 8 9" + " -1" * 9]).processors == 8


@pytest.mark.parametrize("size", ["unknown", "0", "-1", "", "٣"])
def test_a_header_that_does_not_tell_the_size_is_not_guessed_at(size: str) -> None:
    with pytest.raises(BadRequest, match="does not say how many processors"):
        read_swf([f"; MaxProcs: {size}", "1 0 -1 5 -1 -1 -1 8 9" + " -1" * 9])


@pytest.mark.parametrize(
    "bad", ["1 0 -1 5 1.5 -1 -1 -1 9", "1 0 -1 5 1 -1 -1 1", "1 0 -1 inf 1 -1 -1 1 9", "x 0 -1 5 1 -1 -1 1 9"]
)
def test_a_line_that_is_no_job_is_named(bad: str) -> None:
    with pytest.raises(BadRequest, match="line 2 is not a job in the Standard Workload Format"):
        read_swf(["", bad], 4)


@pytest.mark.parametrize("place", [1, 3, 8])
def test_a_time_that_is_no_time_is_refused_with_its_line(place: int) -> None:
    fields = ["1", "0", "0", "60", "4", "-1", "-1", "4", "60", *["-1"] * 9]
    fields[place] = "1" + "0" * 400
    with pytest.raises(BadRequest, match="line 1 is not a job"):
        read_swf([" ".join(fields)], 128)


def line(number: int, user: str, executable: str) -> str:
    return f"{number} {number} -1 5 1 -1 -1 1 10 -1 1 {user} 1 {executable} -1 -1 -1 -1"


def test_users_and_executables_are_read_where_somebody_asks() -> None:
    workload = read_swf([line(1, "7", "-1"), line(2, "-1", "3")], processors=4, whose=True).workload
    assert workload.users == ("7", "")
    assert workload.names == ("", "3")


def test_they_stay_with_their_jobs_when_these_are_put_in_order() -> None:
    workload = read_swf([line(2, "8", "5"), line(1, "7", "4")], processors=4, whose=True).workload
    assert (workload.numbers, workload.users, workload.names) == ((1, 2), ("7", "8"), ("4", "5"))


def test_nobody_asked_nothing_is_kept() -> None:
    workload = read_swf([line(1, "7", "3")], processors=4).workload
    assert (workload.users, workload.names) == ((), ())


def test_a_log_that_says_nothing_of_them_has_no_such_columns() -> None:
    lines = [line(1, "-1", "-1"), "2 2 -1 5 1 -1 -1 1 10"]
    workload = read_swf(lines, processors=4, whose=True).workload
    assert (len(workload.numbers), workload.users, workload.names) == (2, (), ())
