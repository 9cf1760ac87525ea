"""What the charts of the lab's report are made of: each number held to its plainest definition."""

import zlib
from array import array
from base64 import b64decode
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.apps.simulate.html.charts import curve_points, grid, in_use, waiting
from headnode.apps.simulate.html.processors import Column, lanes, packed, packed_text, strips_on
from headnode.apps.simulate.html.study import STEPS, calendar, difference, most_gaining, most_losing
from headnode.apps.simulate.report import by_run_time, by_size, slowdowns, spread, waits
from headnode.core.model.errors import Broken
from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.policies import POOL_POLICIES
from headnode.core.scheduling.pool.replay import Ties, job_ends, replay, schedule_figures

PROCESSORS = 6


def workload(jobs: "list[tuple[int, int, int]]") -> Workload:
    """Return a workload of (submit, run time, processors)."""
    submits, run_times, counts = zip(*sorted(jobs), strict=True)
    return Workload(tuple(range(1, len(jobs) + 1)), submits, run_times, run_times, counts)


workloads = st.lists(
    st.tuples(st.integers(0, 300), st.integers(1, 80), st.integers(1, PROCESSORS)), min_size=1, max_size=25
).map(workload)


def starts_under(policy: str, work: Workload) -> list[float]:
    return list(replay(work, POOL_POLICIES[policy](work, PROCESSORS, Ties.ENDS_FIRST), Ties.ENDS_FIRST))


@given(workloads, st.integers(2, 40))
def test_a_curve_is_what_a_count_at_every_second_gives(work: Workload, most: int) -> None:
    starts = starts_under("easy", work)
    steps = grid(work.submits[0], max(job_ends(work, starts)), most)
    jobs = list(zip(work.submits, starts, job_ends(work, starts), work.processors, strict=True))
    counted = {
        "in use": lambda second: sum(count for _, start, end, count in jobs if start <= second < end),
        "waiting": lambda second: sum(submit <= second < start for submit, start, _, _ in jobs),
        "asked for": lambda second: sum(
            count for submit, start, _, count in jobs if submit <= second < start
        ),
    }
    changes = {
        "in use": in_use(work, starts),
        "waiting": waiting(work, starts, [1] * len(jobs)),
        "asked for": waiting(work, starts, work.processors),
    }
    for what, level in counted.items():
        curve = curve_points(changes[what], steps)
        for step in range(steps.size):
            begin = max(steps.first, steps.begin + step * steps.width)
            seconds = range(int(begin), int(min(steps.last, steps.begin + (step + 1) * steps.width)))
            levels = [level(second) for second in seconds] or [0]
            assert curve.means[step] == pytest.approx(sum(levels) / len(levels))
            assert (curve.lowest[step], curve.highest[step]) == (min(levels), max(levels))


@given(st.floats(0, 1e9), st.floats(1, 1e12), st.integers(2, 500), st.integers(-86400, 0))
def test_steps_cover_all_and_begin_at_full_hours_of_the_calendar(
    first: float, length: float, most: int, midnight: int
) -> None:
    steps = grid(first, first + length, most, midnight)
    assert 1 <= steps.size <= most
    assert (steps.begin - midnight) % steps.width == 0
    assert steps.begin <= first < steps.begin + steps.width
    assert (
        steps.begin + (steps.size - 1) * steps.width
        <= first + length
        < steps.begin + steps.size * steps.width
    )


def test_a_job_that_starts_as_it_comes_never_waits() -> None:
    work = workload([(0, 10, 1), (5, 10, 1)])
    assert max(curve_points(waiting(work, [0, 5], [1, 1]), grid(0, 15, 5)).highest) == 0


@given(workloads, st.sampled_from(list(POOL_POLICIES)))
def test_no_processor_has_two_jobs_at_once(work: Workload, policy: str) -> None:
    starts = starts_under(policy, work)
    stays = []
    for job, strips in enumerate(lanes(work, starts, PROCESSORS)):
        had = [processor for first, count in strips for processor in range(first, first + count)]
        assert len(had) == len(set(had)) == work.processors[job]
        assert set(had) <= set(range(PROCESSORS))
        stays += [(processor, starts[job], starts[job] + work.run_times[job]) for processor in had]
    for (one, _, end), (other, start, _) in pairwise(sorted(stays)):
        assert one != other or end <= start


def test_a_job_gets_the_first_gap_it_fits_into_or_else_the_lowest_free_processors() -> None:
    work = workload([(0, 10, 1), (1, 90, 1), (2, 10, 2), (3, 90, 1), (20, 10, 2), (21, 10, 2)])
    assert lanes(work, work.submits, PROCESSORS)[4:] == [((2, 2),), ((0, 1), (5, 1))]


def test_what_two_neighbours_give_back_is_one_gap() -> None:
    for first, second in ((10, 20), (20, 10)):
        work = workload([(0, first, 2), (1, second, 2), (2, 90, 2), (30, 10, 4)])
        assert lanes(work, work.submits, PROCESSORS)[3] == ((0, 4),)


def test_processors_of_nodes_stand_in_a_row_and_those_side_by_side_are_one_strip() -> None:
    first = {"a": 0, "b": 4, "c": 6}
    assert strips_on(first, [("b", (0, 1)), ("a", (3, 0))]) == [(0, 1), (3, 3)]
    assert strips_on(first, [("c", (1,)), ("b", (0,))]) == [(4, 1), (7, 1)]
    assert strips_on(first, []) == []


def test_more_jobs_than_the_machine_holds_are_a_mistake_of_ours() -> None:
    work = workload([(0, 10, 4), (1, 10, 4)])
    with pytest.raises(Broken, match="2 more processors are in use at once than the machine has"):
        lanes(work, work.submits, PROCESSORS)


