"""Times of recurring jobs: as Debian's cron has them, with the changes to and from summer time."""

from datetime import datetime
from itertools import islice, pairwise, takewhile
from math import inf

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Instant
from headnode.core.model.schedule import COMPARED, read_schedule, zone_named

BERLIN = "Europe/Berlin"


def local(text: str, zone: str = BERLIN) -> Instant:
    """Return the instant at which clocks of a zone show a time."""
    return Instant(datetime.fromisoformat(text).replace(tzinfo=zone_named(zone)).timestamp())


def times(schedule: str, after: str, count: int, zone: str = BERLIN) -> list[str]:
    """Return the next times, as clocks of the zone show them with their offsets from UTC."""
    found = islice(read_schedule(schedule, zone).times_after(local(after, zone)), count)
    return [datetime.fromtimestamp(at, zone_named(zone)).isoformat(timespec="minutes") for at in found]


def test_a_time_that_the_change_to_summer_time_leaves_out_comes_right_after_it() -> None:
    assert times("30 2 * * *", "2026-03-28T12:00", 2) == ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]


def test_two_times_that_the_change_leaves_out_come_once() -> None:
    assert times("0,30 2 * * *", "2026-03-28T12:00", 2) == [
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:00+02:00",
    ]


def test_a_time_that_the_change_from_summer_time_repeats_comes_once() -> None:
    assert times("30 2 * * *", "2026-10-24T12:00", 2) == ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]
    repeated = Instant(local("2026-10-25T02:10") + 3600)  # the second 02:10 of that night
    first = read_schedule("30 2 * * *", BERLIN).next_after(repeated)
    assert first == local("2026-10-26T02:30")


def test_times_of_every_hour_go_on_evenly_through_both_changes() -> None:
    for day in ("2026-03-29T00:00", "2026-10-25T00:00"):
        found = list(islice(read_schedule("*/30 * * * *", BERLIN).times_after(local(day)), 12))
        assert {later - earlier for earlier, later in pairwise(found)} == {1800.0}


@pytest.mark.parametrize(
    ("word", "fields"),
    [
        ("@hourly", "0 * * * *"),
        ("@DAILY", "0 0 * * *"),
        ("@weekly", "0 0 * * sun"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 jan *"),
    ],
)
def test_a_word_means_its_fields(word: str, fields: str) -> None:
    assert times(word, "2026-01-01T00:00", 5) == times(fields, "2026-01-01T00:00", 5)


def test_an_interval_counts_from_its_anchor() -> None:
    schedule = read_schedule("@every 1m30s", "UTC", Instant(10.0))
    assert list(islice(schedule.times_after(Instant(0.0)), 2)) == [100.0, 190.0]
    assert schedule.next_after(Instant(100.0)) == 190.0
    assert schedule.last_until(Instant(279.0), Instant(10.0)) == 190.0
    assert schedule.last_until(Instant(99.0), Instant(0.0)) is None


@pytest.mark.parametrize(
    "text",
    ["", "* * * *", "* * * * * *", "60 * * * *", "0 0 31 2 *", "@reboot", "@every", "@every 0s", "@every 5",
     "5-3 * * * *", "*/0 * * * *", "9" * 5000 + " * * * *", "x" * 300],
)  # fmt: skip
def test_what_is_no_schedule_is_refused_with_its_field(text: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_schedule(text, "UTC")
    assert (refused.value.code, refused.value.path) == ("schedule", ("schedule",))
    assert len(refused.value.what) < 400


@pytest.mark.parametrize("zone", ["", "Nowhere/City", "../../etc/passwd", "/etc/passwd", "Europe", "a\0b"])
def test_what_is_no_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_schedule("@daily", zone)
    assert refused.value.code == "time-zone"


def test_a_schedule_that_never_comes_has_no_next_time() -> None:
    assert read_schedule("0 0 * * */8", "UTC").next_after(Instant(1.8e9)) is not None
    assert read_schedule("* * */20 * 1L", "UTC").next_after(Instant(1.8e9)) is None
    assert read_schedule("@daily", "UTC").next_after(Instant(253402300799.0)) is None


MOMENTS = st.floats(1.6e9, 2.0e9).map(Instant)
SCHEDULES = st.sampled_from(
    ["* * * * *", "*/7 1-3 * * *", "30 2 * * *", "0 0 29 2 *", "15 3 * * sun", "0 0 1 * *", "@every 90m",
     "59 23 31 12 *"]
)  # fmt: skip
ZONES = st.sampled_from(
    [BERLIN, "UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Cairo"]
)


@settings(max_examples=150, deadline=None)
@given(SCHEDULES, ZONES, MOMENTS, st.floats(0, 9e5))
def test_the_times_are_the_same_wherever_counting_begins(
    text: str, zone: str, begin: Instant, later: float
) -> None:
    schedule, middle = read_schedule(text, zone), Instant(begin + later)
    found = list(islice(schedule.times_after(begin), 400))
    assert found == sorted(set(found))
    assert all(at > begin for at in found)
    until_middle = [at for at in found if at <= middle]
    if until_middle == found:
        return  # more than were looked at
    assert schedule.next_after(middle) == found[len(until_middle)]
    assert schedule.last_until(middle, begin) == (until_middle[-1] if until_middle else None)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(
        ["0 0 29 2 *", "59 23 31 12 *", "15 3 * * sun", "7,8 3 * 1 *", "0 0 * 2 0#5", "30 2 * * *"]
    ),
    ZONES,
    MOMENTS,
    st.floats(0, 3e8),
)
def test_the_last_time_is_found_however_far_away_it_is(
    text: str, zone: str, begin: Instant, later: float
) -> None:
    schedule, until = read_schedule(text, zone), Instant(begin + later)
    found = list(takewhile(lambda at: at <= until, schedule.times_after(begin)))
    assert schedule.last_until(until, begin) == (found[-1] if found else None)


def test_the_last_of_many_times_long_ago_is_found_without_a_look_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each minute of January, in July: 44,640 times held the head for 0.3 s."""
    looks = []
    search = CronSim.__next__
    monkeypatch.setattr(CronSim, "__next__", lambda each: looks.append(1) or search(each))
    schedule = read_schedule("* * * 1 *", BERLIN)
    assert schedule.last_until(local("2026-07-01T00:00"), local("2025-12-01T00:00")) == local(
        "2026-01-31T23:59"
    )
    assert len(looks) < 100


@pytest.mark.parametrize(
    ("text", "count", "shortest"),
    [
        ("* * * * *", COMPARED, 60.0),
        ("0 4 * * *", COMPARED, 23 * 3600.0),  # at the change to summer time
        ("0,5 0 29 2 *", 2, 300.0),
        ("0 0 29 2 *", 1, inf),
        ("@every 90m", COMPARED, 5400.0),
        ("@every 500d", 1, 500 * 86_400.0),
    ],
)
def test_the_shortest_interval_is_that_of_the_next_400_days(text: str, count: int, shortest: float) -> None:
    schedule = read_schedule(text, BERLIN)
    found = schedule.first_times(local("2026-03-01T00:00"))
    assert len(found) == count
    assert schedule.shortest_interval(found) == shortest
