"""A head or an agent that cannot write its log says so, in the words of the system."""

from pathlib import Path

import pytest

from headnode.adapters.files.local_daemons import MEMBERSHIP
from headnode.apps.cli import daemons
from headnode.core.model.errors import Unavailable


def test_a_head_whose_log_cannot_be_opened_is_refused_and_the_log_is_named(tmp_path: Path) -> None:
    (tmp_path / "head.log").mkdir()
    with pytest.raises(Unavailable) as refused:
        daemons.start_head(str(tmp_path), {})
    assert refused.value.what == f"the log '{tmp_path}/head.log' cannot be written: Is a directory"


def test_an_agent_whose_log_cannot_be_opened_is_refused_and_the_log_is_named(tmp_path: Path) -> None:
    (tmp_path / "agent.log").mkdir()
    (tmp_path / MEMBERSHIP).parent.mkdir()
    (tmp_path / MEMBERSHIP).write_text("{}")  # it has joined
    with pytest.raises(Unavailable, match=r"agent\.log' cannot be written: Is a directory"):
        daemons.start_agent(str(tmp_path), {})


def test_a_program_that_could_say_nothing_on_a_full_disk_has_that_as_its_last_words(tmp_path: Path) -> None:
    assert daemons.why_silent(Path("/dev/full")).endswith("cannot be written: No space left on device")
    assert daemons.why_silent(tmp_path / "log") == "with nothing"
    assert (tmp_path / "log").exists()
