"""Values of cluster parameters that are lists: what is read, and what is refused before it is recorded."""

import pytest

from headnode.core.model.errors import BadRequest
from headnode.engine.settings import check_parameter, read_licences


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


@pytest.mark.parametrize("value", ["1d", "-1", "99999", "nan", ""])
def test_a_number_that_cannot_be_is_refused_with_its_bounds_and_its_unit(value: str) -> None:
    with pytest.raises(BadRequest) as refused:
        check_parameter("TTLCompletedJobs", value)
    assert refused.value.fix == "write a number from 0 to 36500; its unit is days"


def test_a_misspelt_parameter_leads_to_the_right_one() -> None:
    with pytest.raises(BadRequest) as refused:
        check_parameter("TTLCompleteJob", "5")
    assert refused.value.fix == "did you mean TTLCompletedJobs? see: hn cluster params"
