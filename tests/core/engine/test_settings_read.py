"""Values of cluster parameters that are lists: what is read, and what is refused before it is recorded."""

import pytest

from headnode.core.model.errors import BadRequest
from headnode.engine.parameters import PARAMETERS
from headnode.engine.settings import check_parameter, read_licences, read_parameter


def test_licences_are_read_by_their_last_colon() -> None:
    assert read_licences(" solver:8, Telescope:Zoom2000:1 ,") == {"solver": 8, "Telescope:Zoom2000": 1}
    assert read_licences("solver:\x1d8") == {"solver": 8}


@pytest.mark.parametrize("text", ["solver", "solver:", ":8", "solver:-1", "a:1,a:2", f"a:{'9' * 100_000}"])
def test_licences_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(BadRequest) as refused:
        check_parameter("Licences", text)
    assert refused.value.code == "licences"


@pytest.mark.parametrize("name", ["UserLimits", "projectlimits"])
def test_limits_are_read_before_they_are_recorded(name: str) -> None:
    assert check_parameter(name, "*:jobs=1;ann:jobs=unlimited").name.lower() == name.lower()
    assert check_parameter(name, None) == check_parameter(name, "")
    with pytest.raises(BadRequest) as refused:
        check_parameter(name, "*:jobs=1;ann:jobs=many")
    assert (refused.value.code, "'many'" in refused.value.what) == ("limits", True)


@pytest.mark.parametrize("value", ["1x", "-1", "99999", "nan", "", "infinite", "36501d", "1d1"])
def test_a_time_that_cannot_be_is_refused_with_its_bounds_and_its_unit(value: str) -> None:
    with pytest.raises(BadRequest) as refused:
        check_parameter("TTLCompletedJobs", value)
    assert refused.value.fix == (
        "write a time from 0s to 36500d, such as 90s, 2m or 1h; a number without a unit counts days"
    )


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        ("HeartbeatInterval", "2m", "120"),
        ("HeartbeatInterval", "120", "120"),
        ("StandbyWait", "0.5s", "0.5"),
        ("UsageHalfLife", "1w", "604800"),
        ("TTLCompletedJobs", "12h", "0.5"),
        ("PurgeJobsAfter", "365", "365"),
    ],
)
def test_a_time_is_stored_as_a_number_of_its_unit(name: str, value: str, stored: str) -> None:
    assert read_parameter(name, value)[1] == stored


def test_every_parameter_that_is_a_time_takes_units_and_no_other_does() -> None:
    for known in PARAMETERS.values():
        if known.least is None:
            continue
        if known.seconds_in_unit:
            bound = f"{known.most * known.seconds_in_unit:.0f}s"
            assert float(read_parameter(known.name, bound)[1] or "") == known.most, known.name
        else:
            with pytest.raises(BadRequest, match="write a number from"):
                read_parameter(known.name, "1m")


def test_a_misspelt_parameter_leads_to_the_right_one() -> None:
    with pytest.raises(BadRequest) as refused:
        check_parameter("TTLCompleteJob", "5")
    assert refused.value.fix == "did you mean TTLCompletedJobs? see: hn cluster params"
