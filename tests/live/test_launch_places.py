"""Where tasks find their launcher: readable for its user, with secrets that only their agent can make."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headnode.apps.agent.task_tools import LaunchPlaces

PLACE = (("n1", (0, 1)), ("n2", (5,)))
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="to be another user needs root")


@pytest.fixture
def places(tmp_path: Path) -> Iterator[LaunchPlaces]:
    run = tmp_path / "run"
    run.mkdir(0o711)
    made = LaunchPlaces(tmp_path, run)
    yield made
    for folder in made.folders():
        shutil.rmtree(folder)


def test_a_secret_belongs_to_one_attempt_and_outlives_the_agent(places: LaunchPlaces, tmp_path: Path) -> None:
    secrets = {places.secret(task) for task in ("1.1.1.1", "1.1.1.2", "1.1.11.1", "11.1.1.1")}
    assert len(secrets) == 4
    assert LaunchPlaces(tmp_path, tmp_path / "run").secret("1.1.1.1") in secrets
    other = tmp_path / "other"
    other.mkdir()
    assert LaunchPlaces(other, other).secret("1.1.1.1") not in secrets
    assert (tmp_path / "launch.key").stat().st_mode & 0o077 == 0


def test_host_files_are_removed_with_their_attempt_by_the_next_agent_too(
    places: LaunchPlaces, tmp_path: Path
) -> None:
    folder = places.folder_for(os.geteuid())
    for task in ("1.1.1.1", "1.2.1.1"):
        places.variables(folder, task, PLACE, None)
    assert len(list((folder / "hosts").iterdir())) == 6
    places.forget("1.1.1.1")
    assert {path.stem for path in (folder / "hosts").iterdir()} == {"1.2.1.1"}
    following = LaunchPlaces(tmp_path, tmp_path / "run")
    following.renew()
    following.forget("1.2.1.1")
    assert list((folder / "hosts").iterdir()) == []


def test_an_agent_replaces_the_launcher_of_an_older_one(places: LaunchPlaces) -> None:
    folder = places.folder_for(os.geteuid())
    (copy,) = (folder / "library").rglob("launcher.py")
    copy.write_text("old")
    places.renew()
    assert copy.read_text() != "old"


@needs_root
def test_a_user_who_cannot_walk_to_the_agent_finds_launcher_and_hosts_elsewhere(places: LaunchPlaces) -> None:
    folder = places.folder_for(65534)
    variables = places.variables(folder, "1.1.1.1", PLACE, None)
    words = [variables["HEADNODE_LAUNCH"]]
    done = subprocess.run(words, user=65534, group=65534, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.split(":")[0]) == (2, "hn-launch"), done.stderr
    words = ["cat", variables["CCP_MPI_HOSTFILE"]]
    done = subprocess.run(words, user=65534, group=65534, capture_output=True, text=True, check=False)
    assert done.stdout == "n1:2\nn2:1\n"
