"""Periods of bhist and bacct mean the whole minute, hour, day, month or year that was written."""

from datetime import datetime

import pytest

from headnode.apps.cli.batch_programs.lsf_periods import period
from headnode.apps.cli.batch_programs.words import ProgramRefusal

NOW = datetime(2026, 11, 30, 14, 25).timestamp()


def at(*date: int) -> float:
    return datetime(*date).timestamp()


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("2026/11/3/9:30", at(2026, 11, 3, 9, 30), at(2026, 11, 3, 9, 31)),
        ("2026/11/3/9:", at(2026, 11, 3, 9), at(2026, 11, 3, 10)),
        ("11/3", at(2026, 11, 3), at(2026, 11, 4)),
        ("3", at(2026, 11, 3), at(2026, 11, 4)),
        ("3/9:30", at(2026, 11, 3, 9, 30), at(2026, 11, 3, 9, 31)),
        ("9:30", at(2026, 11, 30, 9, 30), at(2026, 11, 30, 9, 31)),
        ("2/", at(2026, 2, 1), at(2026, 3, 1)),
        ("2025/12/", at(2025, 12, 1), at(2026, 1, 1)),
        ("2025/", at(2025, 1, 1), at(2026, 1, 1)),
        (".-2,.", at(2026, 11, 28), NOW),
        ("11/1,11/2", at(2026, 11, 1), at(2026, 11, 3)),
        ("9:30,", at(2026, 11, 30, 9, 30), None),
        (",2/", None, at(2026, 3, 1)),
    ],
)
def test_a_period_has_the_whole_of_what_was_written(
    text: str, begin: float | None, end: float | None
) -> None:
    found = period(text, NOW)
    assert (found.begin, found.end) == (begin, end)


@pytest.mark.parametrize(
    "text", ["", ",", "2/30", "25:00", "1/2/3/4", "x", ".-0", ".-32", "2026/13/", "2025//", "9:61", "-1", "/"]
)
def test_what_is_no_period_is_refused(text: str) -> None:
    with pytest.raises(ProgramRefusal, match="Illegal time format"):
        period(text, NOW)


def test_a_job_that_never_started_is_in_no_period_of_starts() -> None:
    assert not period("2026/", NOW).has(None)
    assert period("2026/", NOW).has(NOW)
    assert not period("2026/", NOW).has(at(2027, 1, 1))