@given(workloads)
def test_every_job_is_in_one_class_of_size_and_one_of_length(work: Workload) -> None:
    for classes in (by_size(work), by_run_time(work)):
        places = [place for one in classes for place in one.places]
        assert sorted(places) == list(range(len(work.numbers)))
        assert all(one.places for one in classes)


def test_classes_are_named_after_what_is_in_them() -> None:
    times = (1, 59, 60, 600, 3600, 21600, 86399, 86400)
    work = workload(
        [
            (place, time, size)
            for place, (time, size) in enumerate(zip(times, (1, 2, 3, 4, 5, 6, 9, 11), strict=True))
        ]
    )
    assert [(one.name, list(one.places)) for one in by_size(work)] == [
        ("1", [0]),
        ("2", [1]),
        ("3 to 4", [2, 3]),
        ("5 to 8", [4, 5]),
        ("9 to 11", [6, 7]),
    ]
    assert [(one.name, list(one.places)) for one in by_run_time(work)] == [
        ("under 1 min", [0, 1]),
        ("1 to 10 min", [2]),
        ("10 min to 1 h", [3]),
        ("1 to 6 h", [4]),
        ("6 h to a day", [5, 6]),
        ("over a day", [7]),
    ]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60))
def test_half_and_nine_in_ten_have_no_more_than_the_spread_says(values: list[int]) -> None:
    found = spread(values)
    for value, part in ((found.median, 5), (found.ninth, 9)):
        assert value in values
        assert sum(one <= value for one in values) * 10 >= part * len(values)
        assert sum(one < value for one in values) * 10 < part * len(values)


@given(workloads)
def test_waits_and_slowdowns_of_single_jobs_have_the_means_of_the_figures(work: Workload) -> None:
    starts = starts_under("fcfs", work)
    found = schedule_figures(work, starts, PROCESSORS)
    jobs = len(starts)
    assert sum(waits(work, starts)) / jobs == pytest.approx(found.mean_wait)
    assert sum(slowdowns(work, starts)) / jobs == pytest.approx(found.mean_bounded_slowdown)


def test_differences_are_counted_by_how_large_they_are() -> None:
    by = [0, -1, 599, -600, 3600, -21600, 86400, 604799, 604800, -604800]
    found = difference("easy", [1_000_000] * len(by), [1_000_000 + change for change in by])
    assert (
        Counter(dict(zip(STEPS, found.steps, strict=True)))
        == Counter(
            {
                "at the same time": 1,
                "under 10 min earlier": 1,
                "under 10 min later": 1,
                "10 to 60 min earlier": 1,
                "1 to 6 h later": 1,
                "6 to 24 h earlier": 1,
                "1 to 7 days later": 2,
                "over 7 days later": 1,
                "over 7 days earlier": 1,
            }
        )
        + Counter()
    )
    assert (found.earlier, found.later) == (4, 5)
    assert most_gaining(found, 2) == [9, 5]
    assert most_losing(found, 3) == [8, 7, 6]
    assert most_gaining(found, 99) == [9, 5, 3, 1]


KTH = {"UnixStartTime": "843480031", "TimeZone": "3600", "TimeZoneString": "Europe/Stockholm"}


def test_a_log_that_says_when_it_began_gets_dates_of_its_own_time_zone() -> None:
    dates = calendar(KTH, 0, 1e7)
    assert (dates.time_text(0), dates.zone) == ("Mon 23 Sep 1996, 14:00", "UTC+02:00")
    assert dates.time_text(dates.midnight) == "Mon 23 Sep 1996, 00:00"
    assert (dates.axis(60), dates.width(60)) == ((843480031 + 7200 + 60) * 1000, 60_000)
    older = calendar({**KTH, "TimeZoneString": "Nowhere/Nothing"}, 0, 1e7)
    assert (older.time_text(0), older.zone) == ("Mon 23 Sep 1996, 13:00", "UTC+01:00")


@pytest.mark.parametrize("began", ["", "0", "-5", "soon", "9" * 14, "9" * 400, "１２３"])
def test_a_log_that_does_not_gets_days(began: str) -> None:
    dates = calendar({**KTH, "UnixStartTime": began}, 0, 1e7)
    assert (dates.time_text(90061), dates.axis(86400), dates.midnight) == ("day 1, 01:01", 1, 0)


@pytest.mark.parametrize("zone", ["../../etc/passwd", "\x00", "", "Europe"])
def test_a_time_zone_that_is_none_is_not_believed(zone: str) -> None:
    assert calendar({**KTH, "TimeZoneString": zone, "TimeZone": "9999999"}, 0, 1e7).zone == "UTC"


def unpacked(column: Column) -> "list[float] | list[str]":
    content = zlib.decompress(b64decode(column["data"]))
    if column["type"] == "Text":
        return content.decode().split("\n")
    return list(array({"Int32": "i", "Float64": "d"}[column["type"]], content))


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [([1, -5, 2**31 - 1], "Int32"), ([1, 2**31], "Float64"), ([0.25, 7], "Float64"), ([], "Int32")],
)
def test_numbers_that_are_packed_come_out_as_they_were(numbers: list[float], kind: str) -> None:
    assert packed(numbers)["type"] == kind
    assert unpacked(packed(numbers)) == numbers


def test_job_numbers_of_any_length_are_kept() -> None:
    assert unpacked(packed_text(["1", "9" * 60])) == ["1", "9" * 60]


def test_seconds_are_said_of_a_log_that_is_over_within_an_hour() -> None:
    assert calendar(KTH, 50, 3649).time_text(9) == "Mon 23 Sep 1996, 14:00:40"
    assert calendar({}, 50, 3649).time_text(61) == "day 0, 00:01:01"
    assert calendar({}, 50, 3650).time_text(61) == "day 0, 00:01"
