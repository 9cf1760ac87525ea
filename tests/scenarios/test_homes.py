"""Where the files of a user are when HOME says nothing."""

import os
import pwd
from pathlib import Path

import pytest
from cli_scripted_head import hn

from headnode.apps.client.local_addresses import login_file, user_state_home

HOME = pwd.getpwuid(os.geteuid()).pw_dir


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "here"}])
def test_without_a_home_directory_in_the_environment_that_of_the_account_counts(
    environ: dict[str, str],
) -> None:
    assert user_state_home(environ) == f"{HOME}/.local/state"
    assert login_file(environ) == f"{HOME}/.config/headnode/logins.json"


def test_home_and_the_directories_of_xdg_count_before_the_account() -> None:
    assert user_state_home({"HOME": "/home/ann"}) == "/home/ann/.local/state"
    assert user_state_home({"HOME": "/home/ann", "XDG_STATE_HOME": "/srv/ann"}) == "/srv/ann"


def test_a_user_without_an_account_has_a_home_directory_that_does_not_exist(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000_000)
    assert user_state_home({"HOME": ""}) == "/nonexistent/.local/state"


def test_the_directory_of_a_head_is_refused_for_an_agent(tmp_path: Path) -> None:
    for words in (("agent", "--state", str(tmp_path / "node")), ("--state", str(tmp_path / "node"), "agent")):
        refused = hn(*words, "--stop", state=tmp_path)
        assert refused.returncode == 2
        assert "--directory" in refused.stderr
