"""How long jobs will run, from what their like took."""

import msgspec
import pytest

from headnode.core.model.quantities import FOREVER, Seconds
from headnode.core.scheduling.prediction.run_times import (
    REMEMBERED,
    JobTraits,
    RunTimeHistory,
    RunTimeRecord,
    quantile,
)

HOUR = Seconds(3600.0)


def asked(user: str = "ann", name: str = "", limit: float = 3600.0) -> JobTraits:
    return JobTraits(user, name, Seconds(limit))


def taught(*lessons: tuple[JobTraits, float]) -> RunTimeHistory:
    history = RunTimeHistory()
    for job, used in lessons:
        history.learn(job, Seconds(used))
    return history


def test_without_a_past_a_job_takes_its_limit() -> None:
    assert RunTimeHistory().forecast(asked()).at(0.5) == HOUR


def test_without_a_past_and_a_limit_nothing_is_known() -> None:
    assert RunTimeHistory().forecast(asked(limit=FOREVER)).at(0.5) == FOREVER


def test_the_same_part_of_another_limit_is_used() -> None:
    history = taught((asked(limit=1000), 100), (asked(limit=1000), 100))
    assert history.forecast(asked(limit=50_000)).at(0.5) == 5000


def test_the_closest_kind_with_two_jobs_tells() -> None:
    mine, other_name = asked(name="fit"), asked(name="plot")
    history = taught((other_name, 360), (other_name, 360), (mine, 3600))
    assert history.forecast(mine).at(0.5) == 360  # one job of that name: too few
    history.learn(mine, Seconds(1800))
    assert history.forecast(mine).at(0.5) == 2700


def test_a_name_with_another_limit_tells_more_than_other_names_with_this_one() -> None:
    history = taught(*[(asked(name="fit", limit=7200), 7200)] * 2, *[(asked(name="plot"), 36)] * 2)
    assert history.forecast(asked(name="fit")).at(0.5) == 3600


def test_jobs_that_differ_in_a_number_are_of_one_name() -> None:
    history = taught((asked(name="run-1"), 36), (asked(name="run-27"), 36), (asked(name="all"), 3600))
    assert history.forecast(asked(name="run-3")).at(0.5) == 36


def test_names_that_are_only_numbers_are_not_mixed() -> None:
    history = taught(*[(asked(name="7"), 36)] * 2, *[(asked(name="8"), 3600)] * 2)
    assert history.forecast(asked(name="7")).at(0.5) == 36


def test_a_user_nobody_knows_is_taken_for_the_others_with_that_limit_then_for_all() -> None:
    history = taught((asked(limit=60), 30), (asked(limit=600), 60))
    assert history.forecast(asked("eve", limit=60)).at(0.5) == 30
    assert history.forecast(asked("eve", limit=3600)).at(0.5) == pytest.approx(3600 * (0.5 + 0.1) / 2)


def test_only_those_that_ran_longer_tell_of_a_job_that_runs() -> None:
    history = taught(*((asked(), used) for used in (60, 120, 1800, 3000)))
    assert history.forecast(asked()).at(0.5) == (120 + 1800) / 2
    assert history.forecast(asked(), ran=Seconds(120)).at(0.5) == pytest.approx(2400)


def test_a_job_that_outlived_all_its_like_takes_its_limit() -> None:
    history = taught((asked(), 60), (asked(), 120))
    assert history.forecast(asked(), ran=Seconds(120)).at(0.5) == HOUR


def test_without_a_limit_times_are_learned_and_never_mixed_with_parts_of_limits() -> None:
    endless = asked(limit=FOREVER)
    history = taught((asked(), 36), (asked(), 36), (endless, 500), (endless, 700))
    assert history.forecast(endless).at(0.5) == 600
    assert history.forecast(endless, ran=Seconds(800)).at(0.5) == 1600  # outlived all: as long again


def test_a_running_job_without_a_limit_of_which_nothing_is_known_has_no_end() -> None:
    history = taught((asked(), 36), (asked(), 36))  # parts of limits tell nothing of it
    assert history.forecast(asked(limit=FOREVER), ran=Seconds(800)).at(0.5) == FOREVER


def test_nothing_runs_longer_than_its_limit() -> None:
    history = taught(*[(asked(), 3700)] * 2)
    assert history.forecast(asked()).at(0.9) == HOUR


def test_the_oldest_of_a_kind_are_forgotten() -> None:
    history = taught(*[(asked(), 3600)] * REMEMBERED, *[(asked(), 36)] * REMEMBERED)
    assert history.forecast(asked()).at(1.0) == 36


def test_the_kinds_not_seen_for_longest_are_forgotten_first() -> None:
    history = RunTimeHistory(kinds=5)
    for user in ("ann", "bob", "ann", "eve"):  # two kinds of each, two of all
        history.learn(asked(user), Seconds(36))
    assert {kind.user for kind in history.state()} == {"ann", "eve", None}
    assert len(history.state()) == 5


def test_a_forecast_does_not_change_when_more_is_learned() -> None:
    history = taught((asked(), 360), (asked(), 720))
    forecast = history.forecast(asked())
    history.learn(asked(), HOUR)
    assert forecast.parts == (0.1, 0.2)


def test_a_history_survives_a_snapshot() -> None:
    history = taught(
        (asked(name="fit"), 60), (asked(name="fit"), 90), (asked(limit=FOREVER), 5), (asked(limit=FOREVER), 7)
    )
    for codec in (msgspec.json, msgspec.msgpack):
        state = codec.decode(codec.encode(history.state()), type=tuple[RunTimeRecord, ...])
        again = RunTimeHistory.restored(state)
        assert again.state() == history.state()
        for job in (asked(name="fit"), asked(limit=FOREVER), asked("bob")):
            assert again.forecast(job) == history.forecast(job)


@pytest.mark.parametrize(
    ("level", "value"), [(0.0, 1), (0.125, 1), (0.25, 1.5), (0.5, 2.5), (0.9, 4), (1.0, 4)]
)
def test_quantiles_lie_between_the_values(level: float, value: float) -> None:
    assert quantile([1, 2, 3, 4], level) == value


def test_a_quantile_between_equal_infinities_is_one() -> None:
    assert quantile([1, FOREVER, FOREVER], 0.7) == FOREVER
