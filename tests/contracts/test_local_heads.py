"""A head of this machine is found by the name of its cluster, wherever it keeps its state."""

import os
from pathlib import Path

import pytest

from headnode.adapters.files.local_daemons import LocalHead, announced, local_heads, own_place
from headnode.apps.client.head_location import head_to_ask
from headnode.core.model.errors import BadRequest, NotFound

NAME = "cluster-of-this-test"


def running(folder: Path) -> Path:
    """Return a state directory whose head has its socket open, as far as others can see."""
    folder.mkdir()
    (folder / "head.sock").touch()
    return folder


def around(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.mark.parametrize("name", [NAME, NAME.upper()])
def test_a_cluster_is_found_by_its_name_while_its_head_runs(tmp_path: Path, name: str) -> None:
    environ, state = around(tmp_path), running(tmp_path / "elsewhere")
    with announced(environ, NAME, state):
        assert head_to_ask(environ, 1, scheduler=name) == str(state)
        assert head_to_ask(environ | {"CCP_SCHEDULER": name}, 1) == str(state)
        (state / "head.sock").unlink()
        with pytest.raises(NotFound):
            head_to_ask(environ, 1, scheduler=name)
    (state / "head.sock").touch()
    with pytest.raises(NotFound):
        head_to_ask(environ, 1, scheduler=name)


def test_several_heads_of_one_name_are_refused_with_their_directories(tmp_path: Path) -> None:
    environ, one, two = around(tmp_path), running(tmp_path / "one"), running(tmp_path / "two")
    with announced(environ, NAME, one):
        (own_place(environ) / "1").write_text(f"{NAME}\n{two}\n")
        with pytest.raises(BadRequest, match="several heads") as refused:
            head_to_ask(environ, 1, scheduler=NAME)
    assert str(one) in refused.value.what
    assert str(two) in refused.value.what


@pytest.mark.parametrize("name", ["localhost", os.uname().nodename])
def test_the_name_of_the_machine_means_its_only_head(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headnode.adapters.files.local_daemons.SYSTEM_PLACE", tmp_path / "none")
    monkeypatch.setattr("headnode.apps.client.local_addresses.SYSTEM_STATE", str(tmp_path / "no-system"))
    environ, state = around(tmp_path), running(tmp_path / "elsewhere")
    with announced(environ, NAME, state):
        assert head_to_ask(environ, 1, scheduler=name) == str(state)


@pytest.mark.parametrize("text", ["", "only-a-name\n", "a\nb\nc\n", "\xff"])
def test_a_file_that_says_something_else_is_passed_over(tmp_path: Path, text: str) -> None:
    environ, state = around(tmp_path), running(tmp_path / "elsewhere")
    own_place(environ).mkdir(parents=True)
    (own_place(environ) / "1").write_bytes(text.encode("latin-1"))
    (own_place(environ) / "2").symlink_to(tmp_path)
    with announced(environ, NAME, state):
        assert LocalHead(NAME, str(state)) in local_heads(environ)
        assert NAME in [head.cluster for head in local_heads(environ)]


def test_files_of_heads_that_were_killed_are_removed_by_the_next(tmp_path: Path) -> None:
    environ, state = around(tmp_path), running(tmp_path / "elsewhere")
    own_place(environ).mkdir(parents=True)
    (own_place(environ) / "4194399").write_text("old\n/nowhere\n")  # above the largest process number
    with announced(environ, NAME, state):
        assert [path.name for path in own_place(environ).iterdir()] == [str(os.getpid())]
    assert list(own_place(environ).iterdir()) == []
