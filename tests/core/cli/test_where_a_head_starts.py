"""A head starts where its user says, wherever in the command line that stands."""

import os
from pathlib import Path
from typing import Any

import pytest

from headnode.apps.cli import daemons
from headnode.apps.cli.__main__ import obey

CLUSTER = {"name": "c", "processors": {"ready": 1}, "nodes": {"Ready": 1}}


@pytest.mark.parametrize(
    "words",
    [["--state", "DIR", "up"], ["--state=DIR", "up"], ["up", "--state", "DIR"], ["up", "/scheduler:DIR"]],
)
def test_a_head_starts_in_the_directory_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    started: list[str] = []

    def start(directory: str, _settings: object, **_: Any) -> dict[str, Any]:
        started.append(directory)  # nothing is started: where it would be is another's place if this fails
        return CLUSTER

    monkeypatch.setattr(daemons, "start_head", start)
    for name in ("HEADNODE_STATE", "CCP_SCHEDULER"):
        monkeypatch.delenv(name, raising=False)
    assert obey([word.replace("DIR", str(tmp_path)) for word in words]) == os.EX_OK
    assert started == [str(tmp_path)]


def test_a_user_who_interrupts_the_start_learns_that_the_head_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(_directory: str, _settings: object, **_: Any) -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(daemons, "start_head", start)
    with pytest.raises(KeyboardInterrupt):
        obey(["up", "--state", str(tmp_path)])
    assert "the head goes on starting in the background; to stop it: hn down" in capsys.readouterr().err


def test_programs_are_installed_beside_a_path_that_cannot_be_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/{'x' * 300}")  # ENAMETOOLONG, as EACCES for another user
    assert obey(["compat", "install", "--only", "slurm", str(tmp_path)]) == os.EX_OK
    assert (tmp_path / "sbatch").is_symlink()
