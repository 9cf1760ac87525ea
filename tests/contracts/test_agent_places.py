"""The directories of an agent: one agent in each, and advice in the words of `hn agent`."""

from pathlib import Path

import pytest

from headnode.apps.agent.places import Places
from headnode.core.model.errors import Unavailable


def test_a_second_agent_is_refused_with_the_option_that_hn_has(tmp_path: Path) -> None:
    first = Places(tmp_path / "agent")
    with pytest.raises(Unavailable, match="another agent uses the state directory") as refused:
        Places(tmp_path / "agent")
    assert refused.value.fix == "end it first, or name another directory: hn agent --directory DIRECTORY"
    assert first.run.is_dir()


def test_a_directory_that_cannot_be_used_is_refused_with_the_option_that_hn_has(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="cannot be used") as refused:
        Places(tmp_path / "file" / "agent")
    assert "hn agent --directory DIRECTORY" in refused.value.fix
