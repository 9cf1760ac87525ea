"""Run time limits and priorities, as people write them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.core.formats.text.quantities import format_date_time, parse_date_time
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import (
    ANCHORS,
    FOREVER,
    Instant,
    Priority,
    Seconds,
    format_priority,
    format_run_time,
    parse_priority,
    parse_run_time,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800),
        ("2:30", 9000),
        ("1:02:30", 95_400),
        ("0:0:1", 60),
        (" 5 ", 300),
        ("Infinite", math.inf),
        ("infinite", math.inf),
        ("90:90", 329_400),
    ],
)
def test_a_run_time_is_days_hours_and_minutes(text: str, seconds: float) -> None:
    assert parse_run_time(text) == seconds


@pytest.mark.parametrize(
    "text", ["", ":", "1:", ":1", "1:2:3:4", "-1", "1.5", "x", "+1", "١", "1 2", "9" * 10]
)
def test_what_is_no_run_time_is_refused(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_run_time(text)
    assert caught.value.code == "run-time"


@given(st.integers(0, 10**7))
def test_whole_minutes_survive_writing(minutes: int) -> None:
    span = Seconds(60.0 * minutes)
    assert parse_run_time(format_run_time(span)) == span


@pytest.mark.parametrize(
    ("seconds", "text"), [(1, "1"), (60, "1"), (61, "2"), (3600, "1:00"), (90_000, "1:01:00")]
)
def test_a_run_time_is_written_in_whole_minutes_rounded_up(seconds: float, text: str) -> None:
    assert format_run_time(Seconds(seconds)) == text


def test_no_limit_is_written_infinite() -> None:
    assert format_run_time(FOREVER) == "Infinite"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Normal+150", 2150),
        ("abovenormal-10", 2990),
        ("LOWEST", 0),
        ("Highest", 4000),
        ("Highest-4000", 0),
        ("BelowNormal", 1000),
        ("0", 0),
        ("4000", 4000),
        (" 17 ", 17),
    ],
)
def test_a_priority_is_a_name_a_distance_from_it_or_a_number(text: str, value: int) -> None:
    assert parse_priority(text) == value


@pytest.mark.parametrize(
    "text", ["4001", "-1", "Highest+1", "Lowest-1", "High", "", "Normal+", "Normal 5", "2.5", "١٧", "17+1"]
)
def test_what_is_no_priority_is_refused(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_priority(text)
    assert caught.value.code == "priority"


def test_every_priority_survives_writing_near_its_name() -> None:
    for value in range(4001):
        text = format_priority(Priority(value))
        assert parse_priority(text) == value
        name = text.replace("-", "+").split("+")[0]
        assert abs(ANCHORS[name] - value) <= 500


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-02", 86_400),
        ("7/16/2018 6:32:42 AM", 1_531_722_762),
        ("7/16/2018 12:00:00 AM", 1_531_699_200),
        ("7/16/2018 12:00:00 PM", 1_531_742_400),
        ("2010/12/7 23:18:20", 1_291_763_900),
        ("2030-01-02T03:04:05+01:30", 1_893_548_045),
        ("2030-01-02 03:04:05.25 -0100", 1_893_557_045.25),
    ],
)
def test_dates_are_read_in_every_form_in_use_and_are_utc(text: str, instant: float) -> None:
    assert parse_date_time(text) == instant


@pytest.mark.parametrize(
    "text",
    ["", "2018-02-30", "13/1/2018", "2018-01-01T24:00", "1/2/2018 13:00 PM", "0:00 AM", "2018-1-1 1:60"],
)
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_date_time(text)
    assert caught.value.code == "date-time"


@given(st.integers(-(10**10), 10**11), st.sampled_from([0, 0.5, 0.125]))
def test_points_of_time_survive_writing(whole: int, part: float) -> None:
    instant = Instant(whole + part)
    assert parse_date_time(format_date_time(instant)) == instant
