"""An agent that is started again has the settings of before."""

from pathlib import Path

import pytest

from headnode.adapters.files.local_daemons import agent_settings
from headnode.core.model.errors import BadRequest

NONE = dict.fromkeys(("processors", "memory", "gpus"))


def test_settings_are_those_of_now_or_else_of_before(tmp_path: Path) -> None:
    assert agent_settings(tmp_path, NONE) == {}
    assert agent_settings(tmp_path, NONE | {"processors": "2", "gpus": "0"}) == {
        "processors": "2",
        "gpus": "0",
    }
    assert agent_settings(tmp_path, NONE) == {"processors": "2", "gpus": "0"}
    assert agent_settings(tmp_path, NONE | {"memory": "4096"})["processors"] == "2"
    assert agent_settings(tmp_path, NONE | {"processors": ""}) == {"gpus": "0", "memory": "4096"}
    assert agent_settings(tmp_path, NONE) == {"gpus": "0", "memory": "4096"}


def test_a_setting_that_is_no_longer_known_is_left_out(tmp_path: Path) -> None:
    agent_settings(tmp_path, {"colour": "red"})
    assert agent_settings(tmp_path, NONE) == {}


@pytest.mark.parametrize("text", ["", "[]", '{"processors": 2}', "\xff"])
def test_a_file_that_was_changed_is_refused_with_the_way_out(text: str, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(text)
    with pytest.raises(BadRequest, match="does not have the settings of the agent") as refused:
        agent_settings(tmp_path, NONE)
    assert refused.value.fix.startswith("remove it")
